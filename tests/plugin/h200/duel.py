"""Host time of a 28-layer forward, flagos and cuda taking turns in one process: the ratio, with its 95 % interval.

The model is Qwen3's shape over next to no data, so that the device never is what is waited for. `cuda/cuda` is the
same duel of cuda with itself: what the method says where there is no difference.
"""

import argparse
import gc
import json
import statistics

import torch_fl  # before torch
import torch
from measure import duel, host_time, interval, ratios, text
from model import SMALL, made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--calls", type=int, default=3, help="forwards a turn")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    works = {}
    for device in ("cuda", "flagos"):
        model = made(SMALL, device, torch.float32).eval()
        words = torch.arange(16).view(1, 16).to(device)
        works[device] = lambda model=model, words=words: model(words)

    def turn(device):
        return lambda: host_time(works[device], device, args.calls)

    results = {}
    with torch.no_grad():
        for device in works:
            for _ in range(20):
                works[device]()
        here, there = works["cuda"]().cpu(), works["flagos"]().cpu()
        torch.testing.assert_close(there, here)
        gc.disable()
        for name, first, second in (("cuda/cuda", "cuda", "cuda"), ("flagos/cuda", "cuda", "flagos")):
            pairs = duel(turn(first), turn(second), args.rounds)
            firsts, seconds = zip(*pairs, strict=True)
            ratio = interval(ratios(pairs))
            results[name] = {
                "rounds": len(pairs), "ratio": ratio, "mean": interval(ratios(pairs), statistics.fmean),
                "ms": [statistics.median(firsts) * 1e3, statistics.median(seconds) * 1e3],
                "correlation": statistics.correlation(firsts, seconds), "pairs": pairs,
            }  # fmt: skip
            ms = results[name]["ms"]
            print(f"{name}: {text(ratio)}, {len(pairs)} pairs, medians {ms[0]:.3f} and {ms[1]:.3f} ms, "
                  f"correlation {results[name]['correlation']:.2f}", flush=True)  # fmt: skip
            gc.collect()
    if args.output:
        with open(args.output, "w") as file:
            json.dump(results, file)


if __name__ == "__main__":
    main()
