// scaled_dot_product_attention asks a DispatchStub, not an operator, which fused kernel to take, and PrivateUse1's slot
// of it is empty: without this file it takes the slow path of matrix products, silently.
#include "fl.h"

#include <ATen/SDPBackend.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <torch/library.h>

#include <cmath>

namespace fl {
namespace {
using Optional = std::optional<Tensor>;

// A FakeTensor has no memory to alias; what the chooser looks at are its type and shape.
Tensor shape_of(const Tensor& t) {
  auto storage = c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), 0,
                                                  c10::DataPtr(nullptr, to_target(Device(FLAGOS, 0))), nullptr, false);
  const auto keys = DispatchKeySet(c10::toRuntimePerBackendFunctionalityKey(DispatchKey::Dense, target.bit)) |
      c10::getAutogradRelatedKeySetFromBackend(target.bit);
  auto impl = c10::make_intrusive<TensorImpl>(TensorImpl::VIEW, Storage(std::move(storage)), keys, t.dtype());
  std::vector<int64_t> sizes, strides;
  for (const auto& s : t.sym_sizes()) sizes.push_back(s.guard_int(__FILE__, __LINE__));
  for (const auto& s : t.sym_strides()) strides.push_back(s.guard_int(__FILE__, __LINE__));
  impl->set_sizes_and_strides(sizes, strides);
  return Tensor(intrusive_ptr<TensorImpl>(std::move(impl)));
}

Tensor describe(Frame& frame, const Tensor& t) {
  if (!t.key_set().has_backend(FLAGOS_BIT)) return t;
  Tensor a = is_flagos(t) ? frame.alias(t, false) : shape_of(t);
  if (t.requires_grad() && at::GradMode::is_enabled()) a.set_requires_grad(true);
  return a;
}

int64_t choose(const Tensor& q, const Tensor& k, const Tensor& v, const Optional& mask, double dropout, bool causal,
               std::optional<double> scale, bool gqa) {
  Frame frame;
  const Optional m = mask && mask->defined() ? Optional(describe(frame, *mask)) : mask;
  const DispatchKeySet keys(c10::toRuntimePerBackendFunctionalityKey(DispatchKey::Dense, target.bit));
  auto choice = at::_ops::_fused_sdp_choice::redispatch(keys, describe(frame, q), describe(frame, k),
                                                        describe(frame, v), m, dropout, causal, scale, gqa);
  // ATen's branch for flash attention asks for CUDA by name; "overrideable" is the one left to other devices.
  if (!target.host && choice == static_cast<int64_t>(at::SDPBackend::flash_attention))
    choice = static_cast<int64_t>(at::SDPBackend::overrideable);
  return choice;
}

// The flash kernel wants head sizes in eights. ATen pads for CUDA alone, above autograd, so it is done here.
Tensor pad(const Tensor& t) {
  const auto rest = t.size(-1) % 8;
  return rest ? at::constant_pad_nd(t, {0, 8 - rest}) : t;
}
Tensor cut(Tensor&& t, int64_t size) {
  return t.defined() && t.size(-1) != size ? t.slice(-1, 0, size) : std::move(t);
}
std::optional<double> scale_of(const Tensor& q, std::optional<double> given) {
  return given ? given : std::optional<double>(1.0 / std::sqrt(static_cast<double>(q.size(-1))));
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const Optional& bias, double dropout, bool causal, bool debug,
    std::optional<double> scale) {
  TORCH_CHECK(!bias || !bias->defined(), "flagos: flash attention takes no attention bias");
  at::AutoDispatchBelowADInplaceOrView below;
  Frame f;
  auto [out, lse, cum_q, cum_k, max_q, max_k, seed, offset, mask] = at::_scaled_dot_product_flash_attention(
      pad(f.alias(q, false)), pad(f.alias(k, false)), pad(f.alias(v, false)), dropout, causal, debug, scale_of(q, scale));
  return {f.result(cut(std::move(out), v.size(-1))), f.result(std::move(lse)), f.result(std::move(cum_q)),
          f.result(std::move(cum_k)), max_q, max_k, f.result(std::move(seed)), f.result(std::move(offset)),
          f.result(std::move(mask))};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&, std::array<bool, 4>,
    const Tensor& out, const Tensor& lse, const Tensor& cum_q, const Tensor& cum_k, c10::SymInt max_q,
    c10::SymInt max_k, double dropout, bool causal, const Tensor& seed, const Tensor& offset,
    std::optional<double> scale) {
  at::AutoDispatchBelowADInplaceOrView below;
  Frame f;
  const auto a = [&](const Tensor& t) { return is_flagos(t) ? f.alias(t, false) : t; };
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward_symint(
      pad(a(grad)), pad(a(q)), pad(a(k)), pad(a(v)), pad(a(out)), a(lse), a(cum_q), a(cum_k), max_q, max_k, dropout,
      causal, a(seed), a(offset), scale_of(q, scale));
  return {f.result(cut(std::move(dq), q.size(-1))), f.result(cut(std::move(dk), k.size(-1))),
          f.result(cut(std::move(dv), v.size(-1))), Tensor()};
}
}  // namespace

void register_attention(torch::Library& aten) {
  aten.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(forward));
  aten.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(backward));
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&choose);
}
}  // namespace fl
