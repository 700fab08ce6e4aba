"""One worker of ops.py: operators come by name on stdin, what was seen goes out as JSON lines.

Each check runs on the plain device and on flagos, on copies of the same inputs, which keep sizes, strides, offsets and
shared storages. What plain cannot do is no check; what it can do, flagos must do with the same outcome. A plain GPU is
asked in a process of its own, without torch_fl: PyTorch's autograd has one accelerator a process.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from itertools import islice

if "--serve" not in sys.argv:
    import torch_fl  # noqa: F401  before torch, whose libraries it may have to choose

import torch
from torch.utils._pytree import tree_leaves, tree_map

KINDS = ("forward", "backward", "inplace", "out")
# What these return is whatever the memory holds.
UNINITIALISED = {
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "resize_as_",
}  # fmt: skip
# Results of these that hold anything where nothing is dropped out: states of a random generator, a mask.
UNUSED = {
    "torch.ops.aten._flash_attention_forward": {2, 3, 4},
    "torch.ops.aten._efficient_attention_forward": {2, 3},
}
# Tensor arguments of these belong on the CPU, whatever is computed where.
HOST_ARGUMENTS = {"tensor_split"}
# After these the context of a GPU answers nothing more.
FATAL = ("device-side assert", "illegal memory access", "misaligned address", "unspecified launch failure")


class Copies:
    """Copies of the tensors of one sample on a device; those that shared a storage share one again."""

    def __init__(self, device):
        self.device = device
        self.storages = {}

    def __call__(self, value):
        if isinstance(value, torch.Tensor):
            return self.tensor(value).requires_grad_(value.requires_grad)
        if isinstance(value, torch.device):
            return torch.device(self.device) if value.type == "cpu" else value
        return self.device if isinstance(value, str) and value == "cpu" else value

    def tensor(self, value):
        data = value.detach()
        # Of a tensor subclass, of one without a storage, or with a conjugation to be done: by torch's own means.
        plain = type(data) is torch.Tensor and data.layout is torch.strided and not data.is_nested
        if not plain or data.is_quantized or data.is_conj() or data.is_neg():
            return data.clone() if data.device.type == self.device else data.to(self.device)
        storage = data.untyped_storage()
        key = storage._cdata, data.dtype
        if key not in self.storages:
            count = storage.nbytes() // data.element_size()
            whole = torch.empty(0, dtype=data.dtype).set_(storage, 0, (count,), (1,))
            self.storages[key] = torch.empty(count, dtype=data.dtype, device=self.device).copy_(whole)
        return self.storages[key].as_strided(data.size(), data.stride(), data.storage_offset())


@dataclass
class Seen:
    """A tensor that came out, with its values on the CPU."""

    device: str
    facts: dict  # what must be the same on any device
    form: dict  # what must be the same where the kernels are
    value: torch.Tensor

    @classmethod
    def of(cls, tensor):
        facts = {name: getattr(tensor, name) for name in ("dtype", "shape", "layout", "requires_grad", "is_quantized")}
        form = {}
        if tensor.layout is torch.strided and not tensor.is_nested:
            form = {"stride": tensor.stride(), "conjugated": tensor.is_conj(), "negated": tensor.is_neg()}
        return cls(tensor.device.type, facts, form, tensor.detach().cpu())


def seen(outcome):
    """The leaves of an outcome: plain values, and what was seen of tensors."""
    leaves = tree_leaves(outcome)
    return [Seen.of(x) if isinstance(x, torch.Tensor) else x for x in leaves]


def detached(values):
    return tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, values)


class Run:
    """One operator, dtype and sample on one device."""

    def __init__(self, op, sample, device):
        self.op, self.device = op, device
        self.host_arguments = op.name in HOST_ARGUMENTS
        self.sample = (sample.input, tuple(sample.args), dict(sample.kwargs))
        self.given = self.returned = None

    def outcome(self, kind):
        """What a kind of check makes of the operator; None if there is nothing to be seen."""
        outcome = getattr(self, kind)()
        return outcome if outcome is None else seen(outcome)

    def inputs(self):
        first, args, kwargs = self.sample
        copies = Copies(self.device)
        if self.host_arguments:
            return copies(first), args, kwargs
        return tree_map(copies, (first, args, kwargs))

    def forward(self):
        torch.manual_seed(0)
        self.given = self.inputs()
        first, args, kwargs = self.given
        self.returned = self.op.op(first, *args, **kwargs)
        return detached(self.returned)

    def backward(self):
        outputs = [t for t in tree_leaves(self.returned) if isinstance(t, torch.Tensor) and t.requires_grad]
        inputs = [t for t in tree_leaves(self.given) if isinstance(t, torch.Tensor) and t.requires_grad]
        if not outputs or not inputs:
            return None
        maker = torch.Generator().manual_seed(1)
        grads = [torch.randn(t.shape, dtype=t.dtype, generator=maker).to(self.device) for t in outputs]
        return torch.autograd.grad(outputs, inputs, grads, allow_unused=True)

    def inplace(self):
        first, args, kwargs = detached(self.inputs())
        torch.manual_seed(0)
        before = first._version
        result = self.op.inplace_variant(first, *args, **kwargs)
        return result, first, result is first, first._version - before

    def out(self):
        """Into empty tensors, which the operator has to make larger."""
        expected = [t for t in tree_leaves(self.returned) if isinstance(t, torch.Tensor)]
        outs = [torch.empty(0, dtype=t.dtype, device=t.device) for t in expected]
        first, args, kwargs = detached(self.inputs())
        torch.manual_seed(0)
        result = self.op.op(first, *args, out=outs[0] if len(outs) == 1 else tuple(outs), **kwargs)
        return outs, [a is b for a, b in zip(tree_leaves(result), outs, strict=True)]


def samples_of(op, dtype, limit):
    """The first samples, alike in every process."""
    torch.manual_seed(7)
    grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    return list(islice(op.sample_inputs("cpu", dtype, requires_grad=grad), limit or None))


def database():
    """The operators by name."""
    import torch.testing._internal.common_methods_invocations as known

    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in known.op_db}


class Asked:
    """A sample on the plain device of another process."""

    def __init__(self, other, order):
        self.other, self.order = other, order

    def outcome(self, kind):
        return self.other.ask(self.order | {"kind": kind})


class Other:
    """A process that has no torch_fl; it runs samples on the plain device."""

    def __init__(self, device):
        self.words = [sys.executable, __file__, "--serve", device]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.answer()  # that it is ready

    def answer(self):
        size = int.from_bytes(self.process.stdout.read(8), "little")
        return torch.load(io.BytesIO(self.process.stdout.read(size)), weights_only=False)

    def ask(self, order):
        try:
            self.process.stdin.write((json.dumps(order) + "\n").encode())
            self.process.stdin.flush()
            answer = self.answer()
        except (OSError, EOFError) as error:
            code = self.process.wait()
            self.start()
            raise RuntimeError(f"the plain process dies ({code})") from error
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer


def serve(device):
    """The other end of `Other`: an order a line, an answer of 8 bytes of length and torch.save's; first, one for ready."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # operators may print

    def answer(outcome):
        buffer = io.BytesIO()
        torch.save(outcome, buffer)
        answers.write(len(buffer.getvalue()).to_bytes(8, "little") + buffer.getvalue())
        answers.flush()

    ops, at, run = database(), None, None
    answer(None)
    for line in sys.stdin:
        order = json.loads(line)
        op, dtype = ops[order["op"]], getattr(torch, order["dtype"])
        now = order["op"], order["dtype"], order["limit"]
        if now != at:
            at, samples, index = now, samples_of(op, dtype, order["limit"]), None
        if order["index"] != index:
            index, run = order["index"], Run(op, samples[order["index"]], device)
        try:
            answer(run.outcome(order["kind"]))
        except Exception as error:
            answer(short(error))
            if any(text in str(error) for text in FATAL):
                os._exit(3)


def applies(op, kind, sample, run, dtype):
    """Whether a kind of check makes sense."""
    first = sample.input
    if kind == "backward":
        return op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    if kind == "inplace":
        return op.inplace_variant is not None and isinstance(first, torch.Tensor) and not sample.broadcasts_input
    if kind == "out":
        leaves = tree_leaves(run.returned)
        return op.supports_out and bool(leaves) and all(isinstance(t, torch.Tensor) for t in leaves)
    return True


class Compare:
    """The outcome on flagos against plain's."""

    def __init__(self, plain, same, valueless, unused=frozenset()):
        self.plain, self.same, self.valueless, self.unused = plain, same, valueless, unused

    def __call__(self, wanted, got):
        assert len(wanted) == len(got), f"{len(got)} results instead of {len(wanted)}"
        for index, (want, have) in enumerate(zip(wanted, got, strict=True)):
            if isinstance(want, Seen):
                self.tensors(want, have, self.valueless or index in self.unused)
            elif isinstance(want, (int, float, complex)) and not isinstance(want, bool):
                assert type(want) is type(have), f"{type(have)} instead of {type(want)}"
                if not self.valueless:
                    torch.testing.assert_close(have, want, equal_nan=True, **self.tolerance(torch.float32))
            else:
                assert want == have or isinstance(want, torch.device), f"{have!r} instead of {want!r}"

    def tensors(self, want, have, valueless):
        assert isinstance(have, Seen), f"{type(have)} instead of a tensor"
        kind = "flagos" if want.device == self.plain else want.device
        assert have.device == kind, f"the result is on {have.device}"
        assert have.facts == want.facts, f"{have.facts} not {want.facts}"
        assert not self.same or have.form == want.form, f"{have.form} not {want.form}"
        if not valueless:
            tolerance = self.tolerance(want.facts["dtype"])
            torch.testing.assert_close(have.value, want.value, equal_nan=True, **tolerance)

    def tolerance(self, dtype):
        """Between one device's own kernels only the order of sums may differ; between two devices, more."""
        if self.same:
            # A sum of few bits, in another order: the vector kernels look at how memory is aligned.
            few = {torch.float16: 1e-3, torch.bfloat16: 1e-2}.get(dtype)
            return {"rtol": few, "atol": few} if few else {}
        wide = {torch.float16: 2e-2, torch.bfloat16: 5e-2}.get(dtype, 2e-3)
        return {"rtol": wide, "atol": wide} if dtype.is_floating_point or dtype.is_complex else {}


class Worker:
    def __init__(self, args):
        self.args = args
        self.out = os.fdopen(os.dup(1), "w")  # operators may print
        os.dup2(2, 1)
        self.ops = database()
        self.other = None if args.plain == "cpu" else Other(args.plain)

    def say(self, **facts):
        self.out.write(json.dumps(facts) + "\n")
        self.out.flush()

    def work(self):
        self.say(ready=sorted(self.ops))
        for line in sys.stdin:
            order = json.loads(line)
            op = self.ops[order["op"]]
            for dtype in self.dtypes(op):
                if str(dtype) not in order["done"]:
                    self.one(order["op"], op, dtype)
            self.say(end=order["op"])

    def dtypes(self, op):
        kind = self.args.plain if self.args.kernels is None else self.args.kernels
        wanted = self.args.dtypes
        return [t for t in op.supported_dtypes(kind) if not wanted or str(t).removeprefix("torch.") in wanted]

    def one(self, name, op, dtype):
        """One operator for one dtype."""
        item = {"op": name, "dtype": str(dtype), "samples": 0, "seconds": 0.0, "errors": []}
        item |= {kind: [0, 0, 0] for kind in KINDS}  # plain can, flagos does the same, flagos alone can
        started = time.monotonic()
        limit = self.args.samples if dtype in (torch.float32, torch.int64) else self.args.more_samples
        try:
            for index, sample in enumerate(samples_of(op, dtype, limit)):
                order = {"op": name, "dtype": str(dtype).removeprefix("torch."), "limit": limit, "index": index}
                plain = Asked(self.other, order) if self.other else Run(op, sample, self.args.plain)
                self.sample(name, op, dtype, (plain, Run(op, sample, "flagos")), sample, item)
                item["samples"] += 1
                if self.args.seconds and time.monotonic() - started > self.args.seconds:
                    break
        except Exception as error:  # of the database itself, alike for all
            item["errors"].append(["samples", "database", short(error)])
        item["seconds"] = round(time.monotonic() - started, 3)
        self.say(item=item)

    def sample(self, name, op, dtype, runs, sample, item):
        bare = name.partition(".")[0]
        same = self.args.kernels is None
        valueless = bare in UNINITIALISED or not same and random(bare)
        compare = Compare(self.args.plain, same, valueless, UNUSED.get(op.name, ()))
        for kind in KINDS:
            try:
                if not applies(op, kind, sample, runs[1], dtype):
                    continue
            except Exception as error:
                item["errors"].append([kind, "database", short(error)])
                continue
            if not self.check(kind, name, dtype, runs, compare, item) and kind == "forward":
                break

    def check(self, kind, name, dtype, runs, compare, item):
        """One kind of check. Whether both could do it."""
        plain, theirs = self.attempt(kind, "plain", name, dtype, runs[0], item)
        ours = plain is not None
        if ours and theirs is None:  # nothing to be seen, such as the gradient of no input
            return False
        flagos, have = self.attempt(kind, "flagos", name, dtype, runs[1], item)
        tally = item[kind]
        if not ours:
            tally[2] += flagos is not None
            return False
        tally[0] += 1
        if flagos is None:
            return False
        try:
            compare(theirs, have)
        except Exception as error:
            self.fatal(error, item)
            item["errors"].append([kind, "flagos", short(error)])
            return False
        tally[1] += 1
        return True

    def attempt(self, kind, who, name, dtype, run, item):
        """(True, outcome), or (None, None) for an exception, which is noted."""
        self.say(begin=[name, str(dtype), kind, who])
        try:
            return True, run.outcome(kind)
        except Exception as error:
            item["errors"].append([kind, who, short(error)])
            self.fatal(error, item)
            return None, None

    def fatal(self, error, item):
        if any(text in str(error) for text in FATAL):
            self.say(item=item)
            self.out.flush()
            os._exit(3)


def random(name):
    words = ("rand", "dropout", "bernoulli", "multinomial", "normal", "uniform", "exponential", "cauchy", "geometric")
    return any(word in name for word in (*words, "rrelu", "poisson", "lowrank", "fractional_max"))


def short(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:300]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plain", default="cpu", help="the device that flagos is compared with")
    parser.add_argument("--serve", metavar="DEVICE", help="be the process that runs samples on a plain device")
    parser.add_argument("--kernels", help="the device whose kernels run under flagos, if it is another one")
    parser.add_argument("--dtypes", type=lambda text: set(text.split(",")) - {""}, default=set())
    parser.add_argument("--samples", type=int, default=0, help="of an operator, for float32 and int64; 0: all")
    parser.add_argument("--more-samples", type=int, default=0, help="for every other dtype")
    parser.add_argument("--seconds", type=float, default=0, help="of an operator and dtype; 0: no limit")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if args.serve:
        serve(args.serve)
        return
    Worker(args).work()


if __name__ == "__main__":
    main()
