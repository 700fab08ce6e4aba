// A flagos generator owns one of the target device and hands everything on to it.
#include "fl.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <mutex>

namespace fl {
namespace {
struct Generator final : c10::GeneratorImpl {
  at::Generator inner;

  Generator(at::Generator g, DeviceIndex i)
      : GeneratorImpl(Device(FLAGOS, i), DispatchKeySet(DispatchKey::PrivateUse1)), inner(std::move(g)) {}
  GeneratorImpl* impl() const { return inner.unsafeGetGeneratorImpl(); }

  void set_current_seed(uint64_t s) override { inner.set_current_seed(s); }
  uint64_t current_seed() const override { return inner.current_seed(); }
  uint64_t seed() override { return inner.seed(); }
  void set_offset(uint64_t o) override { inner.set_offset(o); }
  uint64_t get_offset() const override { return inner.get_offset(); }
  void set_state(const TensorImpl& s) override { impl()->set_state(s); }
  intrusive_ptr<TensorImpl> get_state() const override { return impl()->get_state(); }
  void graphsafe_set_state(const intrusive_ptr<GeneratorImpl>& s) override {
    auto* g = dynamic_cast<Generator*>(s.get());
    impl()->graphsafe_set_state(g ? g->inner.getIntrusivePtr() : s);
  }
  intrusive_ptr<GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<Generator>(at::Generator(impl()->graphsafe_get_state()), device().index());
  }
  Generator* clone_impl() const override { return new Generator(inner.clone(), device().index()); }
  static DeviceType device_type() { return FLAGOS; }
};
}  // namespace

at::Generator to_target(const at::Generator& g) {
  if (!g.defined()) return g;
  TORCH_CHECK(g.device().type() == FLAGOS, "Expected a 'flagos' device type for generator but found '", g.device().type(), "'");
  return static_cast<Generator*>(g.unsafeGetGeneratorImpl())->inner;
}

// A kernel of the host draws from a generator of the host. It is seeded from this one's, which moves on by one draw, so
// that a seed gives the same numbers every time.
at::Generator host_generator(const at::Generator& g) {
  auto inner = to_target(g);
  if (target.host) return inner;
  std::lock_guard<std::mutex> lock(inner.mutex());
  auto host = at::detail::createCPUGenerator();
  host.set_current_seed(inner.current_seed() ^ (inner.get_offset() * 0x9E3779B97F4A7C15ull));
  inner.set_offset(inner.get_offset() + 4);  // the offset of a Philox generator is a multiple of four
  return host;
}

at::Generator default_generator(DeviceIndex i) {
  ensure_init();
  return at::make_generator<Generator>(
      target.host ? at::detail::getDefaultCPUGenerator() : at::detail::getCUDAHooks().getDefaultGenerator(i), i);
}

at::Generator new_generator(DeviceIndex i) {
  ensure_init();
  return at::make_generator<Generator>(
      target.host ? at::detail::createCPUGenerator() : at::detail::getCUDAHooks().getNewGenerator(i), i);
}
}  // namespace fl
