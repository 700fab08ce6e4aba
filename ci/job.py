#!/usr/bin/env python3
"""A job where the chip is: `job.py inputs|wheel|install|test|publish`, in this order. The workflows call them.

Environment, from the workflow: VENDOR, MANIFEST (the file of a manifest that torchfl does not carry), PYTHON_TAG, ARCH,
DEVICES, TESTS, ARTIFACT. From whoever runs the machine, none of them needed:
  TORCH_FL_MIRROR      folders and addresses that have the inputs, the earlier one first, parted by spaces
  TORCH_FL_INPUTS      the folder that inputs are kept in, for later jobs too; default: target/ci/inputs
  TORCH_FL_SHA256      sums that the manifest lacks: `ROW:NAME=SUM`, parted by spaces; ROW as in `torchfl ci matrix`
  TORCH_FL_WHEELHOUSE  the folder that finished wheels are published in, one below it for each vendor

Everything of the job lies in target/ci/job, and report/wheel.json there says what came of it.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "target" / "ci" / "job"
DIST, REPORT, VENV = FOLDER / "dist", FOLDER / "report" / "wheel.json", FOLDER / "venv"


class Stop(Exception):
    """The job cannot go on; the text says why, for people."""


def env(name):
    value = os.environ.get(name, "")
    if not value:
        raise Stop(f"{name} is not set: the workflow sets it")
    return value


def words(name):
    return os.environ.get(name, "").split()


def which():
    manifest = os.environ.get("MANIFEST")
    return ["--manifest", manifest] if manifest else [env("VENDOR")]


def torchfl(*arguments):
    """What `torchfl --json` says. It tells people on stderr why it cannot."""
    program = REPOSITORY / "target" / "ci" / f"bin-{env('ARCH')}" / "torchfl"
    if not program.exists():
        raise Stop(f"{program} is missing: ci/torchfl.sh makes it")
    program.chmod(0o755)  # artifacts lose it
    command = [str(word) for word in (program, "--json", *arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    if done.returncode != 0:
        raise Stop(f"torchfl {arguments[0]} ended with {done.returncode}")
    return json.loads(done.stdout)


def report(**facts):
    known = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps({**known, **facts}, indent=2) + "\n")
    return {**known, **facts}


def reported(key, step):
    known = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    if key not in known:
        raise Stop(f"`job.py {step}` comes first")
    return known[key]


def inputs():
    """Gets what the wheel is built from, or says who has it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    row = f"{env('VENDOR')}-{env('PYTHON_TAG')}-{env('ARCH')}"
    options = ["--python", env("PYTHON_TAG"), "--arch", env("ARCH")]
    options += ["--dest", os.environ.get("TORCH_FL_INPUTS") or REPOSITORY / "target" / "ci" / "inputs"]
    for place in words("TORCH_FL_MIRROR"):
        options += ["--mirror", place]
    for entry in words("TORCH_FL_SHA256"):
        of, _, rest = entry.partition(":")
        if of == row:
            options += ["--sha256", rest]
    files = torchfl("fetch", *which(), *options)["files"]
    report(row=row, inputs=[{key: file[key] for key in ("role", "name", "path", "sha256")} for file in files])


def company():
    """The vendor's torch, the torch that the wheel meets, and what is installed beside it."""
    files = reported("inputs", "inputs")
    of = lambda role: [file["path"] for file in files if file["role"] == role]
    facts = torchfl("vendor", "show", *which())["torch"]
    torch, front = of("torch"), of("torch") if facts["front"] == "vendor" else of("front")
    if not front:
        raise Stop("the manifest names no torch that the wheel meets: an [[input]] of role front")
    return torch if facts["swap"] != "none" else [], front[0], of("with")


def wheel():
    """Builds the wheel, which proves it, and audits the file."""
    torch, front, beside = company()
    beside = [word for path in beside for word in ("--with", path)]
    options = ["--python", env("PYTHON_TAG"), "--front", front, *beside, "--output", DIST]
    for path in torch:
        options += ["--torch", path]
    shutil.rmtree(DIST, ignore_errors=True)
    torchfl("build", *which(), *options)
    built = only(DIST.glob("*.whl"))
    torchfl("audit", built, "--torch", front, *beside)
    data = hashlib.sha256()
    with built.open("rb") as file:
        while block := file.read(1 << 20):
            data.update(block)
    report(wheel={"name": built.name, "bytes": built.stat().st_size, "sha256": data.hexdigest()})


def only(paths):
    paths = list(paths)
    if len(paths) != 1:
        raise Stop(f"one file is expected, and there are {len(paths)}: `job.py wheel` comes first")
    return paths[0]


def install():
    """The wheel beside the torch that it meets, in an environment of its own."""
    version = env("PYTHON_TAG").replace("cp3", "3.", 1)
    python = shutil.which(f"python{version}")
    if python is None:
        raise Stop(f"there is no python{version} on this machine, and the wheel is for it")
    _, front, beside = company()
    shutil.rmtree(VENV, ignore_errors=True)
    call(python, "-m", "venv", VENV)
    constraints = only(DIST.glob("*.constraints.txt"))
    pip = [VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    call(*pip, "--constraint", constraints, front, *beside, only(DIST.glob("*.whl")))


def call(*command):
    if subprocess.run([str(word) for word in command]).returncode != 0:
        raise Stop(f"{Path(str(command[0])).name} failed")


def test():
    """What the manifest names of ci/tests, each in a process of its own, away from the repository."""
    python, came = VENV / "bin" / "python", {}
    if not python.exists():
        raise Stop("`job.py install` comes first")
    for name in env("TESTS").split():
        script = REPOSITORY / "ci" / "tests" / f"{name}.py"
        if not script.exists():
            raise Stop(f"there is no ci/tests/{name}.py, and `[ci] tests` names it")
        with tempfile.TemporaryDirectory() as away:
            done = subprocess.run([str(python), str(script)], cwd=away)
        came[name] = "ok" if done.returncode == 0 else "fail"
        print(f"{name}: {came[name]}", flush=True)
    report(tests=came)
    if "fail" in came.values():
        raise Stop("a test failed")


def publish():
    """Gigabytes stay where they are: the wheel goes into a folder of this machine, or one that it mounts."""
    if reported("tests", "test") and env("ARTIFACT") == "upload":
        report(published=None, artifact="upload")
        return
    house = os.environ.get("TORCH_FL_WHEELHOUSE")
    if not house:
        print(f"TORCH_FL_WHEELHOUSE is not set: the wheel stays in {DIST}", flush=True)
        report(published=None, artifact="local")
        return
    # pip takes the highest local version, whatever the chip: one folder a vendor.
    shelf = Path(house) / env("VENDOR")
    shelf.mkdir(parents=True, exist_ok=True)
    sizes = {}
    for file in sorted(DIST.iterdir()):
        sizes[file.name] = file.stat().st_size
        place(file, shelf / file.name)
    report(published=str(shelf), artifact="local", files=sizes)


def place(file, target):
    """Appears whole. A wheel of this name that has other bytes is somebody's, and stays."""
    if target.exists():
        if same(file, target):
            return
        raise Stop(f"{target} is there, and has other bytes: a new wheel needs a new version (`--post`)")
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".torchfl-", delete=False) as draft:
        try:
            with file.open("rb") as source:
                shutil.copyfileobj(source, draft, 1 << 20)
            os.fchmod(draft.fileno(), 0o644)
            draft.flush()
            os.rename(draft.name, target)
        except BaseException:
            os.unlink(draft.name)
            raise


def same(one, other):
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as first, other.open("rb") as second:
        while block := first.read(1 << 20):
            if second.read(1 << 20) != block:
                return False
    return True


STEPS = {step.__name__: step for step in (inputs, wheel, install, test, publish)}


def main(arguments):
    if len(arguments) != 1 or arguments[0] not in STEPS:
        print(f"usage: job.py {'|'.join(STEPS)}", file=sys.stderr)
        return 2
    try:
        STEPS[arguments[0]]()
    except Stop as stop:
        print(f"error: {stop}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
