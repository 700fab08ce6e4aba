# Every vendor-manifests/NAME.toml, by name: its text as a file of its own in the store, and what it says. What is made
# of a vendor depends on its own file alone.
{ lib, folder }:
let
  isManifest = name: type: type == "regular" && lib.hasSuffix ".toml" name;
  read =
    fileName: _:
    lib.nameValuePair (lib.removeSuffix ".toml" fileName) {
      inherit fileName;
      name = lib.removeSuffix ".toml" fileName;
      file = builtins.path {
        path = folder + "/${fileName}";
        name = fileName;
      };
      says = builtins.fromTOML (builtins.readFile (folder + "/${fileName}"));
    };
in
lib.mapAttrs' read (lib.filterAttrs isManifest (builtins.readDir folder))
