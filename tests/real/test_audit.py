"""What `torchfl audit` says of real wheels is what the loader of this machine does with them.

Of the system, this machine stands for the target wherever `--sysroot /` is given; else the platform tag's word counts.
`test_audit_faults.py` has the faults that it must find.
"""

import functools
import json
import os
import re
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor

import audited
import prepare
import pytest

SWAPS = list(prepare.VENDORS)
# In the model Python brings all of them, as one that is linked against a glibc before 2.34 does. This Python brings
# some, and others come with the first library that asks: their place in the order says nothing.
GLIBC = (
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
)

LOADED = """
import json, os, sys
if sys.argv[1] == "torch_fl":
    import torch_fl
import torch
with open("/proc/self/maps", "rb") as file:
    maps = sorted({os.fsdecode(line[line.index(b"/") :]) for line in file.read().splitlines() if b".so" in line})
print(json.dumps({"torch": torch.__path__[0], "maps": maps}))
"""

OPEN = """
import ctypes, json, os, sys
if sys.argv[1] == "torch_fl":
    import torch_fl
import torch

def said(path):
    # In a child, for each library finds the process as the import has left it.
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL(path)
            text = "loads"
        except OSError as error:
            text = str(error)
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    return text or f"exit status {os.waitpid(child, 0)[1]}"

print(json.dumps({path: said(path) for path in sys.argv[2:]}))
"""


def nothing_but_what_is_not_here(report):
    """No finding but AUD-010, of names that this machine's loader does not find either."""
    assert {finding["code"] for finding in report["findings"]} <= {"AUD-010"}
    assert not [finding["name"] for finding in report["findings"] if audited.is_here(finding["name"])]


def absent(*libraries):
    return [library for library in libraries if not audited.is_here(library)]


# The wheels that we ship.


@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_installed_has_no_finding(swap):
    report = audited.installed(swap).audit("--hashes")
    assert report["findings"] == []
    assert {assumption["word"] for assumption in report["assumed"]} <= {"tag", "host"}
    assert all(library["loads"] for library in report["libraries"])
    nothing_but_what_is_not_here(audited.installed(swap).audit("--sysroot", "/"))


@pytest.mark.parametrize("swap", SWAPS)
def test_wheel_files_have_no_finding(swap):
    report = audited.audit(audited.wheel(swap), prepare.stock_torch(), [audited.installed(swap).site])
    assert report["findings"] == []
    assert report["wheel"] == audited.wheel(swap).name
    whole = audited.installed(swap).audit()
    for part in ("libraries", "mapped", "assumed", "redirect"):
        assert report[part] == whole[part], part


def test_nvidias_wheels_as_files_are_as_good_as_installed():
    """run.py leaves it out, and says so, where the disk has no room for them."""
    nvidia = prepare.nvidia()
    report = audited.audit(audited.wheel("core"), prepare.stock_torch(), sorted(nvidia.glob("*.whl")))
    assert report["findings"] == []
    assert report["mapped"] == audited.installed("core").audit()["mapped"]


def built(output, *options):
    """`torchfl build cuda`: exit status, what it prints as JSON, and the wheel's build.json if there is one."""
    words = [prepare.TORCHFL, "--quiet", "--json", "build", "cuda", "--torch", prepare.vendor_torch(), "-o", output]
    done = subprocess.run([str(word) for word in (*words, *options)], capture_output=True, text=True)
    wheels = list(output.glob("*.whl")) if output.exists() else []
    plan = json.loads(zipfile.ZipFile(wheels[0]).read("torch_fl/build.json")) if wheels else None
    return done.returncode, json.loads(done.stdout), plan


def test_a_build_assumes_what_nobody_can_see_here(tmp_path):
    """With everything given, that is the driver alone; nothing is taken for proved that was not."""
    given = ["--front", prepare.stock_torch(), "--with", audited.installed("core").site, "--sysroot", "/"]
    status, _, plan = built(tmp_path, *given, "--compression", "fast")
    assert status == 0
    assert plan["assumed"] == [f"host: {library}" for library in absent("libcuda.so.1")]
    status, said, plan = built(tmp_path / "proved", *given, "--require-proof", "--dry-run")
    assert (status == 0) == audited.is_here("libcuda.so.1")
    if status:
        assert said["error"]["code"] == "E-BLD-032"
        assert re.findall(r"AUD-\d+ \S+: (\S+)", said["error"]["message"]) == ["libcuda.so.1"]
    assert plan is None


def test_a_build_without_company_passes_and_says_what_it_assumes(tmp_path):
    status, said, _ = built(tmp_path, "--dry-run")
    assert status == 0
    assert said["proof"]["findings"] == []
    assumed = said["build_json"]["assumed"]
    plan = audited.installed("core").build()
    provided = {f"provided: {library}" for item in plan["provided"] for library in item["libraries"]}
    # These only NVIDIA's own libraries ask for, which nobody has looked into.
    provided -= {"provided: libnvrtc-builtins.so.13.0", "provided: libnvJitLink.so.13"}
    assert {one for one in assumed if one.startswith("provided: ")} == provided
    assert {one for one in assumed if one.startswith("front: ")} == {"front: torch", "front: libgomp.so.1"}
    assert "host: libcuda.so.1" in assumed and "tag: libc.so.6" in assumed


# The import.


USUAL = {"core": "facade", "extra": "finder"}
REDIRECT = {"finder": "open", "facade": "facade", "links": "auto"}


@functools.cache
def linked(swap):
    """An environment where an operator has laid links to the bundle in the installed torch/lib."""
    made = audited.copy(swap, f"{swap}-linked")
    build = made.build()
    for name in build["files"]:
        path = made.site / "torch" / "lib" / name
        path.unlink(missing_ok=True)
        path.symlink_to(f"../../{audited.FL}/{build['bundle']}/{name}")
    return made


@functools.cache
def imported(swap, way, library_path):
    """A real import by a way: torch's folder, the files that the kernel has mapped, and what ld.so says of it.

    `library_path`: the folder below site-packages that LD_LIBRARY_PATH names.
    """
    environment = linked(swap) if way == "links" else audited.installed(swap)
    log = audited.SCRATCH / f"ld-{swap}-{way}-{library_path.replace('/', '-')}"
    for old in log.parent.glob(f"{log.name}.*"):
        old.unlink()
    environ = {"TORCH_FL_REDIRECT": REDIRECT[way], "LD_DEBUG": "files,libs", "LD_DEBUG_OUTPUT": log}
    if library_path:
        environ["LD_LIBRARY_PATH"] = environment.site / library_path
    real = environment.json(LOADED, "torch" if way == "links" else "torch_fl", **environ)
    [log] = log.parent.glob(f"{log.name}.*")
    files = {environment.plain(os.path.realpath(path)) for path in real["maps"]}
    return environment, real["torch"], files, generated(log)


def generated(log):
    """What ld.so says that it maps, in order: path as it opens it, who needs it, who asks dlopen for it."""
    needed, asked, last, maps = {}, {}, None, []
    for line in log.read_text().splitlines():
        line = line.partition(":\t")[2].strip()
        if match := re.match(r"file=(.+) \[\d+\];  needed by (.+) \[\d+\]", line):
            needed.setdefault(match[1], match[2])
        elif match := re.match(r"file=(.+) \[\d+\];  dynamically loaded by (.+) \[\d+\]", line):
            asked[match[1]] = match[2]
        elif match := re.match(r"trying file=(.+)", line):
            last = match[1]
        elif match := re.match(r"file=(.+) \[\d+\];  generating link map", line):
            name = match[1]
            maps.append({"path": name if "/" in name else last, "by": needed.get(name), "asked": asked.get(name)})
    return maps


def torchs(environment, maps, torch):
    """What of it torch and torch_fl bring in.

    Python's own part is left out: what the program starts with, what it opens that lies elsewhere (its extension
    modules, numpy's), and what such a library is the first to need (libffi, OpenBLAS).
    """
    ours = (f"{environment.site}/torch/", f"{environment.site}/{audited.FL}/", f"{torch}/")
    kept = {}
    for one in maps:
        if one["by"] is None and one["asked"] and one["path"].startswith(ours) or one["by"] in kept:
            kept[one["path"]] = one
    return list(kept.values())


def as_audited(environment, one, torch):
    """An object of ld.so's as the audit's JSON has it: a facade lies in its cache folder there."""
    path = environment.plain(one["path"])
    facade = os.path.dirname(torch)
    if path.startswith(facade + "/"):
        path = path.replace(facade, "/cache/facade", 1)
    by = one["by"] and environment.plain(os.path.realpath(one["by"]))
    return {"file": environment.plain(os.path.realpath(one["path"])), "opened_as": path, "by": by}


@pytest.mark.parametrize("library_path", ["", "torch/lib"])
@pytest.mark.parametrize("swap", SWAPS)
def test_the_import_maps_what_ld_so_maps(swap, library_path):
    """Library by library, in order: the file, the path that it is opened by, and who needs it."""
    environment, torch, files, maps = imported(swap, USUAL[swap], library_path)
    report = environment.audit("--sysroot", "/")
    model = [{key: one[key] for key in ("file", "opened_as", "by")} for one in report["mapped"]]
    real = [as_audited(environment, one, torch) for one in torchs(environment, maps, torch)]
    if library_path:
        # The report lists the import with LD_LIBRARY_PATH empty. That of the stock torch/lib there it says that the
        # way is sound all the same: the same files, in the same order.
        assert {one["way"]: one["sound"] for one in report["redirect"]["ways"]}[USUAL[swap]]
        model, real = ([{"file": one["file"]} for one in side] for side in (model, real))
    assert [one for one in real if not is_glibcs(one)] == [one for one in model if not is_glibcs(one)]
    assert not any(one["given"] for one in report["mapped"])
    # A cross-check of both: what the kernel has mapped.
    known = {environment.plain(os.path.realpath(one["path"])) for one in maps}
    assert {file for file in files - known if not is_glibcs({"file": file})} == set()
    assert {one["file"] for one in model if one["file"] not in files and not is_glibcs(one)} == set()


def is_glibcs(one):
    return os.path.basename(one["file"]) in GLIBC


def reasons(swap, way, said, library_path):
    """What is wrong with a real import, in the words that an audit has for it."""
    environment, torch, files, _ = imported(swap, way, library_path)
    build = environment.build()
    bundle = f"{audited.FL}/{build['bundle']}"
    wrong = []
    for entry in build["open"]:
        planned = f"{bundle if entry['from'] == 'bundle' else 'torch/lib'}/{entry['name']}"
        if entry["shared"]:
            continue
        others = {file for file in files if os.path.basename(file) == entry["name"]} - {planned}
        wrong += [f"{file} is mapped, {planned} is planned{said}" for file in sorted(others)]
        # Without the bootstrap, what the fork's core asks for by name comes later.
        if planned not in files and not (way == "links" and swap == "core"):
            wrong.append(f"{planned} is not mapped{said}")
    if swap == "core" and not library_path:
        for name in build["files"]:
            path = os.path.join(torch, "lib", name)
            file = environment.plain(os.path.realpath(path))
            if os.path.exists(path) and file not in files and file != f"{bundle}/{name}":
                wrong.append(f"opening {environment.plain(path)} by path gives a second copy")
    return wrong


@pytest.mark.parametrize("swap", SWAPS)
def test_the_ways_to_redirect_are_as_sound_as_they_are_judged(swap):
    """Each way with LD_LIBRARY_PATH empty and naming torch/lib, the usual one naming the bundle too: every reason."""
    environment = audited.installed(swap)
    judged = {one["way"]: one for one in environment.audit()["redirect"]["ways"]}
    values = {"": "", ", with torch/lib in LD_LIBRARY_PATH": "torch/lib"}
    third = ", with the bundle in LD_LIBRARY_PATH"
    runs = [(way, said, path) for way in judged for said, path in values.items()]
    runs.append((USUAL[swap], third, f"{audited.FL}/{environment.build()['bundle']}"))
    linked(swap)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda run: reasons(swap, *run), runs))
    for way, judgement in judged.items():
        real = [reason for run, wrong in zip(runs, found) for reason in wrong if run[0] == way]
        assert judgement["sound"] == (not real), (judgement, real)
        if real:
            told = [reason for reason in judgement["reasons"] if way == USUAL[swap] or not reason.endswith(third)]
            assert sorted(told) == sorted(real), way


# Other people's wheels.


COMPANIES = ["stock", *SWAPS]


def beside(name):
    """The other wheels audited beside the stock torch or one of ours, and what ld.so says of each of their libraries."""
    environment = audited.with_others(name)
    reports = {
        dist: audited.audit(file, environment.site, [environment.site], "--sysroot", "/")
        for dist, file in audited.others().items()
    }
    paths = [f"{environment.site}/{one['file']}" for report in reports.values() for one in report["libraries"]]
    first = "torch" if name == "stock" else "torch_fl"
    said = environment.json(OPEN, first, *paths)
    return reports, {environment.plain(path): environment.plain(text) for path, text in said.items()}


@functools.cache
def companies():
    audited.others()
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(COMPANIES, pool.map(beside, COMPANIES)))


def company(name):
    return companies()[name]


@pytest.mark.parametrize("dist", ["torch_npu", "torchvision", "torchaudio"])
@pytest.mark.parametrize("name", COMPANIES)
def test_other_peoples_libraries_load_or_fail_as_ld_so_says(name, dist):
    """Every library of the wheel, and of those that fail the words of dlerror."""
    reports, said = company(name)
    report = reports[dist]
    assert report["libraries"]
    model = {one["file"]: one["reason"] or "loads" for one in report["libraries"]}
    assert model == {file: said[file] for file in model}
    assert all(one["loads"] == (one["reason"] is None) for one in report["libraries"])


@pytest.mark.parametrize("name", COMPANIES)
def test_every_elf_file_of_the_other_wheels_is_judged(name):
    reports, _ = company(name)
    for dist, file in audited.others().items():
        with zipfile.ZipFile(file) as archive:
            elfs = {one for one in archive.namelist() if archive.open(one).read(4) == b"\x7fELF"}
        assert {one["file"] for one in reports[dist]["libraries"]} == elfs


def test_what_they_need_of_us_is_what_is_missing_without_us():
    """torchvision's and torchaudio's CUDA builds load over both of ours, and not over the stock torch."""
    for dist in ("torchvision", "torchaudio"):
        alone = {one["file"] for one in company("stock")[0][dist]["libraries"] if not one["loads"]}
        assert alone
        for swap in SWAPS:
            assert all(one["loads"] for one in company(swap)[0][dist]["libraries"])


@pytest.mark.parametrize("name", COMPANIES)
def test_torchvision_names_its_build_machine(name):
    found = [one for one in company(name)[0]["torchvision"]["findings"] if one["code"] == "AUD-005"]
    assert [one["file"] for one in found] == ["torchvision/_C.so"]
    assert found[0]["name"].startswith("/__w/")


BOTH = """
import ctypes, json, sys
import torch_fl
ctypes.CDLL(sys.argv[1])
with open("/proc/self/maps") as file:
    print(json.dumps(sorted({line.split()[-1] for line in file if "/libcudart." in line})))
"""


def test_the_second_libcudart_that_torchvision_brings_is_told():
    """PyPI's wheel carries one under the name of a repair tool, which keeps its SONAME, and so the process has two."""
    environment = audited.with_others("core")
    real = [environment.plain(path) for path in environment.json(BOTH, environment.site / "torchvision" / "image.so")]
    assert len(real) == 2
    [told] = [one for one in company("core")[0]["torchvision"]["findings"] if one["code"] == "AUD-004"]
    assert told["file"] in real and all(path in told["reason"] for path in real)
