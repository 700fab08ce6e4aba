"""10,000 small training steps: neither the process nor the number of live storages may grow.

The slope of memory over the steps after the first fifth, by Theil and Sen (the median of the slopes between pairs): it
does not mind the steps by which an allocator grows.
"""

import argparse
import gc
import json
import os
import statistics

import torch_fl  # before torch
import torch


def resident():
    """Bytes of this process in memory (proc(5), statm)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def slope(values):
    pairs = [(b - a) / (j - i) for i, a in enumerate(values) for j, b in enumerate(values) if j > i]
    return statistics.median(pairs)


def tensors():
    """Live tensors that the collector knows."""
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--bytes", type=float, default=20.0, help="of growth a step that are let pass")
    args = parser.parse_args()
    torch.set_num_threads(1)
    net = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 4)
    ).to("flagos")
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, foreach=True)
    memory, live, allocated = [], [], []
    every = max(args.steps // 100, 1)
    for step in range(args.steps):
        x = torch.randn(8, 16).to("flagos")
        wanted = torch.randint(4, (8,), device="flagos")
        optimizer.zero_grad()
        with torch.autocast("flagos", dtype=torch.bfloat16, enabled=step % 2 == 0):
            y = net(x)
            loss = torch.nn.functional.cross_entropy(y.float(), wanted)
        loss.backward()
        optimizer.step()
        a, b = y.detach().split(2, -1)
        torch.cat([a.t(), b.t()], 1).resize_(4, 8).cpu()
        if step % 50 == 0:
            try:
                x + torch.ones(8, 16)
            except RuntimeError:
                pass
            else:
                raise AssertionError("a tensor of the CPU was added to one of flagos")
        if step % every == 0:
            gc.collect()
            memory.append(resident())
            live.append(tensors())
            allocated.append(torch.flagos.memory_allocated())
    start = len(memory) // 5
    grown = slope(memory[start:]) / every
    facts = {
        "steps": args.steps, "resident_bytes": memory[-1], "bytes_a_step": round(grown, 2),
        "tensors": live[start :: len(live)] + live[-1:], "allocated": [allocated[start], allocated[-1]],
    }  # fmt: skip
    print(json.dumps(facts))
    assert live[-1] == live[start], f"{live[-1] - live[start]} tensors more are alive at the end"
    assert allocated[-1] == allocated[start], "the device's allocator holds more at the end"
    assert grown < args.bytes, f"{grown:.1f} bytes a step are lost"


if __name__ == "__main__":
    main()
