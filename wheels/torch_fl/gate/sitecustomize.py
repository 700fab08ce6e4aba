"""Runs at interpreter start where the carrier folder is on PYTHONPATH (`python -m torch_fl`)."""

import torch_fl_gate

torch_fl_gate.enter()
torch_fl_gate.run_next_sitecustomize()
