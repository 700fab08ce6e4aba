// Aliases of flagos tensors for one kernel call, and flagos tensors out of what the kernel returns.
#include "fl.h"

namespace fl {
namespace {
const DispatchKeySet not_for_alias = c10::python_ks | DispatchKeySet(DispatchKey::AutocastPrivateUse1);

struct Alias final : TensorImpl {
  // Copies the contiguity that the original has cached, too: working it out anew costs more than all the rest.
  Alias(Storage&& s, const TensorImpl* f) : TensorImpl(TensorImpl::VIEW, std::move(s), DispatchKeySet(), f->dtype()) {
    copy_generic_tensor_metadata(f, this);
    device_opt_ = storage_.device();
    key_set_ = (f->key_set() - not_for_alias).remove_backend(FLAGOS_BIT) | DispatchKeySet(target.bit);
    version_counter_ = f->version_counter();
    set_allow_tensor_metadata_change(f->allow_tensor_metadata_change());
  }
  static void* operator new(size_t n) { return take_block(n); }
  static void operator delete(void* p, size_t n) noexcept { give_block(p, n); }
};
}  // namespace

Frame::~Frame() = default;

intrusive_ptr<TensorImpl> Frame::alias(TensorImpl* f, bool write) {
  if (is_other_layout(f->key_set())) return alias_other(f, write);
  auto twin = twin_of(f->unsafe_storage().unsafeGetStorageImpl());
  auto* twin_ptr = twin.get();
  intrusive_ptr<TensorImpl> a = c10::make_intrusive<Alias>(Storage(std::move(twin)), f);
  entries_.push_back(Entry{a.get(), f, twin_ptr, write});
  return a;
}

Tensor Frame::show(const Tensor& t, bool write) {
  if (C10_LIKELY(is_flagos(t))) return Tensor(alias(t.unsafeGetTensorImpl(), write));
  see(t);
  return {};
}

Storage Frame::alias(const Storage& s) {
  auto* f = s.unsafeGetStorageImpl();
  if (f->device_type() != FLAGOS) return s;
  auto twin = twin_of(f);
  seen_.emplace_back(twin, intrusive_ptr<StorageImpl>::reclaim_copy(f));
  return Storage(std::move(twin));
}

// One twin has one flagos storage: asked of the arguments first, then of what this call has wrapped already.
intrusive_ptr<StorageImpl> Frame::flagos_of(StorageImpl* twin) {
  for (const auto& e : entries_)
    if (e.twin == twin) return intrusive_ptr<StorageImpl>::reclaim_copy(e.flagos->unsafe_storage().unsafeGetStorageImpl());
  for (const auto& [t, f] : seen_)
    if (t.get() == twin) return f;
  auto t = intrusive_ptr<StorageImpl>::reclaim_copy(twin);
  auto f = wrap_storage(t);
  seen_.emplace_back(std::move(t), f);
  return f;
}

Tensor Frame::result(Tensor&& r) {
  if (!r.defined()) return std::move(r);
  TensorImpl* t = r.unsafeGetTensorImpl();
  const bool unique = r.use_count() == 1;
  if (!unique) {
    for (const auto& e : entries_)
      if (e.alias == t) return Tensor(intrusive_ptr<TensorImpl>::reclaim_copy(e.flagos));
    for (const auto* s : strangers_)
      if (s == t) return std::move(r);
  }
  if (!relabel_ || t->device_type() != target.type || !t->key_set().has_backend(target.bit)) return std::move(r);
  return adopt(std::move(r), unique);
}

Tensor Frame::adopt(Tensor&& r, bool unique) {
  TensorImpl* t = r.unsafeGetTensorImpl();
  if (is_other_layout(t->key_set())) return adopt_other(t);
  const Storage& s = t->unsafe_storage();
  TORCH_CHECK_NOT_IMPLEMENTED(s, "flagos: a kernel returned a tensor of layout ", t->layout(), ", which is not supported");
  if (C10_LIKELY(unique && !t->autograd_meta())) {
    // A storage of its own is moved into its S_f, with the reference that the tensor has.
    auto f = s.use_count() == 1
        ? wrap_storage(intrusive_ptr<StorageImpl>::reclaim(const_cast<Storage&>(s).unsafeReleaseStorageImpl()))
        : flagos_of(s.unsafeGetStorageImpl());
    t->_change_backend_component_keys(f->device());
    t->set_storage_keep_dtype(Storage(std::move(f)));
    return std::move(r);
  }
  // The kernel keeps this tensor for itself, or it is a view of an alias, which autograd must not see.
  const auto keys = t->key_set().remove_backend(target.bit) | DispatchKeySet(FLAGOS_BIT);
  auto n = c10::make_intrusive<TensorImpl>(TensorImpl::VIEW, Storage(flagos_of(s.unsafeGetStorageImpl())), keys, t->dtype());
  n->set_sizes_and_strides(t->sizes(), t->strides(), t->storage_offset());
  if (t->is_wrapped_number()) n->set_wrapped_number(true);
  return Tensor(intrusive_ptr<TensorImpl>(std::move(n)));
}

Tensor Frame::exported(const Tensor& t) {
  Tensor a = alias(t.detach(), false);
  // The alias has the metadata of a passing thing; a detached copy of it has that of a tensor.
  entries_.clear();
  return a.detach();
}

void Frame::sync(const Entry& e) {
  TensorImpl *t = e.alias, *f = e.flagos;
  if (is_other_layout(f->key_set())) return sync_other(e);
  auto* now = t->unsafe_storage().unsafeGetStorageImpl();
  if (C10_UNLIKELY(now != e.twin))
    f->set_storage_keep_dtype(Storage(flagos_of(now)));
  else
    follow_twin(f->unsafe_storage().unsafeGetStorageImpl(), now);
  if (C10_UNLIKELY(t->storage_offset() != f->storage_offset() || t->sizes() != f->sizes() ||
                   t->strides() != f->strides()))
    f->set_sizes_and_strides(t->sizes(), t->strides(), t->storage_offset());
  // A kernel may leave its result to be conjugated or negated when it is read.
  constexpr DispatchKeySet lazy({DispatchKey::Conjugate, DispatchKey::Negative});
  if (C10_UNLIKELY((t->key_set() & lazy) != (f->key_set() & lazy))) {
    f->_set_conj(t->is_conj());
    f->_set_neg(t->is_neg());
  }
}

void Frame::refuse_mixed() const {
  TORCH_CHECK(!entries_.empty(), "Expected a '", target.type, "' device type for generator but found 'flagos'");
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
              entries_[0].flagos->device(), " and ", target.type, "!");
}
}  // namespace fl
