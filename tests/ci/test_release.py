"""The release of the tool: what dist would announce, and the step to the next version."""

import json
import shutil
import subprocess
import sys

import pytest
from rig import REPOSITORY, tool

sys.path.insert(0, str(REPOSITORY / "packaging" / "dist"))
import bump  # noqa: E402


def test_dist_plans_an_archive_for_each_machine(tmp_path):
    dist = tool("dist")
    if dist is None:
        print("not run: dist is not installed", file=sys.stderr)
        return
    done = subprocess.run(
        [dist, "plan", "--output-format=json"], cwd=REPOSITORY, text=True, capture_output=True, check=True
    )
    plan = json.loads(done.stdout)
    version = bump.present()
    assert plan["announcement_tag"] == f"v{version}"
    (release,) = plan["releases"]
    assert (release["app_name"], release["app_version"]) == ("torchfl", version)
    for machine in ("aarch64", "x86_64"):
        archive = plan["artifacts"][f"torchfl-{machine}-unknown-linux-gnu.tar.xz"]
        inside = {asset["name"] for asset in archive["assets"]}
        assert {"torchfl", "LICENSE", "README.md", "CHANGELOG.md"} <= inside
        assert archive["checksum"] in plan["artifacts"]


def copy(folder):
    for inner in ("Cargo.toml", "Cargo.lock", "CHANGELOG.md", "packaging/dist/dist.toml"):
        (folder / inner).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / inner, folder / inner)
    for manifest in [*REPOSITORY.glob("crates/*/Cargo.toml"), REPOSITORY / "tests/skeleton/Cargo.toml"]:
        target = folder / manifest.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True)
        shutil.copyfile(manifest, target)
    return folder


def test_a_bump_changes_every_place_and_no_other_package(tmp_path):
    root = copy(tmp_path)
    before = (root / "Cargo.lock").read_text().splitlines()
    bump.bump("7.8.9-rc.1", root, "2030-01-02")
    assert bump.present(root) == "7.8.9-rc.1"
    after = (root / "Cargo.lock").read_text().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == len(bump.members(root)) and {new for _, new in changed} == {'version = "7.8.9-rc.1"'}
    assert "\n## Unreleased\n\n## 7.8.9-rc.1 - 2030-01-02\n" in (root / "CHANGELOG.md").read_text()


def test_a_bump_that_cannot_be_whole_changes_nothing(tmp_path):
    root = copy(tmp_path)
    dist = root / "packaging/dist/dist.toml"
    dist.write_text(dist.read_text().replace("version = ", "edition = "))
    before = (root / "Cargo.toml").read_text()
    with pytest.raises(bump.Stop, match="packaging/dist/dist.toml: the version is expected 1 times"):
        bump.bump("7.8.9", root)
    assert (root / "Cargo.toml").read_text() == before
    with pytest.raises(bump.Stop, match="no version"):
        bump.bump("7.8", root)
