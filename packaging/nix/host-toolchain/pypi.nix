# nixpkgs' `fetchPypi` without a network, for wheels: a file of that name and sum in the store.
{ requireFile }:
{ pname, version, python, abi, platform, sha256, format ? "wheel", ... }:
assert format == "wheel";
let
  name = "${pname}-${version}-${python}-${abi}-${platform}.whl";
in
requireFile {
  inherit name sha256;
  message = ''
    ${name} is not in the Nix store.
      bring it: pip download --no-deps ${pname}==${version}, or `torchfl fetch`, for ${python}
      sha256:   ${sha256}
      add it:   packaging/nix/add-input.sh ${name}
  '';
}
