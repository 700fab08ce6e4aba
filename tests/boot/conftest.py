import os
import sys

import pytest
from environment import Real, Sim

SWAPS = ["core", "extra"]
# More interpreters, os.pathsep between them; each needs its headers.
PYTHONS = os.environ.get("TORCH_FL_PYTHONS", sys.executable).split(os.pathsep)
REAL = os.environ.get("TORCH_FL_REAL")  # set by tests/real/run.py


def pytest_configure(config):
    config.addinivalue_line("markers", "real: needs PyTorch's own wheels (TORCH_FL_REAL)")


def pytest_ignore_collect(collection_path, config):
    # Not skipped but absent: a run without the wheels does not claim these tests.
    return collection_path.name == "test_real.py" and not REAL or None


@pytest.fixture(scope="session")
def sims(tmp_path_factory):
    """Skeleton wheels by (swap, interpreter), generated when first asked for."""
    made = {}

    def get(swap, python=None):
        if (swap, python) not in made:
            folder = tmp_path_factory.mktemp(f"sim-{swap}")
            made[swap, python] = Sim(folder / "sim", swap, **({"python": python} if python else {}))
        return made[swap, python]

    return get


@pytest.fixture(scope="session")
def reals(tmp_path_factory):
    """Environments of the real torch by swap; tests must leave them as they are."""
    real = Real(REAL)
    made = {}

    def get(swap, **more):
        key = swap, *sorted(more.items())
        if key not in made:
            made[key] = real.environment(tmp_path_factory.mktemp(f"real-{swap}") / "venv", swap, **more)
        return made[key]

    return get


@pytest.fixture
def core(sims, tmp_path):
    """A sim environment of its own, core swap."""
    return sims("core").copy(tmp_path / "core")


@pytest.fixture
def extra(sims, tmp_path):
    """A sim environment of its own, extra swap."""
    return sims("extra").copy(tmp_path / "extra")


@pytest.fixture(params=SWAPS)
def sim(request, sims, tmp_path):
    """A sim environment of its own, either swap: the test may change it."""
    return sims(request.param).copy(tmp_path / "venv")


@pytest.fixture(params=[f"sim-{swap}" for swap in SWAPS] + ([f"real-{swap}" for swap in SWAPS] if REAL else []))
def environment(request, tmp_path):
    """Any environment: sim or real, either swap. Not to be changed."""
    kind, swap = request.param.split("-")
    if kind == "sim":
        return request.getfixturevalue("sims")(swap).copy(tmp_path / "venv")
    return request.getfixturevalue("reals")(swap)
