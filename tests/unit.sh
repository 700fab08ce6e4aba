#!/usr/bin/env bash
# Rust tests, by nextest where it is installed.
set -euo pipefail
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace --locked --no-fail-fast
    cargo test --workspace --locked --doc -q
else
    cargo test --workspace --locked
fi
