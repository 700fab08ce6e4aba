# What a derivation that runs cargo needs: the crates of Cargo.lock, each by its checksum, and the settings that make
# cargo take them, and leave the store's and the build folder's paths out of what it makes.
{ pkgs }:
rec {
  crates = pkgs.rustPlatform.importCargoLock { lockFile = ../../Cargo.lock; };
  setup = ''
    export CARGO_HOME=$TMPDIR/cargo HOME=$TMPDIR
    export CARGO_BUILD_JOBS=$NIX_BUILD_CORES
    export RUSTFLAGS="--remap-path-prefix=$PWD=/source --remap-path-prefix=$crates=/crates"
    mkdir -p "$CARGO_HOME"
    cat > "$CARGO_HOME/config.toml" <<CONFIG
    net.offline = true
    [source.crates-io]
    replace-with = "store"
    [source.store]
    directory = "$crates"
    CONFIG
  '';
}
