#!/usr/bin/env bash
# Builds the programs that all other jobs run, for the processor ARCH, into target/ci/bin-ARCH.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_DIST_TARGET=${ARCH:?}-unknown-linux-gnu OUT=target/ci/bin-$ARCH
packaging/dist/build.sh torchfl-cli torchfl-skeleton
