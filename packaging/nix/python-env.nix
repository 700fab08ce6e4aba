# A read-only environment: the torch that the wheel meets, the wheel, and the facade between them, so that nothing has to
# be written when it runs. `bin/python` is the interpreter, as of a virtual environment. What else torch imports is given
# as wheels, `python-env-acme.withWheels [ … ]`, or found through PYTHONPATH.
{ lib, pkgs }:
wheel:
let
  number = lib.removePrefix "cp" wheel.python;
  # The Python at hand, or nixpkgs' own one for another tag.
  here = builtins.replaceStrings [ "." ] [ "" ] pkgs.python3.pythonVersion == number;
  interpreter = if here then pkgs.python3 else pkgs."python${number}" or null;
  make =
    wheels:
    pkgs.runCommand "python-env-${wheel.vendor}-${wheel.python}"
      {
        passthru = {
          inherit wheel;
          withWheels = make;
        };
      }
      (
        if interpreter == null then
          "echo 'there is no Python for ${wheel.python} among these packages' >&2; exit 1"
        else
          ''
            shopt -s nullglob
            ${interpreter}/bin/python3 ${./compose.py} $out ${
              builtins.concatStringsSep " " (wheel.company ++ wheels)
            } ${wheel}/*.whl
          ''
      );
in
make [ ]
