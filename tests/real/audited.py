"""Audits of the real wheels, and copies of the real environments to do harm to.

A copy is made of hard links, on the same disk: a file that is to change is replaced by a copy of its own first.
"""

import base64
import contextlib
import csv
import ctypes
import functools
import hashlib
import io
import json
import os
import shutil
import subprocess
from pathlib import Path

import prepare

SCRATCH = prepare.REAL / "scratch"
OTHERS = ("torch-npu==2.13.0", "torchvision==0.28.0", "torchaudio==2.11.1")
FL = "torch_fl"


def audit(wheel, torch=None, beside=(), *options):
    """`torchfl audit`'s report; exit status 1 is a report with errors in it."""
    words = [prepare.TORCHFL, "--json", "audit", wheel, *options]
    words += ["--torch", torch] if torch else []
    words += [word for one in beside for word in ("--with", one)]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return json.loads(done.stdout)


def grave(report):
    """The codes of its errors and warnings."""
    return {finding["code"] for finding in report["findings"] if finding["severity"] != "note"}


@functools.cache
def is_here(library):
    """Whether this machine's loader finds a library by its name."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def site_of(root):
    return next((Path(root) / "lib").glob("python3*")) / "site-packages"


class Environment:
    """An environment of `prepare`, or a copy of it, and programs run in it."""

    def __init__(self, root):
        self.root = Path(root)
        self.site = site_of(root)
        self.cache = SCRATCH / "cache" / self.root.name

    def program(self, text, *arguments, **environ):
        """Runs a program with nothing in its environment but this; torch-npu, where it is beside, stays out."""
        base = {"PATH": os.environ["PATH"], "HOME": str(self.cache), "TORCH_FL_CACHE_DIR": str(self.cache)}
        self.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        base["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        words = [str(word) for word in (self.root / "bin" / "python", "-c", text, *arguments)]
        environ = base | {name: str(value) for name, value in environ.items()}
        return subprocess.run(words, env=environ, cwd=self.cache, capture_output=True, text=True, timeout=600)

    def json(self, text, *arguments, **environ):
        """What the program prints last."""
        done = self.program(text, *arguments, **environ)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def build(self):
        return json.loads((self.site / FL / "build.json").read_text())

    def audit(self, *options):
        """Of the torch_fl in it, with the torch and all the rest in it."""
        return audit(self.site, self.site, [self.site], *options)

    def plain(self, text):
        """A text of paths below its site-packages, without `..`, as an audit tells them."""
        site = f"{os.path.realpath(self.site)}/"
        words = [os.path.normpath(word) if word.startswith("/") else word for word in text.split(" ")]
        return " ".join(word.removeprefix(site) for word in words)


@functools.cache
def installed(swap):
    """The environment that run.py has prepared."""
    return Environment(prepare.REAL / swap)


@functools.cache
def wheel(swap):
    """The wheel that is installed there, as a file."""
    version = next(installed(swap).site.glob(f"{FL}-*.dist-info")).name.removesuffix(".dist-info")
    return next((prepare.REAL / "dist").glob(f"{version}-*.whl"))


@functools.cache
def others():
    """The wheels of other people, by distribution."""
    folder = prepare.downloaded("others", *OTHERS)
    return {path.name.partition("-")[0]: path for path in sorted(folder.glob("*.whl"))}


def copy(swap, name):
    """A copy of an environment, made anew."""
    root = SCRATCH / name
    shutil.rmtree(root, ignore_errors=True)
    SCRATCH.mkdir(exist_ok=True)
    subprocess.run(["cp", "-al", prepare.REAL / swap, root], check=True)
    return Environment(root)


@functools.cache
def with_others(company):
    """The stock torch alone, or `core` or `extra`, with the wheels of other people installed in the same folder."""
    name, swap = f"{company}-and-others", "extra" if company == "stock" else company
    mark = SCRATCH / name / "others"
    identity = f"{(prepare.REAL / swap / 'installed').read_text()} {' '.join(OTHERS)}"
    if mark.exists() and mark.read_text() == identity:
        return Environment(mark.parent)
    made = copy(swap, name)
    if company == "stock":
        for pattern in ("torch_fl*", "nvidia*", "cuda_toolkit*"):
            for path in made.site.glob(pattern):
                shutil.rmtree(path)
    python = made.root / "bin" / "python"
    prepare.uv("pip", "install", "-q", "--no-deps", "--link-mode", "copy", "--python", python, *others().values())
    mark.write_text(identity)
    return made


class Harm:
    """Changes to one distribution of an environment. Its RECORD is made to agree, for somebody built it this way."""

    def __init__(self, environment):
        self.environment, self.site = environment, environment.site
        self.info = next(self.site.glob(f"{FL}-*.dist-info")).name
        self.bundle = f"{FL}/{environment.build()['bundle']}"
        self.kept = environment.root / "kept"
        self.was = {}  # path below site-packages -> where the file it was is kept, or None
        self.foreign = set()  # paths that are not in the RECORD of torch_fl
        self.agrees = True  # RECORD
        self.resizes = True  # build.json

    def own(self, path):
        """The file as a copy of its own, to be changed; it need not be there yet."""
        full = self.site / path
        if path not in self.was:
            self.was[path] = None
            if os.path.lexists(full):
                self.kept.mkdir(exist_ok=True)
                self.was[path] = self.kept / str(len(self.was))
                os.rename(full, self.was[path])
                shutil.copyfile(self.was[path], full, follow_symlinks=False)
                shutil.copymode(self.was[path], full, follow_symlinks=False)
        full.parent.mkdir(parents=True, exist_ok=True)
        return full

    def remove(self, path):
        self.own(path).unlink()

    def add(self, path, source):
        """A copy of another file of the environment."""
        full = self.own(path)
        shutil.copy(self.site / source, full)
        return full

    def write(self, path, text):
        self.own(path).write_text(text)

    def beside(self, name, version, files):
        """Another distribution, of a few texts."""
        info = f"{name}-{version}.dist-info"
        texts = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", **files}
        texts[f"{info}/RECORD"] = "".join(f"{path},,{len(text)}\n" for path, text in texts.items())
        for path, text in texts.items():
            self.write(path, text)
            self.foreign.add(path)

    def replan(self, change):
        """Changes build.json."""
        build = self.environment.build()
        change(build)
        self.write(f"{FL}/build.json", json.dumps(build))

    def metadata(self, change):
        path = f"{self.info}/METADATA"
        self.write(path, change((self.site / path).read_text()))

    def record(self):
        """RECORD as a list of rows, and a function that writes it."""
        path = f"{self.info}/RECORD"
        rows = list(csv.reader(io.StringIO((self.site / path).read_text())))

        def write(rows):
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(rows)
            self.write(path, text.getvalue())

        return rows, write

    def settle(self):
        """RECORD's rows for what has changed."""
        changed = {path for path in self.was if not path.startswith("nvidia/")}
        changed -= self.foreign | {f"{self.info}/RECORD"}
        if not self.agrees or not changed:
            return
        if self.resizes and any(path.startswith(f"{self.bundle}/") for path in changed):
            self.replan(self.resize)
            changed.add(f"{FL}/build.json")
        rows, write = self.record()
        rows = [row for row in rows if row[0] not in changed]
        for path in sorted(changed):
            full = self.site / path
            if full.exists():
                with open(full, "rb") as file:
                    digest = hashlib.file_digest(file, "sha256").digest()
                hashed = base64.urlsafe_b64encode(digest).decode().rstrip("=")
                rows.append([path, f"sha256={hashed}", str(full.stat().st_size)])
        write(rows)

    def resize(self, build):
        """The sizes of build.json, which the bootstrap compares first of all."""
        for name in list(build["files"]):
            path = self.site / self.bundle / name
            if path.exists():
                build["files"][name]["bytes"] = path.stat().st_size
            else:
                del build["files"][name]

    def undo(self):
        for path, kept in self.was.items():
            full = self.site / path
            if os.path.lexists(full):
                full.unlink()
            if kept is not None:
                os.rename(kept, full)
            elif not os.listdir(full.parent):
                full.parent.rmdir()
        self.was = {}


@contextlib.contextmanager
def harmed(environment):
    harm = Harm(environment)
    try:
        yield harm
    finally:
        harm.undo()
