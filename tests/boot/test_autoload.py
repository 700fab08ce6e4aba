"""The entry point `_torch_fl_autoload`: the device on a bare `import torch`, where the core is the right one already.

Registration itself is a stand-in here, as the skeleton has no operators: `tests/plugin` has the real one.
"""

import json
import shutil
import subprocess
import sys

import pytest
from environment import Sim

NOTE = '{{"torch": "2.13.0", "python": "{tag}", "target": "cuda", "defines": []}}'
SOURCE = """
__attribute__((section(".torch_fl"), used)) static const char note[] = {note};
extern void *PyModule_Create2(void *, int);
void *PyInit_libtorch_fl(void) {{ return PyModule_Create2(0, 1013); }}
"""
# What stands for `_plugin.py`: it notes that it was asked.
STAND_IN = """
state = None

def register(plan):
    global state
    state = {"registered": plan.redirect}
    return state
"""
BARE = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
plugin = sys.modules.get("torch_fl._plugin")
names = sorted(name for name in sys.modules if name.partition(".")[0] == "torch_fl")
try:
    import torch_fl
    later = torch_fl.boot_info()["redirect"]
except ImportError as error:
    later = error.code
state = plugin and plugin.state
say({"names": names, "state": state, "later": later, "warnings": [str(one.message) for one in caught]})
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The sample vendor's wheel with a plugin that says what it is for."""
    folder = tmp_path_factory.mktemp("plugin")
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    (folder / "plugin.c").write_text(SOURCE.format(note=json.dumps(NOTE.format(tag=tag))))
    library = folder / "libtorch_fl.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "plugin.c"], check=True)
    return Sim(folder / "sim", "core", more=["--plugin", library])


@pytest.fixture
def plugin(made, tmp_path):
    environment = made.copy(tmp_path / "venv")
    assert environment.build["plugin"]["target"] == "cuda"
    (environment.home / "_plugin.py").write_text(STAND_IN)
    return environment


def vendors_own(environment):
    """The vendor's torch in place of the stock one."""
    shutil.rmtree(environment.torch)
    shutil.copytree(environment.facts["vendor"] / "torch", environment.torch, symlinks=True)
    libs = environment.facts["vendor"] / "torch.libs"
    if libs.exists():
        shutil.copytree(libs, environment.site / "torch.libs")


def test_over_the_stock_torch_nothing_is_imported_and_the_named_error_comes_later(plugin):
    said = plugin.run(BARE).said
    assert said == {"names": [], "state": None, "later": "E-BOOT-002", "warnings": []}


def test_over_the_vendors_own_torch_the_device_is_registered(plugin):
    vendors_own(plugin)
    said = plugin.run(BARE, LD_LIBRARY_PATH=plugin.facts["sdk"] / "lib").said
    assert said["state"] == {"registered": "vendor"} and said["later"] == "vendor" and said["warnings"] == []
    assert "torch_fl._plugin" in said["names"]


def test_through_the_finder_the_bootstrap_registers_it_once(plugin):
    text = "import torch_fl, torch\nsay([torch_fl.boot_info()['backends'], sys.modules['torch_fl._plugin'].state])"
    backends, state = plugin.run(text).said
    assert [(one["name"], one["state"]) for one in backends] == [("torch_fl", "ran")]
    assert state == {"registered": "facade"}


def test_in_a_facade_without_the_finder_the_core_is_the_bundles(plugin):
    """A program that a build system leads to the facade's torch by its path."""
    assert plugin.run("import torch_fl, torch").ok()
    (facade,) = plugin.facades()
    said = plugin.run(BARE, PYTHONPATH=facade, LD_LIBRARY_PATH=plugin.facts["sdk"] / "lib").said
    mapped = plugin.run("import torch\nsay(where())", PYTHONPATH=facade).said
    opened = {entry["name"] for entry in plugin.build["open"] if entry["from"] == "bundle"}
    if opened <= mapped.keys():
        assert said["state"] is not None and said["warnings"] == []
    else:  # a library that nothing but the bootstrap opens: this is not its core
        assert said["state"] is None and said["names"] == []


def test_it_stands_aside_on_request(plugin):
    vendors_own(plugin)
    said = plugin.run(BARE, LD_LIBRARY_PATH=plugin.facts["sdk"] / "lib", TORCH_FL_REDIRECT="off").said
    assert said["names"] == [] and said["state"] is None and said["warnings"] == []


def test_a_plugin_that_refuses_does_not_break_torch(plugin):
    vendors_own(plugin)
    (plugin.home / "_plugin.py").write_text(
        "from torch_fl._boot import BootError\n\n"
        "def register(plan):\n    raise BootError('E-BOOT-020', 'another has it', 'uninstall one')\n"
    )
    said = plugin.run(BARE, LD_LIBRARY_PATH=plugin.facts["sdk"] / "lib").said
    assert said["names"] == [] and said["later"] == "E-BOOT-020"
    assert ["E-BOOT-020" in text for text in said["warnings"]] == [True]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"plugin": 3}', b'{"plugin": {"target": "cuda"}}', None])
def test_a_damaged_installation_does_not_break_torch(plugin, damage):
    path = plugin.home / "build.json"
    path.unlink() if damage is None else path.write_bytes(damage)
    said = plugin.run(BARE).said
    assert said["names"] == [] and said["warnings"] == []
    assert said["later"].startswith("E-BOOT-")


def test_a_wheel_without_a_plugin_has_no_entry_point(core):
    assert not (core.site / "_torch_fl_autoload").exists()
    assert not list(core.site.glob("torch_fl-*.dist-info/entry_points.txt"))
