# The functions of nixpkgs' `lib` that torch-fl calls, with the same meaning.
let
  nameValuePair = name: value: { inherit name value; };
  hasSuffix =
    suffix: text:
    let
      length = builtins.stringLength text;
      from = length - builtins.stringLength suffix;
    in
    from >= 0 && builtins.substring from length text == suffix;
  hasPrefix = prefix: text: builtins.substring 0 (builtins.stringLength prefix) text == prefix;
in
{
  inherit hasPrefix hasSuffix nameValuePair;

  removePrefix =
    prefix: text:
    if hasPrefix prefix text then builtins.substring (builtins.stringLength prefix) (-1) text else text;
  removeSuffix =
    suffix: text:
    if hasSuffix suffix text then
      builtins.substring 0 (builtins.stringLength text - builtins.stringLength suffix) text
    else
      text;

  concatMapStrings = f: list: builtins.concatStringsSep "" (map f list);
  escapeShellArg = text: "'${builtins.replaceStrings [ "'" ] [ "'\\''" ] (toString text)}'";

  last = list: builtins.elemAt list (builtins.length list - 1);
  optional = condition: value: if condition then [ value ] else [ ];
  optionals = condition: list: if condition then list else [ ];

  genAttrs = names: f: builtins.listToAttrs (map (name: nameValuePair name (f name)) names);
  filterAttrs =
    keep: set:
    removeAttrs set (builtins.filter (name: !keep name set.${name}) (builtins.attrNames set));
  mapAttrs' =
    f: set: builtins.listToAttrs (map (name: f name set.${name}) (builtins.attrNames set));
  optionalString = condition: text: if condition then text else "";
  optionalAttrs = condition: set: if condition then set else { };
}
