// The vtables that PyTorch asks of a backend (device guard, hooks), each going on to the target device's own object.
#include "fl.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>
#include <mutex>

namespace fl {
namespace {
using c10::Stream;
using c10::impl::DeviceGuardImplInterface;

const DeviceGuardImplInterface* guard() { return c10::impl::getDeviceGuardImpl(target.type); }
const at::CUDAHooksInterface& hooks() { return at::detail::getCUDAHooks(); }
Stream to_target(Stream s) { return Stream(Stream::UNSAFE, fl::to_target(s.device()), s.id()); }
Stream to_flagos(Stream s) { return Stream(Stream::UNSAFE, fl::to_flagos(s.device()), s.id()); }
using fl::to_flagos;
using fl::to_target;

using Time = std::chrono::steady_clock::time_point;

struct Guard final : DeviceGuardImplInterface {
  DeviceType type() const override { return FLAGOS; }
  Device exchangeDevice(Device d) const override { return to_flagos(guard()->exchangeDevice(to_target(d))); }
  Device getDevice() const override { return to_flagos(guard()->getDevice()); }
  void setDevice(Device d) const override { guard()->setDevice(to_target(d)); }
  void uncheckedSetDevice(Device d) const noexcept override { guard()->uncheckedSetDevice(to_target(d)); }
  DeviceIndex deviceCount() const noexcept override { return guard()->deviceCount(); }
  c10::DeviceCapability getDeviceCapability(Device d) const override {
    return guard()->getDeviceCapability(to_target(d));
  }
  void synchronizeDevice(DeviceIndex i) const override {
    if (!target.host) guard()->synchronizeDevice(i);
  }

  Stream getStream(Device d) const override { return to_flagos(guard()->getStream(to_target(d))); }
  Stream getDefaultStream(Device d) const override {
    return target.host ? getStream(d) : to_flagos(guard()->getDefaultStream(to_target(d)));
  }
  Stream getStreamFromGlobalPool(Device d, bool high) const override {
    return target.host ? getStream(d) : to_flagos(guard()->getStreamFromGlobalPool(to_target(d), high));
  }
  Stream getNewStream(Device d, int priority) const override {
    return to_flagos(guard()->getNewStream(to_target(d), priority));
  }
  Stream exchangeStream(Stream s) const override { return to_flagos(guard()->exchangeStream(to_target(s))); }
  void* getStreamNativeHandle(const Stream s) const override { return guard()->getStreamNativeHandle(to_target(s)); }
  bool queryStream(const Stream& s) const override { return target.host || guard()->queryStream(to_target(s)); }
  void synchronizeStream(const Stream& s) const override {
    if (!target.host) guard()->synchronizeStream(to_target(s));
  }
#if FL_TORCH_AT_LEAST(13)
  bool isStreamCapturing(const Stream& s) const override { return guard()->isStreamCapturing(to_target(s)); }
#endif

  // On the host, work is done when its call returns: an event is the time at which it was recorded.
  void record(void** e, const Stream& s, const DeviceIndex i, const c10::EventFlag f) const override {
    if (!target.host) return guard()->record(e, to_target(s), i, f);
    if (!*e) *e = new Time();
    *static_cast<Time*>(*e) = std::chrono::steady_clock::now();
  }
  void block(void* e, const Stream& s) const override {
    if (!target.host) guard()->block(e, to_target(s));
  }
  bool queryEvent(void* e) const override { return target.host || guard()->queryEvent(e); }
  void synchronizeEvent(void* e) const override {
    if (!target.host) guard()->synchronizeEvent(e);
  }
  void destroyEvent(void* e, const DeviceIndex i) const noexcept override {
    if (!target.host) return guard()->destroyEvent(e, i);
    delete static_cast<Time*>(e);
  }
  double elapsedTime(void* a, void* b, const DeviceIndex i) const override {
    if (!target.host) return guard()->elapsedTime(a, b, i);
    return std::chrono::duration<double, std::milli>(*static_cast<Time*>(b) - *static_cast<Time*>(a)).count();
  }
  void recordDataPtrOnStream(const c10::DataPtr& p, const Stream& s) const override {
    if (auto* twin = owned_twin(p))
      guard()->recordDataPtrOnStream(twin->_mutable_data_ptr_no_checks(), to_target(s));
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return deviceCount() > 0; }
  bool hasPrimaryContext(DeviceIndex i) const override { return target.host || hooks().hasPrimaryContext(i); }
  void init() const override { ensure_init(); }
  DeviceIndex deviceCount() const override { return guard()->deviceCount(); }
  void setCurrentDevice(DeviceIndex i) const override { guard()->setDevice(to_target(Device(FLAGOS, i))); }
  DeviceIndex getCurrentDevice() const override { return to_flagos(guard()->getDevice()).index(); }
  DeviceIndex exchangeDevice(DeviceIndex i) const override { return target.host ? 0 : hooks().exchangeDevice(i); }
  DeviceIndex maybeExchangeDevice(DeviceIndex i) const override {
    return target.host ? 0 : hooks().maybeExchangeDevice(i);
  }
  bool isPinnedPtr(const void* p) const override { return !target.host && hooks().isPinnedPtr(p); }
  at::Allocator* getPinnedMemoryAllocator() const override {
    return target.host ? c10::GetAllocator(DeviceType::CPU) : hooks().getPinnedMemoryAllocator();
  }
  Device getDeviceFromPtr(void* p) const override {
    return target.host ? Device(FLAGOS, 0) : to_flagos(hooks().getDeviceFromPtr(p));
  }
  const at::Generator& getDefaultGenerator(DeviceIndex i) const override {
    static std::mutex mutex;
    static auto* all = new std::vector<at::Generator>(static_cast<size_t>(std::max<int>(deviceCount(), 1)));
    if (i < 0) i = getCurrentDevice();
    TORCH_CHECK_INDEX(static_cast<size_t>(i) < all->size(), "flagos: there is no device ", int(i));
    std::lock_guard<std::mutex> lock(mutex);
    auto& g = (*all)[static_cast<size_t>(i)];
    if (!g.defined()) g = default_generator(i);
    return g;
  }
  at::Generator getNewGenerator(DeviceIndex i) const override { return new_generator(i < 0 ? getCurrentDevice() : i); }

  // `UntypedStorage.resize_`. Kernels resize the twin by themselves.
  void resizePrivateUse1Bytes(const Storage& s, size_t n) const override {
    auto* f = s.unsafeGetStorageImpl();
    auto twin = twin_of(f);
    if (n == twin->nbytes()) return;
    auto* a = c10::GetAllocator(target.type);
    c10::OptionalDeviceGuard on(f->device());
    auto data = a->allocate(n);
    const auto kept = std::min(n, twin->nbytes());
    if (kept) a->copy_data(data.get(), twin->data(), kept);
    twin->set_data_ptr_noswap(std::move(data));
    twin->set_nbytes(n);
    follow_twin(f, twin.get());
  }
};
}  // namespace

// The target's lazy initialisation: once a process, but every thread asks, since a failed one is to fail again.
void ensure_init() {
  if (target.host) return;
  static thread_local bool done = false;
  if (C10_LIKELY(done)) return;
  at::globalContext().lazyInitDevice(target.type);
  done = true;
}

void register_runtime() {
  c10::register_privateuse1_backend("flagos");
  c10::impl::registerDeviceGuard(FLAGOS, new Guard());
  c10::SetAllocator(FLAGOS, allocator, 1);
  at::RegisterPrivateUse1HooksInterface(new Hooks());
}
}  // namespace fl
