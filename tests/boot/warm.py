"""CPU milliseconds of our own code in a warm `import torch_fl`: `python warm.py`, several times, in any environment.

`unit` is what sha256 of 1.4 MB (the size of torch's RECORD) takes meanwhile, about 1 ms on an idle machine.
"""

import ctypes
import hashlib
import importlib.machinery
import importlib.metadata  # noqa: F401  this one and those below are imported by torch as well
import importlib.util  # noqa: F401
import json
import os
import re  # noqa: F401
import time
import warnings  # noqa: F401

clock = time.process_time
apart = 0.0


def outside(function, *arguments, **more):
    """Not our own: dlopen and torch."""
    global apart
    begin = clock()
    try:
        return function(*arguments, **more)
    finally:
        apart += clock() - begin


def measure(function):
    begin = clock()
    function()
    return (clock() - begin) * 1e3


execute, load = importlib.machinery.SourceFileLoader.exec_module, ctypes.CDLL.__init__


def exec_module(self, module):
    return outside(execute, self, module) if module.__name__ == "torch" else execute(self, module)


def init(self, name, mode=ctypes.DEFAULT_MODE):
    return load(self, name, mode) if mode & os.RTLD_NOLOAD else outside(load, self, name, mode)


def start():
    import torch_fl  # noqa: F401


data = b"x" * 1_400_000
unit = min(measure(lambda: hashlib.sha256(data).digest()) for _ in range(5))
importlib.machinery.SourceFileLoader.exec_module, ctypes.CDLL.__init__ = exec_module, init
own = measure(start) - apart * 1e3
print("SAID", json.dumps({"own": own, "unit": unit, "apart": apart * 1e3}))
