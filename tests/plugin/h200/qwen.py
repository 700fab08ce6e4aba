"""The shape of Qwen3-0.6B, random weights, bfloat16, 1 × 128: training steps and decoding, flagos against cuda.

A process each; they take turns on the same processors, so that what drifts hits both. Losses must agree.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

CASES = {"step, AdamW foreach": 4, "step, AdamW fused": 4, "forward and backward": 4, "forward": 8, "decode 32": 1}


def worker(device):
    if device == "flagos":
        import torch_fl  # noqa: F401
    import torch
    from measure import synchronize
    from model import QWEN, made

    model = made(QWEN, device, torch.bfloat16)
    words = torch.randint(0, QWEN["words"], (1, 128), generator=torch.Generator().manual_seed(1)).to(device)

    def backward():
        loss = model.loss(words)
        loss.backward()
        return loss

    def step(optimizer):
        loss = backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    def forward():
        with torch.no_grad():
            model(words)

    foreach = torch.optim.AdamW(model.parameters(), 1e-5, foreach=True)
    losses = [step(foreach).item() for _ in range(5)]
    fused = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
    losses += [step(fused).item() for _ in range(3)]
    works = {
        "step, AdamW foreach": lambda: step(foreach), "step, AdamW fused": lambda: step(fused),
        "forward and backward": lambda: (backward(), model.zero_grad(set_to_none=True)), "forward": forward,
        "decode 32": lambda: model.decode(words[:, :32], 32),
    }  # fmt: skip
    for work in works.values():
        work()
    synchronize(device)
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"losses": losses, "parameters": parameters}), flush=True)
    for line in sys.stdin:
        name = line.strip()
        count = CASES[name]
        synchronize(device)
        start = time.perf_counter()
        for _ in range(count):
            works[name]()
        synchronize(device)
        print((time.perf_counter() - start) / count, flush=True)


class Hand:
    """A process for one device, on the processors that both share."""

    def __init__(self, device, processors):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, processors),
        )  # fmt: skip
        self.facts = json.loads(self.process.stdout.readline())

    def time(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    if args.worker:
        worker(args.worker)
        return
    from measure import duel, interval, ratios, text

    processors = set(sorted(os.sched_getaffinity(0))[-4:])
    hands = {device: Hand(device, processors) for device in ("cuda", "flagos")}
    losses = {device: hand.facts["losses"] for device, hand in hands.items()}
    results = {"parameters": hands["cuda"].facts["parameters"], "losses": losses}
    print(f"{results['parameters'] / 1e6:.0f} M parameters")
    for device, values in losses.items():
        print(f"losses {device}: {' '.join(f'{value:.4f}' for value in values)}")
    print(f"largest difference: {max(abs(a - b) for a, b in zip(*losses.values(), strict=True)):.5f}")
    for name in CASES:
        pairs = duel(lambda: hands["cuda"].time(name), lambda: hands["flagos"].time(name), args.rounds)
        here, there = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
        ratio = interval(ratios(pairs))
        results[name] = {"cuda_ms": here, "flagos_ms": there, "ratio": ratio}
        more = f", {32e3 / here:.1f} and {32e3 / there:.1f} tokens/s" if name.startswith("decode") else ""
        print(f"{name:22} cuda {here:8.2f} ms, flagos {there:8.2f} ms, ratio {text(ratio)}{more}", flush=True)
    for hand in hands.values():
        hand.end()
    if args.output:
        with open(args.output, "w") as file:
            json.dump(results, file)


if __name__ == "__main__":
    main()
