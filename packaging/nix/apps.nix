# `nix run .#torchfl -- …`, and `nix run .#demo`: which libraries a process runs on, before and after `import torch_fl`.
{ packages, pkgs }:
let
  env = packages.python-env-sim;
  sdk = "${env.wheel.parts}/opt/sim";
  demo = pkgs.runCommand "torch-fl-demo" { } ''
    mkdir -p $out/bin
    cat > $out/bin/demo <<'SCRIPT'
    #!/bin/sh
    # The sample vendor's SDK is not where its manifest says that it is on a target machine.
    export LD_LIBRARY_PATH=${sdk}/lib
    unset LD_PRELOAD PYTHONPATH TORCH_FL_REDIRECT SIM_HOME
    exec ${env}/bin/python ${../../tests/demo.py} --sdk ${sdk}
    SCRIPT
    chmod +x $out/bin/demo
  '';
  app = program: {
    type = "app";
    inherit program;
  };
in
{
  torchfl = app "${packages.torchfl}/bin/torchfl";
  demo = app "${demo}/bin/demo";
  default = app "${packages.torchfl}/bin/torchfl";
}
