"""Runs in the environment: `inside.py KEY [plain]` imports torch_fl (or, with `plain`, torch alone), calculates, and
prints as JSON what it runs on."""

import json
import os
import sys

key, plain = sys.argv[1], sys.argv[2:] == ["plain"]
before = dict(os.environ)
said = {}
if not plain:
    import torch_fl

    said["boot"] = torch_fl.boot_info()
import torch  # noqa: E402

try:
    torch._C._init_device(key)
    device = True
except RuntimeError:
    device = False
said.update(
    version=torch.__version__,
    builds=sorted(set(torch._C._builds().values())),
    kernel=torch._C._dispatch_has_kernel_for_dispatch_key("aten::mm", key),
    device=device,
    sum=(torch.tensor([1.0, 2.0]) + torch.tensor([3.0, 4.0])).tolist(),
    environ={name: value for name, value in os.environ.items() if before.get(name) != value},
    attributes={name: value for name, value in vars(torch.version).items() if isinstance(value, str)},
)
print(json.dumps(said))
