"""What an attack on the finder and its carrier found: each point stays closed."""

import json
import shutil
import subprocess

import pytest

TRY = """
def attempt(name):
    try:
        __import__(name)
    except ImportError as error:
        return getattr(error, "code", None) or repr(error)
    return "imported"
"""


# 1: without a check after the import, a torch that came another way passes silently


def test_point_01_another_finder_in_front_is_noticed(sim):
    said = sim.run(
        TRY
        + """
from importlib.machinery import PathFinder

class Other:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch":
            return PathFinder.find_spec(name, [p for p in sys.path if "gate" not in p])

def meddle(event, arguments):
    if event == "import" and arguments[0] == "torch" and Other not in sys.meta_path:
        sys.meta_path.insert(0, Other)

sys.addaudithook(meddle)
say([attempt("torch_fl"), attempt("torch")])
"""
    ).said
    assert said == ["E-BOOT-012", "imported"]


def test_point_01_a_thread_that_is_importing_torch_is_noticed(sim):
    path = sim.torch / "_utils.py"
    path.write_text("import time; time.sleep(2)\n" + path.read_text())
    said = sim.run(
        TRY
        + """
import threading, time
thread = threading.Thread(target=attempt, args=("torch",))
thread.start()
time.sleep(0.5)
first = attempt("torch_fl")
thread.join()
say([first, attempt("torch_fl")])
"""
    ).said
    assert said == ["E-BOOT-002", "E-BOOT-002"]


def test_point_01_every_import_verifies(sim):
    """A torch that was put in place of the one which came through the finder."""
    said = sim.run(
        TRY
        + """
import torch_fl, torch
first = torch.__file__
del sys.modules["torch_fl"]
again = attempt("torch_fl")
del sys.modules["torch_fl"]
sys.modules["torch"] = fake = type(sys)("torch")
fake.__file__ = "/nowhere/torch/__init__.py"
say([again, attempt("torch_fl")])
"""
    ).said
    assert said == ["imported", "E-BOOT-003"]


# 2: carriers are recognised by a marker and by real path


def test_point_02_carriers_by_other_paths_do_not_find_themselves(sim, tmp_path):
    (sim.root / "lib64").exists() or (sim.root / "lib64").symlink_to("lib")
    other = tmp_path / "copy"
    shutil.copytree(sim.home, other / "torch_fl", symlinks=True)
    python = sim.site.parent.name
    linked = tmp_path / "linked"
    linked.symlink_to(sim.root)
    gates = [
        sim.root / "lib64" / python / "site-packages" / "torch_fl" / "gate",
        linked / "lib" / python / "site-packages" / "torch_fl" / "gate",
        other / "torch_fl" / "gate",
        sim.home / "gate",
    ]
    for options in ((), ("-S",)):
        path = [*gates, sim.site] if options else gates
        result = sim.run("import torch; say(where())", options=options, PYTHONPATH=":".join(map(str, path)), timeout=60)
        where = result.said
        for name in sim.planned():
            assert len(where[name]) == 1
        assert where["libc10_sim.so"], result.err


def test_point_02_a_second_build_in_the_process_is_refused(sim, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(sim.home, other / "torch_fl", symlinks=True)
    facts = json.loads((other / "torch_fl" / "build.json").read_text())
    facts["version"] = "2.13.0+sim9.9"
    (other / "torch_fl" / "build.json").write_text(json.dumps(facts))
    said = sim.run(
        TRY
        + """
import torch_fl
for name in [n for n in sys.modules if n.split(".")[0] == "torch_fl"]:
    del sys.modules[name]
sys.path.insert(0, sys.argv[1])
say(attempt("torch_fl"))
""",
        other,
    ).said
    assert said == "E-BOOT-009"
    # The carrier of the one, the package of the other.
    said = sim.run(TRY + "say(attempt('torch_fl'))", PYTHONPATH=other / "torch_fl" / "gate").said
    assert said == "E-BOOT-009"


def test_point_02_the_same_build_twice_is_one(sim, tmp_path):
    shutil.copytree(sim.home, tmp_path / "other" / "torch_fl", symlinks=True)
    said = sim.run(TRY + "say(attempt('torch_fl'))", PYTHONPATH=tmp_path / "other" / "torch_fl" / "gate").said
    assert said == "imported"


# 3: torch is looked up through every finder


@pytest.fixture
def editable(sim, tmp_path):
    """Torch moved out of site-packages, found by a finder as setuptools installs one for editable installs."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    sim.torch.rename(checkout / "torch")
    shutil.rmtree(next(sim.site.glob("torch-*.dist-info")))
    (sim.site / "__editable___torch_finder.py").write_text(
        f"""
import sys
from importlib.util import spec_from_file_location

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "torch":
            folder = {str(checkout / "torch")!r}
            return spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])

def install():
    sys.meta_path.append(Finder)
"""
    )
    (sim.site / "__editable__.torch.pth").write_text(
        "import __editable___torch_finder; __editable___torch_finder.install()\n"
    )
    sim.torch = checkout / "torch"
    return sim


def test_point_03_an_editable_torch_is_found(editable):
    said = editable.run(
        """
import torch_fl, torch
say([where(), torch.__file__, torch_fl.boot_info()["torch"]["folder"]])
"""
    ).said
    editable.assert_planned(said[0])
    assert said[2] == str(editable.torch)
    assert said[1].startswith(str(editable.cache if editable.swap == "core" else editable.torch))


def test_point_03_a_folder_called_torch_is_no_torch(sim):
    shutil.rmtree(sim.torch)
    (sim.torch / "lib").mkdir(parents=True)
    assert sim.run(TRY + "say(attempt('torch_fl'))").said == "E-BOOT-003"


def test_point_03_hooks_that_ask_back_are_answered(sim):
    """As wrapt's and opentelemetry's import hooks do: they look a module up again, and wrap its loader."""
    said = sim.run(
        """
import importlib.util

class Hook:
    busy, ran = set(), []
    def find_spec(self, name, path=None, target=None):
        if name != "torch" or name in self.busy:
            return None
        self.busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy.discard(name)
        real = spec.loader.exec_module
        def run(module):
            self.ran.append(module.__file__)
            real(module)
        spec.loader.exec_module = run
        return spec

sys.meta_path.insert(0, Hook())
import torch_fl, torch
say([where(), Hook.ran, torch.__file__, torch_fl.boot_info()["redirect"]])
"""
    ).said
    sim.assert_planned(said[0])
    assert said[1] == [said[2]]


# 4: a failed bootstrap leaves no half


def test_point_04_a_failure_before_the_first_library_leaves_the_stock_torch(sim):
    (sim.bundle / "libtorch_sim.so").unlink()
    said = sim.run(
        TRY
        + """
first = [attempt("torch_fl"), attempt("torch_fl"), attempt("torch"), attempt("torch_fl")]
import torch
say([first, where(), torch.__file__, [p for p in sys.path if "gate" in p]])
"""
    ).said
    assert said[0] == ["E-BOOT-006", "E-BOOT-006", "imported", "E-BOOT-006"]
    sim.assert_stock(said[1])
    assert said[2] == str(sim.torch / "__init__.py")
    assert said[3] == []


def test_point_04_a_failure_after_it_is_raised_by_every_later_import(sim):
    # Of the right size, and no library: only dlopen can tell.
    library = sim.bundle / "libtorch_sim.so"
    library.write_bytes(b"\0" * library.stat().st_size)
    said = sim.run(
        TRY
        + """
seen = [attempt("torch_fl"), attempt("torch"), attempt("torch._utils"), attempt("torch_fl")]
import importlib.util
say([seen, importlib.util.find_spec("torch") is not None])
"""
    ).said
    assert said == [["E-BOOT-008"] * 4, True]


def test_point_04_a_failure_of_torch_itself_is_final_too(sim):
    """Its libraries are open, and it cannot be initialised twice."""
    with (sim.torch / "__init__.py").open("a") as file:
        file.write("\nraise RuntimeError('torch itself')\n")
    said = sim.run(
        """
seen = []
for name in ("torch_fl", "torch", "torch"):
    try:
        __import__(name)
    except ImportError as error:
        seen.append([error.code, "torch itself" in str(error)])
say(seen)
"""
    ).said
    assert said == [["E-BOOT-015", True]] * 3


def test_point_04_asking_whether_torch_exists_raises_nothing(sim):
    (sim.bundle / "libtorch_sim.so").unlink()
    said = sim.run(
        """
import importlib.util
spec = importlib.util.find_spec("torch")
try:
    import torch
    error = None
except ImportError as e:
    error = e.code
import torch
say([spec is not None, error, torch.__file__])
""",
        PYTHONPATH=sim.home / "gate",
    ).said
    assert said == [True, "E-BOOT-006", str(sim.torch / "__init__.py")]


# 5: those who open by path


def test_point_05_with_the_facade_a_library_opened_by_path_is_the_loaded_one(core):
    said = core.run(
        """
import ctypes, torch_fl, torch
before = where()
for name in ("libc10.so", "libtorch_cpu.so", "libtorch_global_deps.so"):
    ctypes.CDLL(torch.__path__[0] + "/lib/" + name)
say([before, where()])
"""
    ).said
    core.assert_planned(said[1])
    assert said[0] == said[1]


def test_point_05_without_the_facade_there_is_a_warning(core):
    result = core.run(
        "import torch_fl; say(torch_fl.boot_info()['warnings'])",
        TORCH_FL_REDIRECT="open",
        options=("-W", "error::UserWarning"),
    )
    assert any("facade" in text for text in result.said)
    assert "RuntimeWarning" in result.err


@pytest.mark.parametrize("name", ["libc10.so", "libtorch_cpu.so"])
def test_point_05_a_core_that_is_loaded_already_is_refused(core, name):
    said = core.run(
        TRY
        + f"""
import ctypes
ctypes.CDLL({str(core.torch / "lib" / name)!r})
say([attempt("torch_fl"), attempt("torch")])
"""
    ).said
    assert said == ["E-BOOT-011", "imported"]


def test_point_05_another_file_with_our_soname_is_refused(sim, tmp_path):
    """The loader matches by SONAME: a file of any other name takes the place of ours as well."""
    shutil.copy(sim.torch / "lib" / "libc10.so", tmp_path / "renamed.so")
    if sim.swap == "extra":
        # The stock core is what is planned here; a copy of it is another file all the same.
        assert (tmp_path / "renamed.so").stat().st_ino != (sim.torch / "lib" / "libc10.so").stat().st_ino
    said = sim.run(TRY + f"import ctypes; ctypes.CDLL({str(tmp_path / 'renamed.so')!r}); say(attempt('torch_fl'))").said
    assert said == "E-BOOT-011"


def test_point_05_the_planned_files_themselves_may_be_loaded_already(sim):
    said = sim.run(
        TRY
        + f"import ctypes; ctypes.CDLL({str(sim.bundle / 'libc10_sim.so')!r}, mode=os.RTLD_LAZY); say(attempt('torch_fl'))",
        LD_LIBRARY_PATH=sim.bundle if sim.swap == 'core' else sim.torch / 'lib',
    ).said
    assert said == "imported"


# 6: with a facade everything names it


def test_point_06_file_path_origin_and_search_locations_name_the_facade(core):
    said = core.run(
        """
import torch_fl, torch, torch._utils, importlib.util, inspect, importlib.resources
spec = torch.__spec__
say({
    "facade": torch_fl.boot_info()["facade"],
    "names": [torch.__file__, *torch.__path__, spec.origin, *spec.submodule_search_locations,
              importlib.util.find_spec("torch").origin, torch._utils.__file__, torch._utils._rebuild_tensor.__code__.co_filename,
              inspect.getsourcefile(torch), str(importlib.resources.files("torch"))],
    "loader": type(spec.loader).__name__,
    "loader is": torch.__loader__ is spec.loader,
    "source": inspect.getsource(torch._utils._rebuild_tensor),
})
"""
    ).said
    assert all(name.startswith(said["facade"] + "/torch") for name in said["names"]), said
    assert said["loader"] == "SourceFileLoader" and said["loader is"]
    assert said["source"].startswith("def _rebuild_tensor")


def test_point_06_without_one_everything_names_the_installed_torch(extra):
    said = extra.run(
        """
import torch_fl, torch
spec = torch.__spec__
say([torch.__file__, *torch.__path__, spec.origin, *spec.submodule_search_locations, type(spec.loader).__name__])
"""
    ).said
    assert said.pop() == "SourceFileLoader"
    assert all(name.startswith(str(extra.torch)) for name in said)


# 7: `extra` opens all core libraries by path


def test_point_07_extra_opens_the_whole_stock_core_by_path(extra):
    fork = extra.facts["vendor"] / "torch" / "lib"
    said = extra.run(
        "import torch_fl; say([where(), torch_fl.boot_info()['opened']])",
        LD_LIBRARY_PATH=fork,
    ).said
    extra.assert_planned(said[0])
    for name in ("libc10.so", "libtorch_cpu.so", "libtorch.so", "libshm.so", "libtorch_python.so"):
        assert str(extra.torch / "lib" / name) in said[1]


# 8: compile caches do not know the core


def test_point_08_compile_caches_are_of_this_build(core):
    names = sorted(core.build["caches"])
    text = "import torch_fl; say({n: os.environ.get(n) for n in %r} | {'id': torch_fl.boot_info()['build_id']})" % names
    first = core.run(text, TRITON_CACHE_DIR="/mine").said
    assert first["TRITON_CACHE_DIR"] == "/mine"
    assert first["id"][:16] in first["TORCHINDUCTOR_CACHE_DIR"] and str(core.cache) in first["TORCHINDUCTOR_CACHE_DIR"]
    core.edit(lambda build: build.update(version="2.13.0+sim1.0.post1"))
    assert core.run(text).said["TORCHINDUCTOR_CACHE_DIR"] != first["TORCHINDUCTOR_CACHE_DIR"]


def test_point_08_extra_leaves_compile_caches_alone(extra):
    said = extra.run("before = dict(os.environ); import torch_fl; say(before == dict(os.environ))").said
    assert said is True


# 9: backends


BACKEND = """
import os
def start():
    os.environ["{name}_RAN"] = str(os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD"))
    {body}
"""


def add_backend(environment, name, body="pass"):
    (environment.site / f"{name}.py").write_text(BACKEND.format(name=name, body=body))
    info = environment.site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[torch.backends]\n{name} = {name}:start\n")


LOOK = """
import importlib.metadata
real = importlib.metadata.entry_points
def look(*_):
    import torch
    return [sorted(n for n in os.environ if n.endswith("_RAN")), os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD"), "torch_npu" in sys.modules]
if __name__ == "__main__":
    import torch_fl, multiprocessing
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        child = pool.apply(look)
    say([look(), child, torch_fl.boot_info()["backends"], importlib.metadata.entry_points is real])
"""


def test_point_09_rivals_are_left_out_others_run_failures_are_reported(sim):
    add_backend(sim, "torch_npu", "raise RuntimeError('claimed')")
    add_backend(sim, "torch_good")
    add_backend(sim, "torch_broken", "raise RuntimeError('no driver')")
    result = sim.run(LOOK)
    parent, child, backends, restored = result.said
    assert parent == child == [["torch_broken_RAN", "torch_good_RAN"], None, False]
    assert {entry["name"]: entry["state"] for entry in backends} == {
        "torch_npu": "left out",
        "torch_good": "ran",
        "torch_broken": "failed",
    }
    assert "no driver" in next(entry["error"] for entry in backends if entry["state"] == "failed")
    assert "torch_broken" in result.err
    assert restored
    # In the stock torch the broken one fails the import, and it still does: nothing was changed there.
    assert sim.run("import torch").code == 1


def test_point_09_autoload_switched_off_by_the_user_stays_off(sim):
    add_backend(sim, "torch_good")
    parent, child, backends, _ = sim.run(LOOK, TORCH_DEVICE_BACKEND_AUTOLOAD="0").said
    assert parent == child == [[], "0", False]
    assert backends == []


# 10: one copy of a support library


def test_point_10_a_support_library_that_is_loaded_already_is_not_opened_again(sim, tmp_path):
    mine = tmp_path / "libgomp.so.1"
    shutil.copy(sim.torch / "lib" / "libgomp.so.1", mine)
    said = sim.run("import torch_fl; say([where(), torch_fl.boot_info()['already_loaded']])", LD_PRELOAD=mine).said
    assert said[0]["libgomp.so.1"] == [mine.stat().st_ino]
    assert said[1] == {"libgomp.so.1": str(mine)}
    said = sim.run(f"import ctypes; ctypes.CDLL({str(mine)!r}); import torch_fl; say(where())").said
    assert said["libgomp.so.1"] == [mine.stat().st_ino]


# 11: another interpreter


def test_point_11_another_interpreter_steps_aside(sim):
    sim.edit(lambda build: build.update(python="cpython-399"))
    said = sim.run("import torch; say([where(), sys.path])", PYTHONPATH=sim.home / "gate").said
    sim.assert_stock(said[0])
    assert not any("gate" in entry for entry in said[1])
    assert sim.run(TRY + "say(attempt('torch_fl'))").said == "E-BOOT-013"


# 12: device extensions build against a facade


def test_point_12_an_extension_links_against_the_published_facade(sim, tmp_path):
    folder = tmp_path / "for-builds"
    result = sim.command(sim.home / "_facade.py", folder)
    answer = json.loads(result.ok().out)
    assert answer["facade"] == str(folder)
    source = tmp_path / "extension.c"
    source.write_text(
        "#include <c10/sim/Stream.h>\nconst char *c10_sim_build(void);\nconst char *ask(void) { return c10_sim_build(); }\n"
    )
    library = tmp_path / "libextension.so"
    torch = folder / "torch"
    command = [
        "cc",
        "-shared",
        "-fPIC",
        f"-I{torch / 'include'}",
        source,
        f"-L{torch / 'lib'}",
        "-lc10_sim",
        "-o",
        library,
    ]
    subprocess.run(command, check=True)
    said = sim.run(
        f"""
import ctypes, torch_fl
library = ctypes.CDLL({str(library)!r})
library.ask.restype = ctypes.c_char_p
say([library.ask().decode(), where()])
"""
    ).said
    assert said[0] == "sim"
    sim.assert_planned(said[1])
    # Published again over itself; a torch found inside it is looked through.
    sim.command(sim.home / "_facade.py", folder).ok()
    said = sim.run("import torch_fl; say([where(), torch_fl.boot_info()['torch']['folder']])", PYTHONPATH=folder).said
    sim.assert_planned(said[0])
    assert said[1] == str(sim.torch)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    refused = sim.command(sim.home / "_facade.py", tmp_path / "taken")
    assert refused.code == 1 and "not a facade" in refused.err
