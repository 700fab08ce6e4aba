"""Where the difference of the 28-layer forward goes: every call of it, by operator, played again on both devices.

A mode below autograd writes down each operator with its arguments; then each distinct call is timed on cuda and on
flagos, taking turns. Calls × difference, summed up, stands beside the difference of whole forwards.
"""

import argparse
import gc
import json
import statistics
from collections import Counter

import torch_fl  # before torch
import torch
from measure import duel, host_time
from model import SMALL, made
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


class Record(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls, self.counts = {}, Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        shape = tree_map(lambda x: (tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else x, (args, kwargs))
        key = f"{function} {shape}"
        self.counts[key] += 1
        self.calls.setdefault(key, (function, args, kwargs or {}))
        return function(*args, **(kwargs or {}))


def moved(values, device):
    def one(x):
        if isinstance(x, torch.Tensor):
            flat = torch.empty(x.untyped_storage().nbytes() // x.element_size(), dtype=x.dtype, device=device)
            return flat.zero_().as_strided(x.size(), x.stride(), x.storage_offset())
        return torch.device(device) if isinstance(x, torch.device) and x.type == "flagos" else x

    return tree_map(one, values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    model, words = made(SMALL, "flagos", torch.float32), torch.arange(16).view(1, 16).to("flagos")
    with torch.no_grad():
        with Record() as record:
            model(words)
        rows = Counter(), Counter(), Counter()
        gc.disable()
        for key, (function, given, options) in record.calls.items():
            works = []
            for device in ("cuda", "flagos"):
                a, k = moved((given, options), device)
                works.append(lambda function=function, a=a, k=k: function(*a, **k))
            pairs = duel(
                lambda works=works: host_time(works[0], "cuda", 50),
                lambda works=works: host_time(works[1], "flagos", 50), args.rounds,
            )  # fmt: skip
            name, count = str(function), record.counts[key]
            rows[0][name] += count
            rows[1][name] += count * statistics.median(first for first, _ in pairs) * 1e6
            rows[2][name] += count * statistics.median(second - first for first, second in pairs) * 1e6
        other = made(SMALL, "cuda", torch.float32)
        for _ in range(10):
            model(words), other(words.cpu().cuda())
        here = words.cpu().cuda()
        pairs = duel(
            lambda: host_time(lambda: other(here), "cuda"), lambda: host_time(lambda: model(words), "flagos"), 200
        )  # fmt: skip
    whole = statistics.median(second - first for first, second in pairs) * 1e6
    print(f"{'operator':45} {'calls':>6} {'cuda µs':>9} {'more µs':>9} {'a call':>8}")
    for name, more in rows[2].most_common():
        print(f"{name:45} {rows[0][name]:6} {rows[1][name]:9.1f} {more:9.1f} {more / rows[0][name]:8.3f}")
    print(f"{'all calls':45} {rows[0].total():6} {rows[1].total():9.1f} {rows[2].total():9.1f}")
    print(f"whole forwards differ by {whole:.1f} µs of {statistics.median(first for first, _ in pairs) * 1e6:.1f}")
    if args.output:
        with open(args.output, "w") as file:
            json.dump({"calls": rows[0], "cuda": rows[1], "more": rows[2], "whole": whole}, file)


if __name__ == "__main__":
    main()
