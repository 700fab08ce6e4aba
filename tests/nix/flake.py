"""Running Nix on a flake whose nixpkgs is a host toolchain."""

import hashlib
import json
import os
import platform
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "target" / "nix"
SYSTEM = f"{platform.machine()}-linux"


class Failed(Exception):
    """A step failed; the text says at what."""


class NotRun(Exception):
    """The steps cannot be run here; the text says why."""


def run(*words, check=True, **options):
    done = subprocess.run([str(word) for word in words], check=False, text=True, capture_output=True, **options)
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Flake:
    """A tree, and the toolchain in the place of nixpkgs."""

    def __init__(self, tree, toolchain):
        self.url = f"git+file://{tree}"
        self.toolchain = toolchain

    def attribute(self, name):
        return f"{self.url}#{name}"

    def nix(self, *words, check=True, **options):
        """`nix WORDS` with the settings beside the toolchain, and none of the user's."""
        override = ["--override-input", "nixpkgs", f"path:{self.toolchain}", "--no-write-lock-file"]
        flakes = any(str(word).startswith(self.url) for word in words)
        environ = {**os.environ, "NIX_USER_CONF_FILES": str(self.toolchain / "nix.conf"), "NIX_CONFIG": ""}
        return run("nix", *words, *(override if flakes else ()), check=check, env=environ, **options)

    def build(self, *names):
        """Their paths in the store. (Nix 2.8 has no --print-out-paths.)"""
        said = self.nix("build", "--json", "--no-link", *map(self.attribute, names)).stdout
        return [Path(one["outputs"]["out"]) for one in json.loads(said)]

    def build_path(self, attribute):
        return self.build(attribute)[0]

    def derivations(self):
        """Name -> derivation of every package."""
        attribute = self.attribute(f"packages.{SYSTEM}")
        said = self.nix("eval", "--json", attribute, "--apply", "builtins.mapAttrs (_: package: package.drvPath)")
        return json.loads(said.stdout)
