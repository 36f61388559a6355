"""The small training that the tests share, and how far its weights are from plain modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from colonnade.testing import small as bare
from colonnade.testing.small import with_network

__all__ = ["Small", "apart", "small", "with_network"]


class Small(bare.Small):
    """A job with data and ready-made modules, and what is in the data."""

    @property
    def parties(self) -> list[str]:
        return list(self.job.parties)

    def x(self, name: str) -> torch.Tensor:
        """A party's columns of the training rows."""
        return torch.as_tensor(self.data.features[name].train)

    def y(self) -> torch.Tensor:
        """The labels of the training rows, as a column."""
        return torch.as_tensor(self.data.labels.train, dtype=torch.float64).view(-1, 1)

    def has_features(self, name: str) -> bool:
        return self.data.features[name].train is not None


def small(*args: Any, **options: Any) -> Small:
    """The small training of `colonnade.testing`."""
    return Small(**vars(bare.small(*args, **options)))


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
