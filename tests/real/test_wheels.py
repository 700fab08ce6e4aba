"""The real wheels as files: the same bytes from every build, accepted by other people's readers."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import prepare
import pytest

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module", params=prepare.VENDORS.values())
def wheel(request):
    return prepare.build(request.param, prepare.REAL / "dist")


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def scattered(folder, output):
    """A copy whose directory entries were made in another order."""
    paths = sorted((p for p in folder.rglob("*") if p.is_file()), reverse=True)
    for path in paths:
        target = output / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_the_same_bytes_whatever_the_surroundings(wheel, threads, tmp_path):
    """Another folder, umask, time zone, locale and number of threads."""
    vendor = "cuda-slim" if ".slim-" in wheel.name else "cuda"
    environ = {**os.environ, "TZ": "Pacific/Chatham", "LC_ALL": "C", "LANG": "C", "HOME": str(tmp_path)}
    again = prepare.build(vendor, tmp_path / "dist", "--threads", threads, env=environ, umask=0o077)
    assert sha256(again) == sha256(wheel)


def test_the_same_bytes_from_two_folders(tmp_path):
    """An installed torch, its files in another order on disk: the bundle is that of the wheel file."""
    site = prepare.REAL / "site"
    if not (site / "torch" / "version.py").exists():
        with zipfile.ZipFile(prepare.vendor_torch()) as archive:
            archive.extractall(site)
    built = []
    for name in ("one", "two"):
        folder = site
        if name == "two":
            folder = tmp_path / "copy"
            scattered(site, folder)
        words = [prepare.TORCHFL, "--quiet", "--json", "build", "cuda-slim", "--torch", folder, "-o", tmp_path / name]
        out = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout
        built.append(json.loads(out)["sha256"])
    assert built[0] == built[1]


def test_unzip_reads_it(wheel):
    subprocess.run(["unzip", "-tqq", wheel], check=True)


def test_twine_and_check_wheel_contents_find_nothing(wheel):
    subprocess.run([BIN / "twine", "check", "--strict", wheel], check=True)
    # W002: two headers of the overlay, or two licence files, may well be equal. W004: a header's folder is no module.
    subprocess.run([BIN / "check-wheel-contents", "--ignore", "W002,W004,W009", wheel], check=True)


def test_wheel_unpacks_it_and_checks_every_hash(wheel, tmp_path):
    subprocess.run([BIN / "wheel", "unpack", wheel, "-d", tmp_path], check=True)


def test_pip_and_uv_install_it(wheel, tmp_path):
    """By both, alone: every file of RECORD is there, and the uninstall leaves nothing."""
    for name, words in {
        "pip": [sys.executable, "-m", "pip", "install", "-q", "--no-cache-dir", "--no-deps", "--target"],
        "uv": [BIN / "uv", "--no-cache", "pip", "install", "-q", "--no-deps", "--target"],
    }.items():
        target = tmp_path / name
        subprocess.run([*words, target, wheel], check=True)
        record = next(target.glob("torch_fl-*.dist-info/RECORD")).read_text().splitlines()
        assert all((target / row.split(",")[0]).exists() for row in record if not row.startswith('"'))
        shutil.rmtree(target)


def test_no_elf_file_names_the_machine_that_built_it(wheel):
    """Search paths are the manifest's; the vendor's own build folders inside debug strings are its business."""
    out = subprocess.run(
        [prepare.TORCHFL, "--json", "inspect", wheel], check=True, capture_output=True, text=True
    ).stdout
    for library in json.loads(out)["libraries"]:
        path = library["elf"]["search_path"]
        assert path["tag"] == "rpath", library["path"]
        assert all(entry.startswith("$ORIGIN") for entry in path["value"].split(":")), library["path"]


def test_its_constraints_name_the_stock_torch_and_shut_other_tritons(wheel):
    text = wheel.with_name(wheel.name.replace(".whl", ".constraints.txt")).read_text()
    local = wheel.name.split("-")[1]
    assert text.startswith(f"torch==2.13.0+cpu\ntorch_fl=={local}\n")
    assert "\ntriton-ascend==0+not.for.cuda\n" in text and "\ntriton==" not in text


def test_it_requires_the_triton_of_its_torch(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        assert "Requires-Dist: triton==3.7.1 ;" in archive.read(path).decode()
