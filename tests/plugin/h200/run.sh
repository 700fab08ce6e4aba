#!/usr/bin/env bash
# What is seen on a GPU machine that has a CUDA torch: `run.sh contracts|ops|speed|qwen|all`, results in $OUT.
#
# `prepare.sh` makes target/plugin/h200 beforehand, on a machine with a compiler: torch_fl with the plugin for that
# torch and Python, and pytest. It is all that has to be carried there. Each part takes less than ten minutes.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../../.." && pwd)
OUT=${OUT:-$repository/target/plugin/out}
PYTHON=${PYTHON:-python3}
mkdir -p "$OUT"
export PYTHONPATH="$repository/target/plugin/h200${PYTHONPATH:+:$PYTHONPATH}"
unset FLAGOS_TARGET
failed=()

part() {
    local name=$1
    shift
    echo "== $name"
    "$@" 2>&1 | tee "$OUT/$name.txt" | tail -n "${TAIL:-60}"
    [ "${PIPESTATUS[0]}" -eq 0 ] || failed+=("$name")
}

contracts() {
    part contracts "$PYTHON" -m pytest -q -p no:cacheprovider "$here/.."
    part leak "$PYTHON" "$here/../leak.py"
}

ops() {
    part ops "$PYTHON" "$here/../ops.py" --target cuda --dtypes float32,float16,bfloat16,int64,bool,complex64 \
        --workers "${WORKERS:-12}" --budget 540 --at-least 100 -o "$OUT/ops.jsonl"
}

speed() {
    part duel "$PYTHON" "$here/duel.py" -o "$OUT/duel.json"
    part micro "$PYTHON" "$here/micro.py" -o "$OUT/micro.json"
    part where "$PYTHON" "$here/where.py" -o "$OUT/where.json"
}

qwen() {
    part qwen "$PYTHON" "$here/qwen.py" -o "$OUT/qwen.json"
}

case "${1:-all}" in
contracts | ops | speed | qwen) "$1" ;;
all) contracts && ops && speed && qwen ;;
*) echo "usage: run.sh contracts|ops|speed|qwen|all" >&2 && exit 2 ;;
esac
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2 && exit 1; }
