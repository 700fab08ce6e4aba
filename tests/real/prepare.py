"""The real wheels: PyPI's CUDA torch as the vendor's, built into `cuda` and `cuda-slim`, installed over the stock torch.

Everything lies in `target/real`, is made once, and is made anew when the tool or an input changes.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
REAL = REPOSITORY / "target" / "real"
TORCHFL = REPOSITORY / "target" / "release" / "torchfl"
RELEASE = "2.13.0"
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
VENDORS = {"core": "cuda", "extra": "cuda-slim"}
BESIDE = ["pytest", "pytest-xdist", "ipython", "numpy", "setuptools", "ninja", "pip"]


def say(text):
    print(f"== {text}", flush=True)


def run(*command, **options):
    subprocess.run([str(word) for word in command], check=True, **options)


def download(folder, *requirements):
    """Without what they require, and without a second copy in pip's cache."""
    run(sys.executable, "-m", "pip", "download", "-q", "--no-cache-dir", "--no-deps", "-d", folder, *requirements)


def stock_torch():
    """The stock CPU torch for this Python, which no registry has; None where TORCH_FL_WHEELS does not lead to one."""
    folder = os.environ.get("TORCH_FL_WHEELS")
    found = sorted(Path(folder).glob(f"torch-{RELEASE}+cpu-{TAG}-{TAG}-*.whl")) if folder else []
    return found[-1].resolve() if found else None


def vendor_torch():
    """PyPI's torch of the same release: its CUDA build."""
    folder = REAL / "vendor"
    if not list(folder.glob("*.whl")):
        say(f"downloading torch=={RELEASE}")
        download(folder, f"torch=={RELEASE}")
    return next(folder.glob(f"torch-{RELEASE}-{TAG}-*.whl"))


def build(vendor, output, *options, **environ):
    """`torchfl build`; returns the wheel."""
    front = stock_torch()
    front = ["--front", front] if front else []
    words = [TORCHFL, "--quiet", "build", vendor, "--torch", vendor_torch(), *front, "-o", output, *options]
    run(*words, stdout=subprocess.DEVNULL, **environ)
    local = "cuda13.0.slim-" if vendor == "cuda-slim" else "cuda13.0-"
    return next(Path(output).glob(f"torch_fl-{RELEASE}+{local}*.whl"))


def uv(*words):
    """With a cache on the disk of the environments, so that a link from it is no copy."""
    run(Path(sys.executable).with_name("uv"), "--cache-dir", REAL / "uv", *words)


def installed(swap):
    """The environment of a swap: the stock torch, our wheel, and what it requires, as a user installs them."""
    root = REAL / swap
    wheel = build(VENDORS[swap], REAL / "dist")
    identity = hashlib.sha256(wheel.read_bytes()).hexdigest()
    mark = root / "installed"
    if not mark.exists() or mark.read_text() != identity:
        say(f"installing {wheel.name}")
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(REAL / "scratch", ignore_errors=True)  # its hard links would keep the old files
        uv("venv", "-q", "--python", sys.executable, root)
        python = root / "bin" / "python"
        # NVIDIA's libraries are one file in the cache and in both environments. The torches are copies: hard links
        # would make one inode of files that tests must tell apart.
        uv("pip", "install", "-q", "--link-mode", "hardlink", "--python", python, stock_torch(), wheel, *BESIDE)
        uv("pip", "install", "-q", "--link-mode", "copy", "--python", python, "--reinstall", "--no-deps",
           stock_torch(), wheel)  # fmt: skip
        uv("cache", "clean", "-q", "torch", "torch-fl")
        mark.write_text(identity)
    return root


def downloaded(folder, *requirements):
    """A folder with the wheels of these requirements, without what they require."""
    folder = REAL / folder
    if not (folder / "ready").exists():
        say(f"downloading {' '.join(requirements)}")
        download(folder, *requirements)
        (folder / "ready").touch()
    return folder


def nvidia():
    """A folder with the wheels of NVIDIA that ours require, of the versions that are installed."""
    site = next((installed("core") / "lib").glob("python3*")) / "site-packages"
    infos = sorted(
        path.name for pattern in ("nvidia_*", "cuda_toolkit-*") for path in site.glob(f"{pattern}.dist-info")
    )
    return downloaded("nvidia", *(info.removesuffix(".dist-info").replace("-", "==") for info in infos))


def beside(*requirements):
    """A folder for PYTHONPATH with distributions that no environment should hold."""
    folder = REAL / "beside" / requirements[0]
    if not (folder / "ready").exists():
        run(sys.executable, "-m", "pip", "install", "-q", "--no-cache-dir", "--no-deps", "--upgrade", "--target", folder,
            *requirements)  # fmt: skip
        (folder / "ready").touch()
    return folder
