"""What is wrong fails its step: a row that cannot fail says nothing."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from elsewhere import Elsewhere
from row import Row
from tools import ARCH, REPOSITORY, TAG, Failed, NotRun
from vendor import Built, Installed, Vendor

SIM = (REPOSITORY / "vendor-manifests" / "sim.toml").read_text()


def sim(folder, *edits):
    """The sample vendor for one Python and machine, with changes to its manifest."""
    text = SIM
    own = [('tags = ["cp310", "cp311", "cp312", "cp313", "cp314"]', f'tags = ["{TAG}"]')]
    for old, new in [*own, ('arch = ["x86_64", "aarch64"]', f'arch = ["{ARCH}"]'), *edits]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "sim.toml"
    path.write_text(text)
    return Vendor.file(path, folder)


@pytest.fixture(scope="session")
def sound(tmp_path_factory):
    """A sound wheel, for the tests that spoil what comes after it."""
    folder = tmp_path_factory.mktemp("sound")
    return Built(sim(folder), folder / "built", (), sdk_in_place=True).build().audit()


@pytest.fixture
def built(sound, tmp_path):
    """A copy of it that may be spoilt."""
    copy = object.__new__(Built)
    vars(copy).update(vars(sound), folder=tmp_path)
    copy.words, copy.company = list(sound.words), list(sound.company)
    return copy


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("markers = [\"sim = '1.0'\"]", "markers = [\"sim = '9.9'\"]", "E-BLD-013"),
        ('"libtorch_sim.so",\n]\nkernels', '"libtorch_sim.so", "liba.so",\n]\nkernels', "E-BLD-017"),
        ('kernels = "SIM" ', 'kernels = "SOM" ', "E-BLD-032"),
    ],
    ids=["another marker", "a library that is not there", "another dispatch key"],
)
def test_a_manifest_that_is_wrong_about_the_torch_is_not_built(built, tmp_path, old, new, code):
    edit = old, new
    built.words[built.words.index("--manifest") + 1] = sim(tmp_path / "wrong", edit).which[1]
    with pytest.raises(Failed) as failed:
        built.build()
    assert failed.value.code == code, failed.value


def test_a_search_path_that_misses_the_sdk_fails_the_audit(built, tmp_path):
    edit = 'search-path = ["$ORIGIN", "{sdk}/lib"]', 'search-path = ["$ORIGIN", "{sdk}/bin"]'
    built.words[built.words.index("--manifest") + 1] = sim(tmp_path / "wrong", edit).which[1]
    built.build()
    with pytest.raises(Failed, match="does not lead to libsimrt.so.1, which the SDK has"):
        built.audit()


def test_two_builds_that_differ_are_no_build(built, monkeypatch):
    once = Built._once

    def differently(self, folder, threads):
        wheel = once(self, folder, threads)
        if folder == "second":
            wheel.write_bytes(wheel.read_bytes() + b"\0")
        return wheel

    monkeypatch.setattr(Built, "_once", differently)
    with pytest.raises(Failed, match="differ"):
        built.build()


def rewritten(wheel, folder, change):
    """A wheel with its build.json changed."""
    changed = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w") as new:
        for member in old.infolist():
            data = old.read(member)
            if member.filename == "torch_fl/build.json":
                build = json.loads(data)
                change(build)
                data = json.dumps(build).encode()
            if not member.filename.endswith("/RECORD"):
                new.writestr(member, data)
    return changed


def test_a_wheel_that_does_not_say_skeleton_is_no_build(built, tmp_path):
    built.wheel = rewritten(built.wheel, tmp_path, lambda build: build.update(notes=[]))
    with pytest.raises(Failed, match=r"build.json notes \['skeleton'\]"):
        built._says_what_it_is()


def test_a_wheel_that_does_not_load_fails_the_audit(built, tmp_path):
    def change(build):
        build["open"] = [one for one in build["open"] if one["name"] != "libc10_sim.so"][::-1]

    built.wheel = rewritten(built.wheel, tmp_path, change)
    with pytest.raises(Failed, match="AUD-"):
        built.audit()


def test_a_wheel_of_another_python_is_not_installed(built, tmp_path):
    shutil.copy(built.wheel, tmp_path / built.wheel.name.replace(TAG, "cp39"))
    installed = Installed(built)
    built.wheel = tmp_path / built.wheel.name.replace(TAG, "cp39")
    with pytest.raises(Failed, match="pip install: .*cp39"):
        installed.install()


def broken(installed):
    (installed.site / "torch_fl" / "lib_sim" / "libtorch_sim.so").unlink()


def without_the_device(installed):
    path = installed.site / "torch_fl" / "build.json"
    build = json.loads(path.read_text())
    build["open"] = []
    path.write_text(json.dumps(build))


def unsafe(installed):
    os.chmod(installed.root, 0o777)  # others may change what lies there: no place for a facade


@pytest.mark.parametrize(
    ("fault", "told"),
    [(broken, "E-BOOT-006"), (without_the_device, "not so: "), (unsafe, "E-BOOT-010")],
)
def test_an_import_that_is_not_as_planned_fails(built, fault, told):
    installed = Installed(built)
    installed.install()
    fault(installed)
    with pytest.raises(Failed, match=told):
        installed.imports()


@pytest.mark.parametrize("path", ["torch_fl/mine.txt", "torch/version.py", "other.py"])
def test_what_an_uninstall_leaves_or_changes_is_found(built, path):
    installed = Installed(built)
    installed.install()
    with open(installed.site / path, "a") as file:
        file.write("# left\n")
    with pytest.raises(Failed, match=f"left or changed: {path}"):
        installed.uninstall()


def test_a_library_of_another_machine_is_not_loaded(built, tmp_path, monkeypatch):
    """By this machine's own ld.so: the emulator stays out of it."""
    made = loadable(built, tmp_path, monkeypatch)
    made.load()
    path = made.site / "torch_fl" / "lib_sim" / "libtorch_sim.so"
    data = bytearray(path.read_bytes())
    data[18] ^= 0xFF  # e_machine
    path.write_bytes(data)
    with pytest.raises(Failed, match="ld.so: .*libtorch_sim.so"):
        made.load()


def test_another_order_than_the_models_is_found(built, tmp_path, monkeypatch):
    made = loadable(built, tmp_path, monkeypatch)
    mapped = built.report["mapped"]
    last = [at for at, one in enumerate(mapped) if one["file"].startswith("torch_fl/")][-2:]
    swapped = list(mapped)
    swapped[last[0]], swapped[last[1]] = mapped[last[1]], mapped[last[0]]
    built.report = {**built.report, "mapped": swapped}
    with pytest.raises(Failed, match="ld.so maps .*; the model has "):
        made.load()


def loadable(built, tmp_path, monkeypatch):
    monkeypatch.setattr("elsewhere.emulated", lambda arch: [])
    monkeypatch.setattr("elsewhere.compiler", lambda arch: "cc")
    made = Elsewhere(built, TAG, ARCH)
    made.install()
    return made


def test_what_this_machine_lacks_is_not_run_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("elsewhere.missing", lambda *programs: programs[0])
    vendor = sim(tmp_path, (f'arch = ["{ARCH}"]', 'arch = ["x86_64", "aarch64"]'))
    row = Row(vendor, next(arch for arch in ("x86_64", "aarch64") if arch != ARCH)).run()
    assert set(row.state.values()) == {"not-run"} and not row.failed
    assert set(row.state) <= set(row.reasons), row.reasons


def test_a_step_that_fails_is_the_rows_and_those_behind_it_are_not_run(tmp_path, monkeypatch):
    def fails(self):
        raise Failed("as told to")

    monkeypatch.setattr(Built, "audit", fails)
    row = Row(sim(tmp_path), ARCH).run()
    assert row.failed
    assert [row.state[step] for step in ("build", "audit", "install", "import")] == ["ok", "fail", "not-run", "not-run"]
    assert row.json()["reasons"]["audit"] == f"{TAG}: as told to"
    assert row.json()["tags"] == {TAG: {"build": "ok", "audit": "fail"}}
