"""Data parallelism within one party: every rank of `torchrun` computes its slice of the batch.

Rank 0 is the party: it has the connections, the weights, the optimizers and the random state. Its
modules look as before, but all ranks compute them: rank 0 sends its present weights to all ranks
and to each its rows, each rank runs its own copy of the module under DistributedDataParallel, and
rank 0 concatenates the rows. In the backward pass the ranks add up their gradients. The other
ranks have no state that rank 0 could not send again.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from msgspec.structs import replace
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from colonnade.errors import JobError
from colonnade.parallel.group import BACKWARD, END, FORWARD, Command, ProcessGroup
from colonnade.parallel.replica import DTYPES, Replica, size_of, state_of

PARTS = ("bottom", "top")
"""The models of a party."""
Builder = Callable[[tuple[tuple[int, ...], ...]], nn.Module]
"""Builds a model for inputs whose rows have these shapes."""


class Spreader:
    """At rank 0: makes all ranks compute the models that it is called with.

    A model stays the same object with the same parameters. Called again for the same part, as
    after a restart, it replaces the old model by the new one.
    """

    def __init__(self, group: ProcessGroup, parts: Sequence[str] = PARTS) -> None:
        self._group = group
        self._parts = parts
        self._replicas: dict[str, Replica] = {}

    def __call__(self, part: str, module: nn.Module) -> nn.Module:
        """Spread the model of a part; one without parameters stays at rank 0."""
        if next(module.parameters(), None) is None:
            return module
        if self._group.device.type != "cuda":
            refuse_batch_norm(part, module)
        if part not in self._replicas:
            self._replicas[part] = Replica(module, self._parts.index(part), self._group)
        # The class is changed and the module not wrapped, so that parameter names, `state_dict` and
        # `functional_call` are as they were.
        kind = type(module)
        module.__class__ = type(kind.__name__, (Spread, kind), {"__module__": kind.__module__})
        vars(module)["_replica"] = self._replicas[part]
        return module


def work(
    group: ProcessGroup, builders: Mapping[str, Builder], parts: Sequence[str] = PARTS
) -> None:
    """At the other ranks: carry out rank 0's commands until END.

    The builders make the same models as at rank 0; their weights do not matter.
    """
    # A signal to stop the party is for rank 0, which may need the others to reach its barrier.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    replicas: dict[int, Replica] = {}
    while (command := group.receive()).kind != END:
        with group.collective():
            if command.part not in replicas:
                module = builders[parts[command.part]](command.shapes)
                replicas[command.part] = Replica(module, command.part, group)
            replica = replicas[command.part]
            if command.kind == FORWARD or command.recompute:
                replica.forward(command)
            if command.kind == FORWARD:
                replica.output(command)
            else:
                replica.backward(command)


def refuse_batch_norm(part: str, module: nn.Module) -> None:
    """Refuse batch norm: it needs the statistics of the whole batch, and torch's SyncBatchNorm
    works on GPUs only.

    >>> refuse_batch_norm("bottom", nn.Sequential(nn.Linear(2, 2), nn.GroupNorm(1, 2)))
    """
    for name, layer in module.named_modules():
        if isinstance(layer, _BatchNorm):
            raise JobError(
                f"layer '{name}' of the {part} model is a {type(layer).__name__}, whose statistics "
                "several processes share on GPUs only: use group norm, or leave torchrun out"
            )


class Spread(nn.Module):
    """A mixin for a module's class, added by `Spreader`: all ranks compute the forward pass."""

    _replica: Replica

    def forward(self, given: torch.Tensor | Sequence[torch.Tensor]) -> torch.Tensor:
        """Return what the module itself would."""
        inputs = [given] if isinstance(given, torch.Tensor) else list(given)
        replica, rows = self._replica, len(inputs[0])
        if rows < replica.group.size:
            output: torch.Tensor = super().forward(given)
            return output
        parameters, graph = list(self.parameters()), torch.is_grad_enabled()
        theirs = zip(parameters, replica.module.parameters(), strict=True)
        assert all(q.requires_grad >= p.requires_grad for p, q in theirs), "thawed too late"
        command = Command(
            FORWARD,
            part=replica.part,
            call=next(replica.calls),
            training=self.training,
            parameters=graph and any(tensor.requires_grad for tensor in parameters),
            inputs=graph and any(tensor.requires_grad for tensor in inputs),
            # Drawn here, so that random layers depend on the party's own generator.
            seed=int(torch.randint(2**62, ())) if self.training else 0,
            state=size_of(state_of(self)),
            rows=rows,
            dtype=DTYPES.index(reduce(torch.promote_types, [tensor.dtype for tensor in inputs])),
            is_list=not isinstance(given, torch.Tensor),
            shapes=tuple(tuple(tensor.shape[1:]) for tensor in inputs),
        )
        output = Pass.apply(self, command, *inputs, *parameters)  # type: ignore[no-untyped-call]
        if self.training:
            # Buffers such as running statistics were updated in rank 0's replica.
            with torch.no_grad():
                for own, counted in zip(self.buffers(), replica.module.buffers(), strict=True):
                    own.copy_(counted)
        return output


class Pass(torch.autograd.Function):
    """The forward and backward pass of all ranks, as one node of rank 0's graph."""

    @staticmethod
    def forward(ctx: Any, module: Spread, command: Command, *tensors: torch.Tensor) -> torch.Tensor:
        """Compute the output; `tensors` are the inputs, then the parameters."""
        replica, number = module._replica, len(command.shapes)
        ctx.command, ctx.replica, ctx.buffers = command, replica, list(module.buffers())
        ctx.save_for_backward(*tensors)
        with replica.group.collective():
            replica.group.send(command)
            replica.forward(command, [*tensors[number:], *ctx.buffers], tensors[:number])
            return replica.output(command)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Compute the gradients with respect to the inputs and the parameters."""
        replica, number = ctx.replica, len(ctx.command.shapes)
        recompute = replica.kept != ctx.command.call
        tensors = ctx.saved_tensors if recompute else ()
        command = replace(ctx.command, kind=BACKWARD, recompute=recompute)
        with replica.group.collective():
            replica.group.send(command)
            if recompute:
                # Weights and rows are those of the forward pass, the buffers are the present ones.
                replica.forward(command, [*tensors[number:], *ctx.buffers], tensors[:number])
            by_inputs, by_parameters = replica.backward(command, gradient)
        return None, None, *(by_inputs or [None] * number), *by_parameters
