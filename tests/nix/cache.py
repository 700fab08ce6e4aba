"""A binary cache as the way to a machine without a network: a store takes what the one key signed that it trusts."""

import shutil
from pathlib import Path

from flake import FOLDER, Failed

PLACE = FOLDER / "cache"
NAMES = ["wheel-sim", "python-env-sim"]


def check(flake):
    _remove(PLACE)
    PLACE.mkdir(parents=True)
    paths = flake.build(*NAMES)
    for name in ("ours", "theirs"):
        secret = flake.nix("key", "generate-secret", "--key-name", name).stdout
        (PLACE / f"{name}.secret").write_text(secret)
    public = _public(flake, "ours")
    for name, key in [("signed", "ours"), ("unsigned", None), ("wrongly", "theirs"), ("altered", "ours")]:
        signing = f"&secret-key={PLACE}/{key}.secret" if key else ""
        flake.nix("copy", "--to", f"file://{PLACE}/{name}?compression=none{signing}", *paths)
    nar = max((PLACE / "altered" / "nar").iterdir(), key=lambda path: path.stat().st_size)
    with nar.open("r+b") as file:  # one bit, in the middle of the largest file
        file.seek(nar.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))

    _take(flake, "signed", public, paths, None)
    _take(flake, "unsigned", public, paths, "lacks a valid signature")
    _take(flake, "wrongly", public, paths, "lacks a valid signature")
    _take(flake, "altered", public, paths, "hash mismatch")
    _remove(PLACE)


def _public(flake, name):
    secret = (PLACE / f"{name}.secret").read_text()
    return flake.nix("key", "convert-secret-to-public", input=secret).stdout.strip()


def _take(flake, name, public, paths, refusal):
    """Into a new store that trusts this key alone. `refusal`: what it says where it takes nothing."""
    store = PLACE / f"store-{name}"
    trust = ["--option", "trusted-public-keys", public]
    done = flake.nix("copy", "--from", f"file://{PLACE}/{name}", "--to", store, *trust, *paths, check=False)
    # Files may be left of what was refused; for the store there is no such path.
    there = [path for path in paths if flake.nix("path-info", "--store", store, path, check=False).returncode == 0]
    if refusal is None:
        if done.returncode != 0 or there != paths:
            raise Failed(f"the {name} cache was refused: {done.stderr}")
        flake.nix("store", "verify", "--store", store, "--all", *trust)
        for path in paths:
            if sorted(p.name for p in Path(f"{store}{path}").iterdir()) != sorted(p.name for p in path.iterdir()):
                raise Failed(f"{path} came incompletely")
    elif done.returncode == 0 or refusal not in done.stderr or there == paths:
        raise Failed(f"the {name} cache was not refused ({refusal}): {done.stderr}")


def _remove(folder):
    """A store's folders cannot be written, by whoever is not root."""
    if folder.exists():
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        shutil.rmtree(folder)
