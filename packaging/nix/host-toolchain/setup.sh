# What a derivation of the host toolchain runs, in the place of nixpkgs' stdenv: its phases, hooks and variables as far as
# torch-fl uses them.
set -eu -o pipefail

PATH=$stdenv/bin
if ! changed=$(sha256sum --check --quiet "$sums" 2>&1); then
    echo "tools of this machine are not those that host-toolchain.sh saw; run it again:" >&2
    echo "$changed" >&2
    exit 1
fi
for input in ${nativeBuildInputs-} ${buildInputs-}; do
    if [ -d "$input/bin" ]; then PATH=$input/bin:$PATH; fi
done
export PATH HOME=/homeless-shelter TZ=UTC LC_ALL=C SOURCE_DATE_EPOCH=315532800
export SHELL=$stdenv/bin/bash

# The text of a phase is a variable of the derivation.
phase() { if [ -n "${!1-}" ]; then eval "${!1}"; fi; }

genericBuild() {
    if [ -n "${buildCommand-}" ]; then
        eval "$buildCommand"
        return
    fi
    if [ -n "${src-}" ]; then
        cp -r --no-preserve=mode,ownership "$src" source
        cd source
    fi
    phase buildPhase
    if [ -n "${doCheck-}" ]; then phase checkPhase; fi
    phase installPhase
}
