"""Run in a composed environment, whose folder is the argument: torch runs on the bundle, through the facade that was
laid there, and nothing is written."""

import os
import sys

import torch_fl  # before torch
# isort: split
import torch

env = os.path.realpath(sys.argv[1])
info = torch_fl.boot_info()
assert info["redirect"] == "facade", info
for path in (info["facade"], torch.__file__, *info["opened"]):
    assert path.startswith(env + "/"), path
# In a sandbox no folder is anybody's that this process knows, so it says that compiled code would find no place.
others = [text for text in info["warnings"] if not text.startswith(("no safe folder", "compile caches"))]
assert not others, others
for folder in (os.path.expanduser("~/.cache"), f"/tmp/torch-fl-{os.getuid()}"):
    assert not os.path.exists(folder), folder
print(f"torch {torch.__version__} of {torch.__file__}, with {len(info['opened'])} libraries of {info['home']}")
