"""Named errors: code, cause, next step; and what is left of the process afterwards."""

import json
import pickle
import shutil
import subprocess

import pytest

REFUSED = """
import json
try:
    import torch_fl
except ImportError as error:
    import pickle
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, ImportError) and (again.code, str(again)) == (error.code, str(error))
    refused = {"code": error.code, "hint": error.hint, "text": str(error), "type": type(error).__name__}
else:
    refused = None
try:
    import torch
    later = torch.__file__
except ImportError as error:
    later = getattr(error, "code", "missing")
say([refused, later])
"""


def refused(environment, code, later="stock", text=REFUSED, **changes):
    error, found = environment.run(text, **changes).said
    assert error is not None, "torch_fl was imported"
    assert (error["type"], error["code"]) == ("BootError", code), error["text"]
    assert error["text"].startswith(f"{code}: ") and f"next step: {error['hint']}" in error["text"]
    assert found == (str(environment.torch / "__init__.py") if later == "stock" else later)
    return error


def version_py(environment, **changes):
    path = environment.torch / "version.py"
    text = path.read_text()
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def test_a_source_tree_without_build_json(sim):
    (sim.home / "build.json").unlink()
    assert "torchfl build" in refused(sim, "E-BOOT-001")["hint"]


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff\xfe", b'{"schema": 2}', b'{"schema": 1}', b'{"schema": 1, "vendor": "sim"}']
)
def test_an_unreadable_or_other_build_json(sim, data):
    (sim.home / "build.json").write_bytes(data)
    refused(sim, "E-BOOT-001")


def test_a_build_json_from_before_the_audit_is_read(sim):
    def older(build):
        del build["audit"], build["allow_unresolved"]

    sim.edit(older)
    sim.assert_planned(sim.run("import torch_fl, torch\nsay(where())").said)


def test_a_refused_build_json_in_the_carrier_leaves_the_stock_torch(sim):
    (sim.home / "build.json").write_bytes(b"{")
    assert sim.run("import torch", PYTHONPATH=sim.home / "gate").code == 1
    text = "try:\n import torch\nexcept ImportError as error:\n code = error.code\nimport torch\nsay([code, torch.__file__])"
    said = sim.run(text, PYTHONPATH=sim.home / "gate").said
    assert said == ["E-BOOT-001", str(sim.torch / "__init__.py")]


def test_torch_imported_first(sim):
    error = refused(sim, "E-BOOT-002", text="import torch\n" + REFUSED)
    assert "python -m torch_fl" in error["hint"]


def test_torch_imported_first_through_the_finder_is_right(sim):
    said = sim.run("import torch\n" + REFUSED, PYTHONPATH=sim.home / "gate").said
    assert said[0] is None


def test_torch_missing(sim):
    shutil.rmtree(sim.torch)
    error = refused(sim, "E-BOOT-003", later="missing")
    assert error["hint"] == sim.build["torch"]["install"]["pip"]
    # In a process that is only carried, torch is as missing as without torch_fl.
    text = "import importlib.util; say(importlib.util.find_spec('torch') is None)"
    assert sim.run(text, PYTHONPATH=sim.home / "gate").said is True
    assert "ModuleNotFoundError: No module named 'torch'" in sim.run("import torch", PYTHONPATH=sim.home / "gate").err


def test_an_incomplete_torch(sim):
    (sim.torch / "version.py").unlink()
    refused(sim, "E-BOOT-003", later="missing")


@pytest.mark.parametrize("version", ["2.12.0+cpu", "2.13.1", "12.13.0", "nightly"])
def test_another_version(sim, version):
    version_py(sim, version=("2.13.0+cpu.skeleton", version))
    error = refused(sim, "E-BOOT-004")
    assert version in error["text"] and "2.13.0" in error["text"]
    assert sim.build["torch"]["install"]["uv"] in error["hint"]


@pytest.mark.parametrize("version", ["2.13.0", "2.13.0+cpu.cxx11.abi", "2.13.0a0+gitcf30153"])
def test_a_version_is_judged_by_its_three_parts(sim, version):
    version_py(sim, version=("2.13.0+cpu.skeleton", version))
    sim.run("import torch_fl").ok()


@pytest.mark.parametrize("kind", ["cuda", "hip", "xpu"])
def test_a_stock_torch_that_the_manifest_forbids(sim, kind):
    version_py(sim, kind=(f"{kind}: Optional[str] = None", f"{kind}: Optional[str] = '13.0'"))
    error = refused(sim, "E-BOOT-005")
    assert kind in error["text"]
    assert (
        sim.build["torch"]["install"]["pip"] in error["hint"] and sim.build["torch"]["install"]["uv"] in error["hint"]
    )
    sim.edit(lambda build: build["torch"].update(front="any"))
    sim.run("import torch_fl").ok()


def test_front_vendor_wants_the_vendors_torch(sim):
    sim.edit(lambda build: build["torch"].update(front="vendor", markers=["sim = '1.0'"]))
    refused(sim, "E-BOOT-005")


def test_the_vendors_own_torch_needs_nothing(sim):
    fork = sim.facts["vendor"]
    shutil.rmtree(sim.torch)
    shutil.copytree(fork / "torch", sim.torch)
    shutil.copytree(fork / "torch.libs", sim.site / "torch.libs")
    # The vendor's own libraries have the search path of the machine that built them.
    sdk = sim.facts["sdk"] / "lib"
    said = sim.run(
        "import torch_fl, torch; say([torch_fl.boot_info(), torch.__file__, where()])", LD_LIBRARY_PATH=sdk
    ).said
    assert said[0]["redirect"] == "vendor" and said[0]["opened"] == []
    assert said[1] == str(sim.torch / "__init__.py")
    assert said[2]["libtorch_sim.so"] == [(sim.torch / "lib" / "libtorch_sim.so").stat().st_ino]
    assert sim.run("import torch, torch_fl; say(torch_fl.boot_info()['redirect'])", LD_LIBRARY_PATH=sdk).said == "vendor"


def test_a_library_missing_from_the_bundle(sim):
    (sim.bundle / "libc10_sim.so").unlink()
    (sim.bundle / "libtorch_sim.so").write_bytes(b"short")
    error = refused(sim, "E-BOOT-006")
    assert "libc10_sim.so is missing" in error["text"] and "libtorch_sim.so has 5 bytes" in error["text"]


def test_a_library_missing_from_the_installed_torch(extra):
    (extra.torch / "lib" / "libshm.so").unlink()
    refused(extra, "E-BOOT-006", later="missing")


PROVIDED = [
    {
        "dist": "sim-runtime", "requires": 'sim-runtime==9.1; platform_system == "Linux"', "dir": "sim/runtime/lib",
        "libraries": ["libsimfirst.so.9", "libsimsecond.so.9"],
    }
]  # fmt: skip


def provide(site, **needs):
    folder = site / "sim" / "runtime" / "lib"
    folder.mkdir(parents=True)
    source = folder / "x.c"
    source.write_text("int sim_provided(void) { return 9; }\n")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wl,-soname,libsimfirst.so.9", source, "-o", folder / "libsimfirst.so.9"],
        check=True,
    )
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-Wl,--no-as-needed,-soname,libsimsecond.so.9",
        source,
        folder / "libsimfirst.so.9",
    ]
    subprocess.run([*command, "-o", folder / "libsimsecond.so.9"], check=True)
    return folder


def test_a_provided_distribution_missing(sim):
    sim.edit(lambda build: build.update(provided=PROVIDED))
    error = refused(sim, "E-BOOT-007")
    assert error["hint"] == "pip install 'sim-runtime==9.1'"
    # One of two libraries is not the distribution.
    provide(sim.site)
    (sim.site / "sim" / "runtime" / "lib" / "libsimsecond.so.9").unlink()
    refused(sim, "E-BOOT-007")


def test_a_provided_distribution_beside_is_left_to_the_search_path(sim):
    sim.edit(lambda build: build.update(provided=PROVIDED))
    provide(sim.site)
    info = sim.run("import torch_fl; say(torch_fl.boot_info())").said
    assert info["provided"] == {"sim-runtime": str(sim.site)}
    assert not any("libsim" in path and "runtime" in path for path in info["opened"])


def test_a_provided_distribution_in_another_site_folder_is_opened_by_path_first(sim, tmp_path):
    sim.edit(lambda build: build.update(provided=PROVIDED))
    folder = provide(tmp_path / "base")
    (sim.site / "base.pth").write_text(f"{tmp_path / 'base'}\n")
    info, where = sim.run("import torch_fl; say([torch_fl.boot_info(), where()])").said
    assert info["opened"][:2] == [str(folder / name) for name in PROVIDED[0]["libraries"]]
    assert where["libsimfirst.so.9"] == [(folder / "libsimfirst.so.9").stat().st_ino]


def installed_runtime(sim, version):
    info = sim.site / f"sim_runtime-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sim-runtime\nVersion: {version}\n")


def test_a_library_that_does_not_open_names_the_pins_that_differ(sim):
    sim.edit(lambda build: build.update(provided=PROVIDED))
    provide(sim.site)
    installed_runtime(sim, "9.0")
    library = sim.bundle / "libc10_sim.so"
    library.write_bytes(b"\0" * library.stat().st_size)
    error = refused(sim, "E-BOOT-008", later="E-BOOT-008")
    assert "libc10_sim.so does not open" in error["text"]
    assert "sim-runtime 9.0 is installed, 9.1 is pinned" in error["text"]
    assert error["hint"] == "pip install 'sim-runtime==9.1'"


def test_a_pin_that_is_written_otherwise_does_not_differ(sim):
    sim.edit(lambda build: build.update(provided=PROVIDED))
    provide(sim.site)
    installed_runtime(sim, "9.1.0+local.1")
    library = sim.bundle / "libc10_sim.so"
    library.write_bytes(b"\0" * library.stat().st_size)
    assert "pinned" not in refused(sim, "E-BOOT-008", later="E-BOOT-008")["text"]


def test_a_missing_library_of_the_host_is_named(sim):
    runtime = sim.facts["sdk"] / "lib" / "libsimrt.so.1"
    hidden = runtime.rename(runtime.with_suffix(".hidden"))
    try:
        error = refused(sim, "E-BOOT-008", later="E-BOOT-008")
    finally:
        hidden.rename(runtime)
    assert "libsimrt.so.1" in error["text"]


def test_a_plugin_is_opened_after_torch(sim):
    shutil.copy(sim.bundle / "libc10_sim.so", sim.home / "libplugin.so")
    sim.edit(lambda build: build.update(plugin={"library": "libplugin.so"}))
    said = sim.run("import torch_fl; say(torch_fl.boot_info()['opened'])").said
    assert said[-1] == str(sim.home / "libplugin.so")
    (sim.home / "libplugin.so").write_bytes(b"")
    refused(sim, "E-BOOT-008", later="E-BOOT-008")


def test_a_plugin_for_another_torch_or_target(sim):
    shutil.copy(sim.bundle / "libc10_sim.so", sim.home / "libplugin.so")
    plugin = {"library": "libplugin.so", "torch": "0.1", "python": None, "target": "sim", "runtime": {}}
    sim.edit(lambda build: build.update(plugin=plugin))
    assert "torch 0.1" in refused(sim, "E-BOOT-018", later="E-BOOT-018")["text"]
    plugin["torch"] = ".".join(sim.build["torch"]["release"].split(".")[:2])
    sim.edit(lambda build: build.update(plugin=plugin | {"python": "cp39"}))
    assert "cp39" in refused(sim, "E-BOOT-018", later="E-BOOT-018")["text"]
    sim.edit(lambda build: build.update(plugin=plugin))
    assert "abacus" in refused(sim, "E-BOOT-022", later="E-BOOT-022", FLAGOS_TARGET="abacus")["text"]
    # No extension module of Python's: not ours.
    assert "libplugin.so" in refused(sim, "E-BOOT-008", later="E-BOOT-008")["text"]


def test_explain_without_a_plugin(sim):
    said = sim.run("""
import torch_fl
try:
    torch_fl.explain("add.Tensor")
except torch_fl.BootError as error:
    say(error.code)
""").said
    assert said == "E-BOOT-021"


def test_a_build_that_swaps_nothing(sim):
    sim.edit(lambda build: build.update(swap="none", open=[], files={}, caches={}, overlay=None))
    said = sim.run("import torch_fl, torch; say([torch_fl.boot_info()['redirect'], where()])").said
    assert said[0] == "none"
    sim.assert_stock(said[1])
    assert sim.run("import torch, torch_fl; say(torch_fl.boot_info()['redirect'])").said == "none"


def test_an_unknown_redirect(sim):
    error = refused(sim, "E-BOOT-014", TORCH_FL_REDIRECT="yes")
    assert "facade" in error["text"]


def test_redirect_off_is_the_stock_torch(sim):
    for changes in ({}, {"PYTHONPATH": sim.home / "gate"}):
        said = sim.run(
            "import torch_fl, torch; say([torch_fl.boot_info(), where(), torch.__file__])",
            TORCH_FL_REDIRECT="off",
            **changes,
        ).said
        assert said[0]["redirect"] == "off"
        sim.assert_stock(said[1])
        assert said[2] == str(sim.torch / "__init__.py")


def test_attributes_are_restored(sim):
    said = sim.run("import torch_fl, torch; say([torch.version.sim, torch_fl.boot_info()['attributes']])").said
    assert said == ["1.0", {"sim": "1.0"}]


def test_environment_variables_are_set_where_unset(sim):
    sim.edit(lambda build: build.update(env={"SIM_ONE": "1", "SIM_TWO": "2"}))
    said = sim.run(
        "import torch_fl; say([os.environ['SIM_ONE'], os.environ['SIM_TWO'], torch_fl.boot_info()['env']])",
        SIM_TWO="mine",
    ).said
    assert said[:2] == ["1", "mine"]
    assert said[2]["SIM_ONE"] == "1" and "SIM_TWO" not in said[2]


def test_the_platform_and_flaggems_backend_are_told(sim):
    target = {"backend": "acme", "key": "acmegpu", "warp_size": 12}
    gems = {"vendor": "acme", "backends": {"acme": None, "other": "OTHER_SDK"}}
    sim.edit(lambda build: build.update(platform={"comm": "accl", "triton": target, "flag_gems": gems}))
    text = """
import torch_fl
info = torch_fl.boot_info()
try:
    found = torch_fl.gems_vendor()
except torch_fl.BootError as error:
    found = [error.code, error.hint]
say([os.environ["GEMS_VENDOR"], info["platform"], info["env"].get("GEMS_VENDOR"), info["env_kept"], found])
"""
    platform = {"vendor": "sim", "comm": "accl", "triton": target, "gems_vendor": "acme"}
    assert sim.run(text).said == ["acme", platform, "acme", {}, "acme"]
    mine = sim.run(text, GEMS_VENDOR="other").said
    assert mine == ["other", platform, None, {"GEMS_VENDOR": "other"}, "other"]
    assert sim.run(text, GEMS_VENDOR="").said == ["acme", platform, "acme", {}, "acme"]
    unknown = sim.run(text, GEMS_VENDOR="acne").said
    assert unknown[3:] == [{"GEMS_VENDOR": "acne"}, ["E-BOOT-016", "set GEMS_VENDOR to one of acme, other"]]
    assert sim.run(text, OTHER_SDK="/opt/other").said[4] == ["E-BOOT-017", "unset OTHER_SDK"]


def test_nobody_guesses_the_flaggems_backend(sim):
    """The incumbent's last branch was one vendor's name."""
    text = "import torch_fl; print(os.environ.get('GEMS_VENDOR')); torch_fl.gems_vendor()"
    refused = sim.run(text)
    assert refused.out == "None\n"
    assert "E-BOOT-016" in refused.err and "ascend, cambricon, enflame" in refused.err, refused.err


def test_the_flaggems_backend_is_set_where_torch_came_first(sim):
    """Where nothing is bundled, torch may have been imported before."""
    gems = {"vendor": "acme", "backends": {"acme": None}}
    empty = {"swap": "none", "open": [], "files": {}, "provided": [], "overlay": None}
    sim.edit(lambda build: build.update(empty, platform={"comm": None, "triton": None, "flag_gems": gems}))
    assert sim.run("import torch, torch_fl; say([os.environ['GEMS_VENDOR'], torch_fl.gems_vendor()])").said == ["acme"] * 2


def test_links_in_the_installed_torch_are_recognised(core):
    for name in core.build["files"]:
        path = core.torch / "lib" / name
        path.unlink(missing_ok=True)
        path.symlink_to(core.bundle / name)
    for text in ("import torch_fl, torch", "import torch, torch_fl"):
        said = core.run(text + "; say([torch_fl.boot_info()['redirect'], where(), torch.__file__])").said
        assert said[0] == "linked"
        core.assert_planned(said[1])
        assert said[2] == str(core.torch / "__init__.py")


def test_reloading_torch_is_as_in_the_stock_torch(sim):
    said = sim.run(
        """
import importlib, torch_fl, torch
importlib.reload(torch)
say([where(), type(torch.__spec__.loader).__name__, torch.__file__])
"""
    ).said
    sim.assert_planned(said[0])
    assert said[1] == "SourceFileLoader"


def test_boot_info_is_plain_data(environment):
    info = environment.run("import torch_fl; say(torch_fl.boot_info()); print(torch_fl.__version__)").said
    assert info["version"] == environment.build["version"] and info["swap"] == environment.swap
    assert info["torch"]["folder"] == str(environment.torch)
    assert json.loads(json.dumps(info)) == info
    assert pickle.loads(pickle.dumps(info)) == info
