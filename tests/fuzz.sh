#!/usr/bin/env bash
# Every fuzz target for FUZZ_SECONDS (60) each. Needs nightly Rust and cargo-fuzz.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "not run: cargo-fuzz on a nightly toolchain is not installed (cargo install cargo-fuzz)" >&2
    exit 1
fi
for target in fuzz_targets/*.rs; do
    name=$(basename "$target" .rs)
    cargo +nightly fuzz run "$name" -- -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=1024
done
