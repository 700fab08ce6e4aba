#!/usr/bin/env bash
# Builds `torchfl` for machines with glibc 2.17 or newer (RHEL 7, and so every vendor's image), by zig as the linker.
#
#   build.sh [PACKAGE…]     default: torchfl-cli
#
# CARGO_DIST_TARGET (dist sets it): the triple; default: this machine's. OUT: the folder for the programs; default:
# this one, where dist looks. PYTHON: what makes the virtual environment with zig.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
glibc=2.17

triple=${CARGO_DIST_TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
out=${OUT:-$here}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

zig=$target/zig
if ! cmp -s packaging/dist/requirements.txt "$zig/requirements.txt"; then
    "${PYTHON:-python3}" -m venv --clear "$zig"
    "$zig/bin/python" -m pip install --quiet --disable-pip-version-check -r packaging/dist/requirements.txt
    cp packaging/dist/requirements.txt "$zig/requirements.txt"
fi
export PATH=$zig/bin:$PATH CARGO_ZIGBUILD_PYTHON_PATH=$zig/bin/python

if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$triple/lib" ]; then
    rustup target add "$triple"
fi

packages=("$@")
[ ${#packages[@]} -gt 0 ] || packages=(torchfl-cli)
# No path of this machine stays in the programs.
flags="--remap-path-prefix=$PWD=/torch-fl --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
RUSTFLAGS="${RUSTFLAGS:-} $flags" cargo zigbuild --profile dist --locked --target "$triple.$glibc" \
    "${packages[@]/#/--package=}"

mkdir -p "$out"
for package in "${packages[@]}"; do
    program=${package%-cli}
    needs=$(readelf --wide --version-info "$target/$triple/dist/$program" | grep -o 'GLIBC_2[0-9.]*' | sort -Vu | tail -1)
    if [ "$(printf '%s\n' "GLIBC_$glibc" "$needs" | sort -V | tail -1)" != "GLIBC_$glibc" ]; then
        echo "error: $program needs $needs, and is for glibc $glibc" >&2
        exit 1
    fi
    install -m 755 "$target/$triple/dist/$program" "$out/$program"
    echo "$out/$program: needs $needs" >&2
done
