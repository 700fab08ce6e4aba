"""What tests ask of a process: which libraries it runs on. The real torch has no such module.

`python -m torch._skeleton` prints `where()` as JSON.
"""

import json
import os

import torch


def mapped():
    """The mapped shared objects, in the order of their addresses: name -> list of absolute paths."""
    found = {}
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            path = fields[5] if len(fields) == 6 else ""
            name = os.path.basename(path)
            if path.startswith("/") and ".so" in name and path not in found.setdefault(name, []):
                found[name].append(path)
    return found


def where():
    """Which build the core's symbols are bound to, and the files of torch, its bundle and its device that are mapped."""
    folders = ("/torch/lib/", "/torch_fl/", "/torch/_C.", "/torch.libs/", "/nvidia/", "/opt/")
    return {
        "torch": torch.__file__,
        "version": torch.__version__,
        "builds": torch._C._builds(),
        "device": torch._C._device_hooks(),
        "mapped": {name: paths for name, paths in mapped().items() if any(f in p for p in paths for f in folders)},
    }


def where_of(tensor):
    """`where()` for a pool's worker: its argument makes the worker import torch by unpickling."""
    return where(), (tensor + tensor).tolist()


if __name__ == "__main__":
    print(json.dumps(where(), indent=1))
