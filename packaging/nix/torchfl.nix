# The programs `torchfl` and `torchfl-skeleton`. They carry no manifest (--manifest names one), so that the edit of a
# manifest does not build them anew, and every wheel with them.
{ pkgs, source }:
let
  cargo = import ./cargo.nix { inherit pkgs; };
  workspace = (builtins.fromTOML (builtins.readFile ../../Cargo.toml)).workspace;
in
pkgs.stdenv.mkDerivation {
  pname = "torchfl";
  inherit (workspace.package) version;
  src = source.programs;
  inherit (cargo) crates;
  nativeBuildInputs = [
    pkgs.cargo
    pkgs.rustc
  ];
  buildPhase = ''
    ${cargo.setup}
    mkdir -p crates/torch-fl-plugin/src
    touch crates/torch-fl-plugin/src/lib.rs # cargo reads every member of the workspace
    cargo build --release --locked -p torchfl-cli -p torchfl-skeleton
  '';
  installPhase = ''
    mkdir -p $out/bin
    cp target/release/torchfl target/release/torchfl-skeleton $out/bin/
  '';
  meta.mainProgram = "torchfl";
}
