// The relay that works for every operator: arguments and results on the interpreter's stack.
#include "fl.h"

#include <ATen/core/ivalue.h>

namespace fl {
namespace {
using c10::IValue;

// Aliases for the arguments of one call. Both the alias and its original live until the results have been mapped back,
// whatever the kernel does to the stack.
class Arguments {
 public:
  Arguments(Frame& frame, bool grad) : frame_(frame), grad_(grad) {}

  void show(IValue& v, uint8_t kind) {
    const bool write = kind & FL_WRITE;
    switch (kind & ~FL_WRITE) {
      case FL_TENSOR:
        if (v.isTensor()) v = IValue(shown(std::move(v).toTensor(), write));
        break;
      case FL_LIST:
        if (v.isTensorList()) {
          auto in = v.toTensorVector();
          frame_.reserve(in.size());
          c10::List<Tensor> out;
          out.reserve(in.size());
          for (auto& t : in) out.push_back(shown(std::move(t), write));
          v = IValue(std::move(out));
        }
        break;
      case FL_OPT_LIST:
        if (v.isList()) {
          c10::List<std::optional<Tensor>> out;
          for (const IValue& t : v.toListRef())
            out.push_back(t.isNone() ? std::optional<Tensor>() : std::optional<Tensor>(shown(Tensor(t.toTensor()), write)));
          v = IValue(std::move(out));
        }
        break;
      case FL_DEVICE:
        if (v.isDevice()) {
          const auto d = v.toDevice();
          frame_.explicit_device(d);
          if (d.type() == FLAGOS) {
            ensure_init();
            v = IValue(to_target(d));
          }
        }
        break;
      case FL_GENERATOR:
        if (v.isGenerator()) v = IValue(frame_.show(v.toGenerator()));
        break;
      case FL_STORAGE:
        if (v.isStorage()) v = IValue(frame_.alias(v.toStorage()));
        break;
      case FL_STREAM:
        if (v.isStream() && v.toStream().device_type() == FLAGOS) {
          const auto s = v.toStream();
          v = IValue(c10::Stream(c10::Stream::UNSAFE, to_target(s.device()), s.id()));
        }
        break;
    }
  }

 private:
  Tensor shown(Tensor&& t, bool write) {
    if (!is_flagos(t)) {
      frame_.see(t);
      return std::move(t);
    }
    auto a = frame_.alias(t, write);
    if (grad_ && t.requires_grad()) a.set_requires_grad(true);
    kept_.push_back(a);
    kept_.push_back(std::move(t));
    return a;
  }

  Frame& frame_;
  const bool grad_;
  c10::SmallVector<Tensor, 8> kept_;
};

void map_result(Frame& frame, IValue& v) {
  if (v.isTensor()) {
    v = IValue(frame.result(std::move(v).toTensor()));
  } else if (v.isTensorList()) {
    auto list = std::move(v).toTensorList();
    // extract, not get: a second reference would cost every element a second tensor.
    for (size_t i = 0; i < list.size(); ++i) list.set(i, frame.result(list.extract(i)));
    v = IValue(std::move(list));
  }
}
}  // namespace

void relay_boxed(const OperatorHandle& op, const Kernel& k, Stack* stack) {
  const FlPlan& plan = *k.plan;
  log_call(op, plan);
  if (plan.pass) return op.redispatchBoxed(k.keys, stack);
  Frame frame;
  Arguments arguments(frame, plan.grad);
  IValue* first = stack->data() + stack->size() - plan.arguments;
  for (size_t i = 0; i < plan.arguments; ++i)
    if (plan.kinds[i] != FL_OTHER) arguments.show(first[i], plan.kinds[i]);
  frame.check_mixed(plan);
  // With the keys that the caller has left on: what a kernel does inside it does as on the target itself.
  op.redispatchBoxed(k.keys, stack);
  if (plan.writes) frame.sync();
  IValue* results = stack->data() + stack->size() - plan.returns;
  for (size_t i = 0; i < plan.returns; ++i)
    if (!(plan.host_returns >> i & 1)) map_result(frame, results[i]);
}
}  // namespace fl
