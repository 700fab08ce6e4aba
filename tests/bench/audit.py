"""Part 6: the audit of the `cuda` wheel, the stock torch and NVIDIA's libraries as installed, against peers that look
at the same files, and against what reading and unpacking them takes.
"""

import hashlib
import shutil
import sys
import time
import zipfile
from pathlib import Path

from measure import MIB, Failed, measure, median, ratio

SECONDS, MEMORY = 2.0, 300 * MIB


class Audit:
    """`site`: the site-packages folder where all is installed; `wheel`, `torch`: the same as files."""

    def __init__(self, torchfl, site, wheel, torch, paper):
        self.torchfl, self.site, self.wheel, self.torch, self.paper = torchfl, site, wheel, torch, paper
        bundle = [path for path in site.glob("torch_fl/lib_*/*.so*")]
        nvidia = [path for path in site.glob("nvidia/*/lib/*.so*")]
        self.libraries = sorted(bundle) + sorted(nvidia)
        self.bytes = sum(path.stat().st_size for path in self.libraries)
        auditwheel = Path(sys.executable).with_name("auditwheel")
        self.auditwheel = auditwheel if auditwheel.exists() else None

    def commands(self):
        own = [self.torchfl, "--quiet", "--json", "audit"]
        beside = ["--torch", self.site, "--with", self.site]
        yield "ours", [own + [self.site, *beside]]
        yield "ours, --hashes", [own + [self.site, *beside, "--hashes"]]
        if self.torch is not None:
            yield "ours, wheel files", [own + [self.wheel, "--torch", self.torch, "--with", self.site]]
        if shutil.which("ldd"):
            yield "ldd, every library", [["ldd", *self.libraries]]
        if self.auditwheel:
            yield "auditwheel lddtree, every library", [[self.auditwheel, "lddtree", one] for one in self.libraries]
            yield "auditwheel show WHEEL", [[self.auditwheel, "show", self.wheel]]
        if shutil.which("lddtree"):
            yield "lddtree (pax-utils), every library", [["lddtree", *self.libraries]]

    def round(self, costs):
        for name, commands in self.commands():
            if name in costs and costs[name] is None:
                continue
            try:
                total = None
                for command in commands:
                    cost = measure(*command)
                    total = cost if total is None else total + cost
                costs.setdefault(name, []).append(total)
            except Failed as error:
                self.paper.absent(name, str(error).strip().splitlines()[-1])
                costs[name] = None


def limits(audit):
    """What one thread takes for sha256 of the wheel's installed files, and for inflating the wheel's libraries."""
    begin = time.process_time()
    hashed = 0
    for path in sorted(audit.site.glob("torch_fl/**/*")):
        if path.is_file():
            with open(path, "rb") as file:
                hashed += path.stat().st_size
                hashlib.file_digest(file, "sha256")
    sha256 = time.process_time() - begin
    inflate = 0.0
    with zipfile.ZipFile(audit.wheel) as archive:
        for member in archive.infolist():
            if ".so" in member.filename:
                with archive.open(member) as stream:
                    begin = time.process_time()
                    while stream.read(1 << 20):
                        pass
                    inflate += time.process_time() - begin
    return sha256, inflate


def report(audit, costs, paper):
    count = len(audit.libraries)
    paper.part(f"The audit: {count} libraries, {audit.bytes / 1e9:.1f} GB, as installed")
    for name, rounds in costs.items():
        if rounds:
            paper.row(name, rounds)
    ours = median(costs["ours"])
    paper.gate("wall time, warm", ours.wall, f"{ours.wall:.2f} s", f"< {SECONDS:.0f} s", ours.wall < SECONDS)
    paper.gate("peak memory", ours.peak, f"{ours.peak / MIB:.0f} MiB", "< 300 MiB", ours.peak < MEMORY)
    for name, rounds in costs.items():
        if rounds and not name.startswith("ours"):
            factor = ratio(rounds, costs["ours"], "wall")
            paper.line(f"{name} / ours, wall", factor, f"{factor:.1f}")
    sha256, inflate = limits(audit)
    extra = median(costs["ours, --hashes"]).cpu - ours.cpu
    paper.line("--hashes, beyond the audit, / sha256 (hashlib)", extra / sha256, f"{extra:.2f} of {sha256:.2f} s")
    if costs.get("ours, wheel files"):
        extra = median(costs["ours, wheel files"]).cpu - ours.cpu
        text = f"{extra:.2f} of {inflate:.2f} s; the crc32 of each member and its unlinked copy are in both"
        paper.line("wheel files, beyond the audit, / inflate and crc32 (zlib)", extra / inflate, text)


def run(torchfl, real, torch, rounds, paper):
    site = next(iter((real / "core").glob("lib/python3*/site-packages")), None)
    wheel = next(iter((real / "dist").glob("torch_fl-*+cuda13.0-*.whl")), None)
    if site is None or wheel is None:
        paper.absent("the audit", "run `make test-real` first: it installs what is audited")
        return {}
    audit = Audit(torchfl, site, wheel, torch, paper)
    if audit.auditwheel is None:
        paper.absent("the audit against auditwheel", "there is no auditwheel")
    costs = {}
    for _ in range(rounds):
        audit.round(costs)
    report(audit, costs, paper)
    return {name: rounds for name, rounds in costs.items() if rounds}
