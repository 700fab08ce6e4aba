"""Composes a read-only environment out of wheels: compose.py OUT WHEEL…, run by the interpreter that it is for.

As a virtual environment has it: OUT/bin/python, OUT/pyvenv.cfg, OUT/lib/pythonX.Y/site-packages. Where torch_fl leads
torch to its bundle through a facade, that is laid beside torch_fl, so that nothing has to be written at run time.
"""

import compileall
import json
import os
import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path

# Where the parts of NAME.data go (the binary distribution format of PyPA); scripts and headers are not for here.
DATA = ("purelib", "platlib")


def unpack(wheel, site):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            parts = entry.filename.split("/")
            if parts[0].endswith(".data"):
                if parts[1] not in DATA:
                    continue
                parts = parts[2:]
            if entry.is_dir() or ".." in parts:
                continue
            path = site.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                raise SystemExit(f"{path.relative_to(site)} is in two of the wheels, the second is {wheel}")
            with archive.open(entry) as source, path.open("wb") as target:
                while block := source.read(1 << 20):
                    target.write(block)
            path.chmod(0o755 if entry.external_attr >> 16 & 0o100 else 0o644)


def main(out, wheels):
    out = Path(out)
    site = out / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    for wheel in wheels:
        unpack(wheel, site)
    interpreter = Path(sys.executable)
    (out / "bin").mkdir()
    for name in ("python", "python3"):
        (out / "bin" / name).symlink_to(interpreter)
    (out / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\ninclude-system-site-packages = false\n")
    # By hash and unchecked: a store has no times to compare, and its files do not change.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(site, quiet=2, workers=1, invalidation_mode=mode, stripdir=out, prependdir="/")
    package = site / "torch_fl"
    if json.loads((package / "build.json").read_text())["swap"] == "core":
        words = [out / "bin" / "python", "-I", package / "_facade.py", "--beside"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "HOME": "/nonexistent"})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
