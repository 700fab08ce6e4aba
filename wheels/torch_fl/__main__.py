"""`python -m torch_fl [-m MODULE | -c CODE | SCRIPT] ARGS…`: run an unchanged program over torch_fl.

The program starts anew, with the carrier folder in front of PYTHONPATH: its `sitecustomize` puts the
finder in place before the program's first line, there and in every Python process that it starts.
"""

import os
import sys

from . import _boot

USAGE = "usage: python -m torch_fl [-m MODULE | -c CODE | SCRIPT] ARGS…"


def command():
    """The command line of the program: this one's, interpreter options included, without torch_fl."""
    place = _boot.runner_operand()
    options = sys.orig_argv[1:place] if place else []
    if place:
        # `-um torch_fl` leaves `-u`.
        cluster = sys.orig_argv[place].partition("m")[0]
        options += [cluster] if cluster != "-" else []
    return [sys.executable, *options, *sys.argv[1:]]


def notice():
    """Say that this is a skeleton: whoever runs a program on one should not learn it from its results."""
    try:
        notes = _boot.sibling("_plan").read_build(_boot.HOME).get("notes", ())
    except _boot.BootError:
        return  # the program's own import says it
    for note in notes:
        if note.startswith("skeleton: "):
            print(f"torch_fl: {note}", file=sys.stderr)


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__ if len(sys.argv) > 1 else USAGE, file=sys.stderr)
        return 0 if len(sys.argv) > 1 else 2
    if sys.flags.ignore_environment:
        print(
            "torch_fl: -I and -E make Python ignore PYTHONPATH, which carries the finder\n"
            "  next step: leave them out, or run `torchfl activate` once and the program as it is",
            file=sys.stderr,
        )
        return 2
    gate = os.path.join(_boot.HOME, "gate")
    old = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = gate + os.pathsep + old if old else gate
    notice()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed, as daemons have them
            stream.flush()
    os.execv(sys.executable, command())


sys.exit(main())
