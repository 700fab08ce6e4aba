# The parts of the repository that builds start from: an edit elsewhere changes none of them. All have one name, which
# nixpkgs gives to the folder that cargo runs in.
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
  # What says which crates of others there are.
  dependencies = select "source" (
    path: type:
      isIn cargo path && (type == "directory" || builtins.match "(.*/)?Cargo\\.(lock|toml)" path != null)
      && builtins.match "(crates/[^/]*|tests/skeleton)/.*/.*" path == null
      && builtins.match "(crates/[^/]*|tests/skeleton)/(benches|fuzz|shim|src|templates|tests)" path == null
  );
  # What the programs are made of: no manifest is among it, no test and no document.
  programs = select "source" (
    path: _:
      isIn
        (
          cargo
          ++ [
            "LICENSE"
            "vendor-manifests/lists"
            "vendor-manifests/runtime"
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
  # What the plugin is made of.
  plugin = select "source" (
    path: type:
      isIn (cargo ++ [ "vendor-manifests/runtime" ]) path
      && (lib.hasPrefix "crates/torch-fl-plugin/" path || lib.hasPrefix "vendor-manifests" path
      || type == "directory" || builtins.match "(.*/)?Cargo\\.(lock|toml)" path != null)
      && builtins.match "(crates/torchfl-[^/]*|tests/skeleton)/.*/.*" path == null
      && builtins.match "(crates/[^/]*|tests/skeleton)/(benches|fuzz|templates|tests)" path == null
      && builtins.match "(crates/torchfl-[^/]*|tests/skeleton)/(src|fuzz)" path == null
  );
  # All that the Rust tests and lints read.
  tests = select "source" (
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
