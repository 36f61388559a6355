"""The small training that the tests share, and how far its weights are from plain modules."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from colonnade.testing.small import Small, small, with_network

__all__ = ["Small", "apart", "small", "with_network"]


def apart(run_weights: dict[str, dict[str, torch.Tensor]], modules: dict[str, nn.Module],
          active: str) -> float:  # fmt: skip
    """The largest difference between a run's weights and those of plain modules."""
    differences = [0.0]
    for party, weights in run_weights.items():
        for name, tensor in weights.items():
            part, _, key = name.partition(".")
            module = modules["top"] if part == "top" else modules[party]
            assert part != "top" or party == active
            differences.append((module.state_dict()[key] - tensor).abs().max().item())
    count = sum(len(weights) for weights in run_weights.values())
    assert count == sum(len(module.state_dict()) for module in modules.values())
    return float(np.max(differences))
