"""One vendor, from its manifest to an empty environment, without its hardware.

Built and audited: a skeleton for each of the manifest's own Pythons and machines. Installed, imported and removed: a
skeleton for the Python and the machine at hand, built from the same manifest with these in place of its own.
"""

import json
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

from tools import ARCH, REPOSITORY, TAG, Failed, fresh, run, skeleton, torchfl

HERE = Path(__file__).parent
# How torch is led to the bundle, by `swap`.
REDIRECT = {"core": "facade", "extra": "open", "none": "none"}


class Vendor:
    """A manifest: `which` are the words that name it to our programs."""

    def __init__(self, which, folder):
        self.which = which
        self.facts = torchfl("vendor", "show", *which)
        self.text = torchfl("vendor", "show", "--source", *which)["text"]
        self.name = self.facts["name"]
        self.folder = folder / self.name

    @classmethod
    def file(cls, path, folder):
        return cls(("--manifest", path), folder)

    @property
    def swap(self):
        return self.facts["torch"]["swap"]

    @property
    def tags(self):
        return self.facts["python_tags"]

    @property
    def arches(self):
        return self.facts["target"]["arch"]

    def here(self):
        """The same vendor, with a manifest that offers the Python and the machine at hand as well."""
        text = self.text
        for key, value, known in ("tags", TAG, self.tags), ("arch", ARCH, self.arches):
            if value not in known:
                text, count = re.subn(rf"(?m)^{key}\s*=\s*\[", f'{key} = ["{value}", ', text)
                if count != 1:
                    raise Failed(f"{self.name}.toml: `{key} = [` stands {count} times")
        path = fresh(self.folder / "here") / f"{self.name}.toml"
        path.write_text(text)
        return Vendor.file(path, self.folder / "here")


class Built:
    """A wheel and what it was made of and proved with."""

    def __init__(self, vendor, folder, target, sdk_in_place=False, system=None):
        """`target` are the skeleton's words for Python and machine. With `sdk_in_place` the SDK is expected where the
        skeleton of it lies; else at the manifest's own place, with the skeleton's folder for the root of the machine.
        `system` is a folder with the machine's C library."""
        self.vendor, self.folder = vendor, fresh(folder)
        self.parts = parts = skeleton(*vendor.which, *target, "-o", folder / "parts")
        own = parts["vendor_wheel"]
        self.front = own if vendor.facts["torch"]["front"] == "vendor" else parts["stock_wheel"]
        self.company = [word for wheel in parts["provided_wheels"] for word in ("--with", wheel)]
        self.words = [*vendor.which, "--front", self.front]
        if vendor.swap != "none":
            self.words += ["--torch", own]
        root = folder / "parts"
        if sdk_in_place and parts["sdk_root"]:
            self.words += ["--sdk-root", parts["sdk_root"]]
            # The SDK alone, where it lies: all else of the machine is not the target's.
            root = folder / "root"
            shutil.copytree(parts["sdk_root"], root / parts["sdk_root"].lstrip("/"))
        for path in filter(None, (root, system)):
            self.company += ["--sysroot", path]
        self.wheel = None

    def build(self):
        """Twice, from two folders and with another number of threads: the same bytes."""
        made = [self._once("first", 2), self._once("second", 1)]
        if made[0].name != made[1].name or made[0].read_bytes() != made[1].read_bytes():
            raise Failed(f"two builds of {made[0].name} differ")
        self.wheel = made[0]
        self._says_what_it_is()
        return self

    def _once(self, folder, threads):
        words = [*self.words, *self.company, "--threads", threads, "-o", self.folder / folder]
        return Path(torchfl("build", *words)["path"])

    def _says_what_it_is(self):
        with zipfile.ZipFile(self.wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            metadata = archive.read(name).decode()
            self.build_json = build = json.loads(archive.read("torch_fl/build.json"))
        words = [note.partition(":")[0] for note in build["notes"]]
        wanted = ["skeleton"] + ["runtime-only"] * (build["status"] == "runtime-only")
        summary = re.search(r"(?m)^Summary: (.*)$", metadata)[1]
        checks = {
            "its version ends in skeleton": self.wheel.name.split("-")[1].endswith(".skeleton"),
            "build.json says skeleton": build["skeleton"] is True,
            f"build.json notes {wanted}": words == wanted,
            f"its summary says {wanted}": summary.startswith("".join(f"[{word}] " for word in wanted)),
        }
        refuse(checks, self.wheel.name)

    def audit(self):
        """As it will be met: the torch, the runtime wheels and the SDK are files, not somebody's word."""
        report = torchfl("audit", self.wheel, "--torch", self.front, *self.company, findings=True)
        errors = [f"{found['code']} {found['file']}: {found['reason']}" for found in errors_of(report)]
        if errors:
            raise Failed("; ".join(errors[:3]))
        self.report = report
        # The manifest's [host] would do for the audit; the skeleton has the files, so the bundle's search path must lead
        # to them. A vendor's own torch in front has its own, and an LD_LIBRARY_PATH of its users.
        sdk = self.parts["sdk_root"] if self.vendor.swap != "none" else None
        there = {path.name for path in Path(sdk).rglob("*.so*")} if sdk else set()
        unseen = [one["library"] for one in report["assumed"] if one["word"] == "host" and one["library"] in there]
        if unseen:
            raise Failed(f"the search path does not lead to {', '.join(unseen)}, which the SDK has")
        if not any(said.startswith("torch-fl ") for said in report["skeletons"]):
            raise Failed("the audit does not say that this is a skeleton")
        return self


def errors_of(report):
    return [found for found in report["findings"] if found["severity"] == "error"]


def refuse(checks, what):
    wrong = [text for text, right in checks.items() if not right]
    if wrong:
        raise Failed(f"{what}: not so: {'; '.join(wrong)}")


class Installed:
    """The wheel in an environment with the torch that it meets."""

    def __init__(self, built):
        self.built, self.vendor = built, built.vendor
        self.root = fresh(built.folder / "venv")
        uv("venv", "--python", sys.executable, self.root)
        self.python = self.root / "bin" / "python"
        self.site = next((self.root / "lib").glob("python3*")) / "site-packages"
        company = [built.front, *built.parts["provided_wheels"]]
        uv("pip", "install", "--offline", "--no-deps", "--no-index", "--python", self.python, *company)
        self.alone = self.ask("plain")
        self.before = self.listing()

    def listing(self):
        """Every file; what Python keeps of torch's own modules is nobody's."""
        files = (path.relative_to(self.site) for path in self.site.rglob("*") if not path.is_dir())
        return {str(path): (self.site / path).stat().st_size for path in files if "__pycache__" not in path.parts}

    def install(self):
        pip(self.python, "install", "--no-index", "--no-deps", self.built.wheel)
        if not (self.site / "torch_fl" / "build.json").is_file():
            raise Failed("pip installed no torch_fl")
        report = torchfl("audit", self.site, "--torch", self.site, findings=True)
        if errors_of(report):
            raise Failed(f"installed: {errors_of(report)[0]['reason']}")

    def ask(self, *words, key=None, options=()):
        key = key or self.built.parts["key"]
        done = run(self.python, *options, HERE / "inside.py", key, *words, env=self.environ(), cwd=self.root)
        if done.returncode != 0:
            # Of an error of the bootstrap, the message and the next step.
            raise Failed(" ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-2:]))
        self.stderr = done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def environ(self):
        """Clean, but for what the vendor's own torch needs where it is in front: its users set it too."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.root), "LANG": "C.UTF-8"}
        environ["TORCH_FL_CACHE_DIR"] = str(self.root / "cache")
        sdk = self.built.parts["sdk_root"]
        if self.vendor.facts["torch"]["front"] == "vendor" and sdk:
            environ["LD_LIBRARY_PATH"] = str(Path(sdk) / "lib")
        return environ

    def imports(self):
        """`import torch_fl`: the planned core, the device where there is one, torch as good as before."""
        said = self.ask()
        boot, build = said["boot"], self.built.build_json
        front_is_vendor = build["torch"]["front"] == "vendor"
        core = [self.built.parts["vendor"]] if self.vendor.swap == "core" or front_is_vendor else ["stock"]
        device = self.vendor.swap != "none" or front_is_vendor
        wanted = {**build["torch"]["attributes"]}
        refuse(
            {
                "boot_info() says skeleton": boot["skeleton"] is True and boot["notes"] == build["notes"],
                f"redirect is {REDIRECT[self.vendor.swap]}": boot["redirect"] == REDIRECT[self.vendor.swap],
                "no warnings": boot["warnings"] == [],
                f"the core is {core}, not {said['builds']}": said["builds"] == core,
                f"a kernel for {self.built.parts['key']}: {device}": said["kernel"] is device,
                f"the device came in time: {device}": said["device"] is device,
                f"sums, not {said['sum']}": said["sum"] == self.alone["sum"] == [4.0, 6.0],
                "the manifest's environment": build["env"].items() <= said["environ"].items(),
                "attributes of torch.version": wanted.items() <= said["attributes"].items(),
            },
            "import torch_fl",
        )
        again = self.ask("plain")
        if again != self.alone:
            raise Failed("torch alone, beside torch_fl, is not what it was before")
        self.ask(options=("-m", "torch_fl"))
        if "torch_fl: skeleton: " not in self.stderr:
            raise Failed("python -m torch_fl does not say that this is a skeleton")

    def uninstall(self):
        pip(self.python, "uninstall", "-y", "torch_fl")
        now = self.listing()
        differ = sorted(path for path in now.keys() | self.before.keys() if now.get(path) != self.before.get(path))
        if differ or (self.site / "torch_fl").exists():
            raise Failed(f"left or changed: {', '.join(differ[:5]) or 'torch_fl/'}")
        if self.ask("plain") != self.alone:
            raise Failed("torch alone is not what it was before")

    def clear(self):
        shutil.rmtree(self.root, ignore_errors=True)


def uv(*words):
    cache = REPOSITORY / "target" / "vendors" / "uv"
    done = run(Path(sys.executable).with_name("uv"), "--quiet", "--no-config", "--cache-dir", cache, *words)
    if done.returncode != 0:
        raise Failed(f"uv {words[0]}: {done.stderr.strip()}")


def pip(python, *words):
    options = ["--disable-pip-version-check", "--no-cache-dir", "--quiet", "--python", python]
    done = run(sys.executable, "-m", "pip", *options, *words)
    if done.returncode != 0:
        raise Failed(f"pip {words[0]}: {done.stderr.strip().splitlines()[-1]}")
