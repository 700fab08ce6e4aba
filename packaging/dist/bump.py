#!/usr/bin/env python3
"""`bump.py X.Y.Z`: the next version of the tool, in every place that states it. `bump.py` alone prints the present one.

The changelog's "Unreleased" becomes that version. Nothing is written unless every place is found as expected.
"""

import re
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = r"(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)"


class Stop(Exception):
    pass


def members(root):
    """The names of our own packages, whose versions Cargo.lock repeats."""
    manifests = [*root.glob("crates/*/Cargo.toml"), root / "tests" / "skeleton" / "Cargo.toml"]
    texts = [path.read_text() for path in manifests if path.exists()]
    return [re.search(r'(?m)^name = "([^"]+)"', text)[1] for text in texts if "version.workspace = true" in text]


def places(root):
    """File, pattern round the version, and how often it must be there."""
    yield root / "Cargo.toml", r'(?m)(?<=^\[workspace\.package\]\nversion = ")' + VERSION, 1
    yield root / "packaging" / "dist" / "dist.toml", r'(?m)(?<=^name = "torchfl"\nversion = ")' + VERSION, 1
    for name in members(root):
        pattern = rf'(?m)(?<=^name = "{name}"\nversion = "){VERSION}'
        yield root / "Cargo.lock", pattern, 1


def present(root=ROOT):
    """The one version that all places state."""
    found = {}
    for path, pattern, times in places(root):
        hits = re.findall(pattern, path.read_text())
        if len(hits) != times:
            raise Stop(f"{path.relative_to(root)}: the version is expected {times} times, and is there {len(hits)} times")
        found.setdefault(hits[0], []).append(path.relative_to(root))
    if len(found) != 1:
        told = "; ".join(f"{version} in {', '.join(map(str, paths))}" for version, paths in found.items())
        raise Stop(f"the version differs: {told}")
    return next(iter(found))


def bump(version, root=ROOT, today=None):
    if not re.fullmatch(VERSION, version):
        raise Stop(f"{version} is no version: X.Y.Z, or X.Y.Z-rc.1")
    if version == present(root):
        raise Stop(f"{version} is the present version")
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text()
    if text.count("\n## Unreleased\n") != 1:
        raise Stop("CHANGELOG.md: the heading `## Unreleased` is expected once")
    if f"\n## {version} " in text:
        raise Stop(f"CHANGELOG.md: {version} has its heading already")
    day = today or date.today().isoformat()
    texts = {changelog: text.replace("\n## Unreleased\n", f"\n## Unreleased\n\n## {version} - {day}\n")}
    for path, pattern, _ in places(root):
        texts[path] = re.sub(pattern, version, texts.get(path) or path.read_text())
    for path, text in texts.items():
        path.write_text(text)


def main(arguments):
    try:
        if not arguments:
            print(present())
        elif len(arguments) == 1:
            bump(arguments[0])
        else:
            raise Stop("one version is expected: bump.py X.Y.Z")
    except Stop as stop:
        print(f"error: {stop}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
