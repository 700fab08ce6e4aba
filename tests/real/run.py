"""`make test-real`: build the real wheels, install them, and run the tests that need them."""

import os
import shutil
import subprocess
import sys

import prepare

NOT_RUN = """\
not run: the redirect checks and the audits. TORCH_FL_WHEELS names no folder with torch-{release}+cpu for {tag}, and
over PyPI's own CUDA build they would prove nothing. Run: building, reproducibility, other people's readers, import
over that build."""
NO_ROOM = "not run: the audit with NVIDIA's wheels as files; they and what is unpacked of them need {} GB of disk."
ROOM = 8  # GB: 2 of wheels, 5 of libraries
NEEDED = 14  # GB: both environments, the wheels, and what a test unpacks


def main():
    prepare.REAL.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(prepare.REAL).free >> 30
    if not (prepare.REAL / "extra" / "installed").exists() and free < NEEDED:
        sys.exit(f"the real wheels need {NEEDED} GB in {prepare.REAL}; {free} GB are free there")
    environ = dict(os.environ)
    tests = ["tests/real/test_wheels.py"]
    stock = prepare.stock_torch()
    if stock is None:
        print(NOT_RUN.format(release=prepare.RELEASE, tag=prepare.TAG), flush=True)
    else:
        environ["TORCH_FL_REAL"] = str(prepare.REAL)
        for swap in prepare.VENDORS:
            prepare.installed(swap)
        tests += ["tests/real/test_installed.py", "tests/boot/test_redirect.py", "tests/boot/test_real.py"]
        tests += ["tests/real/test_audit.py", "tests/real/test_audit_faults.py"]
        if shutil.disk_usage(prepare.REAL).free < ROOM << 30:
            print(NO_ROOM.format(ROOM), flush=True)
            tests += ["--deselect", "tests/real/test_audit.py::test_nvidias_wheels_as_files_are_as_good_as_installed"]
    command = [sys.executable, "-m", "pytest", "-q", *tests, *sys.argv[1:]]
    return subprocess.run(command, cwd=prepare.REPOSITORY, env=environ).returncode


if __name__ == "__main__":
    sys.exit(main())
