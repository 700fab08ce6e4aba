// Tensors that are more than a storage with strides: sparse, sparse compressed, nested, quantized. Their parts are
// tensors of their own, which are aliased and wrapped as any other.
#include "fl.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>

namespace fl {
namespace {
using at::SparseCsrTensorImpl;
using at::SparseTensorImpl;
using at::native::NestedTensorImpl;

DispatchKeySet moved(DispatchKeySet keys, BackendComponent from, BackendComponent to) {
  return (keys - c10::python_ks).remove_backend(from) | DispatchKeySet(to);
}

// The same tensor on the other device, its parts given by `part`. `device` is that of a tensor without storage.
template <class Part>
intrusive_ptr<TensorImpl> rebuild(TensorImpl* t, DispatchKeySet keys, Device device, Part&& part) {
  if (keys.has_any(c10::sparse_ks)) {
    auto* s = static_cast<SparseTensorImpl*>(t);
    auto n = c10::make_intrusive<SparseTensorImpl>(keys, t->dtype());
    n->raw_resize_(s->sparse_dim(), s->dense_dim(), t->sizes());
    n->set_indices_and_values_unsafe(part(s->indices()), part(s->values()));
    n->set_coalesced(s->coalesced());
    return n;
  }
  if (keys.has_any(c10::sparse_csr_ks)) {
    auto* s = static_cast<SparseCsrTensorImpl*>(t);
    auto n = c10::make_intrusive<SparseCsrTensorImpl>(keys, device, t->layout(), t->dtype());
    n->set_member_tensors(part(s->compressed_indices()), part(s->plain_indices()), part(s->values()), t->sizes());
    return n;
  }
  if (keys.has(DispatchKey::NestedTensor)) {
    auto* s = static_cast<NestedTensorImpl*>(t);
    auto buffer = part(s->get_unsafe_storage_as_tensor());
    return c10::make_intrusive<NestedTensorImpl>(buffer, s->get_nested_sizes(), s->get_nested_strides(),
                                                 s->get_storage_offsets());
  }
  auto* s = static_cast<at::QTensorImpl*>(t);
  const auto buffer = Tensor(intrusive_ptr<TensorImpl>(c10::make_intrusive<TensorImpl>(
      TensorImpl::VIEW, Storage(t->storage()), DispatchKeySet(t->key_set().highestBackendKey()), t->dtype())));
  auto n = c10::make_intrusive<at::QTensorImpl>(Storage(part(buffer).storage()), keys, t->dtype(), s->quantizer());
  n->set_sizes_and_strides(t->sizes(), t->strides(), t->storage_offset());
  return n;
}
}  // namespace

intrusive_ptr<TensorImpl> Frame::alias_other(TensorImpl* f, bool write) {
  const auto keys = moved(f->key_set(), FLAGOS_BIT, target.bit) - DispatchKeySet(DispatchKey::AutocastPrivateUse1);
  auto a = rebuild(f, keys, to_target(f->device()), [&](const Tensor& part) {
    parts_.push_back(part);  // held by the layout's own object alone, whose getters give copies
    return alias(part, write);
  });
  a->set_version_counter(f->version_counter());
  entries_.push_back(Entry{a.get(), f, nullptr, write});
  return a;
}

Tensor Frame::adopt_other(TensorImpl* t) {
  const auto keys = moved(t->key_set(), target.bit, FLAGOS_BIT);
  return Tensor(rebuild(t, keys, to_flagos(t->device()), [&](Tensor part) { return result(std::move(part)); }));
}

void Frame::sync_other(const Entry& e) {
  const auto keys = e.flagos->key_set();
  const auto flagos = [&](Tensor part) { return result(std::move(part)); };
  if (keys.has_any(c10::sparse_ks)) {
    auto *from = static_cast<SparseTensorImpl*>(e.alias), *to = static_cast<SparseTensorImpl*>(e.flagos);
    to->raw_resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
    to->set_indices_and_values_unsafe(flagos(from->indices()), flagos(from->values()));
    to->set_coalesced(from->coalesced());
  } else if (keys.has_any(c10::sparse_csr_ks)) {
    auto *from = static_cast<SparseCsrTensorImpl*>(e.alias), *to = static_cast<SparseCsrTensorImpl*>(e.flagos);
    to->set_member_tensors(flagos(from->compressed_indices()), flagos(from->plain_indices()), flagos(from->values()),
                           from->sizes());
  } else if (keys.has(DispatchKey::Quantized)) {
    static_cast<at::QTensorImpl*>(e.flagos)->set_quantizer_(static_cast<at::QTensorImpl*>(e.alias)->quantizer());
    if (e.alias->sizes() != e.flagos->sizes() || e.alias->strides() != e.flagos->strides())
      e.flagos->set_sizes_and_strides(e.alias->sizes(), e.alias->strides(), e.alias->storage_offset());
  }
}
}  // namespace fl
