"""A skeleton of PyTorch: it loads its libraries as the real one does, and computes next to nothing."""

import ctypes
import os


def _load_global_deps():
    here = os.path.abspath(__file__)
    path = os.path.join(os.path.dirname(here), "lib", "libtorch_global_deps.so")
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


_load_global_deps()
from torch._C import *  # noqa: E402, F403
from torch import _C, _utils, version  # noqa: E402
from torch._tensor import Tensor, tensor, zeros  # noqa: E402
from torch.version import __version__  # noqa: E402

__all__ = ["Tensor", "tensor", "version", "zeros"]


def _import_device_backends():
    from importlib.metadata import entry_points

    for backend_extension in entry_points(group="torch.backends"):
        try:
            entrypoint = backend_extension.load()
            entrypoint()
        except Exception as err:
            raise RuntimeError(
                f"Failed to load the backend extension: {backend_extension.name}. "
                f"You can disable extension auto-loading with TORCH_DEVICE_BACKEND_AUTOLOAD=0."
            ) from err


def _is_device_backend_autoload_enabled():
    return os.getenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1"


if _is_device_backend_autoload_enabled():
    _import_device_backends()
