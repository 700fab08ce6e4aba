#!/usr/bin/env bash
# Formatting and dead code of the Nix files, by the tools that are installed (cargo install nixpkgs-fmt deadnix statix).
set -euo pipefail
cd "$(dirname "$0")/../.."

lint() { # TOOL WORD…
    if command -v "$1" >/dev/null; then
        "$@"
    else
        echo "not run: no $1 (cargo install $1)" >&2
    fi
}
lint nixpkgs-fmt --check flake.nix packaging/nix
lint deadnix --fail flake.nix packaging/nix
lint statix check packaging/nix
