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


def folder(where, name):
    return " and ".join(os.path.dirname(path) for path in where["mapped"].get(name, [])) or "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sdk", required=True, help="the SDK's folder")
    sdk = os.path.realpath(parser.parse_args().sdk)
    before = fresh(stock_torch)
    parent, child, kernels = fresh(with_torch_fl)

    site = os.path.dirname(os.path.dirname(before["torch"]))
    stock, bundle = f"{site}/torch/lib", f"{site}/torch_fl/lib_sim"
    after = {**dict.fromkeys([*CORE, *DEVICE], bundle), "libgomp.so.1": stock, "libsimrt.so.1": f"{sdk}/lib"}
    plain = {**dict.fromkeys([*CORE, "libgomp.so.1"], stock), **dict.fromkeys([*DEVICE, "libsimrt.so.1"], "-")}
    faults = []
    for title, where, want, build in [
        ("before: import torch", before, plain, "stock"),
        ("after: import torch_fl", parent, after, "sim"),
        ("after, in a spawned worker", child, after, "sim"),
    ]:
        print(f"\n{title}   (torch {where['version']}, device {where['device']})")
        for name in EVERY:
            found = os.path.realpath(folder(where, name)) if folder(where, name).startswith("/") else folder(where, name)
            right = found == os.path.realpath(want[name]) if want[name] != "-" else found == "-"
            shown = found.replace(site + "/", "").replace(os.path.dirname(os.path.dirname(sdk)), "SDK's ")
            print(f"  {'ok ' if right else 'BAD'} {name:20} {shown:24} {where['builds'].get(name, '')}")
            if not right:
                faults.append(f"{title}: {name} is mapped from {found}, {want[name]} was meant")
        faults += [
            f"{title}: the symbols of {name} are those of {got}"
            for name, got in where["builds"].items()
            if got != build
        ]
    if before["device"] is not None or parent["device"] != "SIM" or child["device"] != "SIM" or not kernels:
        faults.append("the device is not the one that was meant")

    print()
    for fault in faults:
        print(f"error: {fault}")
    if faults:
        sys.exit(1)
    print(f"All {3 * len(EVERY)} libraries are the ones that were meant: stock before, the vendor's after.")


if __name__ == "__main__":
    main()
