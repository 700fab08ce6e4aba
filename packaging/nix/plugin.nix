# The plugin of a vendor, `libtorch_fl.so`: compiled against the headers of the torch whose core a process runs on, which is
# the fork's where the bundle swaps the core, and else the one that is met.
{ pkgs, source }:
wheel:
let
  cargo = import ./cargo.nix { inherit pkgs; };
in
pkgs.stdenv.mkDerivation {
  pname = "plugin-${wheel.vendor}";
  version = "${wheel.release}-${wheel.python}";
  src = source.plugin;
  inherit (cargo) crates;
  nativeBuildInputs = [
    pkgs.cargo
    pkgs.python3
    pkgs.rustc
  ];
  buildPhase =
    if wheel.refusal != null then
      "cat ${wheel.refusal} >&2; exit 1"
    else
      ''
        ${cargo.setup}
        shopt -s nullglob
        for crate in crates/torchfl-* tests/skeleton; do
            mkdir -p $crate/src
            touch $crate/src/lib.rs # cargo reads every member of the workspace
            echo 'fn main() {}' > $crate/src/main.rs
        done
        python3 - ${wheel.compiledAgainst} <<'PYTHON'
        import sys, zipfile
        with zipfile.ZipFile(sys.argv[1]) as archive:
            archive.extractall("site", [n for n in archive.namelist() if n.startswith(("torch/include/", "torch/lib/"))])
        PYTHON
        export TORCH_FL_TORCH=$PWD/site/torch
        export TORCH_FL_PYTHON_INCLUDE=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
        export TORCH_FL_DEFINES=${pkgs.lib.escapeShellArg (builtins.concatStringsSep " " wheel.defines)}
        cargo build --release --locked -p torch-fl-plugin --features torch
      '';
  installPhase = "install -D target/release/libtorch_fl.so $out/libtorch_fl.so";
}
