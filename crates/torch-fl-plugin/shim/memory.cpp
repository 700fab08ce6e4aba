// All memory is the target's: its caching allocator answers, with its own figures.
#include "fl.h"

namespace fl {
namespace {
struct Allocator final : c10::DeviceAllocator {
  static c10::Allocator* plain() { return c10::GetAllocator(target.type); }
  static c10::DeviceAllocator* caching() { return c10::getDeviceAllocator(target.type); }

  c10::DataPtr allocate(size_t n) override {
    ensure_init();
    auto twin = c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), n, plain()->allocate(n), plain(), true);
    return std::move(wrap_storage(std::move(twin))->_mutable_data_ptr_no_checks());
  }
  // Its context is a twin, never the memory itself.
  bool is_simple_data_ptr(const c10::DataPtr&) const override { return false; }
  void copy_data(void* to, const void* from, size_t n) const override { plain()->copy_data(to, from, n); }

  bool initialized() override { return target.host || caching()->initialized(); }
  void emptyCache(c10::MempoolId_t pool) override {
    if (!target.host) caching()->emptyCache(pool);
  }
  void recordStream(const c10::DataPtr& p, c10::Stream s) override {
    // The target's allocator knows the twin's DataPtr alone.
    auto* twin = owned_twin(p);
    if (twin && !target.host)
      caching()->recordStream(twin->_mutable_data_ptr_no_checks(),
                              c10::Stream(c10::Stream::UNSAFE, to_target(s.device()), s.id()));
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex i) override {
    return target.host ? c10::CachingDeviceAllocator::DeviceStats() : caching()->getDeviceStats(i);
  }
  void resetAccumulatedStats(DeviceIndex i) override {
    if (!target.host) caching()->resetAccumulatedStats(i);
  }
  void resetPeakStats(DeviceIndex i) override {
    if (!target.host) caching()->resetPeakStats(i);
  }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex i) override {
    TORCH_CHECK_NOT_IMPLEMENTED(!target.host, "flagos on the CPU has no device memory to ask for");
    return caching()->getMemoryInfo(i);
  }
};
}  // namespace

c10::DeviceAllocator* const allocator = new Allocator();  // outlives every storage
}  // namespace fl
