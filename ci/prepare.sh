#!/usr/bin/env bash
# What the jobs without a chip need besides Rust: a C compiler, Python with its headers and with venv. Installed where
# that is Debian and root's; else the first that is missing is named.
set -euo pipefail
missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v readelf >/dev/null || missing+=(binutils)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
headers='import os, sysconfig; raise SystemExit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
python3 -c "$headers" 2>/dev/null || missing+=(python3-dev)
if [ ${#missing[@]} -gt 0 ]; then
    sudo=()
    [ "$(id -u)" = 0 ] || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null
fi
