"""Environments for the tests: a venv with a stock torch and a wheel of ours.

`sim` ones are generated in seconds by tests/skeleton, and their wheel by `torchfl build`; `real` ones are made by
tests/real of PyTorch's own wheels.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]

# Every program of the tests begins with this: `where()` is name -> inodes of the mapped libraries.
PRELUDE = """
import json, os, sys

def mapped():
    found = {}
    for line in open("/proc/self/maps"):
        path = line.rstrip("\\n").split(None, 5)[5:]
        if path and path[0].startswith("/") and ".so" in path[0]:
            found.setdefault(os.path.basename(path[0]), set()).add(path[0])
    return {name: sorted(paths) for name, paths in found.items()}

def where(*_):
    return {name: sorted(os.stat(p).st_ino for p in paths) for name, paths in mapped().items()}

def say(value):
    print("SAID", json.dumps(value))
"""


class Result:
    """A finished process."""

    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    @property
    def said(self):
        """What the program gave to `say`; its whole output is shown where it said nothing."""
        lines = [line for line in self.out.splitlines() if line.startswith("SAID ")]
        assert lines, f"exit {self.code}\n{self.out}\n{self.err}"
        return json.loads(lines[-1][5:])

    def ok(self):
        assert self.code == 0, f"exit {self.code}\n{self.out}\n{self.err}"
        return self


class Environment:
    """A venv at `root`; `vendor` holds the fork's libraries for the bundle."""

    def __init__(self, root, kind, facts):
        self.root, self.kind, self.facts = Path(root), kind, facts
        self.python = self.root / "bin" / "python"
        self.site = next((self.root / "lib").glob("python3*")) / "site-packages"
        self.home = self.site / "torch_fl"
        self.torch = self.site / "torch"
        self.cache = self.root / "cache"
        self.program = self.root / "work" / "program.py"
        self.program.parent.mkdir(exist_ok=True)

    @property
    def swap(self):
        return self.build["swap"]

    @property
    def build(self):
        return json.loads((self.home / "build.json").read_text())

    def edit(self, change):
        """Rewrite build.json."""
        build = self.build
        change(build)
        (self.home / "build.json").write_text(json.dumps(build, indent=1, sort_keys=True) + "\n")

    @property
    def bundle(self):
        return self.home / self.build["bundle"]

    def environ(self, **changes):
        """A clean environment: no variable of the tests' own process reaches the program."""
        base = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "LANG": "C.UTF-8",
            "TORCH_FL_CACHE_DIR": str(self.cache),
        }
        base.update(changes)
        return {key: str(value) for key, value in base.items() if value is not None}

    def run(self, text, *arguments, options=(), python=None, timeout=600, prefix=(), **changes):
        """Run a program's text; keywords are environment variables, None unsets one."""
        self.program.write_text(PRELUDE + text)
        return self.command(
            *options, self.program, *arguments, python=python, timeout=timeout, prefix=prefix, **changes
        )

    def command(self, *arguments, python=None, timeout=600, prefix=(), cwd=None, **changes):
        words = [*prefix, str(python or self.python), *map(str, arguments)]
        process = subprocess.run(
            words,
            env=self.environ(**changes),
            cwd=cwd or self.program.parent,
            text=True,
            capture_output=True,
            timeout=timeout,
        )
        return Result(process)

    def planned(self):
        """name -> inode of every library that build.json opens and that is not shared."""
        folders = {"bundle": self.bundle, "front": self.torch / "lib"}
        return {
            entry["name"]: os.stat(folders[entry["from"]] / entry["name"]).st_ino
            for entry in self.build["open"]
            if not entry["shared"]
        }

    def assert_planned(self, where, who=""):
        """Each planned library is mapped from one inode, the planned one."""
        for name, inode in self.planned().items():
            assert where.get(name) == [inode], f"{who}: {name} is mapped from {where.get(name)}, planned {inode}"

    def assert_stock(self, where):
        """This process runs on the stock core alone."""
        for entry in self.build["open"]:
            path = self.torch / "lib" / entry["name"]
            wanted = [path.stat().st_ino] if path.exists() else None
            assert where.get(entry["name"]) == wanted, entry["name"]

    def facades(self):
        folder = self.cache / "facade"
        return sorted(folder.iterdir()) if folder.exists() else []


def new_venv(root, python=sys.executable):
    subprocess.run([python, "-m", "venv", "--without-pip", "--symlinks", root], check=True)
    return next((Path(root) / "lib").glob("python3*")) / "site-packages"


def unpack(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        for member in archive.infolist():
            os.chmod(Path(folder) / member.filename, 0o755 if member.external_attr >> 16 & 0o111 else 0o644)


EXTRA = {
    'swap = "core"': 'swap = "extra"',
    # The device's libraries alone, over the core of the installed torch.
    """    "libc10.so", "libtorch_cpu.so", "libtorch.so", "libtorch_global_deps.so", "libshm.so", "libtorch_python.so",
    "libc10_sim.so", "libtorch_sim.so",
]""": """    "libc10_sim.so", "libtorch_sim.so",
]
front = ["libc10.so", "libtorch_cpu.so", "libtorch.so", "libshm.so", "libtorch_python.so"]""",
}


class Sim:
    """The sample vendor's wheel over the skeleton stock torch, for one interpreter and swap."""

    key = "SIM"

    def __init__(self, folder, swap, python=sys.executable, more=()):
        """`more` are further words for `torchfl build`."""
        self.folder = Path(folder)
        text = (REPOSITORY / "vendor-manifests" / "sim.toml").read_text()
        for core, extra in EXTRA.items() if swap == "extra" else ():
            assert core in text, core
            text = text.replace(core, extra)
        self.folder.mkdir(parents=True, exist_ok=True)
        manifest = self.folder / "sim.toml"
        manifest.write_text(text)
        out = self.folder / "out"
        run(program("torchfl-skeleton"), "--manifest", manifest, "-o", out, "--python", python)
        self.sdk = out / "opt" / "sim"
        vendor, stock = next((out / "vendor").glob("*.whl")), next((out / "stock").glob("*.whl"))
        words = ["--manifest", manifest, "--torch", vendor, "--front", stock, "--sdk-root", self.sdk]
        run(program("torchfl"), "build", *words, *more, "-o", out / "dist")
        self.site = new_venv(self.folder / "venv", python)
        for wheel in (stock, next((out / "dist").glob("*.whl"))):
            unpack(wheel, self.site)
        unpack(vendor, self.folder / "fork")

    def copy(self, root):
        """A venv of its own for one test."""
        shutil.copytree(self.folder / "venv", root, symlinks=True)
        return Environment(root, "sim", {"key": self.key, "vendor": self.folder / "fork", "sdk": self.sdk})


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def program(name):
    """One of our programs, as `make boot` built it."""
    path = Path(os.environ.get("TORCH_FL_BIN") or REPOSITORY / "target" / "release").resolve() / name
    assert path.exists(), f"{path} is missing: cargo build --release"
    return path


class Real:
    """The wheels that tests/real built, installed over the stock torch: see tests/real/prepare.py."""

    key = "CUDA"

    def __init__(self, folder):
        self.folder = Path(folder)
        self.fork = self.folder / "site"  # the vendor's torch, unpacked

    def environment(self, root, swap, nvidia="beside"):
        """The environment itself; or one of links and copies, in which NVIDIA's wheels lie in another site folder."""
        facts = {"key": self.key, "vendor": self.fork}
        if nvidia == "beside":
            return Environment(self.folder / swap, "real", facts)
        installed = next((self.folder / swap / "lib").glob("python3*")) / "site-packages"
        site, elsewhere = new_venv(root), Path(root) / "elsewhere"
        elsewhere.mkdir()
        for entry in installed.iterdir():
            place = elsewhere if entry.name.startswith("nvidia") else site
            if entry.name == "torch_fl":  # its own folder counts, so not by a link
                shutil.copytree(entry, place / entry.name, copy_function=os.link)
            elif not (place / entry.name).exists():
                (place / entry.name).symlink_to(entry)
        (site / "elsewhere.pth").write_text(f"{elsewhere}\n")
        return Environment(root, "real", facts)
