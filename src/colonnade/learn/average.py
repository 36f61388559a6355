"""A party's models as they are evaluated and handed over: averaged over its updates, or as they
are."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import nn

from colonnade.policies.average import AveragePolicy
from colonnade.record.tree import Tree


class Average:
    """Copies of a party's models that follow them; without an average, the models themselves.

    >>> from colonnade.policies.average import ema, none
    >>> layer = nn.Linear(1, 1)
    >>> Average(none(), {"top": layer}).modules["top"] is layer
    True
    >>> average = Average(ema(0.9), {"top": layer})
    >>> before = layer.weight.item()
    >>> _ = layer.weight.data.add_(11)
    >>> average.follow()
    >>> round(average.modules["top"].weight.item() - before, 4)
    9.0
    """

    def __init__(self, policy: AveragePolicy, modules: Mapping[str, nn.Module]) -> None:
        self._policy = policy
        self._live = modules
        self.modules = copy.deepcopy(dict(modules)) if policy.averages else modules
        self._updates = 0

    def follow(self) -> None:
        """After an update: θ̄ ← θ̄ + share·(θ − θ̄), for parameters and running statistics."""
        if not self._policy.averages:
            return
        self._updates += 1
        share = self._policy.share(self._updates)
        with torch.no_grad():
            for part, module in self._live.items():
                means: list[torch.Tensor] = list(self.modules[part].parameters())
                now: list[torch.Tensor] = list(module.parameters())
                if means:
                    torch._foreach_lerp_(means, now, share)
                buffers = zip(self.modules[part].buffers(), module.buffers(), strict=True)
                for mean, tensor in buffers:
                    _move(mean, tensor, share)

    def state(self) -> Tree:
        """The averages and of how many updates they are; nothing where there are none."""
        if not self._policy.averages:
            return {}
        modules = {part: dict(module.state_dict()) for part, module in self.modules.items()}
        return {"average": {"modules": modules, "updates": self._updates}}

    def restore(self, state: Tree) -> None:
        """Go on from there."""
        if self._policy.averages:
            saved = state["average"]
            for part, module in self.modules.items():
                module.load_state_dict(saved["modules"][part])
            self._updates = saved["updates"]


def _move(mean: torch.Tensor, now: torch.Tensor, share: float) -> None:
    if not now.is_floating_point():
        # A counter has no average.
        mean.copy_(now)
    else:
        # A constant stays what it is, also where it is infinite.
        mean.copy_(torch.where(mean == now, now, mean.lerp(now, share)))
