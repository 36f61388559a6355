"""What moves a party's weights, and the state of torch around its models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch.optim import lr_scheduler

from colonnade.party.method import Method


class Trainer:
    """A party's parameters and everything that moves them."""

    def __init__(
        self,
        method: Method,
        optimizers: Sequence[torch.optim.Optimizer],
        schedules: Sequence[tuple[lr_scheduler.LRScheduler, bool]],
        per_epoch: int,
        parties: int,
        clip_norm: float | None,
    ) -> None:
        self._method = method
        self._optimizers = optimizers
        self._schedules = schedules
        self._per_epoch = per_epoch
        self._parties = parties
        self._clip_norm = clip_norm
        self._groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        self.parameters = [parameter for group in self._groups for parameter in group["params"]]
        self._memory: Sequence[torch.Tensor] = ()
        self._updates = 0
        self._effort: float | None = None
        self.rate = 0.0
        """The learning rate of the last update, of the party's first optimizer."""

    def expect(self, updates: int) -> None:
        """So many updates are what the party did in a round, or could have done."""
        self._effort = updates * self._method.step.largest_weight(updates)

    def begin_round(self) -> None:
        """The weights at this instant are those the round started from."""
        if self._updates:
            self.expect(self._updates)
        self._updates = 0
        self._memory = self._method.step.begin(self.parameters)

    def step(self, round: int) -> None:
        """Apply the gradients that have been gathered."""
        self._updates += 1
        self._method.step.adjust(self.parameters, self._memory)
        if self._clip_norm is not None and self.parameters:
            nn.utils.clip_grad_norm_(self.parameters, self._clip_norm)
        factor = self._method.rate.factor(round, self._parties, self._effort)
        rates = [group["lr"] for group in self._groups]
        if factor != 1.0:
            for group in self._groups:
                group["lr"] = group["lr"] * factor
        self.rate = self._groups[0]["lr"] if self._groups else 0.0
        for optimizer in self._optimizers:
            optimizer.step()
        if factor != 1.0:
            for group, rate in zip(self._groups, rates, strict=True):
                group["lr"] = rate
        self.forget()

    def forget(self) -> None:
        """Drop the gradients that have been gathered."""
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)

    def end_round(self, round: int) -> None:
        """Move the schedules on."""
        for schedule, every_round in self._schedules:
            if every_round or (round + 1) % self._per_epoch == 0:
                schedule.step()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients, and training mode again afterwards."""
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train()


class Randomness:
    """A party's own stream of torch's random numbers, for dropout.

    Several simulated parties share a process; each must draw as if it were alone. Swapping the
    generator's state costs microseconds, so parties without random layers leave it be.
    """

    def __init__(self, modules: Iterable[nn.Module], seed: int) -> None:
        self._state: torch.Tensor | None = None
        if any(_draws(layer) for module in modules for layer in module.modules()):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                self._state = torch.get_rng_state()

    @contextmanager
    def own(self) -> Iterator[None]:
        """Inside, torch draws from this party's stream."""
        if self._state is None:
            yield
            return
        outside = torch.get_rng_state()
        torch.set_rng_state(self._state)
        try:
            yield
        finally:
            self._state = torch.get_rng_state()
            torch.set_rng_state(outside)


def _draws(layer: nn.Module) -> bool:
    dropouts = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
    own_code = not type(layer).__module__.startswith(("torch.", "colonnade."))
    return isinstance(layer, (*dropouts, nn.FeatureAlphaDropout, nn.RReLU, nn.LSTM)) or own_code
