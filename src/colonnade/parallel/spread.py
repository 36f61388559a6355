"""A party that outgrows one process: every rank of `torchrun` computes its slice of the batch.

Rank 0 is the party: it speaks on the wire, and has the weights, the optimizers and the random
state. Its modules look as before, but all ranks compute them: rank 0 sends the weights that it
sees at that moment and to each rank its rows, each rank runs its own copy of the module under
DistributedDataParallel, and rank 0 puts the rows together. In the backward pass the ranks add up
their gradients. The others have nothing that rank 0 could not send again.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from colonnade.errors import JobError
from colonnade.parallel.group import BACKWARD, END, FORWARD, Order, Ranks
from colonnade.parallel.replica import DTYPES, Replica, size_of, state_of

PARTS = ("bottom", "top")
"""The models of a party."""
Builder = Callable[[tuple[tuple[int, ...], ...]], nn.Module]
"""Makes a model for inputs whose rows have these shapes."""


class Spreader:
    """At rank 0: lets all ranks compute the models that it is called with.

    A model stays the same object with the same parameters. Called again for the same part, as
    after a restart, it takes the new model in place of the old one.
    """

    def __init__(self, ranks: Ranks, parts: Sequence[str] = PARTS) -> None:
        self._ranks = ranks
        self._parts = parts
        self._replicas: dict[str, Replica] = {}

    def __call__(self, part: str, module: nn.Module) -> nn.Module:
        """Spread the model of a part; one without weights is not worth the way."""
        if next(module.parameters(), None) is None:
            return module
        if self._ranks.device.type != "cuda":
            refuse_batch_norm(part, module)
        if part not in self._replicas:
            self._replicas[part] = Replica(module, self._parts.index(part), self._ranks)
        kind = type(module)
        module.__class__ = type(kind.__name__, (Spread, kind), {"__module__": kind.__module__})
        vars(module)["_replica"] = self._replicas[part]
        return module


def serve(ranks: Ranks, builders: Mapping[str, Builder], parts: Sequence[str] = PARTS) -> None:
    """At the other ranks: do what rank 0 orders, until it ends.

    The builders make the models of rank 0; their weights do not matter.
    """
    # Who stops a party means rank 0, and that one may need the others to come to rest.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    replicas: dict[int, Replica] = {}
    while (order := ranks.next()).kind != END:
        with ranks.ordered():
            if order.part not in replicas:
                module = builders[parts[order.part]](order.shapes)
                replicas[order.part] = Replica(module, order.part, ranks)
            replica = replicas[order.part]
            if order.kind == FORWARD or order.again:
                replica.forward(order)
            if order.kind == FORWARD:
                replica.output(order)
            else:
                replica.backward(order)


def refuse_batch_norm(part: str, module: nn.Module) -> None:
    """Batch norm needs the statistics of the whole batch, and torch shares them on GPUs only.

    >>> refuse_batch_norm("bottom", nn.Sequential(nn.Linear(2, 2), nn.GroupNorm(1, 2)))
    """
    for name, layer in module.named_modules():
        if isinstance(layer, _BatchNorm):
            raise JobError(
                f"layer '{name}' of the {part} model is a {type(layer).__name__}, whose statistics "
                "several processes share on GPUs only: use group norm, or leave torchrun out"
            )


class Spread(nn.Module):
    """Mixed into the class of a module by a `Spreader`; all ranks compute its forward pass."""

    _replica: Replica

    def forward(self, given: torch.Tensor | Sequence[torch.Tensor]) -> torch.Tensor:
        """What the module itself would return."""
        inputs = [given] if isinstance(given, torch.Tensor) else list(given)
        replica, rows = self._replica, len(inputs[0])
        if rows < replica.ranks.size:
            output: torch.Tensor = super().forward(given)
            return output
        parameters, graph = list(self.parameters()), torch.is_grad_enabled()
        theirs = zip(parameters, replica.module.parameters(), strict=True)
        assert all(q.requires_grad >= p.requires_grad for p, q in theirs), "thawed too late"
        order = Order(
            FORWARD,
            part=replica.part,
            call=next(replica.calls),
            training=int(self.training),
            parameters=int(graph and any(tensor.requires_grad for tensor in parameters)),
            inputs=int(graph and any(tensor.requires_grad for tensor in inputs)),
            # Drawn here, so that the ranks' random layers go by the party's own stream.
            seed=int(torch.randint(2**62, ())) if self.training else 0,
            state=size_of(state_of(self)),
            rows=rows,
            dtype=DTYPES.index(reduce(torch.promote_types, [tensor.dtype for tensor in inputs])),
            listed=int(not isinstance(given, torch.Tensor)),
            shapes=tuple(tuple(tensor.shape[1:]) for tensor in inputs),
        )
        output = Pass.apply(self, order, *inputs, *parameters)  # type: ignore[no-untyped-call]
        if self.training:
            with torch.no_grad():
                for own, counted in zip(self.buffers(), replica.module.buffers(), strict=True):
                    own.copy_(counted)
        return output


class Pass(torch.autograd.Function):
    """The forward and backward pass of all ranks together, as one step of rank 0's graph."""

    @staticmethod
    def forward(ctx: Any, module: Spread, order: Order, *tensors: torch.Tensor) -> torch.Tensor:
        """Inputs and parameters to the output."""
        replica, number = module._replica, len(order.shapes)
        ctx.order, ctx.replica, ctx.buffers = order, replica, list(module.buffers())
        ctx.save_for_backward(*tensors)
        with replica.ranks.ordered():
            replica.ranks.give(order)
            replica.forward(order, [*tensors[number:], *ctx.buffers], tensors[:number])
            return replica.output(order)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The gradients by inputs and parameters."""
        replica, number = ctx.replica, len(ctx.order.shapes)
        again = replica.kept != ctx.order.call
        tensors = ctx.saved_tensors if again else ()
        order = replace(ctx.order, kind=BACKWARD, again=int(again))
        with replica.ranks.ordered():
            replica.ranks.give(order)
            if again:
                # The buffers are those of now: what a forward pass counts is no part of it.
                replica.forward(order, [*tensors[number:], *ctx.buffers], tensors[:number])
            by_inputs, by_parameters = replica.backward(order, gradient)
        return None, None, *(by_inputs or [None] * number), *by_parameters
