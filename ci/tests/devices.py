"""Are the chip's device nodes there? DEVICES has their globs; a container sees only those that it was given."""

import glob
import os
import sys

wanted = os.environ.get("DEVICES", "").split()
seen = {pattern: sorted(glob.glob(pattern)) for pattern in wanted}
for pattern, nodes in seen.items():
    print(f"{pattern}: {', '.join(nodes) or 'no node'}")
if not wanted:
    print("no manifest says which nodes the chip has: nothing was looked for")
sys.exit(any(not nodes for nodes in seen.values()))
