#!/usr/bin/env bash
# target/plugin/h200 for a GPU machine: `prepare.sh TORCH FOLDER INCLUDE TAG`, as in
#   prepare.sh 2.11 ~/torch-2.11.0/torch ~/python3.12/include cp312
# FOLDER is the unpacked torch package of that machine's release, INCLUDE has its Python.h.
set -euo pipefail
[ $# -eq 4 ] || { sed -n '2,4s/^# //p' "$0" >&2 && exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../../.." && pwd)
python=$repository/target/venv/bin/python
place=$repository/target/plugin/h200
"$python" "$here/../prepare.py" "$1" --folder "$2" --python-include "$3" --python "$4" -o "$place"
version=${4#cp3}
[ -d "$place/pytest" ] || "$python" -m pip install -q --no-cache-dir --target "$place" --python-version "3.$version" \
    --only-binary=:all: expecttest==0.3.0 hypothesis==6.170.15 pytest==9.2.0
du -sh "$place"
