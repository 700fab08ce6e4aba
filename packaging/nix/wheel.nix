# Wheels. `real` is made of the manifest's own files and of nothing else; `skeleton` of a miniature that is generated from
# the manifest, with all that proves it. Each is a folder with the wheel and its constraints, and has an attribute for
# every Python of the manifest: `.#wheel-acme.cp312`.
{ lib, pkgs, torchfl }:
let
  pythonTag = "cp${builtins.replaceStrings [ "." ] [ "" ] pkgs.python3.pythonVersion}";
  processor = lib.removeSuffix "-linux" pkgs.stdenv.hostPlatform.system;

  # The compiler for `arch`, under the name that the generator and torchfl call it by.
  compiler =
    arch:
    if arch == processor then
      pkgs.stdenv.cc
    else
      let
        known = {
          aarch64 = "aarch64-multiplatform";
          x86_64 = "gnu64";
        };
        inherit (pkgs.pkgsCross.${known.${arch}}.stdenv) cc;
      in
      pkgs.runCommand "${arch}-linux-gnu-gcc" { } ''
        mkdir -p $out/bin
        for tool in gcc g++ ld ar as; do
            ln -s "${cc}/bin/${cc.targetPrefix}$tool" "$out/bin/${arch}-linux-gnu-$tool"
        done
      '';
  run =
    name: arch: environment: command:
    pkgs.runCommandCC name
      (
        {
          nativeBuildInputs = [
            torchfl
            (compiler arch)
            pkgs.python3
          ];
          # nixpkgs' compiler adds search paths and hardening of its own, which a target machine knows nothing of.
          NIX_DONT_SET_RPATH = true;
          NIX_NO_SELF_RPATH = true;
          hardeningDisable = [ "all" ];
        }
        // environment
      )
      ''
        shopt -s nullglob
        ${command}
      '';

  # For the Python at hand with its own headers, so that it can be imported; for another one with stand-ins.
  miniature =
    vendor: python: arch:
    let
      here = python == pythonTag && arch == processor;
    in
    run "skeleton-${vendor.name}-${python}-${arch}" arch { } ''
      torchfl-skeleton --manifest ${vendor.file} -o $out ${
        if here then "--python python3" else "--tag ${python} --arch ${arch}"
      }
    '';

  # `give` is shell that adds to the array `words` what torchfl is given; `how` has the words for how it works, and what is done then.
  build =
    kind: vendor: python: arch: about: give: how:
    run "${kind}-${vendor.name}-${vendor.says.torch.release}-${python}-${arch}" arch
      {
        passthru = about // {
          inherit arch python;
          inherit (vendor.says.torch) release;
          vendor = vendor.name;
        };
      }
      ''
        words=(--python ${python})
        ${give}
        # Under its own name: the wheel records it.
        cp ${vendor.file} ${vendor.fileName}
        # Through a pipe: Nix gives builders a terminal, and a progress bar would go into the log.
        torchfl build --manifest ${vendor.fileName} "''${words[@]}" ${how.words} 2>&1 | cat
        ${how.finally}
      '';
  plainly = {
    words = "--threads $NIX_BUILD_CORES -o $out";
    finally = "";
  };
  elsewhere = {
    words = "--threads 1 -o another/folder";
    finally = "mv another/folder $out";
  };

  real =
    vendor: python: arch:
    let
      parts = miniature vendor python arch;
      inputs = import ./inputs.nix { inherit lib pkgs; } {
        inherit arch parts python vendor;
      };
      refusal = if inputs.refusal == null then null else pkgs.writeText "refusal" inputs.refusal;
      about = {
        # Shell words: the torch that it meets, with what else is installed beside it.
        inherit (inputs) company compiledAgainst;
        inherit parts refusal;
        defines = vendor.says.torch.defines or [ ];
      };
    in
    build "wheel" vendor python arch about
      (
        if refusal == null then inputs.shell else "cat ${refusal} >&2; exit 1"
      )
      plainly;

  skeletonBy =
    how: vendor: python: arch:
    let
      parts = miniature vendor python arch;
      inherit (vendor.says.torch) front swap;
      about = {
        inherit parts;
        front = "${parts}/${if front == "vendor" then "vendor" else "stock"}/*.whl";
      };
    in
    build "skeleton-wheel" vendor python arch about ''
      words+=(--front ${about.front} --sysroot ${parts})
      for wheel in ${parts}/provided/*.whl; do words+=(--with "$wheel"); done
      ${lib.optionalString (swap != "none") "words+=(--torch ${parts}/vendor/*.whl)"}
    ''
      how;

  # For the Python and the processor at hand where the manifest has them, with all of the manifest's Pythons below.
  forAll =
    make: vendor:
    let
      inherit (vendor.says.python) tags;
      arches = vendor.says.target.arch;
      arch = if builtins.elem processor arches then processor else builtins.head arches;
      wheels = lib.genAttrs tags (python: make vendor python arch);
    in
    wheels.${if builtins.elem pythonTag tags then pythonTag else lib.last tags} // wheels;
in
{
  real = forAll real;
  skeleton = forAll (skeletonBy plainly);
  # The same once more, from another folder and by one thread: the same bytes.
  skeletonAgain = forAll (skeletonBy elsewhere);
}
