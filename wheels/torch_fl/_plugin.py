"""The plugin: load `libtorch_fl.so`, let it register the device `flagos`, and give torch its module for it.

The bootstrap calls this wherever torch comes through its finder, once torch's own initialisation is over: a child
process may unpickle a flagos tensor as its first act. A failure is a BootError, and stays one for this process.
"""

import os
import sys

from torch_fl._boot import HOME, BootError, sibling

NAME = "torch_fl.libtorch_fl"
DEVICE = "flagos"

state = None  # what was registered, for boot_info()
_failed = None


def register(plan):
    """Load and register the plugin of build.json, once a process; what was done, as plain data."""
    global state, _failed
    if _failed is not None:
        raise _failed
    if state is None:
        try:
            state = _register(plan)
        except BootError as error:
            _failed = error
            raise
    return state


def module():
    """The extension module, which all others ask."""
    if state is None:
        raise BootError(
            "E-BOOT-021",
            f"the {DEVICE} device is not registered: this torch_fl carries no plugin, or stands aside",
            "install a wheel with a plugin, and leave TORCH_FL_REDIRECT unset",
        )
    return sys.modules[NAME]


def _register(plan):
    facts = plan.build["plugin"]
    path = os.path.join(HOME, facts["library"])
    _check_versions(facts, plan.version)
    target = _target(facts)
    core = _load(plan, path)
    import torch

    try:
        core.init(target, facts.get("runtime") or {})
        torch.utils.rename_privateuse1_backend(DEVICE)
        torch._register_device_module(DEVICE, _device_module(target))
        torch.utils.generate_methods_for_privateuse1_backend(
            for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
        )
        ways = core.register(os.environ.get("FLAGOS_BACKEND_CONFIG") or None)
        sibling("_dlpack").install(core)
        core.dispatch_log(os.environ.get("FLAGOS_DISPATCH_LOG") or None)
    except Exception as error:
        raise _refusal(core, error) from error
    return {"library": path, "torch": facts["torch"], "target": target, "operators": dict(ways)}


def _check_versions(facts, version):
    """A plugin of another torch minor would load, and register on the wrong dispatch keys."""
    minor = ".".join(version.split(".")[:2])
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    for what, wanted, have in (("torch", facts["torch"], minor), ("Python", facts.get("python"), tag)):
        if wanted not in (None, have):
            raise BootError(
                "E-BOOT-018",
                f"the plugin {facts['library']} is built for {what} {wanted}, this is {what} {have}",
                "install the torch_fl wheel of this torch and this Python",
            )


def _target(facts):
    """The device underneath: the build's, or the CPU on request."""
    target = os.environ.get("FLAGOS_TARGET") or facts["target"]
    if target not in (facts["target"], "cpu"):
        raise BootError(
            "E-BOOT-022",
            f"FLAGOS_TARGET={target} is neither {facts['target']}, which the plugin is built for, nor cpu",
            "unset FLAGOS_TARGET, or give it one of these values",
        )
    return target


def _load(plan, path):
    """The extension module of the file, under its name in `sys.modules`."""
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(NAME, path, loader=ExtensionFileLoader(NAME, path))
    try:
        core = module_from_spec(spec)
        spec.loader.exec_module(core)
    except ImportError as error:
        if type(error).__name__ == "VersionError":  # the plugin itself knows what it was built for
            raise BootError("E-BOOT-018", str(error), "install the torch_fl wheel of this torch") from error
        plan.explain(path, error)  # dlopen's own words
    sys.modules[NAME] = core
    return core


def _device_module(target):
    """`torch.flagos`, from the file beside this one; told what lies underneath."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("torch.flagos", os.path.join(HOME, "flagos.py"))
    face = module_from_spec(spec)
    face.target = target
    sys.modules["torch.flagos"] = face
    spec.loader.exec_module(face)
    return face


def _refusal(core, error):
    """What the plugin raised while it registered, as an error of the bootstrap."""
    if isinstance(error, core.ClaimedError):
        return BootError("E-BOOT-020", str(error), "uninstall or unload one of the two")
    hint = "correct what the message names, and import torch_fl in a new process"
    return BootError("E-BOOT-019", f"the plugin does not register {DEVICE}: {error}", hint)
