"""Part 4: the bootstrap's own code in a warm `import torch_fl`; dlopen and torch itself are taken out."""

import json
import os
import shutil
import statistics
import sys
from pathlib import Path

from measure import measure, say

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "wheels" / "torch_fl"
DRIVER = REPOSITORY / "tests" / "boot" / "warm.py"


def real(folder, root):
    """The real wheel's environment, with the package as it is in the repository now."""
    home = next(root.glob("lib/python3*/site-packages/torch_fl"))
    site = folder / "boot"
    shutil.copytree(PACKAGE, site / "torch_fl", ignore=shutil.ignore_patterns("__pycache__"))
    build = json.loads((home / "build.json").read_text())
    for name in ("build.json", build["bundle"], build["overlay"]):
        if name:
            (site / "torch_fl" / name).symlink_to(home / name)
    return "torch 2.13.0 and the cuda wheel", root / "bin" / "python", {"PYTHONPATH": site}


def sample(folder):
    """The sample vendor's, generated here."""
    sys.path.append(str(REPOSITORY / "tests" / "boot"))
    from environment import Sim

    environment = Sim(folder / "sim", "core").copy(folder / "boot")
    return "the sample vendor", environment.python, environment.environ()


def run(folder, root, processes, paper):
    mark = root / "installed"
    what, python, environ = real(folder, root) if mark.exists() else sample(folder)
    say(f"{processes} warm imports over {what}")
    base = {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8", "TORCH_FL_CACHE_DIR": folder / "cache"}
    environ = {name: str(value) for name, value in {**base, **environ}.items()}
    said = []
    for _ in range(processes + 1):  # the first one is not warm
        lines = measure(python, DRIVER, env=environ).out.splitlines()
        said.append(json.loads(next(line for line in lines if line.startswith("SAID "))[5:]))
    own, unit, apart = (statistics.median(entry[name] for entry in said[1:]) for name in ("own", "unit", "apart"))
    # What tests/boot holds it to: a machine with other work is slower at calls of stat as well.
    scaled = statistics.median(entry["own"] / max(1, entry["unit"]) for entry in said[1:])
    paper.part(f"The bootstrap's own code in a warm import, over {what}")
    paper.gate(f"CPU, median of {processes} processes", own, f"{own:.2f} ms", "at most 5 ms", own <= 5)
    paper.line("the machine meanwhile", unit, f"a thousand calls of stat take {unit:.2f} ms")
    paper.line("scaled to a machine where they take 1 ms", scaled, f"{scaled:.2f} ms")
    paper.line("beside it", apart, f"{apart:.0f} ms of dlopen and torch itself")
