"""The bootstrap: executes build.json when `torch` is imported. It has no policy of its own.

One finder for the one name `torch` stands in front of `sys.meta_path`. It finds the installed torch
through all other finders and returns its spec with the loader wrapped once. The wrapper has everything
checked (`_plan.py`), for a core swap turns the spec into that of a facade (`_facade.py`), opens the
libraries of build.json by path, in order, lets torch's own loader run, and compares the mapped files
with the plan.

A failure before the first library is opened leaves the finder neutral: a later `import torch` gets
the installed torch, untouched. After it, every later `import torch` raises the same error.

Standard library only, and little of it here: with `torchfl activate` every interpreter start loads
this file. It is `torch_fl._boot` whether the package or, without the package, `gate/` loads it.
"""

import os
import sys
from _thread import RLock, get_ident

# The codes of BootError:
#   001 build.json absent, unreadable, of another schema    008 a library does not open
#   002 torch was imported first, with other libraries      009 a second torch_fl of another build
#   003 torch is not installed, or incomplete               010 no safe cache folder where one is demanded
#   004 torch is of another version                         011 another file under a planned library's name
#   005 a build of torch that the manifest forbids          012 torch was imported past the finder
#   006 a library is missing, or of another size            013 torch_fl is for another Python
#   007 a provided distribution is missing                  014 TORCH_FL_REDIRECT has an unknown value
#   015 torch's own initialisation failed                   016, 017 no FlagGems backend, or another
#   018 the plugin is for another torch or Python           019 the plugin refuses to register its device
#   020 another backend has PrivateUse1                     021 no plugin is registered, 022 FLAGOS_TARGET

HOME = os.path.dirname(os.path.abspath(__file__))
REDIRECTS = ("auto", "facade", "open", "off")


class BootError(ImportError):
    """torch_fl refuses to start. `code` is stable (`E-BOOT-004`), `hint` is the next step."""

    def __init__(self, code, message, hint):
        super().__init__(f"{code}: {message}\n  next step: {hint}", name="torch_fl")
        self.code = code
        self.hint = hint

    def __reduce__(self):
        # Worker processes send their exceptions by pickle, which would import torch_fl to name this
        # class, and fail as the worker did: the other side gets a plain ImportError with code and hint.
        return ImportError, (str(self),), {"code": self.code, "hint": self.hint}


class Finder:
    """Answers for the name `torch`, and holds all that this process knows about its torch."""

    torch_fl_home = HOME  # how another copy of this file recognises it

    def __init__(self):
        self.neutral = False
        self.error = None  # for every later import, once a library has been opened
        self.torch = None
        self.loading = None
        self.plan = None
        self.warnings = []
        self._build = None
        self._asking = {}  # thread -> the path along which it is looking for torch

    @property
    def build(self):
        """The content of build.json."""
        if self._build is None:
            self._build = sibling("_plan").read_build(HOME)
        return self._build

    @property
    def redirect(self):
        """What TORCH_FL_REDIRECT asks for."""
        value = os.environ.get("TORCH_FL_REDIRECT") or "auto"
        if value not in REDIRECTS:
            raise BootError(
                "E-BOOT-014",
                f"TORCH_FL_REDIRECT={value} is not one of {', '.join(REDIRECTS)}",
                "unset TORCH_FL_REDIRECT, or give it one of these values",
            )
        return value

    def enter(self):
        """Stand in front of all other finders."""
        self.neutral = False
        if sys.meta_path[:1] != [self]:
            sys.meta_path[:] = [self] + [other for other in sys.meta_path if other is not self]

    def leave(self):
        """Step aside, and take the carriers along; in place, for importlib may be walking the list."""
        self.neutral = True
        sys.path[:] = [entry for entry in sys.path if not is_gate(entry)]

    def fits(self):
        """Whether this interpreter is the one that the build is for; others may inherit the carrier."""
        return self.build["python"] in (None, sys.implementation.cache_tag)

    def find_spec(self, name, path=None, target=None):
        """Find torch. What is wrong is raised by the import, not here: many only ask whether it exists.

        The import system asks with its global lock held, so nothing is imported here: another thread may
        hold the lock of the module that we need, and wait for the global one.
        """
        if name != "torch":
            return None
        asked = self._asking.get(get_ident())
        if asked is not None:  # one of the finders that we asked asks back, as import hooks do
            return self._ask(*asked, target)
        if self.neutral:
            return None
        try:
            if self.error is not None:
                raise self.error
            spec = None if self.redirect == "off" else self.locate(target)
        except Exception as error:
            return type(sys.__spec__)("torch", _Refusal(self, error))
        if spec is None:
            self.leave()  # else importlib would go on to the carrier, which would come back here
            return None
        spec.loader = _Loader(self, spec.loader)
        return spec

    def settle(self, spec, real):
        """The checks and the facade: the plan for the torch of `spec`, and the loader that will run it.

        For another interpreter than the build's there is no plan: it gets the installed torch.
        """
        if not self.fits():
            self.leave()
            return None, real
        plan = sibling("_plan").Plan(self, os.path.dirname(spec.origin)).settle()
        if plan.facade is not None:
            facade = self._ask([plan.facade], plan.facade, None)
            spec.origin, spec.cached = facade.origin, facade.cached
            spec.submodule_search_locations = facade.submodule_search_locations
            real = facade.loader
        return plan, real

    def locate(self, target=None):
        """The spec of the installed torch, or None. A facade in front of it is looked through."""
        spec = self._ask([entry for entry in sys.path if not is_gate(entry)], None, target)
        while spec is not None and is_facade(os.path.dirname(os.path.dirname(spec.origin))):
            site = os.path.dirname(os.path.dirname(os.readlink(spec.origin)))
            spec = self._ask([site], site, target)
        return spec

    def _ask(self, path, site, target):
        """The others' first answer that is a package of files, no carrier, and lies in `site` if given."""
        PathFinder = sys.modules["_frozen_importlib_external"].PathFinder
        me = get_ident()
        outer = self._asking.get(me)
        self._asking[me] = path, site
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                if find is None or hasattr(finder, "torch_fl_home"):
                    continue
                # A top-level name comes without a path. The path finder gets ours, for its own has
                # the carrier in front; so does one that passes the question on to it.
                for along in (path,) if finder is PathFinder else (None, path):
                    spec = find("torch", along, target)
                    # No origin: a namespace package, a folder that happens to be called torch.
                    if spec is None or spec.loader is None or not spec.has_location:
                        break
                    root = os.path.dirname(os.path.dirname(spec.origin))
                    if not is_gate(root) and (site is None or same(root, site)):
                        return spec
            return None
        finally:
            if outer is None:
                del self._asking[me]
            else:
                self._asking[me] = outer

    def load(self, module, loader, plan):
        """Run torch's own loader over the planned libraries."""
        if module is self.torch:  # importlib.reload: as in the stock torch
            return loader.exec_module(module)
        try:
            plan.check_loaded()
        except BaseException:
            self.leave()
            raise
        self.loading = module
        try:
            plan.open()
            with plan.backends():
                loader.exec_module(module)
            plan.compare()
            plan.finish()
        except BootError as error:
            self.error = error
            raise
        except Exception as error:  # libraries are open: torch cannot be tried a second time
            self.error = BootError(
                "E-BOOT-015",
                f"torch's own initialisation failed over the libraries of torch_fl: {error!r}",
                "see the error above; if `import torch` alone works in a new process, the build does not fit this torch",
            )
            raise self.error from error
        finally:
            self.loading = None
        self.torch, self.plan = module, plan

    def start(self):
        """What `import torch_fl` does: import torch through this finder, or take one that is right."""
        if not self.fits():
            raise BootError(
                "E-BOOT-013",
                f"this torch_fl is built for {self.build['python']}, not {sys.implementation.cache_tag}",
                "install the torch_fl wheel of this Python, or run the Python that the wheel names",
            )
        if self.redirect == "off":
            self.leave()
            return
        self.enter()
        carry_on_path()
        known = self.torch
        module = sys.modules.get("torch")
        # It stands there before its loader is called: another thread may be at it, which the import waits for.
        ours = module is None or module is known or module is self.loading
        under_way = getattr(getattr(module, "__spec__", None), "_initializing", False)
        if ours or under_way:
            self._import()
            module = sys.modules.get("torch")
        if not ours and module is not self.torch and module is not self.loading:
            self._adopt(module)
        if module is not None and module is self.loading:
            return  # a part of torch imports torch_fl: the import of torch will compare
        if module is None or module is not self.torch:
            self.leave()
            raise BootError(
                "E-BOOT-012",
                f"{getattr(module, '__file__', module)} was imported past the finder of torch_fl",
                "import torch_fl before other import hooks and before threads that import torch",
            )
        if module is known:  # else it has been compared just now
            self.plan.compare()

    def _import(self):
        try:
            import torch  # noqa: F401  another thread may be at it: this waits for its end
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
        else:
            if getattr(torch, "__file__", None) is not None:
                return
            del sys.modules["torch"]  # a namespace: some folder that happens to be called torch
        self.leave()
        raise BootError(
            "E-BOOT-003",
            "torch is not installed in this environment",
            self.build["torch"]["install"]["pip"],
        )

    def _adopt(self, module):
        """Accept a torch that was imported first, if every library is the planned one all the same."""
        try:
            if not getattr(module, "__file__", None):
                raise BootError(
                    "E-BOOT-002",
                    f"sys.modules has a torch that comes from no file: {module!r}",
                    "import torch_fl before whatever puts a stand-in for torch there",
                )
            folder = os.path.dirname(os.path.abspath(module.__file__))
            if is_facade(os.path.dirname(folder)):
                folder = os.path.dirname(os.readlink(os.path.join(folder, "__init__.py")))
            plan = sibling("_plan").Plan(self, folder).settle()
            plan.check_adopted()
            plan.set_environment()
        except BaseException:
            self.leave()
            raise
        plan.finish()
        self.torch, self.plan = module, plan


class _Loader:
    """The real loader, wrapped once; torch itself sees the real one.

    `create_module` comes after the search and before the module gets its attributes from the spec, with no
    lock held but torch's own: the place for all that needs other modules, and for the facade.
    """

    def __init__(self, finder, real):
        self._finder, self._plan, self._real = finder, None, real
        self._settled = False

    def __getattr__(self, name):
        return getattr(self._real, name)

    def create_module(self, spec):
        finder = self._finder
        try:
            self._plan, self._real = finder.settle(spec, self._real)
            self._settled = True
        except Exception:
            if finder.error is None:
                finder.leave()
            raise
        return self._real.create_module(spec)

    def exec_module(self, module):
        if not self._settled:  # a loader of somebody else around this one, that makes modules itself
            self.create_module(module.__spec__)
        module.__spec__.loader = module.__loader__ = self._real
        if self._plan is None:
            self._real.exec_module(module)
        else:
            self._finder.load(module, self._real, self._plan)


class _Refusal:
    """Raises at import what the search found wrong, so that `find_spec` can be asked in peace."""

    def __init__(self, finder, error):
        self._finder, self._error = finder, error

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if self._finder.error is None:
            self._finder.leave()
        raise self._error.with_traceback(None)


_siblings = RLock()  # two threads may come at once: the second waits until the module is whole


def sibling(name):
    """The module `torch_fl.NAME` from the file beside this one, without importing the package."""
    full = "torch_fl." + name
    with _siblings:
        if full not in sys.modules:
            from importlib.util import module_from_spec, spec_from_file_location

            spec = spec_from_file_location(full, os.path.join(HOME, name + ".py"))
            module = module_from_spec(spec)
            sys.modules[full] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[full]
                raise
        return sys.modules[full]


def is_gate(entry):
    """Whether this folder is a carrier, of this copy of torch_fl or of another one."""
    return isinstance(entry, str) and os.path.exists(os.path.join(entry, "torch", "TORCH_FL_GATE"))


def is_facade(folder):
    """Whether this folder holds one of our trees of links instead of an installed torch."""
    return os.path.exists(os.path.join(folder, "TORCH_FL_FACADE"))


def same(one, other):
    """Whether two paths are one file; what is not there is not the same."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def carry_on_path():
    """Put the carrier on `sys.path`, for children that inherit it.

    Behind the first entry, which is the program's own folder: programs read and drop `sys.path[0]`.
    """
    gate = os.path.join(HOME, "gate")
    if not any(is_gate(entry) and same(entry, gate) for entry in sys.path):
        first = sys.path[0] if sys.path else None
        own = isinstance(first, str) and not os.path.exists(os.path.join(first, "torch"))
        sys.path.insert(1 if own else 0, gate)


_finder = Finder()


def finder_for(home):
    """This process's finder, for the copy of torch_fl at `home`. Two builds in one process are refused."""
    others = [other for other in sys.meta_path if hasattr(other, "torch_fl_home")]
    finder = others[0] if others else _finder
    if not same(finder.torch_fl_home, home):
        mine = sibling("_plan").read_build(home)
        if mine["id"] != finder.build["id"]:
            raise BootError(
                "E-BOOT-009",
                f"torch_fl {finder.build['version']} of {finder.torch_fl_home} is at work in this process, "
                f"torch_fl {mine['version']} of {home} cannot join it",
                "keep one of them on sys.path and PYTHONPATH",
            )
    return finder


def carry():
    """What the carrier does in a child: the finder alone, torch is imported when the child wants it."""
    finder = finder_for(HOME)
    if finder.torch is None and finder.error is None:
        finder.enter()


def is_runner():
    """Whether the package is imported only because `python -m torch_fl` is being located."""
    return sys.argv[:1] == ["-m"] and runner_operand() is not None


def runner_operand():
    """Where in `sys.orig_argv` the option stands that names torch_fl as the module to run, or None."""
    words = sys.orig_argv
    index = 1
    while index < len(words) and words[index].startswith("-"):
        word = words[index]
        if word.startswith("--"):  # the one long option that a program can follow
            index += 2 if word == "--check-hash-based-pycs" else 1
            continue
        for place, letter in enumerate(word[1:], 2):
            rest = word[place:]
            if letter == "m":
                module = rest or "".join(words[index + 1 : index + 2])
                return index if module.split(".")[0] == "torch_fl" else None
            if letter == "c":
                return None
            if letter in "XW":
                index += not rest
                break
        index += 1
    return None
