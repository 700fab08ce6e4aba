"""The carrier's one job: put the finder of `../_boot.py` in front, in any process that comes by.

`_boot.py` is loaded by its path, never through the package `torch_fl`: that would import torch.
Any Python may inherit this folder through PYTHONPATH, so this file stays readable for old ones.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def is_gate(entry):
    """Whether a `sys.path` entry is a carrier, of this copy of torch_fl or of another one."""
    return isinstance(entry, str) and os.path.exists(os.path.join(entry, "torch", "TORCH_FL_GATE"))


def enter():
    """Install the finder; an interpreter that is too old for it takes the carrier off its path."""
    if sys.version_info < (3, 10):
        sys.path[:] = [entry for entry in sys.path if not is_gate(entry)]
    else:
        load("_boot").carry()


def load(name):
    """The module `torch_fl.NAME`, from the file beside this folder, without its package.

    Public parts of importlib.machinery alone: importlib.util costs every interpreter start more.
    """
    full = "torch_fl." + name
    if full not in sys.modules:
        from importlib.machinery import ModuleSpec, SourceFileLoader

        path = os.path.join(os.path.dirname(HERE), name + ".py")
        loader = SourceFileLoader(full, path)
        module = type(sys)(full)
        module.__file__ = path
        module.__package__ = "torch_fl"
        module.__loader__ = loader
        module.__spec__ = ModuleSpec(full, loader, origin=path)
        sys.modules[full] = module
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[full]
            raise
    return sys.modules[full]


def run_next_sitecustomize():
    """Run the `sitecustomize` that would have run without the carrier; none is fine, as in `site`."""
    mine = sys.modules.pop("sitecustomize")
    gates = [entry for entry in sys.path if is_gate(entry)]
    sys.path[:] = [entry for entry in sys.path if entry not in gates]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        # The next one may have changed sys.path as well: put back the carrier, nothing else.
        sys.path[:0] = gates
        sys.modules.setdefault("sitecustomize", mine)
