"""What moves a party's weights, and the state of torch around its models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler

from colonnade.learn.average import Average
from colonnade.methods.method import Method
from colonnade.policies.momentum import kept
from colonnade.record.tree import Tree

_SCALED = ("lr", "betas", "momentum")
"""What of an optimizer's group a method may change for an update."""


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
        average: Average,
    ) -> None:
        self._method = method
        self._optimizers = optimizers
        self._schedules = schedules
        self._per_epoch = per_epoch
        self._parties = parties
        self._clip_norm = clip_norm
        self.average = average
        self._groups = self._all_groups()
        self.parameters = [parameter for group in self._groups for parameter in group["params"]]
        self._memory: Sequence[torch.Tensor] = ()
        self._updates = 0
        self._effort: float | None = None
        self.rate = 0.0
        """The learning rate of the last update, of the party's first optimizer."""

    def _all_groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self._optimizers for group in optimizer.param_groups]

    def expect(self, updates: int) -> None:
        """So many updates are what the party did in a round, or could have done."""
        self._effort = updates * self._method.step.largest_weight(updates)

    def begin_round(self) -> None:
        """The weights at this instant are those the round started from."""
        if self._updates:
            self.expect(self._updates)
        self._updates = 0
        self._memory = self._method.step.begin(self.parameters)

    def step(self, round: int, staleness: int = 0) -> None:
        """Apply the gradients that have been gathered, at weights that so many updates of the
        party's lie behind."""
        self._updates += 1
        self._method.step.adjust(self.parameters, self._memory)
        if self._clip_norm is not None and self.parameters:
            nn.utils.clip_grad_norm_(self.parameters, self._clip_norm)
        factor = self._method.rate.factor(round, self._parties, self._effort, staleness)
        own = self._scale(factor, staleness)
        self.rate = self._groups[0]["lr"] if self._groups else 0.0
        for optimizer in self._optimizers:
            optimizer.step()
        for group, values in zip(self._groups, own, strict=False):
            group |= values
        self.forget()
        self.average.follow()

    def _scale(self, factor: float, staleness: int) -> list[dict[str, Any]]:
        """Give the optimizers the rate and the momentum of one update; what they had, if that is
        something else."""
        less_momentum = staleness > 0 and self._method.momentum != kept()
        if factor == 1.0 and not less_momentum:
            return []
        own = [{key: group[key] for key in _SCALED if key in group} for group in self._groups]
        for group in self._groups:
            group["lr"] = group["lr"] * factor
            if less_momentum:
                group |= self._momentum(group, staleness)
        return own

    def _momentum(self, group: Mapping[str, Any], staleness: int) -> dict[str, Any]:
        """A group's momentum, or Adam's first decay rate, as the method has it."""
        left = self._method.momentum.left
        if "betas" in group:
            first, *others = group["betas"]
            return {"betas": (left(first, staleness), *others)}
        return {"momentum": left(group["momentum"], staleness)} if group.get("momentum") else {}

    def forget(self) -> None:
        """Drop the gradients that have been gathered."""
        for parameter in self.parameters:
            parameter.grad = None

    def end_round(self, round: int) -> None:
        """Move the schedules on."""
        for schedule, every_round in self._schedules:
            if every_round or (round + 1) % self._per_epoch == 0:
                schedule.step()

    def state(self) -> Tree:
        """What it needs to go on from here, as it lies in memory."""
        return {
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
            "schedules": [_schedule_state(schedule) for schedule, _ in self._schedules],
            "memory": list(self._memory),
            "updates": self._updates,
            "effort": self._effort,
            "rate": self.rate,
            **self.average.state(),
        }

    def restore(self, state: Tree) -> None:
        """Go on from there; the parameters themselves are their modules'."""
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            _restore_optimizer(optimizer, saved)
        # Loading replaced the groups.
        self._groups = self._all_groups()
        for (schedule, _), saved in zip(self._schedules, state["schedules"], strict=True):
            schedule.load_state_dict(saved)
        device = self.parameters[0].device if self.parameters else None
        self._memory = [tensor.to(device) for tensor in state["memory"]]
        self._updates = state["updates"]
        self._effort = state["effort"]
        self.rate = state["rate"]
        self.average.restore(state)


def _schedule_state(schedule: lr_scheduler.LRScheduler) -> Tree:
    """Without the milestones, which the job has: they are no tree."""
    state = schedule.state_dict()
    return {name: value for name, value in state.items() if not isinstance(value, Counter)}


def _restore_optimizer(optimizer: torch.optim.Optimizer, saved: Tree) -> None:
    optimizer.load_state_dict(saved)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, own_state in saved["state"].items():
        own = optimizer.state[parameters[number]]
        for name, value in own_state.items():
            if isinstance(value, torch.Tensor):
                # Loading casts everything to the parameter's type, which not everything has.
                own[name] = own[name].to(value.dtype)


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
    generators' states costs microseconds, so parties without random layers leave them be.
    """

    def __init__(self, modules: Iterable[nn.Module], seed: int, device: torch.device) -> None:
        self._gpus = [device] if device.type == "cuda" else []
        self._states: list[torch.Tensor] | None = None
        if any(_draws(layer) for module in modules for layer in module.modules()):
            with torch.random.fork_rng(devices=self._gpus):
                torch.manual_seed(seed)
                self._states = self._get()

    def _get(self) -> list[torch.Tensor]:
        return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, self._gpus)]

    def _set(self, states: list[torch.Tensor]) -> None:
        torch.set_rng_state(states[0])
        for gpu, state in zip(self._gpus, states[1:], strict=True):
            torch.cuda.set_rng_state(state, gpu)

    def state(self) -> Tree:
        """Where its stream is; None where nothing is drawn."""
        return self._states

    def restore(self, state: Tree) -> None:
        assert (state is None) == (self._states is None)
        self._states = state

    @contextmanager
    def own(self, again: list[torch.Tensor] | None = None) -> Iterator[None]:
        """Inside, torch draws from this party's stream; or once more what it drew from a state of
        before, and the stream stays where it is."""
        if self._states is None:
            yield
            return
        outside = self._get()
        self._set(again or self._states)
        try:
            yield
        finally:
            if again is None:
                self._states = self._get()
            self._set(outside)


def _draws(layer: nn.Module) -> bool:
    dropouts = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
    own_code = not type(layer).__module__.startswith(("torch.", "colonnade."))
    return isinstance(layer, (*dropouts, nn.FeatureAlphaDropout, nn.RReLU, nn.LSTM)) or own_code
