"""`make nix-check`: the flake without a network and without nixpkgs, with the machine's own tools and the sandbox on.

Works on a copy of the tree (what git knows, and what it does not ignore) in target/nix, so that manifests can be edited.
Prints a line a step. A machine without Nix, or one that cannot make a sandbox, is told so: `not run`, and why.
Arguments are words of the steps' names, to run these alone on what an earlier run left.
"""

import os
import shutil
import sys
import time
from pathlib import Path

import cache
from flake import FOLDER, REPOSITORY, SYSTEM, Failed, Flake, NotRun, run, sha256

TREE = FOLDER / "tree"
TOOLCHAIN = FOLDER / "toolchain"
# Of whom there are real files (the sample vendor's), none but a login's, and libraries beside the stock core.
WHEELS = ["wheel-sim", "skeleton-wheel-metax", "skeleton-wheel-cuda-slim"]
MISSING = ["torch-2.10.0+metax*-cp312-cp312-*.whl", "SoftNova", "add-input.sh"]


def need(condition, what):
    if not condition:
        raise Failed(what)


def toolchain(flake):
    """Written, written again, refused in a folder of somebody else's."""
    script = TREE / "packaging" / "nix" / "host-toolchain.sh"
    shutil.rmtree(TOOLCHAIN, ignore_errors=True)
    for _ in range(2):
        done = run(script, "-o", TOOLCHAIN, check=False)
        if "no build users" in done.stderr:
            raise NotRun(done.stderr.strip())
        need(done.returncode == 0, done.stderr)
        need(not list(TOOLCHAIN.glob(".draft*")), "a draft is left")
    foreign = FOLDER / "foreign"
    foreign.mkdir(exist_ok=True)
    (foreign / "letter").write_text("mine")
    done = run(script, "-o", foreign, check=False)
    need(done.returncode == 2 and "not a toolchain of ours" in done.stderr, f"{foreign} was not refused")
    need([path.name for path in foreign.iterdir()] == ["letter"], f"something was written into {foreign}")


def sandbox(flake):
    """No network, and the machine's own files are there to be read alone."""
    before = sha256(Path("/bin/sh"))
    text = f"""
      let pkgs = (builtins.getFlake "path:{TOOLCHAIN}").legacyPackages.{SYSTEM}; in
      pkgs.runCommand "probe-{time.time_ns()}" {{ }} ''
        for file in /usr/bin/env /usr/lib {sys.base_prefix}; do
            if [ -w $file ]; then echo "$file can be written" >&2; exit 1; fi
        done
        # The kernel's table of routes has its heading alone (proc(5), /proc/net/route).
        if [ "$(wc -l < /proc/net/route)" != 1 ]; then echo "there is a network" >&2; exit 1; fi
        if [ -e {REPOSITORY}/flake.nix ]; then echo "{REPOSITORY} is there" >&2; exit 1; fi
        touch $out
      ''"""
    done = flake.nix("build", "--impure", "--no-link", "--expr", text, check=False)
    if any(said in done.stderr for said in ("sandbox", "namespace", "Operation not permitted")):
        raise NotRun(f"this machine makes no sandbox: {done.stderr.strip().splitlines()[-1]}")
    need(done.returncode == 0, done.stderr)
    need(sha256(Path("/bin/sh")) == before, "/bin/sh was altered")


def builds(flake):
    """The first build: torchfl, and all that is asked for here."""
    flake.build(*WHEELS, "python-env-sim")


def refused(flake):
    done = flake.nix("build", "--no-link", flake.attribute("wheel-metax"), check=False)
    absent = [text for text in MISSING if text not in done.stderr]
    need(done.returncode != 0 and not absent, f"not told: {absent} in {done.stderr}")


def environment(flake):
    """A composed environment runs, and writes nothing."""
    flake.build_path(f"checks.{SYSTEM}.environment")


def again(flake):
    for name in WHEELS:
        done = flake.nix("build", "--no-link", "--rebuild", flake.attribute(name), check=False)
        need(done.returncode == 0, f"{name}: {done.stderr}")


def outside(flake):
    """The same bytes as of `torchfl build`, with its own manifests and its own skeletons."""
    programs = REPOSITORY / "target" / "release"
    python = [f"cp{sys.version_info[0]}{sys.version_info[1]}", "--python", "python3"]
    for vendor, attribute, (tag, *target) in [
        ("sim", "wheel-sim", python),
        ("metax", "skeleton-wheel-metax", ["cp312", "--tag", "cp312"]),
    ]:
        folder = FOLDER / "outside" / vendor
        shutil.rmtree(folder, ignore_errors=True)
        parts = folder / "parts"
        run(programs / "torchfl-skeleton", vendor, "-o", parts, *target)
        words = ["--torch", *parts.glob("vendor/*.whl"), "--front", *parts.glob("stock/*.whl"), "--python", tag]
        if attribute.startswith("skeleton"):
            words += ["--sysroot", parts]
            words += [word for wheel in parts.glob("provided/*.whl") for word in ("--with", wheel)]
        run(programs / "torchfl", "build", vendor, *words, "-o", folder / "dist", env={**os.environ, "CC": ""})
        theirs = flake.build(attribute)[0]
        names = sorted(path.name for path in theirs.iterdir())
        need(names == sorted(path.name for path in (folder / "dist").iterdir()), f"{vendor}: other files: {names}")
        differ = [name for name in names if (theirs / name).read_bytes() != (folder / "dist" / name).read_bytes()]
        need(not differ, f"{vendor}: other bytes: {differ}")


def edits(flake):
    """One field of a manifest is one vendor's affair; a list that all share is everybody's."""
    before = flake.derivations()
    for vendor in ("metax", "cuda-slim"):
        wheels = {f"wheel-{vendor}", f"skeleton-wheel-{vendor}"}
        with edited(f"vendor-manifests/{vendor}.toml", 'title = "', 'title = "Another '):
            after = flake.derivations()
        changed = {name for name in before if before[name] != after[name]}
        # Without a Python for it, its environment is a refusal.
        need(wheels <= changed <= wheels | {f"python-env-{vendor}"}, f"{vendor}: what is built anew is {changed}")
    with edited("docs/guide/README.md", "# Guide", "# The guide"):
        need(flake.derivations() == before, "a document builds something anew")
    with edited("vendor-manifests/lists/flag-gems.txt", "aipu", "aipu\naipu2"):
        after = flake.derivations()
    same = [name for name in before if before[name] == after[name] and "wheel" in name]
    need(not same, f"a shared list does not count for {same}")


def edited_build(flake):
    """The edited vendor's wheel is made by the programs that there are."""
    with edited("vendor-manifests/sim.toml", 'title = "', 'title = "Another '):
        done = flake.nix("build", "--no-link", flake.attribute("wheel-sim"))
    built = [line for line in done.stderr.splitlines() if line.startswith("building '")]
    need(len(built) == 2, f"the skeleton and the wheel were to be built: {built}")


def unchanged(flake):
    start = time.monotonic()
    done = flake.nix("build", "--no-link", *map(flake.attribute, WHEELS))
    seconds = time.monotonic() - start
    need("building" not in done.stderr, done.stderr)
    need(seconds < 3, f"it took {seconds:.1f} s")
    return f"{seconds:.1f} s"


def upgraded(flake):
    """A tool with another sum builds all anew, and one that is not what it was is refused."""
    tools = (TOOLCHAIN / "tools.json").read_text()
    shell = sha256(Path("/bin/sh").resolve())
    need(shell in tools, "the shell is not among the tools")
    other = FOLDER / "other-toolchain"
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(TOOLCHAIN, other)
    (other / "tools.json").write_text(tools.replace(shell, "0" * 64))
    before, after = flake.derivations(), Flake(TREE, other).derivations()
    same = [name for name in before if before[name] == after[name]]
    need(not same, f"not built anew: {same}")
    done = Flake(TREE, other).nix("build", "--no-link", flake.attribute("skeleton-wheel-metax"), check=False)
    need(done.returncode != 0 and "host-toolchain.sh saw; run it again" in done.stderr, done.stderr)


def whole(flake):
    """`nix flake check` and `nix flake show` take the flake."""
    flake.nix("flake", "check", "--no-build", flake.url)
    shown = flake.nix("flake", "show", "--json", flake.url).stdout
    absent = [name for name in (*WHEELS, "torchfl", "demo", "devShells") if f'"{name}"' not in shown]
    need(not absent, f"not shown: {absent}")


class edited:
    """A file of the copy, with one text in place of another."""

    def __init__(self, path, old, new):
        self.path, self.text = TREE / path, (TREE / path).read_text()
        need(old in self.text, f"{path} has no {old!r}")
        self.new = self.text.replace(old, new, 1)

    def __enter__(self):
        self.path.write_text(self.new)

    def __exit__(self, *_):
        self.path.write_text(self.text)


def copy_tree():
    """What git knows of the tree, as a repository: the flake's source is what git knows, too."""
    shutil.rmtree(TREE, ignore_errors=True)
    listed = run("git", "-C", REPOSITORY, "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
    for name in filter(None, listed.split("\0")):
        source = REPOSITORY / name
        if source.is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, TREE / name)
    run("git", "init", "--quiet", TREE)
    run("git", "-C", TREE, "add", "--all")


STEPS = [
    ("host toolchain", toolchain),
    ("sandbox", sandbox),
    ("flake check, show", whole),
    ("build", builds),
    ("refusal by name", refused),
    ("environment", environment),
    ("--rebuild", again),
    ("as torchfl build", outside),
    ("one field edited", edits),
    ("and built", edited_build),
    ("unchanged", unchanged),
    ("upgraded tool", upgraded),
    ("signed cache", cache.check),
]


def main(words):
    if shutil.which("nix") is None:
        print("not run: nix-check: nix is not installed (Debian: apt-get install nix-bin)")
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    copy_tree()
    flake = Flake(TREE, TOOLCHAIN)
    for name, step in STEPS:
        if words and not any(word in name for word in words):
            continue
        start = time.monotonic()
        try:
            said = step(flake)
        except NotRun as reason:
            print(f"not run: nix-check: {reason}")
            return 0
        except Failed as error:
            print(f"FAIL     {name}\n{error}")
            return 1
        print(f"ok       {name:20} {said or f'{time.monotonic() - start:.0f} s'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
