"""Torch's autoload of device backends, with the rivals left out and failures reported.

Torch walks the entry points of the group `torch.backends` at the end of its own initialisation, and
one that fails fails `import torch`. PrivateUse1 holds one backend a process: those that claim it
are left out, by name, without importing them. TORCH_DEVICE_BACKEND_AUTOLOAD=0 would silence all of
them, in child processes as well; so torch alone is given a shorter list, while it initialises.
"""

import importlib.metadata
import sys

GROUP = "torch.backends"


class Autoload:
    """While this context is open, torch's question for its backends is answered here."""

    def __init__(self, rivals, reports, warn):
        self._rivals = {name.replace("-", "_") for name in rivals}
        self._reports = reports
        self._warn = warn

    def __enter__(self):
        self._real = importlib.metadata.entry_points
        importlib.metadata.entry_points = self._answer

    def __exit__(self, *_):
        if importlib.metadata.entry_points == self._answer:
            importlib.metadata.entry_points = self._real

    def _answer(self, **question):
        found = self._real(**question)
        if question.get("group") != GROUP or sys._getframe(1).f_globals.get("__name__") != "torch":
            return found
        del self._reports[:]
        kept = []
        for entry in found:
            report = {"name": entry.name, "value": entry.value, "state": "left out"}
            self._reports.append(report)
            module = entry.value.partition(":")[0].partition(".")[0].strip()
            if not self._rivals & {entry.name.replace("-", "_"), module}:
                kept.append(_Backend(entry, report, self._warn))
        return kept


class _Backend:
    """An entry point that runs as in the stock torch, but whose failure is a report."""

    def __init__(self, entry, report, warn):
        self._entry, self._report, self._warn = entry, report, warn

    def __getattr__(self, name):
        return getattr(self._entry, name)

    def load(self):
        return self._run

    def _run(self):
        try:
            result = self._entry.load()()
        except Exception as error:
            self._report.update(state="failed", error=repr(error))
            self._warn(f"the backend extension {self._entry.name} failed and is left out: {error!r}")
            return None
        self._report["state"] = "ran"
        return result
