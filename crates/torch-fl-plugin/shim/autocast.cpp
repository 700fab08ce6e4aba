// Automatic mixed precision: one boxed kernel, by PyTorch's policies (which operator has which, Rust reads from its
// headers).
#include "fl.h"

// Two functions of ATen/autocast_mode.h, which brings all operators of ATen with it: a third of what the shim compiles.
namespace at::autocast {
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device);
TORCH_API Tensor cached_cast(at::ScalarType to, const Tensor& t, c10::DeviceType device);
}  // namespace at::autocast

namespace fl {
namespace {
namespace amp = at::autocast;

bool eligible(const Tensor& t) {
  return t.defined() && t.is_privateuseone() && t.is_floating_point() && t.scalar_type() != at::kDouble;
}

struct Autocast final : c10::OperatorKernel {
  uint8_t policy;
  int dtype = -1;  // the argument of that name
  size_t arguments;

  Autocast(uint8_t policy, const c10::FunctionSchema& schema) : policy(policy), arguments(schema.arguments().size()) {
    for (size_t i = 0; i < arguments; ++i)
      if (schema.arguments()[i].name() == "dtype") dtype = static_cast<int>(i);
  }

  template <class F>  // on every tensor, alone or in a list
  static void each(c10::IValue* first, size_t n, F&& f) {
    for (auto* v = first; v != first + n; ++v) {
      if (v->isTensor()) {
        *v = c10::IValue(f(v->toTensor()));
      } else if (v->isTensorList()) {
        auto list = v->toTensorVector();
        for (auto& t : list) t = f(t);
        *v = c10::IValue(c10::List<Tensor>(at::ArrayRef<Tensor>(list)));
      } else if (v->isOptionalTensorList()) {
        c10::List<std::optional<Tensor>> out;
        for (const c10::IValue& t : v->toListRef())
          out.push_back(t.isNone() ? std::optional<Tensor>() : std::optional<Tensor>(f(t.toTensor())));
        *v = c10::IValue(std::move(out));
      }
    }
  }

  void operator()(const OperatorHandle& op, DispatchKeySet, Stack* stack) {
    c10::impl::ExcludeDispatchKeyGuard off(DispatchKeySet(DispatchKey::AutocastPrivateUse1));
    auto* first = stack->data() + stack->size() - arguments;
    const auto cast = [&](at::ScalarType type) {
      each(first, arguments, [&](const Tensor& t) { return t.defined() ? amp::cached_cast(type, t, FLAGOS) : t; });
    };
    switch (policy) {
      case FL_AUTOCAST_LOWER:
        cast(amp::get_autocast_dtype(FLAGOS));
        break;
      case FL_AUTOCAST_FP32:
        cast(at::kFloat);
        break;
      case FL_AUTOCAST_DTYPE:
        if (dtype >= 0 && first[dtype].isNone() && first[0].isTensor() && eligible(first[0].toTensor()))
          first[dtype] = c10::IValue(static_cast<int64_t>(at::kFloat));
        break;
      case FL_AUTOCAST_PROMOTE: {
        const auto half = amp::get_autocast_dtype(FLAGOS);
        auto widest = half;
        each(first, arguments, [&](const Tensor& t) {
          if (widest == half && eligible(t) && t.scalar_type() != half) {
            TORCH_CHECK(t.scalar_type() == at::kFloat, "autocast: an argument of ", op.operator_name(), " is neither ", half,
                        " nor Float, but ", t.scalar_type());
            widest = at::kFloat;
          }
          return t;
        });
        cast(widest);
        break;
      }
      case FL_AUTOCAST_BANNED:
        TORCH_CHECK(false, op.operator_name(), " is unsafe to autocast: its inputs would overflow in half precision. ",
                    "Take binary_cross_entropy_with_logits (torch.nn.BCEWithLogitsLoss), which is safe, or leave autocast "
                    "for this call.");
    }
    op.callBoxed(stack);
  }
};
}  // namespace
}  // namespace fl

using namespace fl;

int32_t fl_install_autocast(const char* name, const char* overload, uint8_t policy) {
  return guarded([&] {
    const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
    if (op)
      add_kernel(op->operator_name(), DispatchKey::AutocastPrivateUse1,
                 c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Autocast>(policy, op->schema())));
  });
}
