# The packages of nixpkgs that torch-fl uses, under their names there. All of them are one derivation, `host`: links to
# the machine's own programs, and the sums of these, so that a program that changes is a new input of all that is built.
{ lib, tools }:
let
  inherit (tools) system;

  sums = builtins.toFile "host-sums" (
    lib.concatMapStrings (file: "${file.sha256}  ${file.path}\n") (tools.programs ++ tools.files)
  );
  versions = builtins.toFile "host-versions" (lib.concatMapStrings (line: "${line}\n") tools.versions);
  links = set: lib.concatMapStrings (program: "${program.path} ${program.name}\n") set;
  path = name: (builtins.head (builtins.filter (p: p.name == name) tools.programs)).path;

  linked =
    name: programs: extra:
    derivation
      (
        {
          inherit name system versions;
          builder = path "bash";
          args = [
            "-euc"
            ''
              PATH=${builtins.dirOf (path "ln")}
              mkdir -p $out/bin
              printf %s "$links" | while read -r program name; do ln -s "$program" "$out/bin/$name"; done
              if [ -n "''${setup-}" ]; then cp $setup $out/setup; fi
            ''
          ];
          links = links programs;
        }
        // extra
      )
    // {
      meta = { };
    };

  host = linked "host-tools" tools.programs {
    inherit sums;
    setup = ./setup.sh;
  };
  # Tools that only checks use: they rebuild nothing else.
  extra = lib.mapAttrs'
    (
      name: programs: lib.nameValuePair name (linked "host-${name}" programs { })
    )
    tools.extra;

  mkDerivation =
    arguments:
    derivation
      (
        removeAttrs arguments [
          "meta"
          "passthru"
        ]
        // {
          inherit system sums;
          name = arguments.name or "${arguments.pname}-${arguments.version}";
          builder = path "bash";
          stdenv = host;
          args = [
            "-c"
            "source $stdenv/setup && genericBuild"
          ];
        }
      )
    // {
      meta = arguments.meta or { };
    }
    // (arguments.passthru or { });
  runCommand =
    name: environment: buildCommand:
    mkDerivation (environment // { inherit name buildCommand; });
  stdenv = {
    inherit mkDerivation system;
    hostPlatform = { inherit system; };
    cc = host // {
      targetPrefix = "";
    };
  };

  # A file that only its sum and its name are known of. It is in the store, or `message` says how it comes there.
  requireFile =
    { name, sha256, message }:
    derivation {
      inherit name message system;
      builder = path "bash";
      args = [
        "-c"
        ''printf '%s\n' "$message" >&2; exit 1''
      ];
      outputHashMode = "flat";
      outputHashAlgo = "sha256";
      outputHash = sha256;
      preferLocalBuild = true;
      allowSubstitutes = true;
    };
in
extra
  // {
  inherit lib requireFile runCommand stdenv system;
  stdenvNoCC = stdenv;
  bashInteractive = host;
  runCommandCC = runCommand;
  fetchPypi = import ./pypi.nix { inherit requireFile; };
  writeText = builtins.toFile;
  mkShell =
    { packages ? [ ] }:
    let
      # What `nix develop` sources then leaves variables unset.
      lenient = runCommand "shell-stdenv" { } ''
        mkdir $out
        echo "stdenv=$stdenv; source $stdenv/setup; set +u" > $out/setup
      '';
    in
    derivation {
      inherit sums system;
      name = "shell";
      builder = path "bash";
      args = [ "-c" "source $stdenv/setup && mkdir $out" ];
      stdenv = lenient;
      outputs = [ "out" ];
      nativeBuildInputs = packages;
    };

  cargo = host;
  clippy = host;
  gcc = host;
  rustc = host;
  rustfmt = host;
  python3 = host // {
    inherit (tools) pythonVersion;
  };
  rustPlatform.importCargoLock = import ./crates.nix { inherit lib tools requireFile runCommand; };

  pkgsCross = lib.genAttrs [ "aarch64-multiplatform" "gnu64" ] (
    name:
    let
      known = {
        aarch64-multiplatform = "aarch64";
        gnu64 = "x86_64";
      };
      prefix = "${known.${name}}-linux-gnu-";
      absent = runCommand "${prefix}gcc-is-missing" { } ''
        echo "${prefix}gcc is not on this machine: install it, and run host-toolchain.sh again" >&2
        exit 1
      '';
    in
    {
      stdenv.cc = (extra."${prefix}gcc" or absent) // {
        targetPrefix = prefix;
      };
    }
  );
}
