# The programs `torchfl` and `torchfl-skeleton`. They carry no manifest (--manifest names one), so that the edit of a
# manifest does not build them anew, and every wheel with them.
{ pkgs, source }:
let
  cargo = import ./cargo.nix { inherit pkgs; };
  workspace = (builtins.fromTOML (builtins.readFile ../../Cargo.toml)).workspace;
  build = "cargo build --release --locked -p torchfl-cli -p torchfl-skeleton";
  common = {
    inherit (workspace.package) version;
    inherit (cargo) crates;
    nativeBuildInputs = [
      pkgs.cargo
      pkgs.rustc
    ];
  };

  # The crates of others, compiled: an edit of ours leaves them as they are.
  dependencies = pkgs.stdenv.mkDerivation (
    common
    // {
      pname = "torchfl-dependencies";
      src = source.dependencies;
      buildPhase = ''
        ${cargo.setup}
        for crate in crates/* tests/skeleton; do
            mkdir -p $crate/src
            touch $crate/src/lib.rs
            echo 'fn main() {}' > $crate/src/main.rs
            # What build scripts need is compiled for them alone.
            if grep -q '^\[build-dependencies' $crate/Cargo.toml; then cp $crate/src/main.rs $crate/build.rs; fi
        done
        ${build}
      '';
      # Of ours nothing may stay that cargo could take for fresh.
      installPhase = ''
        rm -f target/release/torchfl* target/release/libtorchfl* target/release/deps/*torchfl[-_]*
        rm -rf target/release/.fingerprint/torchfl* target/release/build/torchfl* target/release/incremental
        cp -r target $out
      '';
      dontFixup = true;
    }
  );
in
pkgs.stdenv.mkDerivation (
  common
    // {
    pname = "torchfl";
    src = source.programs;
    buildPhase = ''
      ${cargo.setup}
      # With the times that all files in a store have: cargo builds anew what is older than what it depends on.
      cp -r --no-preserve=mode --preserve=timestamps ${dependencies} target
      find target -type f -path '*/build-script-*' -exec chmod +x {} +
      mkdir -p crates/torch-fl-plugin/src
      touch crates/torch-fl-plugin/src/lib.rs # cargo reads every member of the workspace
      ${build}
    '';
    installPhase = ''
      mkdir -p $out/bin
      cp target/release/torchfl target/release/torchfl-skeleton $out/bin/
    '';
    meta.mainProgram = "torchfl";
  }
)
