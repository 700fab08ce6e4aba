"""Runs programs and says what they took: CPU time, wall time, peak memory; medians and ratios of rounds."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20


class Failed(Exception):
    """A program that was to be measured did not do its work."""


@dataclass
class Cost:
    """`cpu` is user and system time of the process and its children, in seconds; `peak` is resident bytes."""

    cpu: float = 0.0
    wall: float = 0.0
    peak: int = 0
    bytes: int | None = None
    out: str = ""

    def __add__(self, other):
        """One after the other."""
        size = other.bytes if other.bytes is not None else self.bytes
        return Cost(self.cpu + other.cpu, self.wall + other.wall, max(self.peak, other.peak), size)


def measure(*command, **options):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err, **options
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            raise Failed(f"{Path(command[0]).name} ended with {process.returncode}: {err.read().decode()[-2000:]}")
        return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024, out=out.read().decode())


def floor():
    """The least peak that `measure` can see: Linux counts this process's own memory until a child's exec."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def median(costs):
    middle = {name: statistics.median(getattr(cost, name) for cost in costs) for name in ("cpu", "wall")}
    return Cost(**middle, peak=max(cost.peak for cost in costs), bytes=costs[-1].bytes)


def ratio(these, those, name):
    """How many times more `these` took: the median of the rounds' ratios, as a round's halves ran side by side."""
    return statistics.median(getattr(a, name) / getattr(b, name) for a, b in zip(these, those, strict=True))


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


class Report:
    """What is printed and written as JSON."""

    def __init__(self):
        self.parts, self.gates, self.not_run = [], [], []

    def part(self, title):
        self.parts.append({"title": title, "rows": [], "lines": []})

    def row(self, name, costs):
        """A line of the table; returns the medians."""
        cost = median(costs)
        row = {"what": name, "cpu_s": cost.cpu, "wall_s": cost.wall, "peak_bytes": cost.peak, "bytes": cost.bytes}
        self.parts[-1]["rows"].append(row)
        return cost

    def line(self, name, value, text):
        self.parts[-1]["lines"].append({"what": name, "value": value, "text": text})

    def gate(self, name, value, text, bound, passed):
        """A line that the exit status depends on."""
        self.line(name, value, text)
        self.gates.append({"what": name, "value": value, "bound": bound, "passed": passed})

    def absent(self, what, why):
        self.not_run.append(f"not run: {what}: {why}")
        say(self.not_run[-1])

    def text(self):
        lines = []
        for part in self.parts:
            lines += [f"### {part['title']}", ""]
            if part["rows"]:
                lines += ["| | CPU s | wall s | peak MiB | bytes |", "|---|---:|---:|---:|---:|"]
                lines += [self._row(row) for row in part["rows"]] + [""]
            bounds = {gate["what"]: gate for gate in self.gates}
            for line in part["lines"]:
                gate = bounds.get(line["what"])
                verdict = f" ({gate['bound']}: {'passed' if gate['passed'] else 'MISSED'})" if gate else ""
                lines.append(f"* {line['what']}: {line['text']}{verdict}")
            lines.append("")
        return "\n".join(lines + self.not_run)

    @staticmethod
    def _row(row):
        small = row["peak_bytes"] <= floor()
        peak = f"{'< ' if small else ''}{row['peak_bytes'] / MIB:.0f}" if row["peak_bytes"] else ""
        size = f"{row['bytes']:,}" if row["bytes"] is not None else ""
        return f"| {row['what']} | {row['cpu_s']:.3g} | {row['wall_s']:.3g} | {peak} | {size} |"
