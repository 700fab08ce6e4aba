"""`make vendors`: every vendor, from its manifest to an empty environment, without its hardware.

    run.py [VENDOR …] [--manifest FILE …]

By default every embedded manifest. Prints a table and the reasons for people, then, on the last lines of stdout, one
JSON object a vendor and architecture. Exits with 1 where a step failed; one that cannot be run here says why.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from row import STEPS, Row
from tools import ARCH, REPOSITORY, TAG, torchfl
from vendor import Vendor

# Compiling, packing and importing: processes that a machine of two cores takes one each of.
AT_ONCE = 2
HEADLINE = f"""\
Built and audited for all of the manifest's own Pythons and machines; installed, imported and removed on a skeleton for
{TAG} and {ARCH}, which are at hand. Of other machines only what is in C is compiled, and loaded under qemu-user."""


def vendors(names, manifests, folder):
    if not names and not manifests:
        names = [vendor["name"] for vendor in torchfl("vendor", "list")]
    return [Vendor((name,), folder) for name in names] + [Vendor.file(path, folder) for path in manifests]


def rows(of):
    """All rows, worked off by a few at a time, in the order of the manifests."""
    all_rows = [Row(vendor, arch) for vendor in of for arch in vendor.arches]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(Row.run, all_rows))


def table(done):
    """The table and the reasons, for people."""
    heads = ["vendor", "arch", *STEPS, "load", "inputs", "python"]
    cells = [[str(row.json().get(head) or "-") for head in heads] for row in done]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in [heads, *cells])
    lines = ["  ".join(line) for line in padded]
    lines += ["", HEADLINE, ""]
    for row in done:
        for step, reason in row.json()["reasons"].items():
            if step in row.state:
                lines.append(f"{row.vendor.name} {row.arch}: {step} {row.state[step]}: {reason}")
    return "\n".join(line.rstrip() for line in lines)


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vendors", nargs="*", metavar="VENDOR")
    parser.add_argument("--manifest", action="append", default=[], type=Path, metavar="FILE")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "target" / "vendors", help="what is made lies here")
    options = parser.parse_args(words)
    start = time.monotonic()
    done = rows(vendors(options.vendors, options.manifest, options.folder))
    print(table(done))
    print(f"\n{len(done)} rows in {time.monotonic() - start:.0f} s\n")
    for row in done:
        print(json.dumps(row.json()))
    return int(any(row.failed for row in done))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
