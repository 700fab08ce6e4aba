# What `nix flake check` builds: lints and tests of the Rust code, the skeletons' audits, the same bytes twice, an
# environment that runs without writing anything.
{ lib, packages, pkgs, source, vendors, wheel }:
let
  # nixpkgs keeps the names of packages that it dropped, and throws.
  has = name: pkgs ? ${name} && (builtins.tryEval pkgs.${name}.outPath).success;
  cargo = import ./cargo.nix { inherit pkgs; };
  rust =
    name: tools: command:
    pkgs.stdenv.mkDerivation {
      inherit name;
      src = source.tests;
      inherit (cargo) crates;
      nativeBuildInputs = [
        pkgs.cargo
        pkgs.python3
        pkgs.rustc
      ]
      ++ tools;
      buildPhase = ''
        ${cargo.setup}
        ${command}
      '';
      installPhase = "touch $out";
    };
  nextest = has "cargo-nextest";

  each =
    name: make:
    lib.mapAttrs' (vendor: _: lib.nameValuePair "${name}-${vendor}" (make vendor)) vendors;
  skeletonOf = vendor: packages."skeleton-wheel-${vendor}";

  audit =
    vendor:
    let
      built = skeletonOf vendor;
    in
    pkgs.runCommand "audit-${vendor}" { nativeBuildInputs = [ packages.torchfl ]; } ''
      shopt -s nullglob
      words=(--hashes --torch ${built.front} --sysroot ${built.parts})
      for wheel in ${built.parts}/provided/*.whl; do words+=(--with "$wheel"); done
      torchfl audit ${built}/*.whl "''${words[@]}" | tee $out
    '';
  reproducible =
    vendor:
    let
      first = skeletonOf vendor;
    in
    pkgs.runCommand "reproducible-${vendor}" { } ''
      # Another number of threads, and another folder.
      diff -r ${first} ${wheel.skeletonAgain vendors.${vendor}}
      touch $out
    '';

  nix =
    name: command:
    lib.optionalAttrs (has name) {
      ${name} = pkgs.runCommand name { nativeBuildInputs = [ pkgs.${name} ]; } ''
        ${command} ${../../flake.nix} ${./.}
        touch $out
      '';
    };
in
{
  inherit (packages) torchfl;
  fmt = rust "fmt" [ pkgs.rustfmt ] "cargo fmt --all --check";
  clippy = rust "clippy" [ pkgs.clippy ] "cargo clippy --workspace --all-targets --locked -- -D warnings";
  tests = rust "tests" (lib.optional nextest pkgs.cargo-nextest) (
    if nextest then
      "cargo nextest run --workspace --locked --no-fail-fast"
    else
      "cargo test --workspace --locked"
  );
  environment =
    let
      env = packages.python-env-sim;
    in
    pkgs.runCommand "environment" { } ''
      unset HOME TMPDIR
      LD_LIBRARY_PATH=${env.wheel.parts}/opt/sim/lib ${env}/bin/python ${./environment.py} ${env} | tee $out
    '';
}
// each "audit" audit
// each "reproducible" reproducible
// nix "nixpkgs-fmt" "nixpkgs-fmt --check"
// nix "deadnix" "deadnix --fail"
  // lib.optionalAttrs (has "statix") {
  statix = pkgs.runCommand "statix" { nativeBuildInputs = [ pkgs.statix ]; } ''
    statix check ${./.}
    touch $out
  '';
}
