// Twin storages, and a small store of memory for the objects that one call makes and drops.
#include "fl.h"

namespace fl {
Target target;

// S_f's DataPtr owns its S_t.
void drop_twin(void* twin) { c10::raw::intrusive_ptr::decref(static_cast<StorageImpl*>(twin)); }

namespace {
// A flagos storage from elsewhere (a DataPtr of our allocator moved into a storage made by somebody else keeps
// drop_twin; one over foreign memory has not) gets a twin for the time of a call; that one owns it.
void drop_flagos(void* flagos) { c10::raw::intrusive_ptr::decref(static_cast<StorageImpl*>(flagos)); }

struct FlagosStorage final : StorageImpl {
  using StorageImpl::StorageImpl;
  static void* operator new(size_t n) { return take_block(n); }
  static void operator delete(void* p, size_t n) noexcept { give_block(p, n); }
};
}  // namespace

intrusive_ptr<StorageImpl> wrap_storage(intrusive_ptr<StorageImpl> twin) {
  const auto& data = twin->_mutable_data_ptr_no_checks();
  if (C10_UNLIKELY(data.get_deleter() == &drop_flagos))
    return intrusive_ptr<StorageImpl>::reclaim_copy(static_cast<StorageImpl*>(data.get_context()));
  void* p = data.get();
  const auto n = twin->nbytes();
  const auto device = to_flagos(data.device());
  return c10::make_intrusive<FlagosStorage>(StorageImpl::use_byte_size_t(), n,
                                            c10::DataPtr(p, twin.release(), &drop_twin, device), allocator, true);
}

intrusive_ptr<StorageImpl> passing_twin(StorageImpl* flagos) {
  const auto& data = flagos->_mutable_data_ptr_no_checks();
  c10::raw::intrusive_ptr::incref(flagos);
  return c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), flagos->nbytes(),
                                          c10::DataPtr(data.get(), flagos, &drop_flagos, to_target(data.device())),
                                          c10::GetAllocator(target.type), false);
}

void take_over(StorageImpl* flagos, StorageImpl* twin) {
  const auto& data = flagos->_mutable_data_ptr_no_checks();
  void* p = twin->_mutable_data_ptr_no_checks().get();
  if (p != data.get() && owned_twin(data) == twin) {
    c10::raw::intrusive_ptr::incref(twin);
    flagos->set_data_ptr_noswap(c10::DataPtr(p, twin, &drop_twin, flagos->device()));
  }
  if (flagos->nbytes() != twin->nbytes()) flagos->set_nbytes(twin->nbytes());
}

// A list of a hundred tensors makes and drops a hundred aliases: more than malloc's per-thread cache holds (seven of a
// size), and the way past it is what most of an alias would cost.
namespace {
constexpr size_t STEP = 16, SIZES = 32, KEPT = 1024;
struct Store {
  void* head[SIZES];
  uint32_t count[SIZES];
  bool closed;
};
constinit thread_local Store store{};
struct Closer {
  ~Closer() {
    store.closed = true;
    for (auto*& h : store.head)
      while (h) ::operator delete(std::exchange(h, *static_cast<void**>(h)));
  }
};
void open_store() { static thread_local Closer closer; }
}  // namespace

void* take_block(size_t size) {
#ifndef FL_SANITIZE
  const auto i = (size + STEP - 1) / STEP;
  if (i < SIZES) {
    if (void* p = store.head[i]) {
      store.head[i] = *static_cast<void**>(p);
      --store.count[i];
      return p;
    }
    return ::operator new(i * STEP);
  }
#endif
  return ::operator new(size);
}

void give_block(void* p, size_t size) noexcept {
#ifndef FL_SANITIZE
  const auto i = (size + STEP - 1) / STEP;
  if (i < SIZES && store.count[i] < KEPT && !store.closed) {
    if (C10_UNLIKELY(store.count[i] == 0)) open_store();
    *static_cast<void**>(p) = store.head[i];
    store.head[i] = p;
    ++store.count[i];
    return;
  }
#endif
  ::operator delete(p);
}
}  // namespace fl
