"""torch_fl: the stock PyTorch over the libraries of a chip vendor's fork.

`import torch_fl` before anything imports torch, or run the program with `python -m torch_fl`.
`boot_info()` says what was done, and which platform this is. A refused start is a `BootError`, an ImportError with a `code`.
"""

import os

from . import _boot
from ._boot import BootError

__all__ = ["BootError", "boot_info", "explain", "gems_vendor"]

_home = os.path.dirname(os.path.abspath(__file__))
_finder = _boot.finder_for(_home)


def boot_info():
    """What the bootstrap found and did in this process, as plain data."""
    return _boot.sibling("_plan").report(_finder)


def explain(operator=None):
    """What runs for an operator (`add.Tensor`) on the `flagos` device, and who decided it; without a name, for all."""
    return _boot.sibling("_plugin").module().explain(operator)


def gems_vendor():
    """FlagGems' name for this platform, as GEMS_VENDOR says it or else the build. A `BootError` names the candidates."""
    return _boot.sibling("_plan").gems_vendor(_finder)


def __getattr__(name):
    if name == "__version__":
        return _finder.build["version"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not _boot.is_runner():  # `python -m torch_fl` imports this package before the program has begun
    _finder.start()
