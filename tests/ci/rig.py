"""A workflow, and its steps run as its service would run them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from ruamel.yaml import YAML

REPOSITORY = Path(__file__).parents[2]
ARCH = os.uname().machine
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"


def program(name):
    path = Path(os.environ.get("TORCH_FL_BIN") or REPOSITORY / "target" / "release").resolve() / name
    assert path.exists(), f"{path} is missing: cargo build --release"
    return path


def torchfl(*words, code=0):
    done = subprocess.run([program("torchfl"), *map(str, words)], text=True, capture_output=True, cwd=REPOSITORY)
    assert done.returncode == code, done.stderr
    return done.stdout


def tool(name):
    """A program of the tests' environment; None where it is not installed."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def load(path):
    return YAML(typ="safe").load(path.read_text())


class Tree:
    """A checkout with nothing in it but what a job needs, so that jobs do not meet."""

    def __init__(self, folder):
        self.folder = folder
        for inner in ("ci", "tests/vendors"):
            shutil.copytree(REPOSITORY / inner, folder / inner)
        shutil.copyfile(REPOSITORY / "tests" / "requirements.txt", folder / "tests" / "requirements.txt")
        (folder / "target" / "ci").mkdir(parents=True)

    def programs(self):
        """What the job `torchfl` hands on; as an artifact comes, without the right to run."""
        folder = self.folder / "target" / "ci" / f"bin-{ARCH}"
        folder.mkdir()
        for name in ("torchfl", "torchfl-skeleton"):
            shutil.copyfile(program(name), folder / name)

    def run(self, command, env):
        clean = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR", "LANG") if key in os.environ}
        # The environment of the tests is not that of the job; and nothing is downloaded.
        own = str(Path(sys.executable).parent)
        clean["PATH"] = os.pathsep.join(part for part in clean["PATH"].split(os.pathsep) if part != own)
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command]
        return subprocess.run(
            shell,
            cwd=self.folder,
            env={**clean, "PIP_NO_INDEX": "1", "PYTHON": sys.executable, **env},
            text=True,
            capture_output=True,
        )

    @property
    def report(self):
        return json.loads((self.folder / "target/ci/job/report/wheel.json").read_text())


def github(workflow, job, matrix, variables):
    """The commands of a job of GitHub with their environment, `${{ matrix.x }}` and `${{ vars.x }}` filled in."""
    known = {f"matrix.{name}": value for name, value in matrix.items()}
    known |= {f"vars.{name}": value for name, value in variables.items()}

    def filled(values):
        fill = lambda text: re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda hit: known.get(hit[1], ""), text)
        return {name: fill(str(value)) for name, value in (values or {}).items()}

    job = workflow["jobs"][job]
    steps = [step for step in job["steps"] if "run" in step]
    return [(step["run"], filled(job.get("env")) | filled(step.get("env"))) for step in steps]


def gitlab(workflow, job, matrix, variables):
    """The same of GitLab."""
    job = workflow[job]
    base = workflow.get(job.get("extends"), {})
    values = {**job.get("variables", {}), **matrix, **variables}
    env = {name: str(value).replace("$$", "$") for name, value in values.items()}
    return [(command, env) for command in [*base.get("script", []), *job.get("script", [])]]


SERVICES = {"github": github, "gitlab": gitlab}
