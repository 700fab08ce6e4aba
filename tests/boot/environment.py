"""Environments for the tests: a venv with a stock torch and a torch_fl laid out as its wheel lays it.

`sim` ones are generated in seconds by tests/skeleton; `real` ones hold PyTorch's own wheels.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "wheels" / "torch_fl"

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
            **self.facts["environ"],
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


def lay_package(site, bundle_name, libraries, build, overlay=None, link=False):
    """torch_fl as its wheel lays it: the package, the bundle, the overlay, build.json."""
    home = Path(site) / "torch_fl"
    shutil.copytree(PACKAGE, home, ignore=shutil.ignore_patterns("__pycache__"))
    (home / bundle_name).mkdir()
    for library in libraries:
        if link:
            (home / bundle_name / library.name).symlink_to(library)
        else:
            shutil.copy(library, home / bundle_name)
    for name, data in (overlay or {}).items():
        path = home / "overlay" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    build["bundle"] = bundle_name
    build["files"] = {library.name: {"bytes": library.stat().st_size, "soname": library.name} for library in libraries}
    build["overlay"] = "overlay" if overlay else None
    (home / "build.json").write_text(json.dumps(build, indent=1, sort_keys=True) + "\n")


def build_facts(vendor, swap, opened, python=sys.implementation.cache_tag, **more):
    """A build.json, less what `lay_package` knows. `opened`: name -> bundle or front."""
    build = {
        "schema": 1, "vendor": vendor, "variant": None, "title": vendor, "status": "experimental",
        "version": f"2.13.0+{vendor}1.0", "skeleton": True, "tool": {}, "inputs": [], "python": python, "swap": swap,
        "torch": {
            "release": "2.13.0", "front": "cpu", "markers": [], "attributes": {}, "rivals": ["torch_npu"],
            "install": {
                "pip": "pip install 'torch==2.13.0+cpu' --index-url https://download.pytorch.org/whl/cpu",
                "uv": "uv pip install 'torch==2.13.0+cpu' --index-url https://download.pytorch.org/whl/cpu",
            },
        },
        "open": [
            {"name": name, "from": origin, "shared": name == "libgomp.so.1", "global": False}
            for name, origin in opened.items()
        ],
        "provided": [], "env": {}, "caches": {}, "plugin": None, "assumed": [], "allow_unlicensed": [],
    }  # fmt: skip
    if swap == "core":
        build["caches"] = {
            "TORCHINDUCTOR_CACHE_DIR": "inductor",
            "TORCH_EXTENSIONS_DIR": "extensions",
            "TRITON_CACHE_DIR": "triton",
        }
    build.update(more)
    return build


def new_venv(root, python=sys.executable):
    subprocess.run([python, "-m", "venv", "--without-pip", "--symlinks", root], check=True)
    return next((Path(root) / "lib").glob("python3*")) / "site-packages"


def unpack(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        for member in archive.infolist():
            os.chmod(Path(folder) / member.filename, 0o755 if member.external_attr >> 16 & 0o111 else 0o644)


CORE = ["libc10.so", "libtorch_cpu.so"]
REST = ["libtorch.so", "libshm.so", "libtorch_python.so"]


def order(swap, device):
    """The opening order: the core, the device's libraries, the rest. libtorch_global_deps is torch's own to open."""
    side = "bundle" if swap == "core" else "front"
    return {
        "libgomp.so.1": "front",
        **dict.fromkeys(CORE, side),
        **dict.fromkeys(device, "bundle"),
        **dict.fromkeys(REST, side),
    }


class Sim:
    """Skeleton wheels of the sample vendor, for one interpreter and swap."""

    device = ["libc10_sim.so", "libtorch_sim.so"]
    key = "SIM"

    def __init__(self, folder, swap, python=sys.executable):
        self.folder, self.swap, self.python = Path(folder), swap, python
        manifest = (REPOSITORY / "vendor-manifests" / "sim.toml").read_text()
        if swap == "extra":
            manifest = manifest.replace('swap = "core"', 'swap = "extra"')
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "manifest.toml").write_text(manifest)
        command = [skeleton(), "--manifest", self.folder / "manifest.toml", "-o", self.folder / "out"]
        subprocess.run([*command, "--python", python], check=True, capture_output=True)
        out = self.folder / "out"
        self.sdk = out / "opt" / "sim"
        unpack(next((out / "vendor").glob("*.whl")), self.folder / "fork")
        self.site = new_venv(self.folder / "venv", python)
        unpack(next((out / "stock").glob("*.whl")), self.site)
        fork = self.folder / "fork" / "torch"
        core = ["libtorch_global_deps.so", *CORE, *REST] if swap == "core" else []
        libraries = [fork / "lib" / name for name in [*core, *self.device]]
        libraries += sorted((self.folder / "fork" / "torch.libs").glob("*.so*"))
        overlay = {
            f"{path.relative_to(fork)}": path.read_bytes()
            for part in ("include", "share")
            for path in (fork / part).rglob("*")
            if path.is_file()
        }
        tag = subprocess.run(
            [python, "-c", "import sys; print(sys.implementation.cache_tag)"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        build = build_facts("sim", swap, order(swap, self.device), tag)
        build["torch"].update(attributes={"sim": "1.0"}, markers=["sim = '1.0'"])
        lay_package(self.site, "lib_sim", libraries, build, overlay)

    def copy(self, root):
        """A venv of its own for one test."""
        shutil.copytree(self.folder / "venv", root, symlinks=True)
        environ = {"LD_LIBRARY_PATH": str(self.sdk / "lib")}
        return Environment(root, "sim", {"environ": environ, "key": self.key, "vendor": self.folder / "fork"})


def skeleton():
    """The generator: TORCHFL_SKELETON, or built here."""
    given = os.environ.get("TORCHFL_SKELETON")
    if given:
        return given
    command = ["cargo", "build", "-q", "-p", "torchfl-skeleton", "--message-format=json-render-diagnostics"]
    output = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    made = [json.loads(line) for line in output.splitlines()]
    return next(entry["executable"] for entry in made if entry.get("executable"))


class Real:
    """PyTorch's own wheels: the stock CPU build below, the libraries of its CUDA build as the bundle.

    TORCH_FL_WHEELS names the folders with both torch wheels (os.pathsep between them). The environment
    is made once, at TORCH_FL_REAL or in the temporary folder, by pip: torch's and NVIDIA's wheels are large.
    """

    device = ["libc10_cuda.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so"]
    key = "CUDA"
    rest = ["libcaffe2_nvrtc.so", "libtorch_nvshmem.so"]  # opened by torch, lazily
    pins = [
        ("nvidia-cublas==13.1.1.3", "nvidia/cu13/lib", ["libcublasLt.so.13", "libcublas.so.13"]),
        ("nvidia-cuda-runtime==13.0.96", "nvidia/cu13/lib", ["libcudart.so.13"]),
        ("nvidia-cuda-nvrtc==13.0.88", "nvidia/cu13/lib", ["libnvrtc.so.13"]),
        ("nvidia-nvjitlink==13.5.37", "nvidia/cu13/lib", ["libnvJitLink.so.13"]),
        ("nvidia-cuda-cupti==13.0.85", "nvidia/cu13/lib", ["libcupti.so.13"]),
        ("nvidia-cufft==12.0.0.61", "nvidia/cu13/lib", ["libcufft.so.12"]),
        ("nvidia-curand==10.4.0.35", "nvidia/cu13/lib", ["libcurand.so.10"]),
        ("nvidia-cusparse==12.6.3.3", "nvidia/cu13/lib", ["libcusparse.so.12"]),
        ("nvidia-cusolver==12.0.4.66", "nvidia/cu13/lib", ["libcusolver.so.12"]),
        ("nvidia-cufile==1.15.1.6", "nvidia/cu13/lib", ["libcufile.so.0"]),
        ("nvidia-cudnn-cu13==9.20.0.48", "nvidia/cudnn/lib", ["libcudnn.so.9"]),
        ("nvidia-cusparselt-cu13==0.8.1", "nvidia/cusparselt/lib", ["libcusparseLt.so.0"]),
        ("nvidia-nccl-cu13==2.29.7", "nvidia/nccl/lib", ["libnccl.so.2"]),
        ("nvidia-nvshmem-cu13==3.4.5", "nvidia/nvshmem/lib", ["libnvshmem_host.so.3"]),
    ]

    def __init__(self, folder):
        self.folder = Path(folder)
        wheels = [
            path for part in os.environ["TORCH_FL_WHEELS"].split(os.pathsep) for path in Path(part).glob("torch-*.whl")
        ]
        tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        wheels = [path for path in wheels if f"-{tag}-{tag}-" in path.name]
        stock = next(path for path in wheels if "+cpu" in path.name)
        vendor = next(path for path in wheels if "+" not in path.name)
        if not (self.folder / "ready").exists():
            self._make(stock, vendor)
        self.base = next((self.folder / "venv" / "lib").glob("python3*")) / "site-packages"
        self.fork = self.folder / "vendor" / "torch"

    def _make(self, stock, vendor):
        shutil.rmtree(self.folder, ignore_errors=True)
        new_venv(self.folder / "venv")
        pip = [sys.executable, "-m", "pip", "--python", self.folder / "venv" / "bin" / "python", "install", "-q"]
        subprocess.run([*pip, stock, "numpy", "pytest", "pytest-xdist", "ipython"], check=True)
        nvidia = self.folder / "nvidia"
        subprocess.run([*pip, "--no-deps", "--target", nvidia, *(pin for pin, _, _ in self.pins)], check=True)
        with zipfile.ZipFile(vendor) as archive:
            names = [
                n for n in archive.namelist() if n.startswith(("torch/lib/lib", "torch/include/", "torch/version"))
            ]
            archive.extractall(self.folder / "vendor", names)
        (self.folder / "ready").touch()

    def environment(self, root, swap, nvidia="beside", elsewhere=None):
        """A venv of links: torch and its needs, NVIDIA's wheels in the same site folder or in another one."""
        site = new_venv(root)
        for entry in self.base.iterdir():
            if not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
        if nvidia == "beside":
            for entry in (self.folder / "nvidia").iterdir():
                if not (site / entry.name).exists():
                    (site / entry.name).symlink_to(entry)
        else:
            (site / "elsewhere.pth").write_text(f"{self.folder / 'nvidia'}\n")
        core = ["libtorch_global_deps.so", *CORE, *REST] if swap == "core" else []
        libraries = [self.fork / "lib" / name for name in [*core, *self.device, *self.rest]]
        build = build_facts("cuda", swap, order(swap, self.device))
        build["provided"] = [
            {
                "dist": pin.partition("==")[0],
                "requires": f'{pin}; platform_system == "Linux"',
                "dir": place,
                "libraries": names,
            }
            for pin, place, names in self.pins
        ]
        build["torch"]["install"]["pip"] = "pip install 'torch==2.13.0+cpu'"
        stock = self.base / "torch" / "include"
        mine = self.fork / "include"
        overlay = {
            f"include/{path.relative_to(mine)}": path.read_bytes()
            for path in mine.rglob("*")
            if path.is_file() and not same_bytes(path, stock / path.relative_to(mine))
        }
        lay_package(site, "lib_cuda", libraries, build, overlay, link=True)
        return Environment(root, "real", {"environ": {}, "key": self.key, "vendor": self.folder / "vendor"})


def same_bytes(one, other):
    return other.exists() and one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()
