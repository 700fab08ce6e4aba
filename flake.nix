{
  description = "torch-fl: the stock PyTorch over the libraries of a chip vendor's fork";

  # Without a network another one takes its place, made of the machine's own tools: docs/guide/nix.md.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { nixpkgs, ... }: import ./packaging/nix { inherit nixpkgs; };
}
