#!/usr/bin/env bash
# Writes a drop-in for the flake's input `nixpkgs`, made of this machine's own tools, for a machine without a network.
#
#   packaging/nix/host-toolchain.sh -o DIR
#   export NIX_USER_CONF_FILES=DIR/nix.conf
#   nix build .#wheel-sim --override-input nixpkgs path:DIR
#
# DIR is an absolute path; what was written into it before is written anew. Every tool's sum is an input of all that is
# built with it: after an upgrade run this again, and what depends on the tool is built again. Needs Rust, a C compiler,
# Python with its C headers, and the crates of Cargo.lock in cargo's cache (`cargo fetch --locked`).
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
mark=.torch-fl-host-toolchain

die() { echo "host-toolchain.sh: $*" >&2; exit 2; }
output=
while getopts o:h option; do
    case $option in
    o) output=$OPTARG ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$here/host-toolchain.sh" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [ -z "$output" ] || [ $# -gt 0 ]; then die "usage: host-toolchain.sh -o DIR"; fi
output=$(realpath -m "$output")
if [ -e "$output" ] && [ ! -e "$output/$mark" ] && [ -n "$(ls -A "$output" 2>&1)" ]; then
    die "$output is not empty, and not a toolchain of ours: name another folder"
fi

# A build sees the machine's /usr, and what runs as root could write into it.
if [ "$(id -u)" = 0 ] && [ -z "$(getent group nixbld | cut -d: -f4)" ]; then
    die "there are no build users (a group nixbld with members): Debian's nix-setup-systemd makes them, as do Nix's installers"
fi

# --- what there is ------------------------------------------------------------------------------------------------

for tool in cc python3 rustc cargo; do
    command -v "$tool" >/dev/null || die "$tool is not installed"
done
# Launchers (rustup's, pyenv's) choose by environment and folder; a build gets what they choose here.
sysroot=$(rustc --print sysroot)
python=$(python3 -I -c 'import os, sys; print(os.path.realpath(sys.executable))')
prefix=$(python3 -I -c 'import sys; print(sys.base_prefix)')
python_version=$(python3 -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
headers=$(python3 -I -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -f "$headers/Python.h" ] || die "no Python.h in $headers: install Python's C headers"

programs=() # "name path"
find_program() { # NAME -> its path, where it is there; the system's own before others
    PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH type -P "$1" || true
}
need() { # NAME [PATH]
    local found=${2:-$(find_program "$1")}
    [ -x "$found" ] || die "$1 is not installed"
    programs+=("$1 $found")
}
checked() { # lines: refuses what JSON would have to escape
    local text
    text=$(cat)
    case $text in *[\"\\]*) die "a path with a quote or a backslash: $text" ;; esac
    printf '%s\n' "$text"
}
real() { # lines "name path" -> the same without links
    local names=() paths=() name path
    while read -r name path; do names+=("$name") && paths+=("$path"); done
    paste -d' ' <(printf '%s\n' "${names[@]}") <(realpath -- "${paths[@]}")
}
for name in bash sh awk basename cat chmod cmp comm cp cut date diff dirname echo env expr false find grep gzip head id \
    install join ln ls mkdir mktemp mv nproc printf pwd readlink realpath rm rmdir sed seq sha256sum sleep sort stat tail \
    tar tee test touch tr true uname uniq wc xargs \
    cc c++ gcc g++ cpp ld ar as nm objcopy objdump ranlib readelf strip; do
    need "$name"
done
for name in rustc cargo rustdoc rustfmt cargo-fmt cargo-clippy clippy-driver; do need "$name" "$sysroot/bin/$name"; done
need python3 "$python"

mapfile -t programs < <(printf '%s\n' "${programs[@]}" | real | checked)

# What the programs take in: the compiler proper, the start files, the C library, Rust's own and Python's headers.
files=()
for name in cc1 cc1plus collect2; do files+=("$(cc -print-prog-name="$name")"); done
for name in crt1.o crti.o crtn.o libc.so libc.so.6 libc_nonshared.a libm.so.6 libgcc.a libstdc++.so; do
    files+=("$(cc -print-file-name="$name")")
done
# These name every file of the toolchain, whose names hold a sum of their own.
for name in "$sysroot"/lib/rustlib/manifest-* "$sysroot"/lib/rustlib/components "$headers/Python.h" "$headers/pyconfig.h" \
    "$headers/patchlevel.h" /usr/include/features.h /usr/include/stdlib.h; do
    files+=("$name")
done
# Without a list of Rust's files, its libraries themselves.
if [ ! -e "$sysroot/lib/rustlib/components" ]; then
    while IFS= read -r name; do files+=("$name"); done < <(find "$sysroot/lib" -name '*.so' -o -name '*.rlib' | sort)
fi

# --- as JSON ------------------------------------------------------------------------------------------------------

json_records() { # lines "name path" -> {name, path, sha256}, …
    local names=() paths=() sums=() name path index separator=
    while read -r name path; do names+=("$name") && paths+=("$path"); done
    mapfile -t sums < <(sha256sum -- "${paths[@]}" | cut -d' ' -f1)
    for index in "${!names[@]}"; do
        printf '%s\n      { "name": "%s", "path": "%s", "sha256": "%s" }' \
            "$separator" "${names[index]}" "${paths[index]}" "${sums[index]}"
        separator=,
    done
}

mkdir -p "$output"
touch "$output/$mark"
cp "$here"/host-toolchain/*.nix "$here/host-toolchain/setup.sh" "$output/"
draft=$(mktemp "$output/.draft-XXXXXX")
trap 'rm -f "$draft"' EXIT
{
    printf '{\n  "system": "%s-linux",\n  "pythonVersion": "%s",\n' "$(uname -m)" "$python_version"
    printf '  "versions": ['
    first=
    for program in "$sysroot/bin/rustc" "$sysroot/bin/cargo" cc c++ ld as python3 bash ls tar; do
        printf '%s\n    "%s"' "$first" "$("$program" --version | head -n 1 | checked)"
        first=,
    done
    printf '\n  ],\n  "programs": ['
    printf '%s\n' "${programs[@]}" | json_records
    printf '\n  ],\n  "files": ['
    for file in "${files[@]}"; do
        if [ -f "$file" ]; then echo "file $file"; fi
    done | real | sort -u | checked | json_records
    printf '\n  ],\n  "extra": {'
    first=
    for package in cargo-nextest cargo-deny nixpkgs-fmt deadnix statix {aarch64,x86_64}-linux-gnu-gcc; do
        case $package in
        *-linux-gnu-gcc) names=() && for tool in gcc g++ ld ar as; do names+=("${package%gcc}$tool"); done ;;
        *) names=("$package") ;;
        esac
        lines=
        for name in "${names[@]}"; do
            path=$(find_program "$name")
            if [ -n "$path" ]; then lines+="$name $path"$'\n'; fi
        done
        if [ -z "$lines" ]; then continue; fi
        printf '%s\n    "%s": [' "$first" "$package"
        printf '%s' "$lines" | real | checked | json_records
        printf '\n    ]'
        first=,
    done
    printf '\n  },\n  "crates": {'
    first=
    cache=${CARGO_HOME:-$HOME/.cargo}/registry/cache
    if [ -d "$cache" ]; then
        while IFS= read -r file; do
            name=${file##*/}
            printf '%s\n    "%s": "%s"' "$first" "${name%.crate}" "$file"
            first=,
        done < <(find "$(realpath "$cache")" -name '*.crate' | sort | checked | awk -F/ '!seen[$NF]++')
    fi
    printf '\n  }\n}\n'
} > "$draft"
chmod 644 "$draft"
mv "$draft" "$output/tools.json"

# What of the machine a build sees. No path may lie in another one: to mount a file, Nix first opens it for writing where
# it is to be, and inside a folder that is mounted already that is the machine's own file, which is empty then.
folders=(/usr)
for folder in /lib /lib64 "$(realpath "$sysroot")" "$(realpath "$prefix")"; do
    case $folder in /usr/*) ;; *) if [ -d "$folder" ]; then folders+=("$folder"); fi ;; esac
done
paths=("${folders[@]}")
while IFS= read -r file; do
    for folder in "${folders[@]}"; do
        case $file in "$folder"/*) continue 2 ;; esac
    done
    paths+=("$file")
done < <(printf '%s\n' "${programs[@]}" | cut -d' ' -f2 | sort -u)
for name in sh bash; do paths+=("/bin/$name=$(realpath "/bin/$name")"); done # what scripts and system(3) name
for path in "${paths[@]}"; do
    for other in "${paths[@]}"; do
        case ${path%%=*} in "${other%%=*}"/*) die "$path lies in $other: this machine's layout is not known here" ;; esac
    done
done
cat > "$output/nix.conf" <<CONF
# Nix settings for this toolchain: NIX_USER_CONF_FILES=$output/nix.conf
# With a Nix daemon they belong into its /etc/nix/nix.conf, or the user among its trusted-users.
experimental-features = nix-command flakes
sandbox = true
sandbox-fallback = false
sandbox-paths = ${paths[*]}
build-users-group = $(if [ "$(id -u)" = 0 ]; then echo nixbld; fi)
substituters =
flake-registry =
warn-dirty = false
CONF
echo "$output: $(grep -c '"sha256"' "$output/tools.json") files of this machine, $(grep -c '\.crate"' "$output/tools.json") crates"
