// Unboxed relays: one instance for each C++ *signature*. It holds the operator's handle, so that all operators of one
// signature share its code. The generated files typed_N.cpp name the signatures.
#ifndef FL_TYPED_H
#define FL_TYPED_H
#include "fl.h"

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>

namespace fl {
// An argument on its way to the target: `get` is what the kernel receives.
template <class T>
struct Arg {
  T value;
  Arg(Frame&, T v, uint8_t) : value(std::forward<T>(v)) {}
  T get() { return static_cast<T>(value); }
  Tensor* original(const TensorImpl*) { return nullptr; }
};

template <class T>  // Tensor&, const Tensor&
struct TensorArg {
  T flagos;
  Tensor alias;
  TensorArg(Frame& f, T t, uint8_t kind) : flagos(t), alias(f.show(t, kind & FL_WRITE)) {}
  T get() { return alias.defined() ? static_cast<T>(alias) : flagos; }
  Tensor* original(const TensorImpl* t) {
    return get().unsafeGetTensorImpl() == t ? const_cast<Tensor*>(&flagos) : nullptr;
  }
};
template <>
struct Arg<const Tensor&> : TensorArg<const Tensor&> {
  using TensorArg::TensorArg;
};
template <>
struct Arg<Tensor&> : TensorArg<Tensor&> {
  using TensorArg::TensorArg;
};

template <>
struct Arg<const std::optional<Tensor>&> {
  const std::optional<Tensor>& flagos;
  std::optional<Tensor> alias;
  Arg(Frame& f, const std::optional<Tensor>& t, uint8_t kind) : flagos(t) {
    if (t.has_value()) alias = f.show(*t, kind & FL_WRITE);
  }
  const std::optional<Tensor>& get() { return alias && alias->defined() ? alias : flagos; }
  Tensor* original(const TensorImpl*) { return nullptr; }
};

// Lists of any kind; an original is kept where the list does not hold it by itself.
struct Aliases {
  c10::SmallVector<Tensor, 8> tensors;
  template <class List>
  C10_NOINLINE Aliases(Frame& f, const List& list, uint8_t kind) {
    tensors.reserve(list.size());
    f.reserve(list.size());
    for (const Tensor& t : list) {
      Tensor a = f.show(t, kind & FL_WRITE);
      tensors.push_back(C10_LIKELY(a.defined()) ? std::move(a) : t);
    }
  }
  C10_NOINLINE ~Aliases() = default;
  Aliases(const Aliases&) = delete;  // a list of references to `tensors` goes to the kernel
  Tensor* original(const TensorImpl*) { return nullptr; }
};
template <>
struct Arg<at::TensorList> : Aliases {
  using Aliases::Aliases;
  at::TensorList get() { return tensors; }
};
template <>
struct Arg<const at::ITensorListRef&> : Aliases {
  at::ITensorListRef ref;
  Arg(Frame& f, const at::ITensorListRef& list, uint8_t kind) : Aliases(f, list, kind), ref(at::TensorList(tensors)) {}
  const at::ITensorListRef& get() { return ref; }
};
template <>
struct Arg<const c10::List<std::optional<Tensor>>&> {
  c10::List<std::optional<Tensor>> aliases;
  c10::SmallVector<Tensor, 4> originals;
  C10_NOINLINE Arg(Frame& f, const c10::List<std::optional<Tensor>>& list, uint8_t kind) {
    aliases.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      std::optional<Tensor> t = list.get(i);
      Tensor a = t ? f.show(*t, kind & FL_WRITE) : Tensor();
      if (a.defined()) originals.push_back(*std::exchange(t, std::move(a)));
      aliases.push_back(std::move(t));
    }
  }
  const c10::List<std::optional<Tensor>>& get() { return aliases; }
  Tensor* original(const TensorImpl*) { return nullptr; }
};

template <>
struct Arg<std::optional<Device>> {
  std::optional<Device> value;
  C10_NOINLINE Arg(Frame& f, std::optional<Device> d, uint8_t) : value(d) {
    if (!d) return;
    f.explicit_device(*d);
    if (d->type() != FLAGOS) return;
    ensure_init();
    value = to_target(*d);
  }
  std::optional<Device> get() { return value; }
  Tensor* original(const TensorImpl*) { return nullptr; }
};
template <>
struct Arg<std::optional<at::Generator>> {
  std::optional<at::Generator> value;
  C10_NOINLINE Arg(Frame& f, std::optional<at::Generator> g, uint8_t) : value(std::move(g)) {
    if (value) value = f.show(*value);
  }
  std::optional<at::Generator> get() { return std::move(value); }
  Tensor* original(const TensorImpl*) { return nullptr; }
};

// What came back, as flagos.
template <class R>
struct Ret {
  template <class Args>
  static R map(Frame&, Args&, R&& r) { return std::forward<R>(r); }
};
template <>
struct Ret<Tensor> {
  template <class Args>
  static Tensor map(Frame& f, Args&, Tensor&& r) { return f.result(std::move(r)); }
};
template <class R>  // Tensor&, const Tensor&: one of the arguments
struct RefRet {
  template <class Args>
  static R map(Frame&, Args& args, R r) {
    Tensor* found = nullptr;
    args.each([&](auto& a) { found = found ? found : a.original(r.unsafeGetTensorImpl()); });
    TORCH_INTERNAL_ASSERT(found, "flagos: a kernel returned a reference to none of its arguments");
    return *found;
  }
};
template <>
struct Ret<Tensor&> : RefRet<Tensor&> {};
template <>
struct Ret<const Tensor&> : RefRet<const Tensor&> {};
template <>
struct Ret<std::vector<Tensor>> {
  template <class Args>
  static std::vector<Tensor> map(Frame& f, Args&, std::vector<Tensor>&& r) {
    for (auto& t : r) t = f.result(std::move(t));
    return std::move(r);
  }
};
template <class... Ts>
struct Ret<std::tuple<Ts...>> {
  template <class Args>
  static std::tuple<Ts...> map(Frame& f, Args& args, std::tuple<Ts...>&& r) {
    return std::apply(
        [&](auto&&... x) { return std::tuple<Ts...>(Ret<Ts>::map(f, args, static_cast<Ts&&>(x))...); }, std::move(r));
  }
};

// The arguments of one call. Not a std::tuple, which would move them into their places.
template <size_t I, class T>
struct Slot {
  Arg<T> arg;
};
template <class Index, class... A>
struct Slots;
template <size_t... I, class... A>
struct Slots<std::index_sequence<I...>, A...> : Slot<I, A>... {
  template <class F>
  void each(F&& f) {
    (f(static_cast<Slot<I, A>&>(*this).arg), ...);
  }
};

template <class Signature>
struct Typed;
template <class R, class... A>
struct Typed<R(A...)> final : c10::OperatorKernel {
  c10::TypedOperatorHandle<R(A...)> op;
  Kernel k;
  Typed(const OperatorHandle& op, const Kernel& k) : op(op.typed<R(A...)>()), k(k) {}

  R operator()(A... args) const {
    log_call(op, *k.plan);
    if (k.plan->pass) return op.redispatch(k.keys, std::forward<A>(args)...);
    return relay(std::index_sequence_for<A...>(), std::forward<A>(args)...);
  }

 private:
  template <size_t... I>
  R relay(std::index_sequence<I...>, A... args) const {
    Frame frame;
    Slots<std::index_sequence<I...>, A...> shown{{Arg<A>(frame, std::forward<A>(args), k.plan->kinds[I])}...};
    frame.check_mixed(*k.plan);
    if constexpr (std::is_void_v<R>) {
      op.redispatch(k.keys, static_cast<Slot<I, A>&>(shown).arg.get()...);
      if (k.plan->writes) frame.sync();
    } else {
      R r = op.redispatch(k.keys, static_cast<Slot<I, A>&>(shown).arg.get()...);
      if (k.plan->writes) frame.sync();
      return Ret<R>::map(frame, shown, static_cast<R&&>(r));
    }
  }
};
}  // namespace fl

// Boxed calls of a typed relay take the boxed one; PyTorch's own wrapper would be most of what there is to compile.
namespace c10::impl {
template <class Signature>
struct make_boxed_from_unboxed_functor<fl::Typed<Signature>, false> final {
  static void call(OperatorKernel* functor, const OperatorHandle& op, DispatchKeySet, Stack* stack) {
    fl::relay_boxed(op, static_cast<fl::Typed<Signature>*>(functor)->k, stack);
  }
};
}  // namespace c10::impl

namespace fl {
template <class Signature>
void install(const OperatorHandle& op, DispatchKey key, const Kernel& k) {
  add_kernel(op.operator_name(), key,
             c10::KernelFunction::makeFromUnboxedFunctor<false, Typed<Signature>>(
                 std::make_unique<Typed<Signature>>(op, k)),
             c10::impl::CppSignature::make<Signature>());
}
}  // namespace fl
#endif
