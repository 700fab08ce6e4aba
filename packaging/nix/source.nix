# The parts of the repository that builds start from, each with its own name in the store: an edit elsewhere changes
# none of them.
{ lib, root }:
let
  # `keep` tells of each path, below the root, whether it is in.
  select =
    name: keep:
    builtins.path {
      inherit name;
      path = root;
      filter = path: type: keep (lib.removePrefix "${toString root}/" (toString path)) type;
    };
  isIn =
    folders: path:
    builtins.any
      (
        folder: path == folder || lib.hasPrefix "${folder}/" path || lib.hasPrefix "${path}/" folder
      )
      folders;
  cargo = [
    "Cargo.lock"
    "Cargo.toml"
    "crates"
    "tests/skeleton"
  ];
  cached = path: lib.hasSuffix ".pyc" path || lib.hasSuffix "__pycache__" path;
in
{
  # What the programs are made of: no manifest is among it, no test and no document.
  programs = select "torchfl-source" (
    path: _:
      isIn
        (
          cargo
          ++ [
            "LICENSE"
            "vendor-manifests/lists"
            "wheels"
          ]
        )
        path
      # The plugin is a package of its own; here Cargo.lock alone knows of it.
    && builtins.match "crates/torch-fl-plugin/(build.rs|README.md|shim|src)(/.*)?" path == null
    && builtins.match "(crates/[^/]*|tests/skeleton)/(tests|benches|fuzz)(/.*)?" path == null
      && builtins.match ".*/tests?\\.rs" path == null
      && !cached path
  );
  # All that the Rust tests and lints read.
  tests = select "torchfl-tests" (
    path: _:
      isIn
        (
          cargo
          ++ [
            "LICENSE"
            "README.md"
            "clippy.toml"
            "docs"
            "rustfmt.toml"
            "tests"
            "vendor-manifests"
            "wheels"
          ]
        )
        path
      && !cached path
  );
}
