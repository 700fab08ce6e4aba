"""Contracts of the device `flagos`, over FLAGOS_TARGET=cpu or, where it is unset, over the GPU.

Run by the Python of an environment that prepare.py made (`make plugin-test`), or by that of a GPU machine.
"""

import os
import subprocess
import sys
import textwrap

import pytest
import torch_fl  # before torch
import torch

ON_CPU = os.environ.get("FLAGOS_TARGET") == "cpu"
GPU_FILES = {"test_gpu.py"}


def pytest_report_header():
    # Not skipped but absent: a run without a GPU does not claim these tests.
    lacking = f"; not run: {', '.join(sorted(GPU_FILES))}, there is no GPU under flagos" if ON_CPU else ""
    built = torch_fl.boot_info()["plugin"]
    return f"torch {torch.__version__}, flagos over {built['registered']['target']}{lacking}"


def pytest_ignore_collect(collection_path):
    return ON_CPU and collection_path.name in GPU_FILES or None


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class Done:
    """A finished process."""

    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr
        self.text = self.out + self.err

    def ok(self):
        assert self.code == 0, self.text
        return self.out


@pytest.fixture
def program(tmp_path):
    """Run a program in a process of its own; keywords are environment variables, None unsets one."""

    def run(text, **changes):
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(text))
        environ = os.environ | {key: str(value) for key, value in changes.items() if value is not None}
        for key, value in changes.items():
            if value is None:
                environ.pop(key, None)
        done = subprocess.run(
            [sys.executable, file], env=environ, cwd=tmp_path, text=True, capture_output=True, timeout=300
        )
        return Done(done)

    return run
