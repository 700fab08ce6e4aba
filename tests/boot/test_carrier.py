"""The carrier: `python -m torch_fl`, `activate.pth`, and the ways in which programs start Python."""

import subprocess


import pytest
from environment import REPOSITORY

LOOK = """
import torch
say([where(), sys.argv[1:], sys.path[:2], __name__, __file__, sys.flags.utf8_mode])
"""


def write(path, text):
    from environment import PRELUDE

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PRELUDE + text)
    return path


def test_the_runner_runs_a_script_that_imports_torch_first(environment):
    script = write(environment.program.parent / "folder" / "script.py", LOOK)
    said = environment.command("-X", "utf8", "-m", "torch_fl", script, "-x", "--", "a b").said
    environment.assert_planned(said[0])
    assert said[1] == ["-x", "--", "a b"]
    assert said[2][0] == str(script.parent)  # as without the runner
    assert said[3:] == ["__main__", str(script), 1]


def test_the_runner_runs_a_module_and_code(sim):
    write(sim.program.parent / "module_here.py", LOOK)
    said = sim.command("-um", "torch_fl", "-m", "module_here", "one").said
    sim.assert_planned(said[0])
    assert said[1] == ["one"]
    said = sim.command(
        "-m", "torch_fl", "-c", "from module_here import where, say, sys\nsay([where(), sys.argv])", "two"
    ).said
    sim.assert_planned(said[0])
    assert said[1] == ["-c", "two"]


def test_the_runner_does_not_import_torch_itself(sim):
    said = sim.run(
        "say([m for m in sys.modules if m.split('.')[0] in ('torch', 'torch_fl')])", options=["-m", "torch_fl"]
    ).said
    assert said == ["torch_fl._boot"]


def test_the_runner_passes_the_exit_status_on(sim):
    assert sim.command("-m", "torch_fl", "-c", "raise SystemExit(7)").code == 7
    assert sim.command("-m", "torch_fl").code == 2
    assert sim.command("-m", "torch_fl", "--help").code == 0
    assert "PYTHONPATH" in sim.command("-I", "-m", "torch_fl", "-c", "pass").err


def test_a_program_of_another_name_does_not_pass_for_the_runner(sim):
    """`-m torch_fl` among a program's own arguments: its package imports torch_fl, and means it."""
    package = sim.program.parent / "mine"
    write(package / "__init__.py", "import torch_fl, torch\n")
    write(package / "__main__.py", "say([where(), sys.argv[1:]])")
    said = sim.command("-W", "ignore", "-m", "mine", "-m", "torch_fl").said
    sim.assert_planned(said[0])


CHILDREN = """
import multiprocessing, subprocess
def look(*_):
    import torch
    return where()
if __name__ == "__main__":
    seen = {"parent": look()}
    site = [p for p in sys.path if p.endswith("site-packages")][0]
    sys.path.insert(0, site)   # a program that puts site-packages in front of the carrier
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload(["torch"])
        with context.Pool(1) as pool:
            seen[method] = pool.apply(look)
    program = "import json, os, sys; sys.path.insert(0, %r); import torch; from program import where; print(json.dumps(where()))"
    output = subprocess.run([sys.executable, "-c", program % os.path.dirname(__file__)], capture_output=True, text=True)
    assert output.returncode == 0, output.stderr
    seen["subprocess"] = json.loads(output.stdout)
    say(seen)
"""


def test_under_the_runner_every_child_has_the_finder(environment):
    """Also where `sys.path` is too weak a carrier: torch preloaded by the forkserver, site-packages put in front."""
    for who, where in environment.run(CHILDREN, options=["-m", "torch_fl"]).said.items():
        environment.assert_planned(where, who)


def test_activated_every_process_has_the_finder(sim):
    (sim.site / "torch_fl.pth").write_text((REPOSITORY / "wheels/torch_fl/activate.pth").read_text())
    for who, where in sim.run(CHILDREN).said.items():
        sim.assert_planned(where, who)
    for options in (["-I"], ["-E"], ["-s"]):
        sim.assert_planned(sim.run("import torch; say(where())", options=options).said)
    # Nothing is imported and nothing is on the path until torch is wanted.
    said = sim.run("say([m for m in sys.modules if 'torch' in m] + [p for p in sys.path if 'gate' in p])").said
    assert said == ["torch_fl_gate", "torch_fl._boot"]


def test_activated_without_the_wheel_nothing_happens(sim):
    (sim.site / "torch_fl.pth").write_text((REPOSITORY / "wheels/torch_fl/activate.pth").read_text())
    sim.home.rename(sim.root / "gone")
    result = sim.run("import torch; say(torch.__file__)")
    assert result.said == str(sim.torch / "__init__.py") and result.err == ""


def test_the_pth_file_is_comments_and_one_import_line():
    lines = (REPOSITORY / "wheels/torch_fl/activate.pth").read_text().splitlines()
    assert [line.split()[0] for line in lines if not line.startswith("#")] == ["import"]


@pytest.mark.parametrize(
    "body", ["import sys; sys.ran = True; sys.path.append('/mine')", None, "raise RuntimeError('mine')"]
)
def test_the_next_sitecustomize_runs(sim, body):
    if body is not None:
        (sim.site / "sitecustomize.py").write_text(body + "\n")
    result = sim.run(
        """
import torch
say([getattr(sys, 'ran', None), '/mine' in sys.path, getattr(sys.modules.get('sitecustomize'), '__file__', None), where()])
""",
        options=["-m", "torch_fl"],
    )
    sim.assert_planned(result.said[3])
    if body is None:
        assert result.said[2] == str(sim.home / "gate" / "sitecustomize.py")
        (line,) = result.err.splitlines()  # what `python -m torch_fl` says of the sample vendor, and nothing else
        assert line.startswith("torch_fl: skeleton: ")
    elif "sys" in body:
        assert result.said[:3] == [True, True, str(sim.site / "sitecustomize.py")]
    else:
        assert "RuntimeError: mine" in result.err


def test_another_chaining_sitecustomize(sim, tmp_path):
    """As ddtrace-run's and opentelemetry-instrument's: it takes itself off the path and imports the next one."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(
        """
import os, sys
sys.others = getattr(sys, "others", 0) + 1
here = os.path.dirname(__file__)
sys.path.remove(here)
mine = sys.modules.pop("sitecustomize")
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = mine
sys.path.insert(0, here)
"""
    )
    (sim.site / "sitecustomize.py").write_text("import sys; sys.ran = getattr(sys, 'ran', 0) + 1\n")
    for path in ([other], [sim.home / "gate", other], [other, sim.home / "gate"]):
        said = sim.run(
            "import torch; say([sys.others, sys.ran, where()])",
            options=["-m", "torch_fl"],
            PYTHONPATH=":".join(map(str, path)),
            timeout=60,
        ).said
        assert said[:2] == [1, 1] or said[0] == 1, said
        sim.assert_planned(said[2])


def test_programs_may_drop_the_first_entry_of_the_path(sim):
    """`sys.path.pop(0)` is how programs get rid of their own folder; the carrier must not be there."""
    said = sim.run(
        """
import multiprocessing
def look(*_):
    import torch
    return where()
if __name__ == "__main__":
    first = sys.path[0]
    import torch_fl
    assert sys.path[0] == first
    sys.path.pop(0)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        say(pool.apply(look))
"""
    ).said
    sim.assert_planned(said)


def test_isolated_and_without_site(sim):
    text = "import torch_fl, torch; say(where())"
    sim.assert_planned(sim.run(text, options=["-I"]).said)
    sim.assert_planned(sim.run(f"sys.path.append({str(sim.site)!r})\n" + text, options=["-S"]).said)
    sim.assert_planned(sim.run(f"sys.path.append({str(sim.site)!r})\n" + text, options=["-I", "-S"]).said)
    sim.assert_planned(
        sim.run("import torch; say(where())", options=["-S"], PYTHONPATH=f"{sim.home / 'gate'}:{sim.site}").said
    )


def test_a_zipped_standard_library(sim, tmp_path):
    """The pure part of the standard library from a zip file, as embedded distributions ship it."""
    import shutil
    import sysconfig

    stdlib = sysconfig.get_paths()["stdlib"]
    folder = tmp_path / "stdlib"
    shutil.copytree(
        stdlib,
        folder,
        ignore=shutil.ignore_patterns(
            "site-packages", "dist-packages", "test", "tests", "config-*", "idlelib", "ensurepip", "tkinter", "lib2to3"
        ),
        symlinks=False,
    )
    dynload = tmp_path / "dynload"
    shutil.move(folder / "lib-dynload", dynload)
    archive = shutil.make_archive(str(tmp_path / "python"), "zip", folder)
    text = f"""
import sys
sys.path[:] = [{archive!r}, {str(dynload)!r}, {str(sim.site)!r}]
for name in [n for n in sys.modules if n.split('.')[0] in ("json", "re", "hashlib", "ctypes", "os", "importlib")]:
    pass
import torch_fl, torch, json
say([where(), json.__file__])
"""
    program = sim.program
    sim.run(text)
    said = sim.command("-S", "-E", program).said
    sim.assert_planned(said[0])


def test_gate_files_are_readable_for_old_interpreters():
    """Any Python may inherit the carrier through PYTHONPATH: its files hold nothing newer than 3.0 syntax."""
    import ast

    for path in sorted((REPOSITORY / "wheels/torch_fl/gate").rglob("*.py")):
        tree = ast.parse(path.read_text(), feature_version=(3, 4))
        assert not any(isinstance(node, (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr)) for node in ast.walk(tree)), path


def test_threads_that_import_at_once(sim):
    said = sim.run(
        """
import threading
errors, barrier = [], threading.Barrier(8)
def go(name):
    barrier.wait()
    try:
        __import__(name)
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=go, args=("torch_fl",)) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
import torch, torch_fl
say([errors, where(), torch_fl.boot_info()["redirect"]])
"""
    ).said
    assert said[0] == []
    sim.assert_planned(said[1])


def test_the_runner_with_threads_that_import_torch_at_once(sim):
    said = sim.run(
        """
import threading
errors = []
def go():
    try:
        import torch
        torch.tensor([1])
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=go) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
say([errors, where()])
""",
        options=["-m", "torch_fl"],
    ).said
    assert said[0] == []
    sim.assert_planned(said[1])


@pytest.mark.parametrize("module", ["json", "ctypes", "hashlib", "importlib.metadata"])
def test_another_thread_may_import_what_the_bootstrap_needs(sim, module):
    """The import system asks a finder with its global lock held: one that imports then can wait for ever."""
    text = """
import threading
thread = threading.Thread(target=__import__, args=(sys.argv[1],))
thread.start()
import torch
thread.join()
say(where())
"""
    # The tests' own prelude imports json: here the program must be the first to do so.
    program = sim.program.parent / "first.py"
    program.write_text("import sys\n" + text.replace("say(where())", "print(torch.__file__)"))
    for _ in range(3):
        assert "torch" in sim.command("-m", "torch_fl", program, module, timeout=60).ok().out


def test_torch_and_torch_fl_imported_at_once_by_two_threads(sim):
    text = """
import threading, time
errors = []
def go(name, delay):
    time.sleep(delay)
    try:
        __import__(name)
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=go, args=(name, delay)) for name, delay in (("torch_fl", 0.0), ("torch", float(sys.argv[1])))]
[t.start() for t in threads]
[t.join() for t in threads]
say([errors, where()])
"""
    for delay in ("0", "0.002", "0.01"):
        said = sim.run(text, delay, options=["-m", "torch_fl"], timeout=60).said
        assert said[0] == []
        sim.assert_planned(said[1])


def test_torch_fl_imported_before_the_other_threads_torch_runs_its_first_line(sim):
    """The module stands in sys.modules already, and nobody has called its loader yet."""
    text = """
import threading, time
Plan = sys.modules["torch_fl._boot"].sibling("_plan").Plan
there, real = threading.Event(), Plan.check_loaded
def slow(plan):
    there.set()
    time.sleep(0.3)
    real(plan)
Plan.check_loaded = slow
thread = threading.Thread(target=__import__, args=("torch",))
thread.start()
there.wait()
import torch_fl
thread.join()
say([torch_fl.boot_info()["redirect"], where()])
"""
    said = sim.run(text, options=["-m", "torch_fl"], timeout=60).said
    assert said[0] not in (None, "off")
    sim.assert_planned(said[1])


def test_the_runner_with_its_streams_closed(sim):
    for closed in ("1>&-", "2>&-"):
        done = subprocess.run(["sh", "-c", f"'{sim.python}' -m torch_fl -c 1 {closed}"], env=sim.environ())
        assert done.returncode == 0, closed
