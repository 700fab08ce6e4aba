"""Parts 1 and 2: from the vendor's wheel to ours, and the writer alone, against unzip, patchelf and `wheel pack`."""

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

from measure import MIB, Failed, measure, ratio, say

# Above so many headers unzip gets patterns: it compares each name with each member.
NAMES = 200


class Wheels:
    """The inputs of both sides, laid out in `folder`; each method with a result is one measured step."""

    def __init__(self, folder, torchfl, vendor, front, patchelf, has):
        self.folder, self.torchfl, self.vendor, self.front = folder, torchfl, vendor, front
        self.patchelf, self.has = patchelf, has
        self.failed = {}  # step -> why; the others go on
        say("a first build, whose tree the peers pack as well")
        built = json.loads(self.ours("first").out)
        self.libraries = built["libraries"]
        with zipfile.ZipFile(built["path"]) as archive:
            self.members = sorted(archive.namelist())
            self.unpacked = sum(member.file_size for member in archive.infolist())
            info = next(name.split("/")[0] for name in self.members if ".dist-info/" in name)
            self.tree = folder / "tree" / info.removesuffix(".dist-info")
            archive.extractall(self.tree)
        self.bundle = next(self.tree.glob("torch_fl/*/libc10.so")).parent
        headers = [name.replace("torch_fl/overlay", "torch", 1) for name in self.members if "/overlay/" in name]
        self.headers = headers if len(headers) <= NAMES else ["torch/include/*", "torch/share/*"]
        say("unpacking the vendor's torch")
        self.installed = folder / "installed"
        # In a process of its own: the list of thirteen thousand members would show in every peak from here on.
        measure(sys.executable, "-m", "zipfile", "-e", vendor, self.installed)

    def ours(self, name, *options, torch=None):
        out = self.folder / name
        front = ["--front", self.front] if self.front else []
        command = [self.torchfl, "--json", "--quiet", "build", "cuda", "--torch", torch or self.vendor, *front]
        cost = measure(*command, "-o", out, *options)
        for wheel in out.glob("*.whl"):
            cost.bytes = wheel.stat().st_size
        return cost

    def unzip(self):
        out = self.folder / "unzipped"
        shutil.rmtree(out, ignore_errors=True)
        origins = {library["name"]: library["from"] for library in self.libraries}
        cost = measure("unzip", "-q", self.vendor, *origins.values(), *self.headers, "-d", out)
        for name, origin in origins.items():
            os.replace(out / origin, self.bundle / name)
        return cost

    def patch(self):
        costs = []
        for library in self.libraries:
            tag = ["--force-rpath"] if library["tag"] == "rpath" else []
            path = self.bundle / library["name"]
            costs.append(measure(self.patchelf, *tag, "--set-rpath", library["search_path"], path))
        return sum(costs[1:], costs[0])

    def pack(self):
        out = self.folder / "packed"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        cost = measure(sys.executable, "-m", "wheel", "pack", self.tree, "--dest-dir", out)
        wheel = next(out.glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            if sorted(archive.namelist()) != self.members:
                raise Failed("`wheel pack` and torchfl did not write the same members")
        cost.bytes = wheel.stat().st_size
        return cost

    def zip_fast(self):
        out = self.folder / "fast.zip"
        out.unlink(missing_ok=True)
        cost = measure("zip", "-q", "-1", "-r", out, ".", cwd=self.tree)
        cost.bytes = out.stat().st_size
        return cost

    def round(self, costs):
        """Each step once; peers and ours alternate."""

        def step(name, function, *words, **more):
            if name in self.failed:
                return
            try:
                costs.setdefault(name, []).append(function(*words, **more))
            except Failed as error:
                costs.pop(name)
                self.failed[name] = str(error)
                say(f"failed: {name}: {error}")

        both = "unzip" in self.has and "patchelf" in self.has
        if both:
            step("unzip", self.unzip)
        step("ours", self.ours, "ours")
        if both:
            step("patchelf", self.patch)
        step("fast", self.ours, "fast", "--compression", "fast")
        if "wheel" in self.has:
            step("pack", self.pack)
        step("folder", self.ours, "folder", torch=self.installed)
        if "zip" in self.has:
            step("zip", self.zip_fast)
        step("plan", self.ours, "plan", "--dry-run")


def peers(costs, *steps):
    """The sum of the peers' steps, round by round."""
    return [sum(round_[1:], round_[0]) for round_ in zip(*(costs[step] for step in steps), strict=True)]


def report(costs, failed, paper):
    paper.part("Wheel file to wheel file")
    for name, why in failed.items():
        paper.gate(f"the step `{name}`", None, " ".join(why.split()), "works", False)
    if failed.keys() & {"ours", "folder"}:
        return
    ours = paper.row("torchfl build, self-check included", costs["ours"])
    whole = all(name in costs for name in ("unzip", "patchelf", "pack"))
    if whole:
        theirs = peers(costs, "unzip", "patchelf", "pack")
        total = paper.row("unzip + patchelf + `wheel pack`", theirs)
        for name in ("unzip", "patchelf"):
            paper.row(f"&nbsp; {name}", costs[name])
        paper.row("&nbsp; `wheel pack`", costs["pack"])
    fast = paper.row("torchfl build --compression fast", costs["fast"]) if "fast" in costs else None
    if whole:
        factor = ratio(theirs, costs["ours"], "cpu")
        paper.gate("CPU, peers / ours", factor, f"{factor:.2f}", "at least 2", factor >= 2)
        factor = ratio(theirs, costs["ours"], "wall")
        paper.line("wall, peers / ours", factor, f"{factor:.2f}")
        size = ours.bytes / total.bytes - 1
        paper.gate("size, ours against `wheel pack`", size, f"{size:+.2%}", "at most +1.5 %", size <= 0.015)
    text = f"{ours.peak / MIB:.0f} MiB"
    paper.gate("peak memory, ours", ours.peak, text, "at most 256 MiB", ours.peak <= 256 * MIB)
    if whole and fast and "zip" in costs:
        theirs = peers(costs, "unzip", "patchelf", "zip")
        zipped = paper.row("unzip + patchelf + `zip -1` (RECORD not hashed anew)", theirs)
        factor = ratio(theirs, costs["fast"], "cpu")
        size = fast.bytes / zipped.bytes - 1
        paper.line("fast preset, CPU, peers with `zip -1` / ours", factor, f"{factor:.2f}, size {size:+.2%}")

    paper.part("The writer: the same tree from a folder")
    paper.row("torchfl build --torch FOLDER", costs["folder"])
    if "pack" in costs:
        paper.row("`wheel pack`, without the edits", costs["pack"])
        for name in ("cpu", "wall"):
            factor = ratio(costs["pack"], costs["folder"], name)
            paper.line(f"{name.replace('cpu', 'CPU')}, `wheel pack` / torchfl", factor, f"{factor:.2f}")


def origins(wheels):
    """What the limits inflate: the vendor's members that are in our wheel as well."""
    return [library["from"] for library in wheels.libraries]


def installed_library(wheels, name):
    return Path(wheels.installed, "torch", "lib", name)
