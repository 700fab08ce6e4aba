"""The entry point of the group `torch.backends`: the device `flagos` on a bare `import torch`.

Torch calls `register` at the end of its own initialisation, in every process of an environment that has a torch_fl wheel
with a plugin. Only where this torch already runs on the core that the plugin is for is there something to do: where it is
the vendor's own, or where the bundle's libraries are mapped. There torch_fl is imported, and does the rest. In any other
process nothing is imported, so that `import torch_fl` can still say by name what is wrong. Whatever happens here,
`import torch` goes on.
"""

import json
import os
import sys

HOME = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "torch_fl")


def register():
    """What torch calls."""
    try:
        if _finder_is_at_it() or os.environ.get("TORCH_FL_REDIRECT") == "off":
            return
        with open(os.path.join(HOME, "build.json"), encoding="utf-8") as file:
            build = json.load(file)
        if not (build.get("plugin") or {}).get("target"):
            return
        torch = sys.modules["torch"]
        if not (_is_the_vendors(build, os.path.dirname(torch.__file__)) or _core_is_mapped(build)):
            return
    except Exception:
        return  # a damaged installation: `import torch_fl` names the fault
    before = set(sys.modules)
    try:
        import torch_fl  # noqa: F401  it finds this torch right, and registers the plugin
    except Exception as error:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == "torch_fl":
                del sys.modules[name]
        import warnings

        warnings.warn(f"the device flagos is not registered: {error}", RuntimeWarning, stacklevel=2)


def _finder_is_at_it():
    """Torch comes through the finder of torch_fl, which registers the plugin itself."""
    return any(getattr(finder, "loading", None) is not None for finder in sys.meta_path if _is_ours(finder))


def _is_ours(finder):
    return hasattr(finder, "torch_fl_home")


def _is_the_vendors(build, folder):
    """The same question that the bootstrap asks: the release, and strings that only the vendor's version.py has."""
    wanted = build["torch"]
    with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
        text = file.read()
    release = f"'{wanted['release']}"
    markers = wanted["markers"]
    return bool(markers) and release in text and all(marker in text for marker in markers)


def _core_is_mapped(build):
    """Every library that the bundle puts in place of torch's, by file: a facade or links led torch there."""
    folder = os.path.join(HOME, build["bundle"])
    paths = [os.path.join(folder, entry["name"]) for entry in build["open"] if entry["from"] == "bundle"]
    if not paths:
        return False
    wanted = {(facts.st_dev, facts.st_ino) for facts in map(os.stat, paths)}
    seen = set()
    with open("/proc/self/maps", "rb") as file:
        for line in file:
            start = line.find(b"/")
            if start >= 0 and b".so" in line:
                try:
                    facts = os.stat(line[start:].rstrip(b"\n"))
                except OSError:
                    continue  # deleted since, or a name that is cut
                seen.add((facts.st_dev, facts.st_ino))
    return wanted <= seen
