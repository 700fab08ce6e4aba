"""PyTorch's own operator database through flagos: `operators PASSED/TOTAL`.

An operator is every entry of `op_db` that plain can run. It passes if flagos does the same for every dtype and
sample: forward, backward, in-place (the same object, the version counter) and `out=`. Workers take operators one by
one; a crash or a hang is the fault of the check that was under way, and loses no other.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

HERE = Path(__file__).parent
HANG = 120  # seconds without a word from a worker
WAYS = ("forward", "backward", "inplace", "out")
# What is looked at first, if time is short: the rest of the dtypes only with FULL=1.
QUICK = {"samples": 5, "more_samples": 2, "seconds": 0.4}


class Hand:
    """A worker process and what it is at."""

    def __init__(self, words, log):
        self.words, self.log = words, log
        self.order = self.begun = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "ops_worker.py"), *self.words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log,
        )  # fmt: skip
        self.buffer = b""
        self.ready = False
        self.heard = time.monotonic() + HANG  # importing the database takes its time

    def give(self, order):
        self.order, self.begun = order, None
        self.heard = time.monotonic()
        self.process.stdin.write((json.dumps(order) + "\n").encode())
        self.process.stdin.flush()

    def words_said(self):
        """The lines that have come in; None at the end of the process."""
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            return None
        self.heard = time.monotonic()
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]


class Run:
    def __init__(self, args):
        self.args = args
        self.items, self.todo, self.names = {}, None, []
        self.selector = DefaultSelector()
        args.output.parent.mkdir(parents=True, exist_ok=True)
        self.file = args.output.open("w")
        self.log = args.output.with_suffix(".log").open("w")

    def words(self):
        """The options of a worker."""
        args = self.args
        words = ["--plain", args.plain, "--dtypes", args.dtypes]
        words += ["--kernels", args.target] if args.plain != args.target else []
        if not args.full:
            words += ["--samples", str(args.samples), "--more-samples", str(args.more_samples)]
            words += ["--seconds", str(args.seconds)]
        return words

    def run(self):
        hands = [Hand(self.words(), self.log) for _ in range(self.args.workers)]
        for hand in hands:
            self.selector.register(hand.process.stdout, EVENT_READ, hand)
        end = time.monotonic() + self.args.budget if self.args.budget else None
        while self.selector.get_map():
            for key, _ in self.selector.select(timeout=2):
                self.hear(key.data)
            late = end is not None and time.monotonic() > end
            for hand in hands:
                if hand.process.poll() is None and (late or time.monotonic() - hand.heard > HANG):
                    hand.process.kill()
            if late and self.todo:
                self.todo = []
        return hands

    def hear(self, hand):
        said = hand.words_said()
        if said is None:
            self.lost(hand)
            return
        for word in said:
            if "ready" in word:
                hand.ready = True
                if self.todo is None:
                    self.names = [n for n in word["ready"] if re.search(self.args.ops, n)]
                    self.todo = [{"op": name, "done": []} for name in reversed(self.names)]
            elif "begin" in word:
                hand.begun = word["begin"]
            elif "item" in word:
                self.note(word["item"])
                hand.begun = None
            if hand.ready and ("ready" in word or "end" in word):
                self.next(hand)

    def note(self, item):
        self.items[item["op"], item["dtype"]] = item
        self.file.write(json.dumps(item) + "\n")
        self.file.flush()

    def next(self, hand):
        hand.order = None
        if self.todo:
            hand.give(self.todo.pop())
        else:
            hand.process.stdin.close()

    def lost(self, hand):
        """A worker has ended: as it should, or in the midst of a check."""
        code = hand.process.wait()
        self.selector.unregister(hand.process.stdout)
        hand.process.stdout.close()
        if hand.order is None:
            return
        order = hand.order
        if hand.begun:
            op, dtype, kind, who = hand.begun
            item = {"op": op, "dtype": dtype, "samples": 0, "seconds": 0.0, "errors": []}
            item |= {way: [0, 0, 0] for way in WAYS}
            how = "hangs" if code == -9 else f"dies ({code})"
            item["errors"].append([kind, who, how])
            if who == "flagos":
                item[kind] = [1, 0, 0]
            self.note(item)
        self.todo.append({"op": order["op"], "done": [dtype for op, dtype in self.items if op == order["op"]]})
        hand.start()
        hand.order = None
        self.selector.register(hand.process.stdout, EVENT_READ, hand)


def summary(items, names):
    """Text for people, and how many operators passed of how many."""
    able, failed, alone, unseen = set(), {}, {}, set(names)
    checks = {way: Counter() for way in WAYS}
    for (op, dtype), item in items.items():
        unseen.discard(op)
        for way in WAYS:
            plain, both, ours = item[way]
            checks[way].update(plain=plain, both=both)
            if plain:
                able.add(op)
            if both < plain:
                failed.setdefault(op, []).append((dtype, way, item))
            if ours:
                alone.setdefault(op, []).append((dtype, way, item))
    lines = [f"plain fails, flagos does not: {len(alone)}"]
    lines += [f"  {op}: {reasons(entries, 'plain')}" for op, entries in sorted(alone.items())]
    lines += [f"flagos fails, plain does not: {len(failed)}"]
    lines += [f"  {op}: {reasons(entries, 'flagos')}" for op, entries in sorted(failed.items())]
    lines += ["not seen: " + ", ".join(sorted(unseen))] if unseen else []
    counts = ", ".join(f"{way} {count['both']}/{count['plain']}" for way, count in checks.items() if count["plain"])
    lines += [f"checks: {counts}; {len(items)} pairs of operator and dtype"]
    return "\n".join(lines), len(able) - len(failed), len(able)


def reasons(entries, who):
    seen = {}
    for dtype, way, item in entries:
        for kind, blamed, text in item["errors"]:
            if kind == way and blamed == who:
                seen.setdefault((way, text[:170]), []).append(dtype.removeprefix("torch."))
    shown = [f"{way} [{' '.join(sorted(set(dtypes)))}] {text}" for (way, text), dtypes in seen.items()]
    more = f" (and {len(shown) - 2} more)" if len(shown) > 2 else ""
    return "; ".join(shown[:2]) + more


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=os.environ.get("FLAGOS_TARGET") or "cuda", help="what is under flagos")
    parser.add_argument("--plain", help="the device to compare with, if not the target itself: cpu")
    parser.add_argument("--dtypes", default="", help="float32,int64,…; all that plain supports where left out")
    parser.add_argument("--ops", default="", help="a regular expression over names")
    parser.add_argument("--samples", type=int, default=QUICK["samples"])
    parser.add_argument("--more-samples", type=int, default=QUICK["more_samples"])
    parser.add_argument("--seconds", type=float, default=QUICK["seconds"])
    parser.add_argument("--full", action="store_true", default=os.environ.get("FULL") == "1", help="every sample")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=float, default=0, help="seconds, after which the rest is left unseen")
    parser.add_argument("--at-least", type=float, default=99.5, help="per cent that must pass")
    parser.add_argument("-o", "--output", type=Path, default=Path("ops.jsonl"))
    args = parser.parse_args()
    args.plain = args.plain or args.target
    os.environ["FLAGOS_TARGET"] = args.target
    started = time.monotonic()
    run = Run(args)
    run.run()
    text, passed, total = summary(run.items, run.names)
    print(text)
    print(f"seconds: {time.monotonic() - started:.0f}")
    share = 100 * passed / total if total else 0
    print(f"operators {passed}/{total} ({share:.2f} %)", flush=True)
    sys.exit(0 if total and share >= args.at_least else 1)


if __name__ == "__main__":
    main()
