// What there is in the dispatcher, for Rust to decide about, and the kernels that it decides on.
#include "fl.h"

#include <ATen/Context.h>
#include <ATen/native/CPUFallback.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <deque>
#include <mutex>

namespace fl {
std::atomic<bool> logging{false};

void register_attention(torch::Library& aten);  // sdpa.cpp
void register_vendor();                         // vendor.cpp

namespace {
std::vector<OperatorHandle>& operators() {
  static auto* all = new std::vector<OperatorHandle>();
  return *all;
}
c10::Dispatcher& dispatcher() { return c10::Dispatcher::singleton(); }

struct Functionality {
  uint32_t bit;
  DispatchKey key;
};
constexpr Functionality FUNCTIONALITIES[] = {{FL_DENSE, DispatchKey::Dense},
                                             {FL_SPARSE, DispatchKey::Sparse},
                                             {FL_SPARSE_CSR, DispatchKey::SparseCsr},
                                             {FL_QUANTIZED, DispatchKey::Quantized},
                                             {FL_NESTED, DispatchKey::NestedTensor}};
DispatchKey on(DispatchKey functionality, BackendComponent backend) {
  return c10::toRuntimePerBackendFunctionalityKey(functionality, backend);
}

uint32_t facts_of(const OperatorHandle& op) {
  uint32_t facts = 0;
  for (const auto& f : FUNCTIONALITIES) {
    if (op.hasKernelForDispatchKey(on(f.key, target.bit))) facts |= f.bit;
    if (op.hasKernelForDispatchKey(on(f.key, FLAGOS_BIT))) facts |= FL_CLAIMED;
  }
  const std::pair<uint32_t, DispatchKey> others[] = {
      {FL_COMPOSITE_EXPLICIT, DispatchKey::CompositeExplicitAutograd},
      {FL_COMPOSITE_NON_FUNCTIONAL, DispatchKey::CompositeExplicitAutogradNonFunctional},
      {FL_COMPOSITE_IMPLICIT, DispatchKey::CompositeImplicitAutograd},
      {FL_ON_CPU, DispatchKey::CPU}};
  for (const auto& [bit, key] : others)
    if (op.hasKernelForDispatchKey(key)) facts |= bit;
  return facts;
}

struct Relay final : c10::OperatorKernel {
  Kernel k;
  explicit Relay(const Kernel& k) : k(k) {}
  void operator()(const OperatorHandle& op, DispatchKeySet, Stack* s) { relay_boxed(op, k, s); }
};

// On the host: ATen copies the arguments there, the results here, and what was written back. Random numbers come from
// the flagos generator all the same.
struct OnCpu final : c10::OperatorKernel {
  const FlPlan* plan;
  explicit OnCpu(const FlPlan* p) : plan(p) {}
  void operator()(const OperatorHandle& op, DispatchKeySet, Stack* s) {
    log_call(op, *plan);
    auto* first = s->data() + s->size() - plan->arguments;
    DeviceIndex device = -1;
    for (size_t i = 0; i < plan->arguments; ++i)
      if (first[i].isTensor() && is_flagos(first[i].toTensor())) device = first[i].toTensor().device().index();
    for (size_t i = 0; i < plan->arguments; ++i) {
      auto& v = first[i];
      if (plan->kinds[i] == FL_GENERATOR)
        v = host_generator(v.isGenerator() ? v.toGenerator() : at::globalContext().defaultGenerator(Device(FLAGOS, device)));
    }
    at::native::cpu_fallback(op, s);
  }
};

// Operators that were defined after registration (torchvision, custom ones) come here. Their plans are made once.
void late(const OperatorHandle& op, DispatchKeySet, Stack* s) {
  const auto key = on(DispatchKey::Dense, target.bit);
  if (!op.hasComputedKernelForDispatchKey(key)) return at::native::cpu_fallback(op, s);
  static std::mutex mutex;
  static auto* plans = new std::unordered_map<c10::OperatorName, const FlPlan*>();
  const FlPlan* plan;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto& p = (*plans)[op.operator_name()];
    if (!p) p = fl_late_plan(toString(op.schema()).c_str());
    TORCH_CHECK(p, "flagos: the schema of ", op.operator_name(), " cannot be read");
    plan = p;
  }
  relay_boxed(op, Kernel{plan, DispatchKeySet(key)}, s);
}

void fallback(DispatchKey key, torch::CppFunction f) {
  // Newer releases bring some of these themselves, and a second one is an error.
  if (dispatcher().hasBackendFallbackForDispatchKey(key)) return;
  static auto* all = new std::deque<torch::Library>();
  all->emplace_back(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  all->back().fallback(std::move(f));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  to.copy_(from, non_blocking);
  return to;
}
Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  to.copy_(from);
  return to;
}
// Lets Module.to swap a parameter's data in place, which keeps tied weights tied.
bool compatible_shallow_copy(const Tensor& a, const Tensor& b) {
  const auto x = a.key_set(), y = b.key_set();
  const auto dense = [](DispatchKeySet k) {
    return k.has_any(DispatchKeySet(DispatchKey::Dense)) &&
        k.has_any(DispatchKeySet({BackendComponent::CPUBit, BackendComponent::CUDABit, FLAGOS_BIT}));
  };
  return x == y || (dense(x) && dense(y));
}
}  // namespace

void add_kernel(const c10::OperatorName& n, DispatchKey key, c10::KernelFunction f,
                std::optional<c10::impl::CppSignature> sig) {
  static auto* all = new std::vector<c10::RegistrationHandleRAII>();
  all->push_back(dispatcher().registerImpl(n, key, std::move(f), std::move(sig), nullptr, "flagos"));
}
}  // namespace fl

using namespace fl;

int32_t fl_operators(FlVisit visit, void* context) {
  return guarded([&] {
    operators().clear();
    for (const auto& name : dispatcher().getAllOpNames()) {
      const auto op = dispatcher().findSchema(name);
      if (!op) continue;
      operators().push_back(*op);
      visit(context, toString(op->schema()).c_str(), facts_of(*op));
    }
  });
}

int32_t fl_install(uint32_t index, uint32_t functionality, const FlPlan* plan) {
  return guarded([&] {
    const auto& op = operators().at(index);
    for (const auto& f : FUNCTIONALITIES) {
      if (f.bit != functionality) continue;
      const auto key = on(f.key, FLAGOS_BIT);
      const Kernel k{plan, DispatchKeySet(on(f.key, target.bit))};
      if (plan->way == FL_CPU)
        add_kernel(op.operator_name(), key, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<OnCpu>(plan)));
      else if (plan->way == FL_TYPED)
        typed_install(static_cast<size_t>(plan->signature))(op, key, k);
      else
        add_kernel(op.operator_name(), key, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Relay>(k)));
    }
  });
}

int32_t fl_install_rest() {
  return guarded([] {
    using torch::CppFunction;
    fallback(DispatchKey::PrivateUse1, CppFunction::makeFromBoxedFunction<&late>());
    fallback(DispatchKey::AutogradPrivateUse1, torch::autograd::basicAutogradNotImplementedFallback());
    fallback(DispatchKey::AutocastPrivateUse1, CppFunction::makeFallthrough());
    static auto* aten = new torch::Library(torch::Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__, __LINE__);
    // No kernel of any device backs these two, and ATen's fallback to the CPU writes results back through them.
    aten->impl("_copy_from", &copy_from);
    aten->impl("_copy_from_and_resize", &copy_from_and_resize);
    aten->impl("_has_compatible_shallow_copy_type", &compatible_shallow_copy);
    register_attention(*aten);
    register_vendor();
  });
}

void fl_set_logging(bool on) { logging = on; }
