# The flake's outputs: what each file here makes, for each system that nixpkgs has.
{ nixpkgs }:
let
  inherit (nixpkgs) lib;
  root = ../..;
  vendors = import ./manifests.nix {
    inherit lib;
    folder = root + "/vendor-manifests";
  };

  forSystem =
    system:
    let
      pkgs = nixpkgs.legacyPackages.${system};
      source = import ./source.nix { inherit lib root; };
      torchfl = import ./torchfl.nix { inherit pkgs source; };
      wheel = import ./wheel.nix { inherit lib pkgs torchfl; };
      plugin = import ./plugin.nix { inherit pkgs source; };
      pythonEnv = import ./python-env.nix { inherit lib pkgs; };

      # NAME-VENDOR for each vendor.
      each =
        name: make:
        lib.mapAttrs' (vendor: manifest: lib.nameValuePair "${name}-${vendor}" (make manifest)) vendors;
      packages =
        each "wheel" wheel.real
        // each "skeleton-wheel" wheel.skeleton
        // each "plugin" (manifest: plugin (wheel.real manifest))
        // each "python-env" (manifest: pythonEnv (wheel.real manifest))
        // {
          inherit torchfl;
          default = torchfl;
        };
    in
    {
      inherit packages;
      checks = import ./checks.nix {
        inherit lib packages pkgs source vendors wheel;
      };
      devShells.default = import ./shell.nix { inherit lib pkgs; };
      apps = import ./apps.nix { inherit packages pkgs; };
    };

  systems = builtins.filter (system: nixpkgs.legacyPackages ? ${system}) [
    "x86_64-linux"
    "aarch64-linux"
  ];
  all = lib.genAttrs systems forSystem;
in
lib.genAttrs [ "packages" "checks" "devShells" "apps" ] (
  output: builtins.mapAttrs (_: outputs: outputs.${output}) all
)
