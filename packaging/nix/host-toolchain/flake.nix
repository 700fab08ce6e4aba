{
  description = "What torch-fl uses of nixpkgs, made of the tools of one machine";

  outputs =
    { ... }:
    let
      lib = import ./lib.nix;
      tools = builtins.fromJSON (builtins.readFile ./tools.json);
    in
    {
      inherit lib;
      legacyPackages.${tools.system} = import ./packages.nix { inherit lib tools; };
    };
}
