"""Not torch: children that inherit `sys.path` land here, get the finder, and import the real torch.

The import system hands out whatever `sys.modules` holds when this body ends, and the lock of a
module is re-entrant for its own thread, so the nested import below replaces this module for good.
"""

import sys

import torch_fl_gate

torch_fl_gate.enter()
del sys.modules["torch"]
import torch  # noqa: E402,F401
