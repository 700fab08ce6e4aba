"""A wheel for a machine that this one is not: installed by pip for its tags, and loaded under qemu-user by that
machine's own ld.so, as the bootstrap would open it; and what ld.so maps is what the audit said it would map."""

import json
import os
import sys
from pathlib import Path

from tools import Failed, NotRun, fresh, missing, run
from vendor import pip

LOAD = Path(__file__).with_name("load.c")


def compiler(arch):
    return f"{arch}-linux-gnu-gcc"


def cross_compiled(arch):
    """Whoever compiles for another machine needs a compiler for it."""
    if missing(compiler(arch)):
        raise NotRun(f"no {compiler(arch)} here (Debian: gcc-{arch}-linux-gnu, libc6-dev-{arch_of_debian(arch)}-cross)")


def arch_of_debian(arch):
    return {"aarch64": "arm64", "x86_64": "amd64"}.get(arch, arch)


def root(arch):
    """Where Debian's cross packages put the machine's C library."""
    return Path(f"/usr/{arch}-linux-gnu")


def emulated(arch):
    """The words that start a program of that machine, with that machine's own ld.so."""
    if missing(f"qemu-{arch}") or not root(arch).is_dir():
        wanted = f"qemu-user and libc6-{arch_of_debian(arch)}-cross"
        raise NotRun(f"no qemu-{arch} with that machine's ld.so here (Debian: {wanted})")
    return [f"qemu-{arch}", "-L", root(arch)]


class Elsewhere:
    """The wheel in a site-packages folder of its own, beside what it meets."""

    def __init__(self, built, tag, arch):
        self.built, self.tag, self.arch = built, tag, arch
        self.site = fresh(built.folder / "site")

    def install(self):
        """By pip, as on that machine: it takes wheels of that machine's tags, and no others."""
        platforms = [f"linux_{self.arch}", f"manylinux_2_17_{self.arch}"]
        words = ["--target", self.site, "--only-binary", ":all:", "--no-index", "--no-deps", "--implementation", "cp"]
        words += ["--python-version", f"{self.tag[2]}.{self.tag[3:]}", "--abi", self.tag, "--abi", "none"]
        words += [word for platform in platforms for word in ("--platform", platform)]
        pip(sys.executable, "install", *words, self.built.front, *self.built.parts["provided_wheels"], self.built.wheel)

    def load(self):
        emulator = emulated(self.arch)
        program = self.built.folder / "load"
        done = run(compiler(self.arch), "-O1", "-Wall", "-Werror", "-rdynamic", LOAD, "-o", program)
        if done.returncode != 0:
            raise Failed(f"load.c: {done.stderr.strip()}")
        key = self.built.parts["key"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
        done = run(*emulator, program, key, *self.openings(), *self.beside(), env=environ)
        if done.returncode != 0:
            raise Failed(f"{self.arch}'s ld.so: {(done.stderr or done.stdout).strip()[:500]}")
        said = [line.split(" ") for line in done.stdout.splitlines()]
        self.answers([words[1:] for words in said if words[0] == "build"], ["kernel", "1"] in said)
        self.as_modelled([words[1] for words in said if words[0] == "mapped"])

    def openings(self):
        """The paths that an import opens: the bootstrap's, in its order, then torch's own two."""
        build = json.loads((self.site / "torch_fl" / "build.json").read_text())
        bundle, lib = self.site / "torch_fl" / build["bundle"], self.site / "torch" / "lib"
        folders = {"bundle": bundle, "front": lib}
        paths = [("+" if one["global"] else "") + str(folders[one["from"]] / one["name"]) for one in build["open"]]
        deps = "libtorch_global_deps.so"
        # For a core swap torch's lib/ is the facade's, which leads to the bundle first.
        first = bundle if build["swap"] == "core" and deps in build["files"] else lib
        return [*paths, f"+{first / deps}", *map(str, (self.site / "torch").glob("_C.*.so"))]

    def beside(self):
        """Where nothing is bundled, a plugin would open the vendor's runtime: it loads too."""
        parts = self.built.parts
        folders = [parts["sdk_root"] and Path(parts["sdk_root"]) / "lib", parts["driver_dir"]]
        nothing = self.built.vendor.swap == "none"
        return [str(path) for folder in folders if nothing and folder for path in sorted(Path(folder).glob("*.so*"))]

    def answers(self, builds, kernel):
        """Each library is of the build that it should be of, and the device's kernels are there."""
        vendor, facts = self.built.parts["vendor"], self.built.vendor.facts
        shims = {shim["soname"] for shim in facts["shims"]}
        own = str(self.site / "torch" / "lib")
        front = vendor if facts["torch"]["front"] == "vendor" else "stock"
        for path, build in builds:
            wanted = front if path.startswith(own) else vendor
            # The extension module is a shell round libtorch_python, and a shim is nobody's build.
            if Path(path).name not in shims and not Path(path).name.startswith("_C.") and build != wanted:
                raise Failed(f"{path} is of the build {build}, not {wanted}")
        if kernel != (self.built.vendor.swap != "none" or front == vendor):
            raise Failed(f"a kernel for {self.built.parts['key']}: {kernel}")

    def as_modelled(self, mapped):
        """ld.so's order of mapping against that of the audit's model: the same files of the wheels and the SDK, in the
        same order. What else a process has is the interpreter's, and another one in the model than here; and what code
        opens by name (a shim, while it is initialised) no model of the loader knows of."""
        ours = [str(self.site), str(self.built.folder / "parts")]
        opened = {Path(path).name for path in self.beside()} | set(self.built.vendor.facts["host"]["dlopen"])
        paths = [os.path.realpath(path) for path in mapped]
        real = [path for path in paths if path.startswith(tuple(ours)) and Path(path).name not in opened]
        files = [one["file"] for one in self.built.report["mapped"] if not one["given"]]
        model = [file if file.startswith("/") else str(self.site / file) for file in files]
        model = [path for path in model if path.startswith(tuple(ours))]
        if not real or real != model:
            names = [" ".join(Path(path).name for path in paths) for paths in (real, model)]
            raise Failed(f"ld.so maps {names[0]}; the model has {names[1]}")
