"""Part 3: the patcher in place against patchelf, on the largest library."""

import json
import os
import shutil

from measure import Cost, Failed, measure, ratio

LIBRARY = "libtorch_cuda.so"
LONG = ":".join(f"/opt/vendor/sdk-{number:02}/lib64" for number in range(22))[:540]
# Of one length, shorter than what the library has: each run really edits, and the file keeps its size.
SHORT = ["$ORIGIN:$ORIGIN/../../torch_fl/lib_a", "$ORIGIN:$ORIGIN/../../torch_fl/lib_b"]
OURS_A_ROUND = 5


class Patching:
    def __init__(self, folder, torchfl, library, patchelf):
        self.folder, self.torchfl, self.library, self.patchelf = folder, torchfl, library, patchelf
        self.mine, self.theirs = self.copy("mine"), self.copy("theirs") if patchelf else None
        self.turn = 0

    def copy(self, name):
        path = self.folder / name
        shutil.copyfile(self.library, path)
        settle(path)
        return path

    def ours(self, path, value, wanted):
        cost = measure(self.torchfl, "--json", "patch", path, "--rpath", value)
        how = json.loads(cost.out)["how"]
        if how != wanted:
            raise Failed(f"torchfl patch did its work {how}, not {wanted}")
        return cost

    def peer(self, path, value):
        cost = measure(self.patchelf, "--force-rpath", "--set-rpath", value, path)
        settle(path)
        return cost

    def round(self, costs):
        self.turn += 1
        if self.patchelf:
            costs.setdefault("patchelf", []).append(self.peer(self.theirs, SHORT[self.turn % 2]))
        runs = [self.ours(self.mine, SHORT[(self.turn + run) % 2], "in-place") for run in range(OURS_A_ROUND)]
        # An odd number of runs, so that the next round begins with another value.
        costs.setdefault("ours", []).append(
            Cost(*(sorted(getattr(run, name) for run in runs)[OURS_A_ROUND // 2] for name in ("cpu", "wall", "peak")))
        )

    def growth(self):
        """Bytes that a 540-character path adds: ours, patchelf's."""
        before = self.library.stat().st_size
        self.ours(self.mine, LONG, "appended")
        grown = [self.mine.stat().st_size - before]
        if self.patchelf:
            self.peer(self.theirs, LONG)
            grown.append(self.theirs.stat().st_size - before)
        return grown


def settle(path):
    """Dirty pages of one step must not be written in another one's time."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def report(costs, growth, size, paper):
    paper.part(f"The patcher in place: {LIBRARY}, {size:,} bytes")
    paper.row("torchfl patch --rpath", costs["ours"])
    if "patchelf" in costs:
        paper.row("patchelf --force-rpath --set-rpath", costs["patchelf"])
        for name, label in (("cpu", "CPU"), ("wall", "wall")):
            factor = ratio(costs["patchelf"], costs["ours"], name)
            paper.gate(f"{label}, patchelf / torchfl", factor, f"{factor:.0f}", "at least 50", factor >= 50)
    text = " bytes, patchelf's by ".join(f"{count:,}" for count in growth)
    paper.line("a path of 540 characters grows the file by", growth, text)
