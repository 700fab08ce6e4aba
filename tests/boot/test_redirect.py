"""The redirect itself: parent and children run on the planned libraries, whatever the environment names."""

import os

import pytest
from conftest import PYTHONS, SWAPS

# In the children the first act is to unpickle a tensor: that imports torch before anything else.
POOLS = """
import multiprocessing

def look(tensor):
    import torch
    return where(), torch._C._dispatch_has_kernel_for_dispatch_key("aten::mm", sys.argv[1]), (tensor + tensor).tolist()

if __name__ == "__main__":
    import torch_fl, torch
    seen = {"parent": look(torch.tensor([1.0, 2.0]))}
    for method in ("spawn", "forkserver", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            seen[method] = pool.apply(look, (torch.tensor([1.0, 2.0]),))
    say({"seen": seen, "redirect": torch_fl.boot_info()["redirect"], "file": torch.__file__})
"""


def library_paths(environment, which):
    return {
        "nothing": [],
        "stock": [environment.torch / "lib"],
        "bundle": [environment.bundle],
        "third": [environment.facts["vendor"] / "torch" / "lib"],
    }[which]


LD_LIBRARY_PATHS = ["nothing", "stock", "bundle", "third"]
WAYS = [("auto", which) for which in LD_LIBRARY_PATHS] + [("open", "nothing"), ("open", "stock"), ("facade", "bundle")]


@pytest.mark.parametrize(("redirect", "ld_library_path"), WAYS)
def test_parent_and_children_run_on_the_planned_libraries(environment, redirect, ld_library_path):
    paths = [str(path) for path in library_paths(environment, ld_library_path)]
    said = environment.run(
        POOLS,
        environment.facts["key"],
        LD_LIBRARY_PATH=os.pathsep.join(paths) or None,
        LD_BIND_NOW="1",
        TORCH_FL_REDIRECT=redirect,
    ).said
    for who, (where, has_kernel, total) in said["seen"].items():
        environment.assert_planned(where, who)
        assert has_kernel, who
        assert total == [2.0, 4.0], who
    facade = redirect == "facade" or redirect == "auto" and environment.swap == "core"
    assert said["redirect"] == ("facade" if facade else "open")
    assert said["file"].startswith(str(environment.cache if facade else environment.torch))


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_interpreter(sims, tmp_path, python, swap):
    environment = sims(swap, python).copy(tmp_path / "venv")
    for options in ((), ("-m", "torch_fl")):
        for who, (where, has_kernel, _) in environment.run(POOLS, "SIM", options=options).said["seen"].items():
            environment.assert_planned(where, who)
            assert has_kernel


def test_a_process_that_never_imports_torch_fl_is_untouched(environment):
    said = environment.run(
        """
import torch
say({"where": where(), "file": torch.__file__, "meta": [str(f) for f in sys.meta_path], "path": sys.path})
"""
    ).said
    environment.assert_stock(said["where"])
    assert said["file"] == str(environment.torch / "__init__.py")
    assert "torch_fl" not in "".join(said["meta"] + said["path"]).replace(str(environment.root), "")


def test_nothing_in_the_installed_packages_is_changed(sim):
    def snapshot():
        return {
            str(path): path.lstat().st_mtime_ns
            for path in sim.site.rglob("*")
            if "__pycache__" not in path.parts and "__pycache__" not in path.name and path.is_file()
        }

    before = snapshot()
    sim.run("import torch_fl").ok()
    assert snapshot() == before
