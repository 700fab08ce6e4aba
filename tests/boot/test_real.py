"""What only PyTorch's own wheels can tell: kernels, compilers, launchers, extensions, a real rival.

Run by tests/real/run.py; elsewhere this file is not collected.
"""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import SWAPS

pytestmark = pytest.mark.real


@pytest.fixture(params=SWAPS)
def real(request, reals):
    return reals(request.param)


def test_the_device_is_there_and_only_the_driver_is_missing(real):
    said = real.run(
        """
import torch_fl, torch
try:
    torch.ops.aten.empty.memory_format([2], device=torch.device("cuda"))
    error = None
except RuntimeError as e:
    error = str(e)
say([torch._C._dispatch_has_kernel_for_dispatch_key("aten::mm", "CUDA"), error, where()])
"""
    ).said
    assert said[0]
    assert "Found no NVIDIA driver" in said[1] and "ATen_cuda" not in said[1]
    real.assert_planned(said[2])


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("redirect", ["auto", "open"])
def test_nvidia_wheels_in_another_site_folder(reals, swap, redirect):
    real = reals(swap, nvidia="elsewhere")
    said = real.run(
        "import torch_fl, torch; say([where(), mapped(), torch_fl.boot_info()['opened']])", TORCH_FL_REDIRECT=redirect
    ).said
    real.assert_planned(said[0])
    assert any("libcudart.so.13" in path for path in said[2])
    assert "/nvidia/" in said[1]["libcudart.so.13"][0]


MODELS = """
import torch
import torch._dynamo

def straight(x):
    return torch.nn.functional.gelu(x @ x.T).sum(dim=1)

def broken(x):
    y = x.relu()
    print("a graph break")
    return (y + 1).cos()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        return torch.nn.functional.log_softmax(self.net(x), dim=-1)

torch.manual_seed(0)
counts, equal = {}, []
for name, model in (("straight", straight), ("broken", broken), ("model", Model())):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    x = torch.rand(8, 8)
    compiled = torch.compile(model, backend=sys.argv[1])
    equal.append(torch.allclose(compiled(x), model(x), atol=1e-5))
    counters = torch._dynamo.utils.counters
    counts[name] = [sum(counters["graph_break"].values()), dict(counters["frames"]), dict(counters["stats"])]
say([counts, equal, {n: os.environ.get(n) for n in ("TORCHINDUCTOR_CACHE_DIR",)}])
"""


def test_compile_breaks_the_graph_where_the_stock_torch_does(real):
    stock = real.run(MODELS, "eager").said
    ours = real.run("import torch_fl\n" + MODELS, "eager").said
    assert ours[0] == stock[0]
    assert ours[1] == [True, True, True]


def test_inductor_on_cpu_with_its_workers(real, tmp_path):
    changes = {} if real.swap == "core" else {"TORCHINDUCTOR_CACHE_DIR": tmp_path}
    result = real.run("import torch_fl\n" + MODELS, "inductor", TORCHINDUCTOR_COMPILE_THREADS="2", **changes)
    assert result.said[1] == [True, True, True]
    if real.swap == "core":
        assert result.said[2]["TORCHINDUCTOR_CACHE_DIR"].startswith(str(real.cache))


def test_data_loader_workers(real):
    said = real.run(
        """
import torch_fl, torch
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return torch.tensor([float(i)]), json.dumps(where())
if __name__ == "__main__":
    seen = []
    for method in ("fork", "spawn", "forkserver"):
        loader = torch.utils.data.DataLoader(Data(), num_workers=2, multiprocessing_context=method)
        for tensor, text in loader:
            seen.append(json.loads(text[0]))
    say(seen)
"""
    ).said
    assert len(said) == 12
    for where in said:
        real.assert_planned(where)


EXTENSION = """
import torch_fl, torch
from torch.utils import cpp_extension
source = '''
#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
int64_t devices() { return c10::cuda::device_count(); }
at::Tensor twice(at::Tensor x) { return x + x; }
'''
module = cpp_extension.load_inline(
    "against_the_facade", source, functions=["devices", "twice"], with_cuda=False,
    extra_ldflags=["-lc10_cuda"], build_directory=sys.argv[1])
say([module.devices(), module.twice(torch.ones(2)).tolist(), where(), torch_fl.boot_info()["redirect"]])
"""


def test_a_device_extension_builds_and_runs(real, tmp_path):
    tools = tmp_path / "tools"
    wanted = ["ninja", "nvidia-cuda-crt==13.0.88"]  # the one half of CUDA's headers that comes with its compiler
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tools, *wanted], check=True)
    headers = [folder / "nvidia" / "cu13" / "include" for folder in (real.site, tools)]
    said = real.run(
        EXTENSION,
        tmp_path,
        CPATH=os.pathsep.join(map(str, headers)),
        TORCH_FL_REDIRECT="facade",
        PATH=f"{tools / 'bin'}:{os.environ['PATH']}",
        PYTHONPATH=tools,
        MAX_JOBS="1",
    ).said
    assert said[:2] == [0, [2.0, 2.0]]
    real.assert_planned(said[2])
    assert said[3] == "facade"


def test_torchrun_with_gloo_under_the_runner(real):
    script = real.program.parent / "ranks.py"
    from environment import PRELUDE

    script.write_text(
        PRELUDE
        + """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1)
dist.all_reduce(x)
open(sys.argv[1] + os.environ["RANK"], "w").write(json.dumps([x.item(), where()]))
"""
    )
    import json

    out = real.root / "rank"
    real.command(
        "-m",
        "torch_fl",
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        script,
        out,
        OMP_NUM_THREADS="1",
    ).ok()
    for rank in "01":
        total, where = json.loads((real.root / f"rank{rank}").read_text())
        assert total == 2.0
        real.assert_planned(where)


def test_pytest_of_installed_modules_and_xdist_under_the_runner(real):
    (real.site / "installed_check").mkdir(exist_ok=True)
    (real.site / "installed_check" / "__init__.py").touch()
    (real.site / "installed_check" / "test_it.py").write_text(
        "import os, torch\ndef test_kernel():\n    assert torch._C._dispatch_has_kernel_for_dispatch_key('aten::mm', 'CUDA')\n"
        "def test_again():\n    import torch_fl\n    assert torch_fl.boot_info()['opened']\n"
    )
    result = real.command(
        "-m", "torch_fl", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--pyargs", "installed_check"
    ).ok()
    shutil.rmtree(real.site / "installed_check")
    assert "2 passed" in result.out


def test_ipython(real):
    text = "import torch_fl, torch; print(torch._C._dispatch_has_kernel_for_dispatch_key('aten::mm', 'CUDA'))"
    assert (
        "True"
        in real.command(
            "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", "%load_ext autoreload\n%autoreload 2\n" + text
        )
        .ok()
        .out
    )


def test_collect_env_and_save(real, tmp_path):
    real.command("-m", "torch_fl", "-m", "torch.utils.collect_env").ok()
    said = real.run(
        """
import torch_fl, torch
torch.save({"x": torch.ones(3)}, sys.argv[1])
say(torch.load(sys.argv[1])["x"].tolist())
""",
        tmp_path / "x.pt",
    ).said
    assert said == [1.0, 1.0, 1.0]
