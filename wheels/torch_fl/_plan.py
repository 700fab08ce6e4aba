"""From build.json and an installed torch to a plan: first everything is checked, then it is done.

A `Plan` is made before a library is opened and changes nothing but the cache folder. Versions are
read from version.py by parsing, never by importing.
"""

import json
import os
import sys
import warnings
from hashlib import sha256

from torch_fl._boot import HOME, BootError, same, sibling

loaded, survey = sibling("_loaded").loaded, sibling("_loaded").survey

SCHEMA = 1
KEYS = {
    "vendor", "version", "torch", "python", "swap", "bundle", "files", "open", "provided", "platform",
    "env", "caches", "overlay", "plugin",
}  # fmt: skip


def read_build(home):
    """build.json of the torch_fl at `home`, with its identity (sha256 of its bytes) as `id`."""
    path = os.path.join(home, "build.json")
    try:
        with open(path, "rb") as file:
            data = file.read()
        build = json.loads(data)
        schema, absent = build["schema"], KEYS - build.keys()
    except FileNotFoundError:
        raise BootError(
            "E-BOOT-001",
            f"{path} is missing: this torch_fl is a source tree, not a built wheel",
            "install a wheel that `torchfl build` wrote",
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BootError("E-BOOT-001", f"{path} cannot be read: {error!r}", "install torch_fl again") from error
    if schema != SCHEMA or absent:
        lacks = f", lacks {', '.join(sorted(absent))}" if absent else ""
        raise BootError(
            "E-BOOT-001",
            f"{path} has schema {schema}{lacks}; this bootstrap reads schema {SCHEMA}",
            "install torch_fl again: its Python files and build.json are of different wheels",
        )
    build["id"] = sha256(data).hexdigest()
    return build


def version_facts(folder):
    """The assignments of torch/version.py, as text, and its whole text."""
    try:
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise BootError("E-BOOT-003", f"the torch at {folder} is incomplete: {error}", "install torch again") from error
    facts = {}
    for line in text.splitlines():  # `name = 'value'` or `name: Optional[str] = None`; a regex costs a ms
        name, equals, value = line.partition("=")
        name = name.partition(":")[0].rstrip()
        if equals and name.isidentifier():
            facts[name] = value.partition("#")[0].strip().strip("'\"")
    return facts, text


def three_parts(version):
    """`2.13.0` of `2.13.0a0+git1234`, or None."""
    parts = version.partition("+")[0].split(".")[:3]
    if len(parts) == 3:
        digits = len(parts[2]) - len(parts[2].lstrip("0123456789"))
        parts[2] = parts[2][:digits]
        if all(part.isdigit() for part in parts):
            return ".".join(parts)
    return None


class Plan:
    """What this process is going to do with the torch in `folder`."""

    def __init__(self, finder, folder):
        self.build = build = finder.build
        self.finder = finder
        self.folder = folder
        self.facade = None
        self.redirect = "none"
        self.libraries = []  # (name, path, shared, global), in the order in which they are opened
        self.planned = {}  # name -> path: whatever is mapped under the name must be this file
        self.provided = {}  # distribution -> (site folder, libraries to open by path)
        self.env = dict(build["env"])
        if build["platform"]["flag_gems"]["vendor"]:
            self.env["GEMS_VENDOR"] = build["platform"]["flag_gems"]["vendor"]
        self.kept = {}  # variables that have another value, and keep it
        self.opened, self.already, self.backend_reports = [], {}, []
        self._check_torch()
        if self.redirect != "vendor":
            self._check_libraries()

    def settle(self):
        """The rest of the checks, and the facade: the last step before libraries are opened."""
        if self.redirect != "vendor":
            self._find_provided()
            self._choose_redirect()
        return self

    def _check_torch(self):
        wanted = self.build["torch"]
        facts, text = version_facts(self.folder)
        self.version = facts.get("__version__", "")
        install = wanted["install"]
        hint = f"{install['pip']}   (or: {install['uv']})"
        if three_parts(self.version) != wanted["release"]:
            raise BootError(
                "E-BOOT-004",
                f"torch {self.version} is installed at {self.folder}, "
                f"torch_fl {self.build['version']} belongs to torch {wanted['release']}",
                hint,
            )
        kinds = [kind for kind in ("cuda", "hip", "xpu") if facts.get(kind, "None") != "None"]
        own = bool(wanted["markers"]) and all(marker in text for marker in wanted["markers"])
        if own and wanted["front"] != "vendor":
            self.redirect = "vendor"  # the vendor's own torch is in front: there is nothing to do
        elif wanted["front"] == "vendor" and not own:
            raise BootError(
                "E-BOOT-005",
                f"torch {self.version} at {self.folder} is not the torch of {self.build['vendor']}, "
                "which this torch_fl stands on",
                hint,
            )
        elif wanted["front"] == "cpu" and kinds:
            raise BootError(
                "E-BOOT-005",
                f"torch {self.version} at {self.folder} is built for {' and '.join(kinds)}; "
                f"torch_fl {self.build['version']} stands on the CPU build",
                hint,
            )

    def _check_libraries(self):
        """The promised files of the bundle are there, with their sizes; so are those of the front."""
        bundle = os.path.join(HOME, self.build["bundle"])
        faults = []
        for name, facts in self.build["files"].items():
            try:
                size = os.stat(os.path.join(bundle, name)).st_size
                if size != facts["bytes"]:
                    faults.append(f"{name} has {size} bytes instead of {facts['bytes']}")
            except OSError:
                faults.append(f"{name} is missing")
        if faults:
            raise BootError(
                "E-BOOT-006",
                f"the bundle {bundle} is damaged: {'; '.join(faults)}",
                "install torch_fl again: pip install --force-reinstall --no-deps WHEEL",
            )
        places = {"bundle": bundle, "front": os.path.join(self.folder, "lib")}
        for entry in self.build["open"]:
            path = os.path.join(places[entry["from"]], entry["name"])
            self.libraries.append((entry["name"], path, entry["shared"], entry["global"]))
            if not entry["shared"]:
                self.planned[entry["name"]] = path
        absent = [
            path
            for name, path, shared, _ in self.libraries
            if not os.path.exists(path) and not (shared and loaded(name))
        ]
        if absent:
            raise BootError("E-BOOT-006", f"the installed torch lacks {', '.join(absent)}", "install torch again")

    def _find_provided(self):
        """Where the libraries of other wheels lie. The search path of the bundle leads to our own site
        folder; `..` is left for the kernel to walk, as the loader does. Elsewhere: opened by path."""
        own = os.path.join(HOME, self.build["bundle"], "..", "..")
        absent = []
        for item in self.build["provided"]:
            for site in [own, *filter(lambda entry: isinstance(entry, str), sys.path)]:
                paths = [
                    os.path.join(os.path.abspath(site) if site != own else own, item["dir"], name)
                    for name in item["libraries"]
                ]
                if all(os.path.isfile(path) for path in paths):
                    self.provided[item["dist"]] = site, [] if site == own else paths
                    break
            else:
                absent.append(item)
        if absent:
            names = " ".join(f"'{item['requires'].partition(';')[0].strip()}'" for item in absent)
            raise BootError(
                "E-BOOT-007",
                "; ".join(
                    f"no folder of sys.path has {item['dist']} ({', '.join(item['libraries'])} in {item['dir']})"
                    for item in absent
                ),
                f"pip install {names}",
            )

    def _choose_redirect(self):
        """How those who open or link by path get to the bundle, and where compile caches go."""
        facade = sibling("_facade")
        asked = self.finder.redirect
        core = self.build["swap"] == "core"
        if not self.libraries and asked != "facade":
            return
        stock = os.path.join(self.folder, "lib")
        bundle = os.path.join(HOME, self.build["bundle"])
        if core and all(same(os.path.join(stock, name), os.path.join(bundle, name)) for name in self.build["files"]):
            self.redirect = "linked"  # an operator's links in the installed torch lead to the bundle
        else:
            self.redirect = "open"
        ready = False
        try:
            if asked == "facade" or core and asked == "auto" and self.redirect == "open":
                tree = facade.links(self.folder, HOME, self.build)
                key = facade.key(self.build["id"], self.folder, self.version, tree)
                self.facade = facade.ready(tree, HOME, key)
                ready = self.facade is not None
                if not ready:
                    self.facade = facade.publish(tree, os.path.join(facade.place(os.environ), "facade", key))
                self.redirect = "facade"
            # Where the facade was there already, nothing is written before a compiler has something to keep.
            place = facade.place(os.environ, make=not ready) if core else None
        except facade.Unsafe as error:
            if asked == "facade" or os.environ.get("TORCH_FL_CACHE_DIR"):
                raise BootError(
                    "E-BOOT-010",
                    f"no safe folder for torch_fl's cache: {error}",
                    "name one of your own in TORCH_FL_CACHE_DIR (mode 0700, under folders that others cannot change)",
                ) from error
            place = None
            self._warn(f"no safe folder for torch_fl's cache: {error}. TORCH_FL_CACHE_DIR can name one")
        if core and self.redirect == "open":
            self._warn(
                "torch_fl runs without its facade: what opens or links a library of torch/lib by path "
                "meets the stock one"
            )
        if core:
            self._choose_caches(facade, place, make=not ready)

    def _choose_caches(self, facade, place, make):
        """Compile caches do not know which core they were made for: this build gets its own."""
        unset = {key: name for key, name in self.build["caches"].items() if key not in os.environ}
        place = place and facade.executable(place, os.environ, make)
        if place:
            folder = os.path.join(place, "cache", self.build["id"][:16])
            self.env.update({key: os.path.join(folder, name) for key, name in unset.items()})
        elif unset:
            self._warn(f"compile caches are shared with the stock torch; set {', '.join(sorted(unset))}")

    def _warn(self, message):
        if message not in self.finder.warnings:
            self.finder.warnings.append(message)
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def check_loaded(self):
        """Refuse another file under one of our names: it would be used instead of ours, or beside it."""
        if not self.libraries:
            return
        names = {**self.bundled(), **self.planned}
        foreign, _ = survey(names, ())
        for name, path in names.items():
            soname = self.build["files"].get(name, {}).get("soname") or name
            for known in {name, soname}:
                there = loaded(known)
                if there is not None and not same(there, path):
                    foreign.setdefault(there, path)
        if foreign:
            raise BootError(
                "E-BOOT-011",
                "; ".join(f"{path} is loaded already, {planned} is needed" for path, planned in foreign.items()),
                "import torch_fl before whatever loads torch's libraries, or run the program with `python -m torch_fl`",
            )

    def check_adopted(self):
        """A torch that was imported first is right if it runs on the planned libraries all the same."""
        if not self.libraries:
            return
        foreign, absent = survey(self.planned, self.planned.values())
        if foreign or absent:
            raise BootError(
                "E-BOOT-002",
                f"torch was imported before torch_fl, with other libraries: {', '.join(foreign) or self.folder}",
                "import torch_fl before torch, or run the program with `python -m torch_fl`",
            )

    def bundled(self):
        """Every file of the bundle, by name."""
        bundle = os.path.join(HOME, self.build["bundle"])
        return {name: os.path.join(bundle, name) for name in self.build["files"]}

    def set_environment(self):
        """Set the variables that are unset, and note those that differ."""
        if not os.environ.get("GEMS_VENDOR"):  # FlagGems takes an empty one for unset
            os.environ.pop("GEMS_VENDOR", None)
        there = {key: os.environ[key] for key in self.env if key in os.environ}
        self.kept = {key: value for key, value in there.items() if value != self.env[key]}
        self.env = {key: value for key, value in self.env.items() if key not in there}
        os.environ.update(self.env)

    def open(self):
        """Open the libraries: from here on there is no way back."""
        import ctypes

        self.set_environment()
        todo = [(os.path.basename(path), path, True, False) for _, paths in self.provided.values() for path in paths]
        for name, path, shared, everywhere in todo + self.libraries:
            there = loaded(name) if shared else None
            if there is not None:  # one copy a process, whoever brought it
                self.already[name] = there
                continue
            try:
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL if everywhere else ctypes.RTLD_LOCAL)
            except OSError as error:
                self.explain(path, error)
            self.opened.append(path)

    def explain(self, path, error):
        """Raise what is known about a library that does not open."""
        wrong = differing_pins(self.build["provided"])
        hint = "install what the message names, or its SDK, or put its folder into LD_LIBRARY_PATH"
        if str(error).startswith(path) and ("ELF" in str(error) or "too short" in str(error)):  # the file itself
            hint = "install torch_fl again: pip install --force-reinstall --no-deps WHEEL"
        note = ""
        if wrong:
            note = "; " + "; ".join(f"{name} {have} is installed, {pin} is pinned" for name, have, pin in wrong)
            hint = "pip install " + " ".join(f"'{name}=={pin}'" for name, _, pin in wrong)
        raise BootError("E-BOOT-008", f"{path} does not open: {error}{note}", hint) from error

    def backends(self):
        """Torch's autoload of backends, without the rivals, while its own code runs."""
        return sibling("_backends").Autoload(self.build["torch"]["rivals"], self.backend_reports, self._warn)

    def compare(self):
        """The files that are mapped now are the planned ones; another one under their name is an error."""
        if not self.libraries:
            return
        # Without a facade torch opens some of its own by path, harmlessly: only what we opened counts.
        names = {**self.bundled(), **self.planned} if self.redirect in ("facade", "linked") else self.planned
        foreign, absent = survey(names, self.planned.values())
        if foreign or absent:
            raise BootError(
                "E-BOOT-011",
                "; ".join(
                    [f"{path} is mapped, {planned} is needed" for path, planned in foreign.items()]
                    + [f"{path} is not mapped" for path in absent]
                ),
                "find who loads it (LD_DEBUG=files), or run the program with `python -m torch_fl`",
            )

    def finish(self):
        """What comes after torch's own initialisation: attributes of the fork, the plugin."""
        if self.redirect != "vendor":
            for name, value in self.build["torch"]["attributes"].items():
                setattr(sys.modules["torch.version"], name, value)
        if self.build["plugin"] is not None:
            self._add_plugin(os.path.join(HOME, self.build["plugin"]["library"]))

    def _add_plugin(self, path):
        """Register the plugin; a library that names no device underneath registers itself as it is opened."""
        if "target" in self.build["plugin"]:
            sibling("_plugin").register(self)
        else:
            import ctypes

            try:
                ctypes.CDLL(path)
            except OSError as error:
                self.explain(path, error)
        self.opened.append(path)


def differing_pins(provided):
    """(distribution, installed version, pinned version) of those that differ; read only after a failure."""
    import re
    from importlib.metadata import PackageNotFoundError, version

    def plain(version):  # 13.0 is 13.0.0 (PEP 440)
        return re.sub(r"(\.0+)+$", "", version)

    wrong = []
    for item in provided:
        pin = re.match(r"\s*([\w.-]+)[^;]*?===?\s*([^\s;,]+)", item["requires"])
        if pin:
            try:
                have = version(pin.group(1))
            except PackageNotFoundError:
                have = "no version"
            if plain(pin.group(2)) not in (plain(have), plain(have.partition("+")[0])):
                wrong.append((pin.group(1), have, pin.group(2)))
    return wrong


def gems_vendor(finder):
    """The backend that FlagGems takes, or a BootError with the candidates: FlagGems itself guesses."""
    build = finder.build
    gems = build["platform"]["flag_gems"]
    asked = os.environ.get("GEMS_VENDOR")
    name = asked or gems["vendor"]
    forced = [(key, other) for other, key in gems["backends"].items() if key and key in os.environ and other != name]
    if forced:
        key, other = forced[0]
        raise BootError(
            "E-BOOT-017",
            f"{key} is set, and FlagGems takes {other} for it, whatever GEMS_VENDOR says",
            f"unset {key}",
        )
    if name in gems["backends"]:
        return name
    what = f"GEMS_VENDOR={asked} is none of FlagGems' backends"
    if not asked:
        what = f"GEMS_VENDOR is unset, and the manifest of {build['vendor']} names no backend of FlagGems"
    raise BootError("E-BOOT-016", what, f"set GEMS_VENDOR to one of {', '.join(sorted(gems['backends']))}")


def _plugin(build):
    """The plugin, and what it registered in this process."""
    if build["plugin"] is None:
        return None
    there = sys.modules.get("torch_fl._plugin")
    return {**build["plugin"], "registered": there and there.state}


def report(finder):
    """The plain data of `boot_info()`: the build, and what was done if torch has been imported."""
    build, plan = finder.build, finder.plan
    info = {name: build.get(name) for name in ("vendor", "variant", "title", "status", "version", "swap")}
    info.update(skeleton=build.get("skeleton", False), notes=list(build.get("notes", ())))
    info.update(build_id=build["id"], home=HOME, redirect=None, warnings=list(finder.warnings))
    platform = build["platform"]
    info["platform"] = {
        "vendor": build["vendor"],
        "triton": platform["triton"],
        "comm": platform["comm"],
        "gems_vendor": platform["flag_gems"]["vendor"],
    }
    if finder.redirect == "off":
        info["redirect"] = "off"
    if plan is not None:
        info.update(
            redirect=plan.redirect,
            torch={"version": plan.version, "folder": plan.folder},
            facade=plan.facade,
            opened=list(plan.opened),
            already_loaded=dict(plan.already),
            provided={name: os.path.realpath(site) for name, (site, _) in plan.provided.items()},
            env=dict(plan.env),
            env_kept=dict(plan.kept),
            attributes=dict(build["torch"]["attributes"]),
            backends=[dict(entry) for entry in plan.backend_reports],
            plugin=_plugin(build),
        )
    return info
