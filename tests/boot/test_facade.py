"""The facade and its place: published once, mended, safe, and never needed to be trusted."""

import os
import shutil
import stat

import pytest

INFO = "import torch_fl, torch; say([torch_fl.boot_info(), where(), torch.__file__])"


def test_sixteen_first_imports_at_once_publish_once(core):
    said = core.run(
        """
import subprocess
program = "import torch_fl; print(torch_fl.boot_info()['facade'])"
start = [subprocess.Popen([sys.executable, "-c", program], stdout=-1, stderr=-1, text=True) for _ in range(16)]
say([process.communicate() for process in start])
"""
    ).said
    (facade,) = core.facades()
    assert [out.strip() for out, _ in said] == [str(facade)] * 16, said
    assert [err for _, err in said] == [""] * 16


def test_killed_at_any_point_the_next_import_repairs(core):
    """SIGKILL at each system call that changes the cache folder, found by Python's audit events."""
    said = core.run(
        """
import shutil, signal, traceback

CHANGES = {"os.mkdir", "os.symlink", "os.rename", "os.remove", "os.rmdir", "open"}

def child(limit):
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    count = 0
    def watch(event, arguments):
        nonlocal count
        if event in CHANGES and str(arguments[0]).startswith(cache) or event == "os.symlink":
            count += 1
            if limit is not None and count > limit:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
    try:
        import torch_fl, torch
        names = where()
        for name in ("libc10.so", "libtorch_cpu.so"):
            assert names[name] == [os.stat(torch_fl.boot_info()["facade"] + "/torch/lib/" + name).st_ino]
        assert torch.__file__ == torch_fl.boot_info()["facade"] + "/torch/__init__.py"
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

cache = os.environ["TORCH_FL_CACHE_DIR"]
killed = []
for limit in range(1000):
    shutil.rmtree(cache, ignore_errors=True)
    status = child(limit)
    if not os.WIFSIGNALED(status):
        break
    killed.append(child(None))
say([killed, status])
"""
    ).said
    assert len(said[0]) > 20
    assert said == [[0] * len(said[0]), 0]


def test_a_link_that_is_gone_is_laid_again(core):
    said = core.run(INFO).said
    facade = core.facades()[0]
    links = sorted(path for path in facade.rglob("*") if path.is_symlink())
    assert len(links) > 20
    for path in links[:: max(1, len(links) // 8)]:
        path.unlink()
    (facade / "torch" / "lib" / "libc10.so").unlink(missing_ok=True)
    (facade / "torch" / "lib" / "libc10.so").symlink_to(core.torch / "lib" / "libc10.so")
    inode = facade.stat().st_ino
    again = core.run(INFO).said
    assert again[2] == said[2] and facade.stat().st_ino == inode
    assert sorted(path for path in facade.rglob("*") if path.is_symlink()) == links
    assert os.readlink(facade / "torch" / "lib" / "libc10.so") == str(core.bundle / "libc10.so")
    shutil.rmtree(facade / "torch" / "lib")
    core.assert_planned(core.run(INFO).said[1])


def test_links_lead_to_the_bundle_first_and_to_the_overlay_file_by_file(core):
    core.run(INFO).ok()
    torch = core.facades()[0] / "torch"
    assert os.readlink(torch / "lib" / "libtorch_cpu.so") == str(core.bundle / "libtorch_cpu.so")
    assert os.readlink(torch / "lib" / "libgomp.so.1") == str(core.torch / "lib" / "libgomp.so.1")
    assert os.readlink(torch / "include" / "torch" / "build.h") == str(core.home / "overlay/include/torch/build.h")
    assert (torch / "include" / "c10" / "sim" / "Stream.h").exists()
    assert os.readlink(torch / "utils") == str(core.torch / "utils")
    names = {path.name for path in core.torch.iterdir()}
    assert {path.name for path in torch.iterdir()} - {"__pycache__"} == names


def test_another_torch_or_build_has_another_facade(core):
    names = [core.run(INFO).said[2]]
    record = next(core.site.glob("torch-*.dist-info")) / "RECORD"
    record.write_text(record.read_text() + "x,,\n")
    names.append(core.run(INFO).said[2])
    record.unlink()
    names.append(core.run(INFO).said[2])
    os.utime(core.torch / "_utils.py", ns=(1, 1))
    names.append(core.run(INFO).said[2])
    core.edit(lambda build: build.update(title="another"))
    names.append(core.run(INFO).said[2])
    (core.torch / "new.py").touch()
    names.append(core.run(INFO).said[2])
    assert len(set(names)) == 6
    assert core.run(INFO).said[2] == names[-1]


@pytest.mark.parametrize("given", ["cache", "xdg", "home", "tmpdir"])
def test_its_place(core, tmp_path, given):
    (tmp_path / "t").mkdir()
    places = {
        "cache": ({"TORCH_FL_CACHE_DIR": tmp_path / "a" / "b"}, tmp_path / "a" / "b"),
        "xdg": ({"XDG_CACHE_HOME": tmp_path / "x"}, tmp_path / "x" / "torch-fl"),
        "home": ({"HOME": tmp_path / "t"}, tmp_path / "t" / ".cache" / "torch-fl"),
        "tmpdir": ({"HOME": "/nonexistent", "TMPDIR": tmp_path / "t"}, tmp_path / "t" / f"torch-fl-{os.getuid()}"),
    }
    changes, place = places[given]
    said = core.run(INFO, **{"TORCH_FL_CACHE_DIR": None, **changes}).said
    assert said[0]["facade"].startswith(f"{place}/facade/")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert said[0]["warnings"] == []
    assert not os.path.exists("/nonexistent")


def test_unsafe_folders_are_passed_over(core, tmp_path):
    def mode(path, bits):
        path.mkdir()
        path.chmod(bits)
        return path

    open_to_all = mode(tmp_path / "open", 0o777)
    good = mode(tmp_path / "good", 0o1777)
    plain = {"TORCH_FL_CACHE_DIR": None, "XDG_CACHE_HOME": open_to_all, "TMPDIR": good}
    said = core.run(INFO, **plain).said
    assert said[0]["facade"].startswith(str(good)) and said[0]["warnings"] == []
    assert list(open_to_all.iterdir()) == []
    # In a sticky folder anybody can lay our name first: as a link, or as a folder open to others.
    place = good / f"torch-fl-{os.getuid()}"
    shutil.rmtree(place)
    place.symlink_to(tmp_path)
    result = core.run(INFO, **plain)
    assert result.said[0]["facade"] is None and "is a link" in result.err
    place.unlink()
    place.mkdir()
    place.chmod(0o777)
    result = core.run(INFO, **plain)
    assert result.said[0]["redirect"] == "open" and "can be written by others" in result.err
    core.assert_planned(result.said[1])


@pytest.mark.parametrize("redirect", ["auto", "facade"])
def test_an_unsafe_folder_that_was_asked_for_is_an_error(core, tmp_path, redirect):
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    text = "try:\n import torch_fl\nexcept ImportError as error:\n say([error.code, str(error)])\nimport torch"
    said = core.run(text, TORCH_FL_CACHE_DIR=place).ok().said
    assert said[0] == "E-BOOT-010" and "written by others" in said[1]
    asked = {"TORCH_FL_CACHE_DIR": None, "XDG_CACHE_HOME": place, "TMPDIR": place, "TORCH_FL_REDIRECT": redirect}
    result = core.run(text + "\nsay(where())" if redirect == "auto" else text, **asked).ok()
    if redirect == "facade":
        assert result.said[0] == "E-BOOT-010"
    else:
        core.assert_planned(result.said)


def test_a_file_in_the_place_of_the_folder_is_an_error(core, tmp_path):
    (tmp_path / "file").touch()
    text = "try:\n import torch_fl\nexcept ImportError as error:\n say(error.code)"
    assert core.run(text, TORCH_FL_CACHE_DIR=tmp_path / "file").said == "E-BOOT-010"
    assert core.run(text, TORCH_FL_CACHE_DIR=tmp_path / "file" / "below").said == "E-BOOT-010"


def test_a_published_facade_is_used_from_a_read_only_place(core, tmp_path):
    """An image with the cache baked in."""
    core.run(INFO).ok()
    prefix = [
        "unshare",
        "-Urm",
        "sh",
        "-c",
        f'mount --bind {core.cache} {core.cache} && mount -o remount,ro,bind {core.cache} && exec "$@"',
        "sh",
    ]
    said = core.run(INFO, prefix=prefix).said
    assert said[0]["redirect"] == "facade"
    core.edit(lambda build: build.update(title="another"))
    text = "try:\n import torch_fl\nexcept ImportError as error:\n say([error.code, str(error)])"
    assert core.run(text, prefix=prefix).said[0] == "E-BOOT-010"


def test_no_home_and_no_passwd_entry(core, tmp_path):
    prefix = ["unshare", "--user", "--map-user=54321"]
    (tmp_path / "t").mkdir()
    said = core.run(INFO, prefix=prefix, HOME=None, TORCH_FL_CACHE_DIR=None, TMPDIR=tmp_path / "t").said
    assert said[0]["facade"].startswith(str(tmp_path / "t" / "torch-fl-54321"))
    core.assert_planned(said[1])


def test_a_cache_without_execution(core, tmp_path):
    """The facade is links alone; compiled code goes elsewhere."""
    core.cache.mkdir()
    (tmp_path / "t").mkdir()
    prefix = ["unshare", "-Urm", "sh", "-c", f'mount -t tmpfs -o noexec,mode=700 none {core.cache} && exec "$@"', "sh"]
    said = core.run(INFO, prefix=prefix, TMPDIR=tmp_path / "t").said
    assert said[0]["redirect"] == "facade"
    core.assert_planned(said[1])
    assert said[0]["env"]["TORCHINDUCTOR_CACHE_DIR"].startswith(str(tmp_path / "t"))


def test_read_only_site_packages(sim):
    prefix = [
        "unshare",
        "-Urm",
        "sh",
        "-c",
        f'mount --bind {sim.site} {sim.site} && mount -o remount,ro,bind {sim.site} && exec "$@"',
        "sh",
    ]
    said = sim.run(INFO, prefix=prefix).said
    sim.assert_planned(said[1])
    assert said[0]["warnings"] == []


def beside(environment, **changes):
    """Lays the facade beside torch_fl, as an image's or a store's builder does."""
    code = environment.site / "torch_fl" / "_facade.py"
    return environment.command("-I", code, "--beside", **changes)


def test_a_facade_beside_torch_fl_is_used_and_nothing_is_written(core, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    beside(core).ok()
    (facade,) = (core.site / "torch_fl.facade").iterdir()
    plain = {"HOME": home, "TORCH_FL_CACHE_DIR": None, "XDG_CACHE_HOME": None}
    said = core.run(INFO, **plain).said
    assert said[0]["facade"] == str(facade) and said[0]["warnings"] == []
    core.assert_planned(said[1])
    # Compiled code has a place of its own, which whoever compiles makes.
    assert said[0]["env"]["TORCHINDUCTOR_CACHE_DIR"].startswith(f"{home}/.cache/torch-fl/cache/")
    assert list(home.iterdir()) == []


def test_a_facade_beside_torch_fl_serves_its_own_build_and_torch_alone(core):
    beside(core).ok()
    (facade,) = (core.site / "torch_fl.facade").iterdir()
    (facade / "torch" / "lib" / "libc10.so").unlink()
    said = core.run(INFO).said
    assert said[0]["facade"].startswith(str(core.cache))
    core.assert_planned(said[1])
    beside(core).ok()
    core.edit(lambda build: build.update(title="another"))
    assert core.run(INFO).said[0]["facade"].startswith(str(core.cache))


def test_a_shared_folder_is_not_left_for_another_to_make(core, tmp_path):
    """Below /tmp the place is made at once even where nothing is to be written yet."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    beside(core).ok()
    plain = {"HOME": "/nonexistent", "TORCH_FL_CACHE_DIR": None, "XDG_CACHE_HOME": None, "TMPDIR": shared}
    assert core.run(INFO, **plain).said[0]["warnings"] == []
    assert stat.S_IMODE((shared / f"torch-fl-{os.getuid()}").stat().st_mode) == 0o700


def test_torch_in_a_base_environment_under_a_venv(sim, tmp_path):
    base = tmp_path / "base"
    base.mkdir()
    for entry in [sim.torch, next(sim.site.glob("torch-*.dist-info"))]:
        entry.rename(base / entry.name)
    (sim.site / "base.pth").write_text(f"{base}\n")
    sim.torch = base / "torch"
    said = sim.run(INFO).said
    sim.assert_planned(said[1])
    assert said[0]["torch"]["folder"] == str(base / "torch")


def test_leftovers_of_killed_processes_are_swept(core):
    core.run(INFO).ok()
    old, new = core.cache / "facade" / "x.1-1.new", core.cache / "facade" / "y.1-1.new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (1, 1))
    core.edit(lambda build: build.update(title="another"))
    core.run(INFO).ok()
    assert not old.exists() and new.exists()
