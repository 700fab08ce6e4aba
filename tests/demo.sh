#!/usr/bin/env bash
# A whole round without any hardware: generate the sample vendor, build its wheel, install it beside a stock
# torch in a fresh environment, and show which libraries a process runs on before and after `import torch_fl`.
#
# PYTHON (default: python3) is the interpreter, with its C headers. Needs cc; reads nothing from the network.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(command -v "${PYTHON:-python3}")
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
demo=$target/demo
bin=$target/debug
rm -rf "$demo"
mkdir -p "$demo"

step() { printf '\n== %s\n' "$*"; }
wheel() { # the one wheel in a folder
    local found=("$1"/*.whl)
    if [ ${#found[@]} -ne 1 ] || [ ! -f "${found[0]}" ]; then
        echo "error: expected one wheel in $1, found: ${found[*]}" >&2
        return 1
    fi
    printf '%s\n' "${found[0]}"
}

step "Build the tools"
cargo build --quiet -p torchfl-cli -p torchfl-skeleton

step "Generate the sample vendor: a stock torch, the vendor's fork of it, the vendor's SDK"
"$bin/torchfl-skeleton" sim -o "$demo" --python "$python"
stock=$(wheel "$demo/stock")
vendor=$(wheel "$demo/vendor")
sdk=$demo/opt/sim

step "Build the wheel"
"$bin/torchfl" build sim --torch "$vendor" --front "$stock" --sdk-root "$sdk" -o "$demo/dist"
built=$(wheel "$demo/dist")

step "Install the stock torch and the wheel in a fresh environment"
"$python" -m venv "$demo/venv"
"$demo/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$stock" "$built"

step "Run"
# From a neutral folder, with the variables unset that would change what is loaded.
cd "$demo"
env -u LD_LIBRARY_PATH -u LD_PRELOAD -u PYTHONPATH -u TORCH_FL_REDIRECT -u SIM_HOME \
    TORCH_FL_CACHE_DIR="$demo/cache" "$demo/venv/bin/python" "$OLDPWD/tests/demo.py" --sdk "$sdk"
