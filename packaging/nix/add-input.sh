#!/usr/bin/env bash
# Adds files that a manifest names to the Nix store, and keeps them there: a build's output does not refer to them, so the
# garbage collector would take them.
#
#   packaging/nix/add-input.sh [-r DIR] FILE…
#
# The links that keep them lie in DIR (default: $XDG_STATE_HOME/torch-fl/gc-roots, or the same below ~/.local/state);
# remove one to let its file go. Prints the paths in the store.
set -euo pipefail

roots=${XDG_STATE_HOME:-$HOME/.local/state}/torch-fl/gc-roots
while getopts r:h option; do
    case $option in
    r) roots=$OPTARG ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [ $# = 0 ]; then echo "add-input.sh: name the files" >&2; exit 2; fi
mkdir -p "$roots"
draft=$(mktemp -d)
trap 'rm -rf "$draft"' EXIT
for file; do
    # Nix would add a link as such; and what a manifest names is the name that FILE has here.
    if [ -L "$file" ]; then
        cp -L --reflink=auto "$file" "$draft/"
        file=$draft/$(basename "$file")
    fi
    path=$(nix-store --add-fixed sha256 "$file")
    nix-store --realise --add-root "$roots/$(basename "$path")" --indirect "$path" >/dev/null
    echo "$path"
done
