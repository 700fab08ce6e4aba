"""Adding a vendor is one TOML and nothing else: everything that is done for the built-in ones is done for it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from row import STEPS
from tools import ARCH, TAG

HERE = Path(__file__).parent
ACME = HERE / "acme.toml"


def results(folder, *manifests):
    words = [word for manifest in manifests for word in ("--manifest", manifest)]
    command = [sys.executable, HERE / "run.py", "--folder", folder, *words]
    done = subprocess.run(command, text=True, capture_output=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert rows, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == json.dumps(rows[-1]), "the JSON comes last"
    return done.returncode, {(row["vendor"], row["arch"]): row for row in rows}


def test_one_toml_is_enough(tmp_path):
    code, rows = results(tmp_path, ACME)
    assert code == 0, rows
    assert set(rows) == {("acme", "x86_64"), ("acme", "aarch64")}
    for (_, arch), row in rows.items():
        states = {step: row[step] for step in (*STEPS, *(["load"] if arch != ARCH else []))}
        if arch == ARCH:
            assert set(states.values()) == {"ok"}, row
            assert row["python"] == TAG and "at hand" in row["reasons"]["python"]
        # Without a cross compiler or an emulator a step is not run, and says why; it does not fail, or pass.
        assert set(states.values()) <= {"ok", "not-run"}, row
        assert all(row["reasons"].get(step) for step, state in states.items() if state == "not-run"), row
        assert set(row["tags"]) == {"cp310", "cp314"}
        assert row["inputs"] == "skeleton"


@pytest.mark.parametrize("swap", ["extra", "none"])
def test_so_it_is_for_the_other_ways_to_bundle(tmp_path, swap):
    text = ACME.read_text().replace('arch = ["x86_64", "aarch64"]', f'arch = ["{ARCH}"]')
    text = text.replace('["cp310", "cp314"]', '["cp310"]').replace('["cp314"]', '["cp310"]')
    text = text.replace('"core"', f'"{swap}"')
    head, bundle = text.index("[bundle]"), text.index("[host]")
    if swap == "none":
        # A plugin alone: no bundle, so no shim; its kernels are a library of the vendor's.
        shim, after = text.index("[[shim]]"), text.index("[env]")
        text = text[:head] + text[bundle:shim] + text[after:]
        provided = text.index("[[provided]]"), text.index("[env]")
        text = text[: provided[0]] + text[provided[1] :]
        changes = {'attributes = { acme = "from-vendor" }': "", '"experimental"': '"runtime-only"'}
    else:
        core = [f'"{name}"' for name in ("libc10.so", "libtorch_cpu.so", "libtorch.so", "libtorch_global_deps.so")]
        core = ", ".join([*core, '"libshm.so"', '"libtorch_python.so"']) + ","
        front = 'front = ["libc10.so", "libtorch_cpu.so", "libtorch.so", "libshm.so", "libtorch_python.so"]\n'
        changes = {f"    {core}\n": "", "optional = [": f"{front}optional = ["}
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    manifest = tmp_path / "acme.toml"
    manifest.write_text(text)
    code, rows = results(tmp_path / "made", manifest)
    assert code == 0 and [rows["acme", ARCH][step] for step in STEPS] == ["ok"] * len(STEPS), rows
