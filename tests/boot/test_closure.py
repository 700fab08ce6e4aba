"""What an installer would bring beside each vendor's wheel, by uv and by pip: one owner of `triton/`, the right one."""

import fcntl
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import packages
import pytest
from environment import REPOSITORY, program, run

UV = Path(sys.executable).with_name("uv")
TORCHFL = REPOSITORY / "target" / "release" / "torchfl"
VENDORS = sorted(path.stem for path in (REPOSITORY / "vendor-manifests").glob("*.toml"))
# The incumbent's METADATA for these requires PyPI's flag_gems and triton, though the vendor has its own or none.
INCUMBENT = ["bpu", "gcu", "metax", "musa", "tsingmicro"]
# No owner of theirs is called triton: whoever pulls that name is refused, or uv is told to drop it.
NOT_TRITON = ["ascend", "bpu"]
DROP = "triton; python_version < '0'\n"


class Vendor:
    """A vendor's wheel, its constraints, and the indexes that its users may have."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.manifest = json.loads(self.torchfl("vendor", "show", name)[1])
        self.triton = self.manifest["triton"] or {"supplier": None, "owners": []}
        self.python, self.arch = self.manifest["python_tags"][0], self.manifest["target"]["arch"][0]
        if not (folder / "made").exists():
            folder.mkdir()
            self.make()
            (folder / "made").touch()
        self.wheel = next((folder / "dist").glob("*.whl"))
        self.constraints = next((folder / "dist").glob("*.txt"))

    def make(self):
        """The wheel, of a skeleton of the vendor's torch where it bundles one; the index of PyPI, and one with more."""
        words = [self.name, "-o", self.folder / "dist"]
        if self.manifest["torch"]["swap"] != "none":
            out = self.folder / "out"
            run(program("torchfl-skeleton"), self.name, "-o", out, "--tag", self.python, "--arch", self.arch)
            torch = next((out / "vendor").glob("*.whl"))
            if self.triton["supplier"] == "pypi":  # the vendor's torch is PyPI's, and so are its requirements
                torch = self.with_requirements(torch, packages.torch(self.manifest["torch"]["release"]))
            words += ["--torch", torch, "--sysroot", out]
            if self.manifest["shims"]:
                words += ["--front", next((out / "stock").glob("*.whl"))]
        run(TORCHFL, "build", *words)
        packages.index(self.folder / "pypi", [])
        packages.index(self.folder / "index", ["cpu", "cpu.skeleton"])
        for owner in self.triton["owners"]:
            if owner["version"]:
                packages.owner(self.folder / "index", owner["name"], owner["version"])
        (self.folder / "drop.txt").write_text(DROP)

    def torchfl(self, *words):
        done = subprocess.run([TORCHFL, "--json", *map(str, words)], capture_output=True, text=True)
        return done.returncode, done.stdout

    def closure(self, *words, wheel=None, index="index"):
        """Exit code, report and the findings' codes."""
        place = ["--no-index", "--find-links", self.folder / index, "--uv", UV]
        code, out = self.torchfl("closure", wheel or self.wheel, *place, *words)
        report = json.loads(out)
        assert "error" not in report, out
        assert code == (1 if report["findings"] else 0), out
        return report, sorted({finding["code"] for finding in report["findings"]})

    def reasons(self, report):
        return " | ".join(finding["reason"] for finding in report["findings"])

    def pinned(self):
        """The owner that the constraints choose for whoever asks for `triton`."""
        pins = re.findall(r"(?m)^triton==(.*)$", self.constraints.read_text())
        return pins[0] if pins else None

    def with_requirements(self, wheel, lines, keep=False):
        """The wheel with these requirements, in place of its own or beside them."""
        changed = self.folder / "changed" / wheel.name
        changed.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w") as new:
            for member in old.infolist():
                data = old.read(member)
                if member.filename.endswith(".dist-info/METADATA"):
                    head, blank, rest = data.decode().partition("\n\n")
                    kept = [line for line in head.splitlines() if keep or not line.startswith("Requires-Dist:")]
                    head = "\n".join(kept + [f"Requires-Dist: {line}" for line in lines])
                    data = (head + (blank or "\n") + rest).encode()
                new.writestr(member, data)
        return changed


@pytest.fixture(scope="session")
def vendors(tmp_path_factory):
    made = {}
    # Processes that run the tests in parallel share them.
    base = tmp_path_factory.getbasetemp()
    base = (base.parent if base.name.startswith("popen-") else base) / "closure"
    base.mkdir(exist_ok=True)

    def get(name):
        if name not in made:
            with open(base / f"{name}.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                made[name] = Vendor(name, base / name)
        return made[name]

    return get


@pytest.fixture(params=VENDORS)
def vendor(request, vendors):
    return vendors(request.param)


PULLED = ["--with", "flag_gems", "--with", "xgrammar"]


def test_one_owner_the_right_one(vendor):
    """The index has PyPI's triton, a flag_gems and a package that pull it, and the vendor's own."""
    words = ["--constraint", vendor.constraints]
    names = {owner["name"] for owner in vendor.triton["owners"]}
    if vendor.name in NOT_TRITON:
        words += ["--override", vendor.folder / "drop.txt"]
        words += [word for name in sorted(names - {"flagtree"}) for word in ("--with", name)]
    report, codes = vendor.closure(*PULLED, *words)
    assert codes == [], report["findings"]
    owners = [(owner["name"], owner["version"]) for owner in report["owners"]]
    expected = {
        "pypi": [("triton", "3.7.1")],
        "vendor": [(owner["name"], owner["version"]) for owner in vendor.triton["owners"][:1]],
        "none": [],
        None: [("triton", "3.9.0")],  # the manifest says nothing: whatever comes, as long as it is one
    }
    assert owners == expected[vendor.triton["supplier"]]
    assert report["supplier"] == vendor.triton["supplier"]


def test_who_pulls_the_stock_triton_is_named(vendor):
    """Without the constraints."""
    report, codes = vendor.closure(*PULLED)
    if vendor.triton["supplier"] in ("pypi", None):
        assert codes == []
        return
    assert codes == ["AUD-021"], report["findings"]
    (owner,) = report["owners"]
    assert (owner["name"], owner["version"], owner["right"]) == ("triton", "3.9.0", False)
    pullers = ["flag-gems"] if vendor.arch == "aarch64" else ["flag-gems", "xgrammar"]  # by their markers
    assert owner["chains"] == [f"{puller} -> triton" for puller in pullers]
    assert "flag-gems -> triton" in vendor.reasons(report)


def test_a_foreign_name_is_refused_by_the_constraints(vendor, tmp_path):
    """Somebody asks for the triton of a vendor that is not this one's."""
    foreign = "triton-ascend" if vendor.name != "ascend" else "triton"
    packages.owner(tmp_path, "triton-ascend", "3.2.0")
    words = ["--with", foreign, "--find-links", tmp_path]
    report, codes = vendor.closure(*words, "--constraint", vendor.constraints)
    if vendor.triton["supplier"] is None:
        return
    assert codes == ["AUD-033"], report
    assert f"{foreign}==0+not.for.{vendor.manifest['vendor']}" in vendor.reasons(report)


def test_the_wheel_alone_says_what_is_missing(vendor):
    report, codes = vendor.closure("--constraint", vendor.constraints)
    if vendor.triton["supplier"] != "vendor":
        assert codes == []
        return
    assert codes == ["AUD-031"]
    pin = "{name}=={version}".format(**vendor.triton["owners"][0])
    assert pin in report["findings"][0]["fix"]
    report, codes = vendor.closure("--with", pin)
    assert codes == [] and [owner["right"] for owner in report["owners"]] == [True]


def test_only_pypis_torch_is_refused_by_name(vendor):
    release, front = (vendor.manifest["torch"][key] for key in ("release", "front"))
    report, codes = vendor.closure(index="pypi")
    wanted = {"AUD-021"} if vendor.triton["supplier"] in ("vendor", "none") else set()
    if front == "cpu":
        wanted.add("AUD-029")
    if vendor.name == "gcu":  # plain triton 3.6.0, which torch 2.10 pins, is its own
        wanted.remove("AUD-021")
    if vendor.arch == "aarch64":  # the torch 2.10.0 that PyPI has for it is a CPU build, and requires none
        wanted = {"AUD-031"} if vendor.triton["supplier"] == "vendor" else set()
    else:
        assert report["owners"][0]["chains"][0] == "torch-fl -> torch -> triton"
        assert front != "cpu" or f"torch {release} requires triton" in vendor.reasons(report)
    assert set(codes) == wanted, report["findings"]
    if front == "cpu":
        report, codes = vendor.closure("--constraint", vendor.constraints, index="pypi")
        assert codes == ["AUD-033"] and f"torch=={release}+cpu" in vendor.reasons(report)


@pytest.mark.parametrize("name", INCUMBENT)
def test_the_incumbents_metadata_is_refused(vendors, name):
    vendor = vendors(name)
    wheel = vendor.with_requirements(vendor.wheel, ["flag_gems>=5.0.2", "triton>=3.5.1"], keep=True)
    report, codes = vendor.closure(wheel=wheel)
    assert codes == ["AUD-021"]
    assert "the wheel requires triton" in vendor.reasons(report)
    assert [(owner["version"], owner["right"]) for owner in report["owners"]] == [("3.9.0", False)]
    assert "torch-fl -> flag-gems -> triton" in vendor.reasons(report)


def test_two_owners_are_two_findings_too_many(vendors):
    vendor = vendors("metax")
    report, codes = vendor.closure("--with", "triton==3.6.0+metax3.8.1.0", "--with", "flagtree==0.6.1+metax3.6")
    assert codes == ["AUD-032"] and [owner["right"] for owner in report["owners"]] == [True, True]
    assert "flagtree 0.6.1+metax3.6" in vendor.reasons(report)


def test_an_owner_that_no_list_names_is_seen_in_its_wheel(vendors, tmp_path):
    vendor = vendors("metax")
    packages.owner(tmp_path, "acme-compiler", "1.0")
    words = ["--find-links", tmp_path, "--with", "acme-compiler", "--with", "triton==3.6.0+metax3.8.1.0"]
    report, codes = vendor.closure(*words)
    assert codes == ["AUD-021", "AUD-032"] and "acme-compiler 1.0 brings triton/" in vendor.reasons(report)


def test_what_is_installed_counts(vendors, tmp_path):
    vendor = vendors("metax")
    with zipfile.ZipFile(next((vendor.folder / "index").glob("triton-3.7.1-*.whl"))) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "triton-3.7.1.dist-info" / "RECORD").write_text("triton/__init__.py,,\n")
    _, codes = vendor.closure("--installed", tmp_path, "--with", "flagtree==0.6.1+metax3.6")
    assert codes == ["AUD-021", "AUD-032"]
    _, codes = vendor.closure("--installed", tmp_path, "--with", "triton==3.6.0+metax3.8.1.0")
    assert codes == []  # it takes the place of the one that is there
    for file in (tmp_path / "triton-3.7.1.dist-info").iterdir():
        file.unlink()
    report, codes = vendor.closure("--installed", tmp_path)
    assert codes == ["AUD-021"] and "without dist-info" in vendor.reasons(report)


def test_pip_takes_the_constraints_too(vendor):
    """`pip install --dry-run`: the vendor's owner is chosen, a foreign one is refused and told."""
    words = ["--dry-run", "--no-index", "--find-links", vendor.folder / "index", "--ignore-installed"]
    words += ["--only-binary", ":all:", "--target", vendor.folder / "pip"]
    words += ["--python-version", vendor.python.removeprefix("cp3").join(["3.", ""])]
    words += ["--platform", vendor.wheel.stem.split("-")[-1], "--disable-pip-version-check"]
    words += ["-c", vendor.constraints, vendor.wheel, "puller"]
    command = [sys.executable, "-m", "pip", "install", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    if vendor.name in NOT_TRITON:
        assert done.returncode == 1
        assert f"(constraint) triton==0+not.for.{vendor.manifest['vendor']}" in done.stderr + done.stdout
        return
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"triton-{vendor.pinned() or expected(vendor)}" in done.stdout.split("Would install")[1].split()


def expected(vendor):
    return "3.7.1" if vendor.triton["supplier"] == "pypi" else "3.9.0"
