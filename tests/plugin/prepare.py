"""The plugin for each torch: an environment, a build from the one source, and both put together.

`prepare.py TORCH…` prints the Python of each (2.13, 2.11). Everything lies in `target/plugin`:

    torch-2.13/     an environment: torch, what its tests need, and `torch_fl` with the plugin
    cargo-2.13/     cargo's folder of that build; cargo-2.13-address/ that of a sanitizer

torch 2.13 is the stock CPU wheel if TORCH_FL_WHEELS leads to it, else PyPI's CUDA build; 2.11 is PyPI's. Of NVIDIA's
libraries, which those need to be opened, one copy serves all: that of `make test-real` if it is there.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PLUGIN = REPOSITORY / "target" / "plugin"
HERE = Path(__file__).parent
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
RELEASES = {"2.13": "2.13.0", "2.11": "2.11.0"}
REAL = REPOSITORY / "target" / "real" / "core"  # made by tests/real/prepare.py
UV = Path(sys.executable).with_name("uv")


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, stdout=sys.stderr, **options)


def uv(*words):
    """With a cache on the disk of the environments, so that a link from it is no copy."""
    run(UV, "--cache-dir", PLUGIN / "uv", *words)


def site(root):
    return next((Path(root) / "lib").glob("python3*")) / "site-packages"


def stock_torch(release):
    """The stock CPU torch, which no registry has."""
    folder = os.environ.get("TORCH_FL_WHEELS")
    found = sorted(Path(folder).glob(f"torch-{release}+cpu-{TAG}-{TAG}-*.whl")) if folder else []
    return found[-1].resolve() if found else None


def environment(torch):
    """The root of an environment with this minor of torch."""
    root = PLUGIN / f"torch-{torch}"
    requirements = HERE / "requirements.txt"
    mark = root / "ready"
    if mark.exists() and mark.read_text() == requirements.read_text():
        return root
    release = RELEASES[torch]
    say(f"installing torch {release} in {root.relative_to(REPOSITORY)}")
    shutil.rmtree(root, ignore_errors=True)
    uv("venv", "-q", "--python", sys.executable, root)
    stock = stock_torch(release)
    install = ["pip", "install", "-q", "--link-mode", "hardlink", "--python", root / "bin" / "python"]
    uv(*install, "-r", requirements)
    if stock:
        uv(*install, stock)
    else:
        shared = site(REAL) / "nvidia" if REAL.exists() else None
        if shared and shared.exists():
            # Of another release of torch, and good enough to be opened: no test here runs on a GPU.
            uv(*install, "--no-deps", f"torch=={release}")
            uv(*install, "filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec")
            (site(root) / "nvidia").symlink_to(shared)
        else:
            uv(*install, f"torch=={release}")
        uv("cache", "clean", "-q", "torch")
    mark.write_text(requirements.read_text())
    return root


def build(torch, folder, include, sanitize=None, defines="", release=True):
    """The plugin's library for the torch in `folder`, by the one source."""
    target = PLUGIN / "-".join(filter(None, ["cargo", torch, sanitize]))
    changes = {"TORCH_FL_TORCH": folder, "TORCH_FL_PYTHON_INCLUDE": include, "TORCH_FL_DEFINES": defines}
    changes |= {"CARGO_TARGET_DIR": target, "TORCH_FL_SANITIZE": sanitize or ""}
    profile = ["--release"] if release else []
    say(f"building the plugin for torch {torch}{f', {sanitize} sanitizer' if sanitize else ''}")
    run("cargo", "build", "-q", "--locked", *profile, "-p", "torch-fl-plugin", "--features", "torch", cwd=REPOSITORY,
        env=os.environ | {key: str(value) for key, value in changes.items()})  # fmt: skip
    return target / ("release" if release else "debug") / "libtorch_fl.so"


def runtime():
    """What the plugin reaches by name in libraries that are open: of CUDA's API."""
    path = REPOSITORY / "vendor-manifests" / "runtime" / "cuda.toml"
    return tomllib.loads(path.read_text())["names"]


def package(place, library, torch, python=TAG, target="cuda"):
    """`torch_fl` as it lands in site-packages, for whatever torch is there: nothing bundled but the plugin."""
    home = Path(place) / "torch_fl"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(REPOSITORY / "wheels" / "torch_fl", home, ignore=shutil.ignore_patterns("__pycache__"))
    (home / "lib").mkdir()
    shutil.copy2(library, home / "lib" / "libtorch_fl.so")
    release = RELEASES[torch]
    install = {"pip": f"pip install torch=={release}", "uv": f"uv pip install torch=={release}"}
    facts = {"library": "lib/libtorch_fl.so", "torch": torch, "python": python, "target": target, "runtime": runtime()}
    build = {
        "schema": 1, "vendor": "test", "variant": None, "title": "the plugin's tests", "status": "beta",
        "version": f"{release}+test", "swap": "none", "python": None, "bundle": "lib", "overlay": None,
        "torch": {"release": release, "front": "any", "markers": [], "attributes": {}, "rivals": [],
                  "install": install},
        "files": {}, "open": [], "provided": [], "env": {}, "caches": {}, "plugin": facts,
        "platform": {"triton": None, "comm": None, "flag_gems": {"vendor": None, "backends": {}}},
    }  # fmt: skip
    (home / "build.json").write_text(json.dumps(build, indent=1, sort_keys=True) + "\n")
    return home


def ready(torch, sanitize=None):
    """An environment with torch and a `torch_fl` of the present sources; its Python."""
    root = environment(torch)
    library = build(torch, site(root) / "torch", sysconfig.get_paths()["include"], sanitize)
    package(site(root), library, torch)
    return root / "bin" / "python"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("torch", nargs="+", choices=RELEASES)
    parser.add_argument("--sanitize", choices=["address", "thread"])
    parser.add_argument("--folder", type=Path, help="build against this torch package instead of an environment's")
    parser.add_argument("--python-include", type=Path, help="the folder of its Python.h")
    parser.add_argument("--python", help="its tag, cp312")
    parser.add_argument("-o", "--output", type=Path, help="where to put torch_fl then")
    args = parser.parse_args()
    for torch in args.torch:
        if args.folder:
            library = build(torch, args.folder.resolve(), args.python_include.resolve(), args.sanitize)
            args.output.mkdir(parents=True, exist_ok=True)
            print(package(args.output, library, torch, args.python))
        else:
            print(ready(torch, args.sanitize))


if __name__ == "__main__":
    main()
