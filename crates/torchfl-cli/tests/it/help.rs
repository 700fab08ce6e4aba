//! The help text of each command, pinned. `docs/reference/cli.md` is made from the same definitions.

use crate::context::Context;

#[test]
fn no_command() {
    insta::assert_snapshot!(Context::new().run(""), @r"
    exit: 2
    --- stdout
    --- stderr
    Turn a vendor's torch into one self-contained, reproducible wheel that runs under the stock PyTorch

    Usage: torchfl [OPTIONS] <COMMAND>

    Commands:
      build       Write a vendor's wheel
      fetch       Get what a vendor's build starts from, or say who has it
      audit       Judge a wheel before it ships: will it load, beside this torch, on that machine?
      closure     Resolve what an installer would bring beside a wheel: has `triton/` one owner, and the
                  right one
      why         Say why a library is found where it is, or what a symbol is bound to
      core-gap    Say what of a fork's core the stock core lacks
      shim        Generate the libraries of a manifest's [[shim]] alone, to look at them
      snapshot    Keep what a machine's libraries export in one small file, to audit wheels without the
                  machine
      inspect     Show what an ELF file or a wheel says of itself
      patch       Change the search path (RPATH or RUNPATH) of a library or program
      vendor      List, show, check or start vendor manifests
      ci          Say what CI builds and tests where, and write workflows that do it
      activate    Put torch_fl in front of every program of a Python environment, by one .pth file
      deactivate  Take that .pth file away
      facade      Publish a torch tree of symlinks (the facade) for a build system to compile against

    Options:
          --json     Print data as JSON on stdout, errors too
      -q, --quiet    Print nothing but errors on stderr
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version
    ");
}

#[test]
fn torchfl() {
    insta::assert_snapshot!(Context::new().run("--help"), @r"
    exit: 0
    --- stdout
    Turn a vendor's torch into one self-contained, reproducible wheel that runs under the stock PyTorch.

    Exit codes: 0 done; 1 the thing asked about is not right (findings); 2 it could not be done, or the
    command line is wrong. Data goes to stdout, everything for people to stderr.

    Usage: torchfl [OPTIONS] <COMMAND>

    Commands:
      build       Write a vendor's wheel
      fetch       Get what a vendor's build starts from, or say who has it
      audit       Judge a wheel before it ships: will it load, beside this torch, on that machine?
      closure     Resolve what an installer would bring beside a wheel: has `triton/` one owner, and the
                  right one
      why         Say why a library is found where it is, or what a symbol is bound to
      core-gap    Say what of a fork's core the stock core lacks
      shim        Generate the libraries of a manifest's [[shim]] alone, to look at them
      snapshot    Keep what a machine's libraries export in one small file, to audit wheels without the
                  machine
      inspect     Show what an ELF file or a wheel says of itself
      patch       Change the search path (RPATH or RUNPATH) of a library or program
      vendor      List, show, check or start vendor manifests
      ci          Say what CI builds and tests where, and write workflows that do it
      activate    Put torch_fl in front of every program of a Python environment, by one .pth file
      deactivate  Take that .pth file away
      facade      Publish a torch tree of symlinks (the facade) for a build system to compile against

    Options:
          --json
              Print data as JSON on stdout, errors too

      -q, --quiet
              Print nothing but errors on stderr

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version
    --- stderr
    ");
}

#[test]
fn version() {
    insta::assert_snapshot!(Context::new().run("--version"), @r"
    exit: 0
    --- stdout
    torchfl [VERSION]
    --- stderr
    ");
}

#[test]
fn build() {
    insta::assert_snapshot!(Context::new().run("build --help"), @r"
    exit: 0
    --- stdout
    Write a vendor's wheel

    Usage: torchfl build [OPTIONS] <VENDOR|--manifest <FILE>>

    Arguments:
      [VENDOR]  A built-in vendor, as `torchfl vendor list` shows them

    Options:
          --json                       Print data as JSON on stdout, errors too
          --manifest <FILE>            A manifest of your own
      -q, --quiet                      Print nothing but errors on stderr
          --torch <WHEEL|DIR>          The vendor's torch: a wheel file, or the site-packages folder it
                                       is installed in; none where swap is `none`
          --front <WHEEL|DIR>          The torch that the wheel will meet; of the fork's headers only
                                       those that differ from its are bundled
          --sdk-root <DIR>             Where the vendor's SDK lies on the target machine; by default the
                                       manifest's first path
          --threads <N>                Threads that compress; the wheel's bytes do not depend on it
                                       [default: all processors, 16 at most]
          --compression <COMPRESSION>  How hard to compress [default: normal] [possible values: fast,
                                       normal]
      -o, --output <DIR>               The folder to write the wheel and its constraints into [default:
                                       dist]
          --dry-run                    Print the plan, and write nothing
      -h, --help                       Print help

    The plugin:
          --plugin <SO>               The plugin's library; without one the wheel carries none, and says
                                      so
          --plugin-from-source <DIR>  Build the plugin from this project's source, against the torch
                                      whose core the wheel runs on
          --python-include <DIR>      The folder with the headers (Python.h) of the Python that the
                                      wheel is for

    What to build:
          --python <TAG>
              The Python to build for; by default the one that the vendor's torch was built for, or the
              one that is met
          --local <TAG>
              The version's local part, in place of vendor and SDK
          --post <N>
              Our own revision of the same torch release: `.postN`
          --metadata-version <METADATA_VERSION>
              METADATA's version; 2.3 for indexes that refuse 2.4 [default: 2.4] [possible values: 2.3,
              2.4]
          --allow-unlicensed <NAME>
              Let a part without a licence file through; recorded in the wheel
          --cc <PROGRAM>
              The C compiler that makes shims: one program, for the machine of the wheel [default: $CC,
              else cc, or ARCH-linux-gnu-gcc where that is another machine]

    What to prove it with:
          --with <WHEEL|DIR>         What is installed beside the wheel, as wheels or site-packages
                                     folders: proves what `[[provided]]` says
          --sysroot <DIR|SNAPSHOT>   A tree or a snapshot of the target machine: proves what `[host]`
                                     and the platform tag say
          --require-proof            Refuse what would be taken on somebody's word
          --allow-unresolved <NAME>  Let a symbol or library stay unresolved; recorded in the wheel
    --- stderr
    ");
}

#[test]
fn fetch() {
    insta::assert_snapshot!(Context::new().run("fetch --help"), @r"
    exit: 0
    --- stdout
    Get what a vendor's build starts from, or say who has it

    Usage: torchfl fetch [OPTIONS] <VENDOR|--manifest <FILE>>

    Arguments:
      [VENDOR]  A built-in vendor, as `torchfl vendor list` shows them

    Options:
          --json                   Print data as JSON on stdout, errors too
          --manifest <FILE>        A manifest of your own
      -q, --quiet                  Print nothing but errors on stderr
          --role <ROLE>            Only the inputs of this role: torch, front, with, sdk [default: all]
                                   [possible values: torch, front, with, sdk]
          --python <TAG>           The Python to build for; by default the manifest's, where it offers
                                   one
          --arch <ARCH>            The processor to build for; by default the manifest's, where it
                                   offers one, else this machine's
          --dest <DIR>             The folder that files appear in [default: inputs]
          --mirror <URL|DIR>       Where files may be: a folder, or an address (https, http, file) that
                                   has them under their names; the earlier one is asked first
          --sha256 <NAME=SUM>      A sum that the manifest does not have, or another one: of a role, a
                                   package or a file
          --allow-unhashed <NAME>  Take what comes, where nobody says its sum: a role, a package or a
                                   file
          --offline                Do not touch the network: what is in DIR and in folders counts
          --dry-run                Say what is there and where the rest would be asked for, and bring
                                   nothing
      -h, --help                   Print help

    How to get there:
          --installer <INSTALLER>  Who asks a package index [default: pip, or uv where there is no pip]
                                   [possible values: pip, uv]
          --interpreter <PY>       The Python whose pip is run [default: python3]
          --index-url <URL>        The package index, in place of the one that pip is set up with
          --ca-file <FILE>         Certificates that are trusted beside the system's, in PEM
          --retries <N>            How often a file is tried again without having come further [default:
                                   4]
          --timeout <SECONDS>      Seconds that a connection may take, and that a server may send
                                   nothing [default: 30]
    --- stderr
    ");
}

#[test]
fn audit() {
    insta::assert_snapshot!(Context::new().run("audit --help"), @r"
    exit: 0
    --- stdout
    Judge a wheel before it ships: will it load, beside this torch, on that machine?

    Usage: torchfl audit [OPTIONS] <WHEEL>

    Arguments:
      <WHEEL>  The wheel, or a site-packages folder with torch_fl in it

    Options:
          --json         Print data as JSON on stdout, errors too
      -q, --quiet        Print nothing but errors on stderr
          --threads <N>  Threads that read [default: all processors, 16 at most]
          --hashes       Compare every file with its hash in RECORD, too
      -h, --help         Print help

    What to prove it with:
          --torch <WHEEL|DIR>        The torch that it meets: a wheel file, or the site-packages folder
                                     it is installed in
          --with <WHEEL|DIR>         What is installed beside it: a wheel file, or a site-packages
                                     folder
          --sysroot <DIR|SNAPSHOT>   The target machine: a tree of its files, or a snapshot; the earlier
                                     one wins
          --require-proof            Take nothing on anybody's word: what is not seen in a file is an
                                     error
          --allow-unresolved <NAME>  A library or symbol that may stay unresolved
    --- stderr
    ");
}

#[test]
fn why() {
    insta::assert_snapshot!(Context::new().run("why --help"), @r"
    exit: 0
    --- stdout
    Say why a library is found where it is, or what a symbol is bound to

    Usage: torchfl why [OPTIONS] <WHEEL> <NAME>

    Arguments:
      <WHEEL>  The wheel, or a site-packages folder with torch_fl in it
      <NAME>   A library's file name, SONAME or path, or a symbol's name as `nm -D` prints it

    Options:
          --json         Print data as JSON on stdout, errors too
      -q, --quiet        Print nothing but errors on stderr
          --threads <N>  Threads that read [default: all processors, 16 at most]
      -h, --help         Print help

    What to prove it with:
          --torch <WHEEL|DIR>       The torch that it meets: a wheel file, or the site-packages folder
                                    it is installed in
          --with <WHEEL|DIR>        What is installed beside it: a wheel file, or a site-packages folder
          --sysroot <DIR|SNAPSHOT>  The target machine: a tree of its files, or a snapshot; the earlier
                                    one wins
    --- stderr
    ");
}

#[test]
fn core_gap() {
    insta::assert_snapshot!(Context::new().run("core-gap --help"), @r"
    exit: 0
    --- stdout
    Say what of a fork's core the stock core lacks

    Usage: torchfl core-gap [OPTIONS] --vendor <WHEEL|DIR> --stock <WHEEL|DIR>

    Options:
          --json                Print data as JSON on stdout, errors too
          --vendor <WHEEL|DIR>  The vendor's torch: a wheel file, or the site-packages folder it is
                                installed in
      -q, --quiet               Print nothing but errors on stderr
          --stock <WHEEL|DIR>   The stock torch of the same release
          --plugin <SO>         A plugin that was compiled against the vendor's headers
          --threads <N>         Threads that read [default: all processors, 16 at most]
      -h, --help                Print help
    --- stderr
    ");
}

#[test]
fn inspect() {
    insta::assert_snapshot!(Context::new().run("inspect --help"), @r"
    exit: 0
    --- stdout
    Show what an ELF file or a wheel says of itself

    Usage: torchfl inspect [OPTIONS] <FILE>

    Arguments:
      <FILE>  An ELF file or a wheel

    Options:
          --json   Print data as JSON on stdout, errors too
      -q, --quiet  Print nothing but errors on stderr
      -h, --help   Print help
    --- stderr
    ");
}

#[test]
fn patch() {
    insta::assert_snapshot!(Context::new().run("patch --help"), @r"
    exit: 0
    --- stdout
    Change the search path (RPATH or RUNPATH) of a library or program

    Usage: torchfl patch [OPTIONS] <--runpath <PATH>|--rpath <PATH>|--remove> <FILE>

    Arguments:
      <FILE>  The library or program

    Options:
          --json            Print data as JSON on stdout, errors too
          --runpath <PATH>  Set DT_RUNPATH (not inherited by dependencies; LD_LIBRARY_PATH beats it)
      -q, --quiet           Print nothing but errors on stderr
          --rpath <PATH>    Set DT_RPATH (inherited by dependencies; beats LD_LIBRARY_PATH)
          --remove          Remove both
      -o, --output <OUT>    Write a new file, and leave FILE as it is
      -h, --help            Print help
    --- stderr
    ");
}

#[test]
fn vendor() {
    insta::assert_snapshot!(Context::new().run("vendor --help"), @r"
    exit: 0
    --- stdout
    List, show, check or start vendor manifests

    Usage: torchfl vendor [OPTIONS] <COMMAND>

    Commands:
      list    The built-in vendors
      show    A manifest as the build uses it: resolved
      check   Say what is wrong with a manifest, and which facts it leaves open
      add     Start a new manifest
      schema  Print the manifests' JSON schema

    Options:
          --json   Print data as JSON on stdout, errors too
      -q, --quiet  Print nothing but errors on stderr
      -h, --help   Print help
    --- stderr
    ");
}

#[test]
fn vendor_list() {
    insta::assert_snapshot!(Context::new().run("vendor list --help"), @r"
    exit: 0
    --- stdout
    The built-in vendors

    Usage: torchfl vendor list [OPTIONS]

    Options:
          --json   Print data as JSON on stdout, errors too
      -q, --quiet  Print nothing but errors on stderr
      -h, --help   Print help
    --- stderr
    ");
}

#[test]
fn vendor_show() {
    insta::assert_snapshot!(Context::new().run("vendor show --help"), @r"
    exit: 0
    --- stdout
    A manifest as the build uses it: resolved

    Usage: torchfl vendor show [OPTIONS] <VENDOR|--manifest <FILE>>

    Arguments:
      [VENDOR]  A built-in vendor, as `torchfl vendor list` shows them

    Options:
          --json             Print data as JSON on stdout, errors too
          --manifest <FILE>  A manifest of your own
      -q, --quiet            Print nothing but errors on stderr
          --source           Print the manifest's own text
      -h, --help             Print help
    --- stderr
    ");
}

#[test]
fn vendor_check() {
    insta::assert_snapshot!(Context::new().run("vendor check --help"), @r"
    exit: 0
    --- stdout
    Say what is wrong with a manifest, and which facts it leaves open

    Usage: torchfl vendor check [OPTIONS] <VENDOR|--manifest <FILE>>

    Arguments:
      [VENDOR]  A built-in vendor, as `torchfl vendor list` shows them

    Options:
          --json             Print data as JSON on stdout, errors too
          --manifest <FILE>  A manifest of your own
      -q, --quiet            Print nothing but errors on stderr
      -h, --help             Print help
    --- stderr
    ");
}

#[test]
fn vendor_add() {
    insta::assert_snapshot!(Context::new().run("vendor add --help"), @r"
    exit: 0
    --- stdout
    Start a new manifest

    Usage: torchfl vendor add [OPTIONS] <NAME>

    Arguments:
      <NAME>  The vendor's name

    Options:
          --from <VENDOR>  A built-in vendor to start from
          --json           Print data as JSON on stdout, errors too
      -o, --output <FILE>  The file to write [default: NAME.toml]
      -q, --quiet          Print nothing but errors on stderr
      -h, --help           Print help
    --- stderr
    ");
}

#[test]
fn vendor_schema() {
    insta::assert_snapshot!(Context::new().run("vendor schema --help"), @r"
    exit: 0
    --- stdout
    Print the manifests' JSON schema

    Usage: torchfl vendor schema [OPTIONS]

    Options:
          --json   Print data as JSON on stdout, errors too
      -q, --quiet  Print nothing but errors on stderr
      -h, --help   Print help
    --- stderr
    ");
}

#[test]
fn ci_matrix() {
    insta::assert_snapshot!(Context::new().run("ci matrix --help"), @r"
    exit: 0
    --- stdout
    Every wheel that the manifests offer: vendor, torch, Python and processor, its runner, inputs and
    tests

    Usage: torchfl ci matrix [OPTIONS]

    Options:
          --json             Print data as JSON on stdout, errors too
      -q, --quiet            Print nothing but errors on stderr
          --format <FORMAT>  For a machine: all that is known of each, or what a job's matrix takes,
                             without wheels that have no runner [default: a table for people] [possible
                             values: json, github, gitlab]
      -h, --help             Print help

    Which wheels:
          --vendor <VENDOR>  Only this vendor's [default: all]
          --manifest <FILE>  A manifest of your own, beside the built-in ones; it replaces the one of
                             its name
          --status <STATUS>  Only vendors that are trusted so far: stable, beta, experimental,
                             runtime-only [default: all] [possible values: stable, beta, experimental,
                             runtime-only]
          --python <TAG>     Only for this Python [default: all]
          --arch <ARCH>      Only for this processor [default: all]
    --- stderr
    ");
}

#[test]
fn ci_workflow() {
    insta::assert_snapshot!(Context::new().run("ci workflow --help"), @r"
    exit: 0
    --- stdout
    Write the workflow that builds and tests them, or say where a written one differs

    Usage: torchfl ci workflow [OPTIONS] --format <FORMAT>

    Options:
          --json             Print data as JSON on stdout, errors too
      -q, --quiet            Print nothing but errors on stderr
          --format <FORMAT>  The service that runs it [possible values: github, gitlab]
      -o, --output <DIR>     The folder of the workflow [default: ci/github or ci/gitlab]
          --check            Write nothing, and say whether what is there is what would be written
      -h, --help             Print help

    Which wheels:
          --vendor <VENDOR>  Only this vendor's [default: all]
          --manifest <FILE>  A manifest of your own, beside the built-in ones; it replaces the one of
                             its name
          --status <STATUS>  Only vendors that are trusted so far: stable, beta, experimental,
                             runtime-only [default: all] [possible values: stable, beta, experimental,
                             runtime-only]
          --python <TAG>     Only for this Python [default: all]
          --arch <ARCH>      Only for this processor [default: all]
    --- stderr
    ");
}

#[test]
fn activate() {
    insta::assert_snapshot!(Context::new().run("activate --help"), @r"
    exit: 0
    --- stdout
    Put torch_fl in front of every program of a Python environment, by one .pth file

    Usage: torchfl activate [OPTIONS]

    Options:
          --json         Print data as JSON on stdout, errors too
          --python <PY>  The environment's interpreter [default: python3]
      -q, --quiet        Print nothing but errors on stderr
      -h, --help         Print help
    --- stderr
    ");
}

#[test]
fn deactivate() {
    insta::assert_snapshot!(Context::new().run("deactivate --help"), @r"
    exit: 0
    --- stdout
    Take that .pth file away

    Usage: torchfl deactivate [OPTIONS]

    Options:
          --json         Print data as JSON on stdout, errors too
          --python <PY>  The environment's interpreter [default: python3]
      -q, --quiet        Print nothing but errors on stderr
      -h, --help         Print help
    --- stderr
    ");
}

#[test]
fn facade() {
    insta::assert_snapshot!(Context::new().run("facade --help"), @r"
    exit: 0
    --- stdout
    Publish a torch tree of symlinks (the facade) for a build system to compile against

    Usage: torchfl facade [OPTIONS] <FOLDER>

    Arguments:
      <FOLDER>  The folder to publish; it must not exist, or be a facade

    Options:
          --json         Print data as JSON on stdout, errors too
          --python <PY>  The environment's interpreter [default: python3]
      -q, --quiet        Print nothing but errors on stderr
      -h, --help         Print help
    --- stderr
    ");
}

#[test]
fn a_command_that_there_is_not() {
    insta::assert_snapshot!(Context::new().run("bild sim"), @r"
    exit: 2
    --- stdout
    --- stderr
    error: unrecognized subcommand 'bild'

      tip: a similar subcommand exists: 'build'

    Usage: torchfl [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}
