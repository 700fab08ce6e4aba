// Composites that ask a tensor whether it is on CUDA, by name, and take the slow way if not: batch norm and recurrent
// networks. The question goes to the target; what it chooses is called on flagos tensors, so autograd records it.
#include "fl.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/Normalization.h>
#include <ATen/native/RNN.h>
#include <ATen/ops/_batch_norm_impl_index_native.h>
#include <ATen/ops/_cudnn_init_dropout_state.h>
#include <ATen/ops/_cudnn_rnn.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cudnn_batch_norm.h>
#include <ATen/ops/cudnn_is_acceptable.h>

#include <map>
#include <mutex>

namespace fl {
namespace {
using at::TensorList;
using Optional = std::optional<Tensor>;

Tensor shown(Frame& f, const Tensor& t) { return t.defined() && is_flagos(t) ? f.alias(t, false) : t; }
Tensor shown(Frame& f, const Optional& t) { return t ? shown(f, *t) : Tensor(); }
Tensor contiguous(const Optional& t) { return t && t->defined() ? t->contiguous() : Tensor(); }

std::tuple<Tensor, Tensor, Tensor, Tensor, int64_t> batch_norm(const Tensor& input, const Optional& weight,
                                                               const Optional& bias, const Optional& mean,
                                                               const Optional& variance, bool training, double momentum,
                                                               double eps, bool cudnn) {
  Frame f;
  const bool fast = cudnn && !target.host &&
      at::native::_select_batch_norm_backend(shown(f, input), shown(f, weight), shown(f, bias), shown(f, mean),
                                             shown(f, variance), training, eps) == at::native::BatchNormBackend::Cudnn;
  if (!fast)
    return at::native::_batch_norm_impl_index(input, weight, bias, mean, variance, training, momentum, eps, cudnn);
  auto [out, saved_mean, saved_variance, reserve] =
      at::cudnn_batch_norm(input.contiguous(input.suggest_memory_format()), contiguous(weight), contiguous(bias),
                           contiguous(mean), contiguous(variance), training, momentum, eps);
  return {out, saved_mean, saved_variance, reserve, 1};  // 1: the backward pass is cuDNN's
}

bool cudnn_is_acceptable(const Tensor& t) {
  Frame f;
  return !target.host && is_flagos(t) && at::cudnn_is_acceptable(f.alias(t, false));
}

// cuDNN's numbers, as ATen hands them on.
enum Mode : int64_t { RELU, TANH, LSTM, GRU };

// The state of dropout's random numbers, one a device and probability: to make one costs a kernel.
Tensor dropout_state(const Tensor& like, double p, bool train) {
  if (p <= 0 || !train) return {};
  static std::mutex mutex;
  static auto* all = new std::map<std::pair<DeviceIndex, double>, Tensor>();
  std::lock_guard<std::mutex> lock(mutex);
  auto& state = (*all)[{like.device().index(), p}];
  if (!state.defined()) {
    const auto seed = static_cast<int64_t>(at::globalContext().defaultGenerator(like.device()).current_seed());
    state = at::_cudnn_init_dropout_state(p, train, seed, like.options().dtype(at::kByte));
  }
  return state;
}

std::tuple<Tensor, Tensor, Tensor> rnn(Mode mode, const Tensor& input, const Tensor& hx, const Tensor& cx,
                                       TensorList weights, bool biases, int64_t layers, double dropout, bool train,
                                       bool bidirectional, bool batch_first, at::IntArrayRef batch_sizes = {}) {
  const bool projected = cx.defined() && cx.size(2) != hx.size(2);
  const auto hidden = projected ? cx.size(2) : hx.size(2);
  auto [out, hy, cy, reserve, buffer] = at::_cudnn_rnn(
      input, weights, (biases ? 4 : 2) + (projected ? 1 : 0), {}, hx, cx.defined() ? Optional(cx) : Optional(), mode,
      hidden, projected ? hx.size(2) : 0, layers, batch_first, dropout, train, bidirectional, batch_sizes,
      dropout_state(input, dropout, train));
  return {out, hy, cy};
}
std::vector<int64_t> sizes_in(const Tensor& batch_sizes) {
  const auto host = batch_sizes.cpu().contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

void lstm(Tensor& out, Tensor& hy, Tensor& cy, const Tensor& input, TensorList hx, TensorList weights, bool biases,
          int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) {
  std::tie(out, hy, cy) =
      rnn(LSTM, input, hx[0], hx[1], weights, biases, layers, dropout, train, bidirectional, batch_first);
}
void lstm_packed(Tensor& out, Tensor& hy, Tensor& cy, const Tensor& input, const Tensor& batch_sizes, TensorList hx,
                 TensorList weights, bool biases, int64_t layers, double dropout, bool train, bool bidirectional) {
  std::tie(out, hy, cy) = rnn(LSTM, input, hx[0], hx[1], weights, biases, layers, dropout, train, bidirectional, false,
                              sizes_in(batch_sizes));
}
template <Mode mode>
void other(Tensor& out, Tensor& hy, const Tensor& input, const Tensor& hx, TensorList weights, bool biases,
           int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) {
  std::tie(out, hy, std::ignore) =
      rnn(mode, input, hx, {}, weights, biases, layers, dropout, train, bidirectional, batch_first);
}
template <Mode mode>
void other_packed(Tensor& out, Tensor& hy, const Tensor& input, const Tensor& batch_sizes, const Tensor& hx,
                  TensorList weights, bool biases, int64_t layers, double dropout, bool train, bool bidirectional) {
  std::tie(out, hy, std::ignore) = rnn(mode, input, hx, {}, weights, biases, layers, dropout, train, bidirectional,
                                       false, sizes_in(batch_sizes));
}

// PyTorch takes the fused cells for every device but the CPU, which has no kernel of them: where that is the target,
// they are what they fuse.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input, const Tensor& hidden, const Tensor& cx,
                                             const Optional& input_bias, const Optional& hidden_bias) {
  Tensor gates = input + hidden;
  for (const auto& bias : {input_bias, hidden_bias})
    if (bias && bias->defined()) gates = gates + *bias;
  const auto part = gates.chunk(4, 1);
  const auto cy = part[1].sigmoid() * cx + part[0].sigmoid() * part[2].tanh();
  return {part[3].sigmoid() * cy.tanh(), cy, gates};
}
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input, const Tensor& hidden, const Tensor& hx,
                                    const Optional& input_bias, const Optional& hidden_bias) {
  const auto biased = [](const Tensor& t, const Optional& bias) { return bias && bias->defined() ? t + *bias : t; };
  const auto i = biased(input, input_bias).chunk(3, 1), h = biased(hidden, hidden_bias).chunk(3, 1);
  const auto fresh = (i[2] + h[2] * (h[0] + i[0]).sigmoid()).tanh();
  return {(hx - fresh) * (h[1] + i[1]).sigmoid() + fresh, at::cat({input, hidden}, 1)};
}

template <class F>
void own(const char* name, F f) {
  // Composites that autograd sees through: theirs is the place before autograd, and below it.
  for (const auto key : {DispatchKey::AutogradPrivateUse1, DispatchKey::PrivateUse1})
    add_kernel({name, ""}, key, c10::KernelFunction::makeFromUnboxedFunction(f),
               c10::impl::CppSignature::make<typename F::FuncType>());
}
}  // namespace

void register_vendor() {
  own("aten::_batch_norm_impl_index", TORCH_FN(batch_norm));
  own("aten::cudnn_is_acceptable", TORCH_FN(cudnn_is_acceptable));
  if (target.host) {
    own("aten::_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
    own("aten::_thnn_fused_gru_cell", TORCH_FN(gru_cell));
    return;
  }
  at::native::lstm_cudnn_stub.set_privateuse1_dispatch_ptr(&lstm);
  at::native::lstm_packed_cudnn_stub.set_privateuse1_dispatch_ptr(&lstm_packed);
  at::native::gru_cudnn_stub.set_privateuse1_dispatch_ptr(&other<GRU>);
  at::native::gru_packed_cudnn_stub.set_privateuse1_dispatch_ptr(&other_packed<GRU>);
  at::native::rnn_tanh_cudnn_stub.set_privateuse1_dispatch_ptr(&other<TANH>);
  at::native::rnn_tanh_packed_cudnn_stub.set_privateuse1_dispatch_ptr(&other_packed<TANH>);
  at::native::rnn_relu_cudnn_stub.set_privateuse1_dispatch_ptr(&other<RELU>);
  at::native::rnn_relu_packed_cudnn_stub.set_privateuse1_dispatch_ptr(&other_packed<RELU>);
}
}  // namespace fl
