"""Does the stock torch come up on the wheel's libraries?"""

import json
import sys

import torch_fl

import torch

info = torch_fl.boot_info()
print(json.dumps(info, indent=2, default=str))
print("torch", torch.__version__, "from", torch.__file__)
sys.exit("torch" not in info)
