# Everything that `make` needs and that no registry of a language brings.
{ lib, pkgs }:
let
  # nixpkgs keeps the names of packages that it dropped, and throws.
  has = name: pkgs ? ${name} && (builtins.tryEval pkgs.${name}.outPath).success;
in
pkgs.mkShell {
  packages = [
    pkgs.cargo
    pkgs.clippy
    pkgs.gcc
    pkgs.python3
    pkgs.rustc
    pkgs.rustfmt
  ]
  ++ builtins.concatMap (name: lib.optional (has name) pkgs.${name}) [
    "cargo-deny"
    "cargo-nextest"
    "deadnix"
    "nixpkgs-fmt"
    "statix"
  ];
}
