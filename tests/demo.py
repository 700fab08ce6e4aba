"""The last step of demo.sh: which libraries does a process run on, before and after `import torch_fl`?

Prints a table and fails if a library is not the one that was meant. Run by the environment's interpreter.
"""

import argparse
import multiprocessing
import os
import sys

CORE = ["libc10.so", "libtorch_cpu.so", "libtorch.so", "libshm.so", "libtorch_python.so"]
DEVICE = ["libc10_sim.so", "libtorch_sim.so"]
EVERY = [*CORE, *DEVICE, "libgomp.so.1", "libsimrt.so.1"]


def stock_torch(_):
    """In a fresh process: torch without torch_fl."""
    import torch._skeleton

    return torch._skeleton.where()


def with_torch_fl(_):
    """In a fresh process: torch_fl first, then torch; and a spawned child that meets torch by unpickling."""
    import torch_fl  # noqa: F401
    import torch._skeleton

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        child, total = pool.apply(torch._skeleton.where_of, (torch.tensor([1, 2]),))
    assert total == [2.0, 4.0], total
    kernels = torch._C._dispatch_has_kernel_for_dispatch_key("aten::mm", "SIM")
    torch._C._init_device("SIM")
    return torch._skeleton.where(), child, kernels


def fresh(function):
    """The result of `function` in a process that has imported nothing yet."""
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, None).result()


def folders(where, name):
    """The real folders that a library is mapped from: one at most, if all is well."""
    return sorted({os.path.dirname(os.path.realpath(path)) for path in where["mapped"].get(name, [])})


def compare(title, where, want, build, device):
    """Prints a row for each library and returns what is wrong. `want`: name -> folder; others must be absent."""
    print(f"\n{title}   (torch {where['version']}, device {where['device']})")
    faults = []
    for name in EVERY:
        found = folders(where, name)
        right = found == ([os.path.realpath(want[name])] if name in want else [])
        owner = where["builds"].get(name, "")
        shown = " and ".join(os.path.relpath(folder) for folder in found) or "-"
        print(f"  {'ok ' if right else 'BAD'} {name:20} {owner:6} {shown}")
        if not right:
            faults.append(f"{title}: {name} is mapped from {found or 'nowhere'}, not {want.get(name, 'nowhere')}")
        if owner not in ("", build):
            faults.append(f"{title}: the symbols of {name} are those of {owner}, not {build}")
    if where["device"] != device:
        faults.append(f"{title}: the device is {where['device']}, not {device}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sdk", required=True, help="the SDK's folder")
    sdk = parser.parse_args().sdk
    before = fresh(stock_torch)
    parent, child, kernels = fresh(with_torch_fl)

    site = os.path.dirname(os.path.dirname(before["torch"]))
    stock, bundle = f"{site}/torch/lib", f"{site}/torch_fl/lib_sim"
    plain = dict.fromkeys([*CORE, "libgomp.so.1"], stock)
    swapped = {**dict.fromkeys([*CORE, *DEVICE], bundle), "libgomp.so.1": stock, "libsimrt.so.1": f"{sdk}/lib"}
    faults = [
        *compare("import torch", before, plain, "stock", None),
        *compare("import torch_fl", parent, swapped, "sim", "SIM"),
        *compare("import torch_fl, in a spawned worker", child, swapped, "sim", "SIM"),
    ]
    if not kernels:
        faults.append("import torch_fl: aten::mm has no kernel for SIM")

    print()
    for fault in faults:
        print(f"error: {fault}")
    if faults:
        sys.exit(1)
    print("Every library is the one that was meant: stock torch's before, the vendor's after, libgomp once.")


if __name__ == "__main__":
    main()
