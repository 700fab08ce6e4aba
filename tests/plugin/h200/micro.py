"""What a call costs the host, in microseconds: cuda and flagos taking turns in one process, 16 × 16 tensors."""

import argparse
import gc
import json
import statistics

import torch_fl  # before torch
import torch
from measure import duel, host_time, interval, ratios, text


def cases(device):
    a, b, o = (torch.randn(16, 16, device=device) for _ in range(3))
    many = [torch.randn(16, 16, device=device) for _ in range(100)]
    layer = torch.nn.Linear(16, 16).to(device)
    w = torch.randn(16, 16, device=device, requires_grad=True)
    plain = {
        "add": lambda: torch.add(a, b), "mul": lambda: torch.mul(a, b), "mm": lambda: torch.mm(a, b),
        "add_": lambda: o.add_(a), "mul by a number": lambda: a * 2.0, "add out=": lambda: torch.add(a, b, out=o),
        "relu": lambda: torch.relu(a), "view": lambda: a.view(256), "t": lambda: a.t(), "a[0, 1]": lambda: a[0, 1],
        "empty": lambda: torch.empty(16, 16, device=device), "softmax": lambda: torch.softmax(a, -1),
        "sum": lambda: a.sum(), "cat": lambda: torch.cat([a, b]),
        "foreach_add_ (100)": lambda: torch._foreach_add_(many, 1.0), "linear": lambda: layer(a),
    }  # fmt: skip
    return {**{name: (work, False) for name, work in plain.items()}, "add with grad": (lambda: torch.add(w, b), True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    all_cases = {device: cases(device) for device in ("cuda", "flagos")}
    results = {}
    print(f"{'call':20} {'cuda':>8} {'flagos':>8} {'more':>8}  ratio [95 %]")
    gc.disable()
    for name, (_, grad) in all_cases["cuda"].items():
        works = {device: all_cases[device][name][0] for device in all_cases}
        calls = max(args.calls // 5, 1) if "100" in name else args.calls
        with torch.set_grad_enabled(grad):
            for work in works.values():
                for _ in range(calls):
                    work()
            pairs = duel(
                lambda: host_time(works["cuda"], "cuda", calls), lambda: host_time(works["flagos"], "flagos", calls),
                args.rounds,
            )  # fmt: skip
        here, there = (statistics.median(column) * 1e6 for column in zip(*pairs, strict=True))
        ratio = interval(ratios(pairs))
        results[name] = {"cuda": here, "flagos": there, "ratio": ratio}
        print(f"{name:20} {here:8.2f} {there:8.2f} {there - here:8.2f}  {text(ratio)}", flush=True)
    if args.output:
        with open(args.output, "w") as file:
            json.dump(results, file)


if __name__ == "__main__":
    main()
