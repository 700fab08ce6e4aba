"""The real wheels where a user installs them: beside the stock torch, which stays as it is.

`run.py` leaves this file out, and says so, where the stock CPU torch is missing.
"""

import hashlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import prepare
import pytest

SHARING = """
import json, sys
import torch_fl, torch
import torch.multiprocessing as mp

def double(tensor, done):
    tensor.mul_(2)
    done.set()

if __name__ == "__main__":
    mp.set_sharing_strategy(sys.argv[1])
    context = mp.get_context("spawn")
    tensor, done = torch.arange(4.0).share_memory_(), context.Event()
    worker = context.Process(target=double, args=(tensor, done))
    worker.start()
    assert done.wait(120)
    worker.join()
    print(json.dumps(tensor.tolist()))
"""

RIVAL = """
import json, multiprocessing
import torch_fl, torch

def look(tensor):
    import torch
    return [entry["state"] for entry in torch_fl.boot_info()["backends"]] + tensor.tolist()

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(json.dumps([look(torch.ones(1)), pool.apply(look, (torch.ones(1),))]))
"""

TRAIN = """
import json
import torch_fl, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.rand(32, 8) @ torch.rand(8, 8), torch.rand(32, 1)
losses = []
for _ in range(4):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps(losses))
"""


CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(extension CXX)
find_package(Torch REQUIRED)
add_library(extension SHARED extension.cpp)
target_link_libraries(extension "${TORCH_LIBRARIES}")
"""

EXTENSION = """
#include <c10/cuda/CUDAFunctions.h>
#include <torch/torch.h>
extern "C" double sum() { return torch::ones({2}).sum().item<double>() + c10::cuda::device_count(); }
"""

LOAD = """
import ctypes, os, sys
import torch_fl
extension = ctypes.CDLL(sys.argv[1])
extension.sum.restype = ctypes.c_double
names = [line.split()[-1] for line in open("/proc/self/maps") if "/lib" in line]
copies = {os.path.realpath(name) for name in names if os.path.basename(name) in ("libc10.so", "libtorch_cpu.so")}
print(extension.sum(), len(copies))
"""


class Installed:
    """An environment, and programs run in it."""

    def __init__(self, root, work):
        self.root, self.work = Path(root), Path(work)
        self.python = self.root / "bin" / "python"
        self.site = next((self.root / "lib").glob("python3*")) / "site-packages"

    def run(self, text, *arguments, check=True, **environ):
        program = self.work / "program.py"
        program.write_text(text)
        return self.command(program, *arguments, check=check, **environ)

    def command(self, *words, check=True, **environ):
        base = {"PATH": os.environ["PATH"], "HOME": str(self.work), "TORCH_FL_CACHE_DIR": str(self.work / "cache")}
        words = [str(word) for word in (self.python, *words)]
        done = subprocess.run(words, env=base | environ, cwd=self.work, capture_output=True, text=True, timeout=600)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def torch(self):
        """What the installed torch's tree is made of: kind, mode, size and content of everything but bytecode."""
        facts = {}
        for folder in (self.site / "torch", *self.site.glob("torch-*.dist-info")):
            for path in sorted(folder.rglob("*")):
                if "__pycache__" not in path.parts:
                    status = path.lstat()
                    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
                    facts[str(path)] = path.is_symlink(), status.st_mode, content
        return facts


@pytest.fixture(scope="module", params=prepare.VENDORS)
def root(request):
    return prepare.installed(request.param)


@pytest.fixture
def installed(root, tmp_path):
    return Installed(root, tmp_path)


@pytest.mark.parametrize("redirect", ["auto", "open"])
def test_the_installed_torch_is_untouched_also_by_a_kill(installed, redirect):
    """Byte by byte, after an import, and after imports that were killed on the way."""
    before = installed.torch()
    installed.run("import torch_fl", TORCH_FL_REDIRECT=redirect)
    for delay in (0.05, 0.3, 0.6, 1.0, 1.5, 2.5):
        shutil.rmtree(installed.work / "cache", ignore_errors=True)
        environ = os.environ | {"TORCH_FL_CACHE_DIR": str(installed.work / "cache"), "TORCH_FL_REDIRECT": redirect}
        process = subprocess.Popen([installed.python, "-c", "import torch_fl; input()"], env=environ, stdin=subprocess.PIPE)
        time.sleep(delay)
        process.kill()
        process.wait()
        installed.run("import torch_fl, torch; torch.ones(2).sum()", TORCH_FL_REDIRECT=redirect)
    assert installed.torch() == before


def test_training_gives_the_stock_numbers(installed):
    ours = json.loads(installed.run(TRAIN).stdout)
    stock = json.loads(installed.run(TRAIN.replace("torch_fl, ", "")).stdout)
    assert ours == pytest.approx(stock, rel=1e-5)


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_tensors_are_shared_with_workers(installed, strategy):
    assert json.loads(installed.run(SHARING, strategy).stdout) == [0.0, 2.0, 4.0, 6.0]


def test_a_rival_without_its_sdk_is_left_out_in_workers_too(installed):
    """torch-npu 2.13.0, with no CANN: a plain `import torch` fails beside it."""
    folder = prepare.beside("torch-npu==2.13.0")
    assert "torch_npu" in installed.run("import torch", check=False, PYTHONPATH=str(folder)).stderr
    said = json.loads(installed.run(RIVAL, PYTHONPATH=str(folder)).stdout)
    assert said == [["left out", 1.0], ["left out", 1.0]]


def test_an_extension_for_cuda_imports(installed):
    """torchvision's CUDA build: it links libtorch_cuda by SONAME, and fails over the stock torch."""
    folder = str(prepare.beside("torchvision==0.28.0", "pillow"))
    program = "import torchvision, torch; print(torchvision.extension._has_ops())"
    assert installed.run("import torch_fl; " + program, PYTHONPATH=folder).stdout.strip() == "True"
    plain = installed.run(program, check=False, PYTHONPATH=folder)
    assert plain.returncode != 0 or plain.stdout.strip() == "False"


def toolkit(installed, folder):
    """A CUDA toolkit as CMake looks for one, of the wheels that are installed and of NVIDIA's compiler wheels."""
    names = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl")
    compiler = prepare.beside(*(f"{name}==13.0.*" for name in names))
    for source in (compiler / "nvidia" / "cu13", installed.site / "nvidia" / "cu13"):
        for path in source.rglob("*"):
            target = folder / path.relative_to(source)
            if path.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                if "bin" in path.relative_to(source).parts:
                    shutil.copy(path, target)  # nvcc looks for its parts beside its real path
                    target.chmod(0o755)
                else:
                    target.symlink_to(path)
    for path in list((folder / "lib").glob("lib*.so.*")):
        plain = path.with_name(path.name.partition(".so.")[0] + ".so")
        if not plain.exists():
            plain.symlink_to(path.name)
    (folder / "lib64").symlink_to("lib")
    return folder


def test_cmake_builds_an_extension_against_the_facade(installed, tmp_path):
    """Its headers and libraries are the bundle's, and it binds to the libraries of the process."""
    facade, cuda = tmp_path / "facade", toolkit(installed, tmp_path / "cuda")
    subprocess.run([prepare.TORCHFL, "-q", "facade", facade, "--python", installed.python], check=True)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "extension.cpp").write_text(EXTENSION)
    cmake = prepare.beside("cmake") / "cmake" / "data" / "bin" / "cmake"
    options = {
        "CMAKE_PREFIX_PATH": facade / "torch" / "share" / "cmake",
        "CUDA_TOOLKIT_ROOT_DIR": cuda,
        "CMAKE_CUDA_COMPILER": cuda / "bin" / "nvcc",
        "TORCH_CUDA_ARCH_LIST": "9.0",
    }
    build = tmp_path / "build"
    words = [cmake, "-S", tmp_path, "-B", build, *(f"-D{key}={value}" for key, value in options.items())]
    for command in (words, [cmake, "--build", build]):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert installed.run(LOAD, build / "libextension.so").stdout.split() == ["2.0", "2"]


def test_pip_check_finds_nothing(installed):
    assert "No broken requirements" in installed.command("-m", "pip", "check").stdout


def test_uninstalling_leaves_a_working_torch(installed, tmp_path):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-al", installed.root, copy], check=True)
    copied = Installed(copy, tmp_path)
    copied.run("import torch_fl")
    copied.command("-m", "pip", "uninstall", "-q", "-y", "torch_fl")
    assert not list(copied.site.glob("torch_fl*"))
    assert copied.run("import torch; print(torch.__file__, torch.ones(2).sum().item())").stdout.split() == [
        str(copied.site / "torch" / "__init__.py"),
        "2.0",
    ]
    assert copied.run("import torch_fl", check=False).returncode == 1
