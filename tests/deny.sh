#!/usr/bin/env bash
# Licences, sources and doubled crates, by cargo-deny where it is installed.
set -euo pipefail
if cargo deny --version >/dev/null 2>&1; then
    cargo deny --all-features --target x86_64-unknown-linux-gnu check bans licenses sources
else
    echo "not run: cargo-deny is not installed (cargo install cargo-deny)" >&2
fi
