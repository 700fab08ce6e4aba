"""A row of the table: a vendor on one architecture."""

from contextlib import contextmanager

from elsewhere import Elsewhere, cross_compiled, root
from tools import ARCH, TAG, Failed, NotRun
from vendor import Built, Installed

STEPS = ("build", "audit", "install", "import", "uninstall")


class Row:
    """What was done and what came of it."""

    def __init__(self, vendor, arch):
        self.vendor, self.arch = vendor, arch
        self.state = dict.fromkeys(STEPS, "not-run")
        self.reasons = {}
        self.tags = {}
        self.here = None
        if arch != ARCH:
            self.state["load"] = "not-run"
        self.inputs = "skeleton"

    @contextmanager
    def step(self, name, what=""):
        """Failures of a step are the row's; what hangs on the step is then not run."""
        try:
            yield
            if self.state[name] == "not-run":
                self.state[name] = "ok"
        except (Failed, NotRun) as error:
            self.state[name] = "not-run" if isinstance(error, NotRun) else "fail"
            self.reasons[name] = f"{what}{error}"
            raise Stop from error

    def run(self):
        for tag in self.vendor.tags:
            self.for_tag(tag)
        if self.arch != ARCH:
            self.loaded()
        if self.arch == ARCH or ARCH not in self.vendor.arches:
            self.at_hand()
        else:
            for name in ("import", "uninstall"):
                self.reasons[name] = f"there is no Python of {self.arch} here: see the row of {ARCH}"
        return self

    def for_tag(self, tag):
        """Built and audited for one of the manifest's own Pythons."""
        folder = self.vendor.folder / f"{self.arch}-{tag}"
        done = self.tags[tag] = {"build": "not-run", "audit": "not-run"}
        built = None
        try:
            for name in ("build", "audit"):
                with self.step(name, f"{tag}: "):
                    if self.arch != ARCH:
                        cross_compiled(self.arch)
                    if built is None:
                        built = Built(self.vendor, folder, ("--tag", tag, "--arch", self.arch))
                    getattr(built, name)()
                    done[name] = "ok"
        except Stop:
            done[name] = self.state[name]
            if name == "build":
                self.reasons.setdefault("audit", "there is no wheel to audit")

    def loaded(self):
        """On another machine: installed for its tags, and loaded by its own ld.so under emulation."""
        self.reasons["plugin"] = "parts in Rust (the plugin) are not built for this machine here"
        tag = TAG if TAG in self.vendor.tags else self.vendor.tags[0]
        if not self.sound():
            return
        # Where the machine at hand has a row of its own, that one is installed and removed; else `at_hand` does both.
        own = ARCH in self.vendor.arches
        try:
            with self.step("install" if own else "load", f"{tag}: "):
                words = ("--tag", tag, "--arch", self.arch)
                folder = self.vendor.folder / f"{self.arch}-{tag}-loaded"
                system = root(self.arch) if root(self.arch).is_dir() else None
                built = Built(self.vendor, folder, words, sdk_in_place=True, system=system).build().audit()
                elsewhere = Elsewhere(built, tag, self.arch)
                elsewhere.install()
            self.state["load"] = "not-run"
            with self.step("load", f"{tag}: "):
                elsewhere.load()
        except Stop:
            pass

    def sound(self):
        """Whether there are wheels to install."""
        if self.state["build"] == self.state["audit"] == "ok":
            return True
        for name in self.state.keys() - {"build", "audit"}:
            self.reasons[name] = "there is no wheel to install"
        return False

    def at_hand(self):
        """Installed, imported and removed for the Python and the machine at hand."""
        self.here = TAG
        if not self.sound():
            return
        try:
            with self.step("install", f"{TAG} at hand: "):
                vendor = self.vendor.here()
                built = Built(vendor, vendor.folder / TAG, (), sdk_in_place=True).build().audit()
                self.inputs = "skeleton" if built.build_json["skeleton"] else "real"
                installed = Installed(built)
                installed.install()
            with self.step("import"):
                installed.imports()
        except Stop:
            if self.state["install"] != "ok":
                return
        try:
            with self.step("uninstall"):
                installed.uninstall()
                installed.clear()
        except Stop:
            pass

    @property
    def failed(self):
        return "fail" in self.state.values()

    def json(self):
        row = {"vendor": self.vendor.name, "arch": self.arch, **self.state, "inputs": self.inputs}
        reasons = dict(self.reasons)
        if self.here:
            at_hand = f"on a skeleton for {self.here} and {ARCH}, which are at hand"
            reasons["python"] = f"installed and imported {at_hand}; built and audited for {', '.join(self.tags)}"
        return {**row, "python": self.here, "tags": self.tags, "reasons": reasons}


class Stop(Exception):
    """A step did not come to its end; its row says so."""
