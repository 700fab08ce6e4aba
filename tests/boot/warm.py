"""CPU milliseconds of our own code in a warm `import torch_fl`: `python warm.py`, several times, in any environment.

`unit` is what a thousand calls of stat take meanwhile, about 1 ms on an idle machine.
"""

import ctypes
import hashlib  # noqa: F401  what torch imports as well is not our own
import importlib.machinery
import importlib.metadata  # noqa: F401
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


def init(self, *arguments, **more):
    return outside(load, self, *arguments, **more)


def start():
    import torch_fl  # noqa: F401


def unit():
    return min(measure(lambda: [os.stat(__file__) for _ in range(1000)]) for _ in range(5))


before = unit()
importlib.machinery.SourceFileLoader.exec_module, ctypes.CDLL.__init__ = exec_module, init
own = measure(start) - apart * 1e3
print("SAID", json.dumps({"own": own, "unit": (before + unit()) / 2, "apart": apart * 1e3}))
