# The [[input]]s of a manifest, for one Python and one processor, as files in the store: found there by name and sum, or
# made by our own generator. What cannot be found by a name and a sum is in `unknown`.
{ lib, pkgs }:
{ vendor, python, arch, parts }:
let
  inherit (vendor.says) target torch;
  fill = builtins.replaceStrings [ "{python}" "{arch}" ] [ python arch ];

  # The key of a sum names the processor where the manifest has several.
  sumKey = if builtins.length target.arch == 1 then python else "${python}-${arch}";
  sumOf =
    input:
    let
      sums = input.sha256 or { };
    in
    if builtins.isString sums then sums else sums.${sumKey} or null;

  # A wheel's file name (the binary distribution format of PyPA) has `_` for what separates words in a distribution's.
  wheelName =
    input:
    if input ? platform then
      "${
        builtins.replaceStrings [ "-" "." ] [ "_" "_" ] input.package
      }-${input.version}-${python}-${python}-${fill input.platform}.whl"
    else
      null;
  nameOf = input: if input ? file then fill input.file else wheelName input;
  wanted = input: if input ? file then fill input.file else "${input.package} ${input.version}";
  isMade = input: lib.hasPrefix "torchfl-skeleton" (input.made or "");
  isKnown =
    input:
    let
      name = nameOf input;
    in
    isMade input || name != null && sumOf input != null && builtins.match ".*[*].*" name == null;

  # torchfl's options for what has this role.
  options = {
    front = [ "--front" ];
    sdk = [ "--sysroot" ];
    torch =
      lib.optional (torch.swap != "none") "--torch" ++ lib.optional (torch.front == "vendor") "--front";
    "with" = [ "--with" ];
  };
  words = role: path: lib.concatMapStrings (option: "words+=(${option} ${path})\n") options.${role};

  fetch =
    input: name:
    if input ? package then
      pkgs.fetchPypi
        {
          pname = builtins.replaceStrings [ "-" "." ] [ "_" "_" ] input.package;
          inherit (input) version;
          inherit python;
          abi = python;
          dist = python;
          format = "wheel";
          platform = fill input.platform;
          sha256 = sumOf input;
        }
    else
      pkgs.requireFile {
        inherit name;
        sha256 = sumOf input;
        message = ''
          ${name} is not in the Nix store (${vendor.fileName}: ${input.role}).
            from:     ${origin input}
            sha256:   ${sumOf input}
            add it:   packaging/nix/add-input.sh ${name}
        '';
      };
  origin =
    input:
    if input ? login then
      "${input.login}, after signing in"
    else
      input.made or "whoever has it; `torchfl fetch ${vendor.name} --role ${input.role} --mirror …`";

  # As a word of shell. What is given lies under its own name: the wheel records it.
  pathOf =
    input:
    if isMade input then
      "${parts}/${if input.role == "torch" then "vendor" else "stock"}/*.whl"
    else
      lib.escapeShellArg "inputs/${nameOf input}";
  link =
    input:
    lib.optionalString (!isMade input) "ln -s ${fetch input (nameOf input)} ${pathOf input}\n";

  all = vendor.says.input or [ ];
  unknown = builtins.filter (input: !isKnown input) all;
in
{
  # Shell that adds to the array `words` what torchfl is given.
  shell = ''
    mkdir inputs
    ${lib.concatMapStrings (input: link input + words input.role (pathOf input)) all}'';
  # The torch that the wheel meets, with what is installed beside it, as words of shell.
  company = map (input: if isMade input then pathOf input else "${fetch input (nameOf input)}") (
    builtins.filter (input: input.role == "with" || builtins.elem "--front" options.${input.role}) (if unknown == [ ] then all else [ ])
  );

  # The torch whose core a process runs on, likewise; none where the manifest names none.
  compiledAgainst =
    let
      role = if torch.swap == "core" || torch.front == "vendor" then "torch" else "front";
      found = builtins.filter (input: input.role == role) all;
    in
    if found == [ ] then
      ""
    else if isMade (builtins.head found) then
      pathOf (builtins.head found)
    else
      "${fetch (builtins.head found) (nameOf (builtins.head found))}";

  # Why there is nothing to give, where that is so.
  refusal =
    if all == [ ] then
      "${vendor.fileName} names no [[input]]: say what its wheel is made of.\n"
    else if unknown == [ ] then
      null
    else
      ''
        To build wheel-${vendor.name}, bring:
        ${
          lib.concatMapStrings (input: "  ${wanted input} (${input.role}), from ${origin input}\n") unknown
        }Then pin it in vendor-manifests/${vendor.fileName}, for Nix finds a file by its whole name and its sum:
          a `file` without `*` (of a `package`, its `platform`), and its `sha256` for ${sumKey}
        and add it to the store: packaging/nix/add-input.sh FILE
      '';
}
