// The flagos device (PyTorch's PrivateUse1) shown to the kernels of a target device, and back.
//
// Every flagos storage S_f owns a twin storage S_t on the target device: S_f's DataPtr has S_t as its context. A kernel
// of the target gets alias tensors over S_t; a tensor that it returns becomes a flagos tensor by being given the S_f of
// its S_t. Nothing on the caller's tensors changes, so calls from several threads do not meet.
#ifndef FL_H
#define FL_H
#include "compat.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <atomic>

#include "ffi.h"

namespace fl {
using at::Tensor;
using c10::BackendComponent;
using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;
using c10::Storage;
using c10::StorageImpl;
using c10::TensorImpl;
using c10::intrusive_ptr;
using torch::jit::Stack;

constexpr DeviceType FLAGOS = DeviceType::PrivateUse1;
constexpr BackendComponent FLAGOS_BIT = BackendComponent::PrivateUse1Bit;

// The device underneath. Set once, before anything is registered.
struct Target {
  DeviceType type = DeviceType::CUDA;
  BackendComponent bit = BackendComponent::CUDABit;
  bool host = false;  // the CPU: no streams, no device memory, and its tensors look like any host tensor
};
extern Target target;

inline Device to_target(Device d) { return Device(target.type, target.host ? DeviceIndex(-1) : d.index()); }
inline Device to_flagos(Device d) { return Device(FLAGOS, d.index() < 0 ? DeviceIndex(0) : d.index()); }

// Is this a flagos tensor with memory of its own? A FakeTensor has flagos dispatch keys over a meta storage, so the
// storage is asked as well; sparse tensors have none, and there the Python key tells.
inline bool is_flagos(const TensorImpl* t) {
  const auto keys = t->key_set();
  if (!keys.has_backend(FLAGOS_BIT)) return false;
  if (const auto& s = t->unsafe_storage()) return s.device_type() == FLAGOS;
  return t != c10::UndefinedTensorImpl::singleton() && !keys.has(DispatchKey::Python) &&
      keys.has_any(c10::sparse_ks | c10::sparse_csr_ks);
}
inline bool is_flagos(const Tensor& t) { return is_flagos(t.unsafeGetTensorImpl()); }

// storage.cpp
intrusive_ptr<StorageImpl> wrap_storage(intrusive_ptr<StorageImpl> twin);  // S_t -> S_f
intrusive_ptr<StorageImpl> passing_twin(StorageImpl* flagos);              // for a storage that was not made here
void take_over(StorageImpl* flagos, StorageImpl* twin);                    // S_t has other memory, or another size
void drop_twin(void* twin);                                                // the deleter that tells an S_f
void* take_block(size_t size);                                             // memory of short-lived objects
void give_block(void* p, size_t size) noexcept;

// The S_t in S_f's DataPtr; null: the storage was not made here.
inline StorageImpl* owned_twin(const c10::DataPtr& p) {
  return C10_LIKELY(p.get_deleter() == &drop_twin) ? static_cast<StorageImpl*>(p.get_context()) : nullptr;
}
inline intrusive_ptr<StorageImpl> twin_of(StorageImpl* flagos) {
  auto* twin = owned_twin(flagos->_mutable_data_ptr_no_checks());
  return C10_LIKELY(twin != nullptr) ? intrusive_ptr<StorageImpl>::reclaim_copy(twin) : passing_twin(flagos);
}
// After a kernel that may have resized S_t.
inline void follow_twin(StorageImpl* flagos, StorageImpl* twin) {
  if (C10_UNLIKELY(twin->_mutable_data_ptr_no_checks().get() != flagos->_mutable_data_ptr_no_checks().get() ||
                   twin->nbytes() != flagos->nbytes()))
    take_over(flagos, twin);
}

// memory.cpp, generator.cpp, device.cpp
extern c10::DeviceAllocator* const allocator;
at::Generator to_target(const at::Generator& g);
at::Generator host_generator(const at::Generator& g);  // for a kernel of the host, from the state of this one
at::Generator default_generator(DeviceIndex i);  // of the target, wrapped anew
at::Generator new_generator(DeviceIndex i);
void ensure_init();
void register_runtime();

// One kernel call: the aliases made for it and the storages met in it.
class Frame {
 public:
  Frame() = default;
  Frame(const Frame&) = delete;
  ~Frame();  // out of line: every signature has one
  intrusive_ptr<TensorImpl> alias(TensorImpl* flagos, bool write);
  Tensor alias(const Tensor& t, bool write) { return Tensor(alias(t.unsafeGetTensorImpl(), write)); }
  Storage alias(const Storage& s);
  // The alias of an argument; undefined where it is none of ours.
  Tensor show(const Tensor& t, bool write);
  // An argument that is none of ours: a tensor of the target itself?
  void see(const Tensor& t) {
    if (!t.defined() || t.device().type() != target.type) return;
    strangers_.push_back(t.unsafeGetTensorImpl());
    if (t.dim() > 0) foreign_ = true;
  }
  void explicit_device(Device d) {
    if (d.type() == target.type) relabel_ = false;
    if (d.type() == FLAGOS) ours_ = true;
  }
  at::Generator show(const at::Generator& g) {
    drawn_ = g.defined();
    return to_target(g);
  }
  void check_mixed(const FlPlan& plan) const {
    if (C10_UNLIKELY((foreign_ && !entries_.empty() && !plan.mixed) || (drawn_ && entries_.empty() && !ours_)))
      refuse_mixed();
  }
  // Written arguments take over what the kernel did to their aliases: sizes, another storage, a resized one.
  void sync() {
    for (size_t i = 0; i < entries_.size(); ++i)  // by index: parts of a sparse tensor may add to them
      if (entries_[i].write) sync(Entry(entries_[i]));
  }
  Tensor result(Tensor&& r);
  // A tensor of the target over the same memory that may outlive the call.
  Tensor exported(const Tensor& t);
  void reserve(size_t more) { entries_.reserve(entries_.size() + more); }

 private:
  struct Entry {
    TensorImpl* alias;
    TensorImpl* flagos;
    StorageImpl* twin;
    bool write;
  };
  using StoragePair = std::pair<intrusive_ptr<StorageImpl>, intrusive_ptr<StorageImpl>>;  // S_t, S_f

  intrusive_ptr<StorageImpl> flagos_of(StorageImpl* twin);
  Tensor adopt(Tensor&& r, bool unique);
  void sync(const Entry& e);
  [[noreturn]] void refuse_mixed() const;

  // layouts.cpp: tensors that are more than a storage with strides.
  intrusive_ptr<TensorImpl> alias_other(TensorImpl* flagos, bool write);
  Tensor adopt_other(TensorImpl* t);
  void sync_other(const Entry& e);

  c10::SmallVector<Entry, 4> entries_;
  c10::SmallVector<StoragePair, 1> seen_;
  std::vector<Tensor> parts_;  // of aliased tensors of other layouts
  c10::SmallVector<TensorImpl*, 2> strangers_;  // tensors of the target itself among the arguments
  bool relabel_ = true;   // false: the caller asked for the target's device by name
  bool ours_ = false;     // flagos was asked for by name
  bool drawn_ = false;    // a generator came along
  bool foreign_ = false;  // one of the strangers is more than a number
};

// Layouts whose tensors have parts of their own.
inline bool is_other_layout(DispatchKeySet ks) {
  return C10_UNLIKELY(ks.has_any(c10::sparse_ks | c10::sparse_csr_ks |
                                 DispatchKeySet({DispatchKey::Quantized, DispatchKey::NestedTensor})));
}

// What is registered for an operator: the plan (made in Rust, alive for good), the keys it goes on with, its handle.
struct Kernel {
  const FlPlan* plan;
  DispatchKeySet keys;
};
void relay_boxed(const OperatorHandle& op, const Kernel& k, Stack* stack);

extern std::atomic<bool> logging;
inline void log_call(const OperatorHandle& op, const FlPlan& plan) {
  if (C10_UNLIKELY(logging.load(std::memory_order_relaxed)))
    fl_log(op.operator_name().name.c_str(), op.operator_name().overload_name.c_str(), plan.way);
}

// A kernel for good: tensors outlive every order of unloading.
void add_kernel(const c10::OperatorName& n, DispatchKey key, c10::KernelFunction f,
                std::optional<c10::impl::CppSignature> sig = std::nullopt);

// The unboxed relay of signature `i` of the generated table.
using Install = void (*)(const OperatorHandle& op, DispatchKey key, const Kernel& k);
Install typed_install(size_t i);

// At the C boundary: runs `f`; what it throws becomes the Python error, and -1. The GIL is held.
int32_t guarded(c10::function_ref<void()> f) noexcept;
}  // namespace fl
#endif
