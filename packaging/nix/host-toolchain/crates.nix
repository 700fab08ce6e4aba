# nixpkgs' `importCargoLock` without a network: every crate of Cargo.lock, out of the machine's own cargo cache. Each is a
# fixed output under the name and the sum that it has in nixpkgs, so one that came from a binary cache serves as well.
{ lib, tools, requireFile, runCommand }:
{ lockFile }:
let
  locked = (builtins.fromTOML (builtins.readFile lockFile)).package;
  registry = builtins.filter (package: package ? checksum) locked;
  foreign = builtins.filter (package: package ? source && !(package ? checksum)) locked;

  crate =
    package:
    let
      id = "${package.name}-${package.version}";
      name = "crate-${id}.tar.gz";
    in
    if tools.crates ? ${id} then
    # Not `builtins.path`: later versions of Nix refuse it outside of the flake.
      builtins.fetchurl
        {
          inherit name;
          url = "file://${tools.crates.${id}}";
          sha256 = package.checksum;
        }
    else
      requireFile {
        inherit name;
        sha256 = package.checksum;
        message = ''
          The crate ${id} was not in cargo's cache when host-toolchain.sh ran.
          Run `cargo fetch --locked` where crates are to be had, then host-toolchain.sh again.'';
      };
in
if foreign != [ ] then
  throw "Cargo.lock: ${(builtins.head foreign).name} is from no registry, and has no checksum"
else
  runCommand "cargo-vendor-dir"
  {
    passAsFile = [ "crates" ];
    crates = lib.concatMapStrings
      (
        package: "${crate package} ${package.name}-${package.version} ${package.checksum}\n"
      )
      registry;
  }
    ''
      mkdir $out
      while read -r file id sum; do
          tar -xzf "$file" -C $out --no-same-owner
          printf '{"files":{},"package":"%s"}' "$sum" > "$out/$id/.cargo-checksum.json"
      done < "$cratesPath"
    ''
