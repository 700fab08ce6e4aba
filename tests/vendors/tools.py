"""Running our programs, and what they and this machine say of themselves."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
ARCH = platform.machine()


class Failed(Exception):
    """A step failed; the text says at what."""

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code


class NotRun(Exception):
    """A step cannot be run here; the text says why."""


def run(*words, **options):
    """The finished process; what it printed is kept apart."""
    return subprocess.run([str(word) for word in words], text=True, capture_output=True, **options)


def program(name):
    """One of our own programs, from TORCH_FL_BIN or the release build."""
    path = Path(os.environ.get("TORCH_FL_BIN") or REPOSITORY / "target" / "release") / name
    if not path.exists():
        raise Failed(f"{path} is missing: cargo build --release")
    return path


def torchfl(*words, findings=False):
    """`torchfl --json`: what it says. With `findings`, exit code 1 is an answer too."""
    done = run(program("torchfl"), "--json", "--quiet", *words)
    said = parsed(done.stdout)
    if done.returncode == 0 or findings and done.returncode == 1:
        return said
    error = said["error"] if said else {"code": None, "message": done.stderr.strip() or f"exit {done.returncode}"}
    raise Failed(f"{error['code']}: {error['message']}", error["code"])


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def skeleton(*words):
    """`torchfl-skeleton --json`: paths of what it made; None where there is none of a kind."""
    done = run(program("torchfl-skeleton"), "--json", *words)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    return json.loads(done.stdout)


def missing(*programs):
    """The first of these programs that is not installed."""
    return next((name for name in programs if shutil.which(name) is None), None)


def fresh(folder):
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
