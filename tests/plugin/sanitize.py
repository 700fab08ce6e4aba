"""The contracts over a plugin that was built with a sanitizer: `sanitize.py address|thread`.

Python and torch are as they come: only what the plugin's own code does is watched. So a report counts if it names the
plugin, and what the sanitizer says of others is left out: leaks of the interpreter, races inside torch's own threads.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import prepare

HERE = Path(__file__).parent
# What threads and storages are about; whole runs under a sanitizer take ten times as long.
TESTS = {
    "address": ["test_tensors.py", "test_random.py", "test_modules.py"],
    "thread": ["test_modules.py::test_four_threads_on_one_tensor", "test_modules.py::test_threads_of_backward",
               "test_device.py::test_streams_of_threads_are_their_own", "test_tensors.py::test_resize",
               "test_tensors.py::test_views_share_storage_and_version"],
}  # fmt: skip
OPTIONS = {
    "address": {"ASAN_OPTIONS": "detect_leaks=0:halt_on_error=0:log_path={log}:new_delete_type_mismatch=0"},
    "thread": {"TSAN_OPTIONS": "halt_on_error=0:report_signal_unsafe=0:exitcode=0:log_path={log}"},
}


def library(name):
    """The sanitizer's runtime, which has to be the first in the process."""
    compiler = os.environ.get("CXX", "c++")
    path = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
    return str(Path(path.strip()).resolve())


def reports(folder):
    """What was reported, one text each, and those that name the plugin."""
    texts = []
    for file in Path(folder).glob("report*"):
        texts += re.split(r"\n(?==+\n?(?:==\d+==ERROR|WARNING: ThreadSanitizer))", file.read_text(errors="replace"))
    texts = [text for text in texts if "ERROR: " in text or "WARNING: " in text]
    return texts, [text for text in texts if "libtorch_fl" in text or "torch-fl-plugin" in text]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=TESTS)
    parser.add_argument("--torch", default="2.13")
    args = parser.parse_args()
    python = prepare.ready(args.torch, sanitize=args.kind)
    runtimes = [library({"address": "libasan.so", "thread": "libtsan.so"}[args.kind]), library("libstdc++.so.6")]
    with tempfile.TemporaryDirectory() as folder:
        options = {key: value.format(log=f"{folder}/report") for key, value in OPTIONS[args.kind].items()}
        changes = {"LD_PRELOAD": ":".join(runtimes), "FLAGOS_TARGET": "cpu", "PYTHONMALLOC": "malloc"}
        changes |= {"OMP_NUM_THREADS": "1", **options}
        # Address space randomisation of new kernels is more than the thread sanitizer of older compilers knows.
        prefix = ["setarch", "-R"] if args.kind == "thread" else []
        tests = [str(HERE / test) for test in TESTS[args.kind]]
        done = subprocess.run(
            [*prefix, str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], env=os.environ | changes
        )
        seen, ours = reports(folder)
    for text in ours[:10]:
        print(text[:4000])
    print(f"{args.kind} sanitizer: {len(ours)} reports of the plugin, {len(seen) - len(ours)} of others")
    prepare.ready(args.torch)  # the environment gets its usual plugin back
    sys.exit(1 if ours or done.returncode else 0)


if __name__ == "__main__":
    main()
