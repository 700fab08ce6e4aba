#!/usr/bin/env bash
# A vendor without its chip and its files: its wheel is built from a skeleton, audited, installed, imported, removed.
# VENDOR is the manifest's name, MANIFEST its file unless torchfl carries it, ARCH this machine's processor. PYTHON has
# uv beside it; by default one is made that has.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=target/ci/bin-${ARCH:?}
chmod +x "$bin"/*
if [ -z "${PYTHON:-}" ]; then
    PYTHON=target/ci/venv/bin/python
    python3 -m venv target/ci/venv
    "$PYTHON" -m pip install --quiet --disable-pip-version-check "$(grep '^uv==' tests/requirements.txt)"
fi
if [ -n "${MANIFEST:-}" ]; then which=(--manifest "$MANIFEST"); else which=("${VENDOR:?}"); fi
TORCH_FL_BIN=$(realpath "$bin") "$PYTHON" tests/vendors/run.py "${which[@]}" --folder "$PWD/target/ci/skeleton"
