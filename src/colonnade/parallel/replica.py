"""A rank's copy of a model, which computes its slice of the batch.

DistributedDataParallel prepares each backward pass in the forward pass before it, and a second
forward pass discards that preparation. So a rank keeps the graph of its newest forward pass only.
The backward pass of an older one, as with several exchanges in flight, repeats the forward pass
first, with the same weights, rows and random numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from colonnade.errors import JobError
from colonnade.parallel.group import Command, ProcessGroup

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32]
"""The dtypes of inputs; a command has the index."""


class Replica:
    """A rank's copy of a module.

    All ranks call the same methods with the same command; only rank 0 passes tensors.
    """

    def __init__(self, module: nn.Module, part: int, group: ProcessGroup) -> None:
        self.part = part
        self.group = group
        self.calls = count()
        self.kept = -1
        """The forward pass whose graph is kept; -1 for none."""
        self.module = copy.deepcopy(module).to(group.device)
        if group.device.type == "cuda":
            self.module = nn.SyncBatchNorm.convert_sync_batchnorm(self.module)  # type: ignore[no-untyped-call]
        self._inputs: list[torch.Tensor] = []
        self._output = torch.empty(0)
        self._parallel: DistributedDataParallel | None = None
        group.on_close(self._release)

    def _release(self) -> None:
        self._parallel, self._inputs, self._output = None, [], torch.empty(0)

    def __deepcopy__(self, memo: dict[int, Any]) -> Replica:
        """A copy of a module shares its replica, because each call sends the weights to use."""
        return self

    def forward(
        self,
        command: Command,
        state: Sequence[torch.Tensor] | None = None,
        inputs: Sequence[torch.Tensor] | None = None,
    ) -> None:
        """Receive rank 0's weights and this rank's rows, and compute the output."""
        self.kept, self._output = -1, torch.empty(0)
        self._load(command.state, state)
        device, rows = self.group.device, self.group.rows(command.rows, self.group.rank)
        widths = [torch.Size(shape).numel() for shape in command.shapes]
        mine = torch.empty(rows, sum(widths), dtype=DTYPES[command.dtype], device=device)
        mine = self.group.scatter(None if inputs is None else _side_by_side(inputs), mine)
        self._inputs = [
            piece.reshape(rows, *shape).requires_grad_(command.inputs)
            for piece, shape in zip(torch.split(mine, widths, dim=1), command.shapes, strict=True)
        ]
        self.module.train(command.training)
        gpus = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=gpus), torch.set_grad_enabled(command.has_graph):
            torch.manual_seed((command.seed + self.group.rank) % 2**63)
            self._output = self._run(command)

    def _load(self, size: int, state: Sequence[torch.Tensor] | None) -> None:
        own = state_of(self.module)
        if size != size_of(own):
            raise JobError("another model than that of rank 0: give all ranks the same files")
        if state is None:
            flat = torch.empty(size, dtype=torch.uint8, device=self.group.device)
        else:
            flat = torch.cat([tensor.detach().reshape(-1).view(torch.uint8) for tensor in state])
        with torch.no_grad():
            pieces = torch.split(self.group.broadcast(flat), [size_of([tensor]) for tensor in own])
            for tensor, piece in zip(own, pieces, strict=True):
                # A copy first: a view as a wider dtype has to begin at a multiple of its size.
                tensor.copy_(piece.clone().view(tensor.dtype).view(tensor.shape))

    def _run(self, command: Command) -> torch.Tensor:
        given = self._inputs if command.is_list else self._inputs[0]
        parallel = self._parallel if command.parameters else None
        output: torch.Tensor = self.module(given) if parallel is None else parallel(given)
        if command.parameters and parallel is None:
            # DistributedDataParallel has to be told at its construction whether some parameters
            # take no part. Only a graph shows that, so the first one is inspected and dropped; its
            # backward pass repeats the forward pass.
            idle = torch.tensor([_idle(output, self.module)], device=self.group.device)
            dist.all_reduce(idle, op=dist.ReduceOp.MAX)
            self._parallel = DistributedDataParallel(
                self.module, find_unused_parameters=idle.item() == 1
            )
            return output.detach()
        self.kept = command.call if command.has_graph else -1
        return output

    def output(self, command: Command) -> torch.Tensor:
        """At rank 0 the output of the whole batch, at the other ranks their own rows."""
        return self.group.gather(self._output.detach(), command.rows)

    def backward(
        self, command: Command, gradient: torch.Tensor | None = None
    ) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
        """At rank 0 the gradients with respect to the inputs and to the parameters, as wanted."""
        assert self.kept == command.call, "the graph of another call is here"
        mine = self.group.scatter(gradient, self._output.new_empty(self._output.shape))
        # `inputs=None` means every leaf that requires a gradient. Where only the inputs do,
        # DistributedDataParallel took no part in the forward pass, and its hooks must not run.
        torch.autograd.backward(
            self._output, mine, inputs=None if command.parameters else self._inputs
        )
        self.kept, self._output = -1, torch.empty(0)
        by_parameters: list[torch.Tensor | None] = []
        for parameter in self.module.parameters():
            # DistributedDataParallel averages over the ranks. The gradient of the output is that of
            # the whole batch already, so the sum is wanted.
            mean, parameter.grad = parameter.grad, None
            by_parameters.append(None if mean is None else mean * self.group.size)
        if not command.inputs:
            return [], by_parameters
        found = [x.new_zeros(x.shape) if x.grad is None else x.grad for x in self._inputs]
        whole = self.group.gather(_side_by_side(found), command.rows)
        widths = [x[0].numel() for x in found]
        pieces = zip(torch.split(whole, widths, dim=1), command.shapes, strict=True)
        return [piece.reshape(-1, *shape) for piece, shape in pieces], by_parameters


def state_of(module: nn.Module) -> list[torch.Tensor]:
    """A module's present parameters and buffers: everything that decides what it computes.

    >>> [tuple(tensor.shape) for tensor in state_of(nn.Linear(2, 3))]
    [(3, 2), (3,)]
    """
    return [*module.parameters(), *module.buffers()]


def size_of(tensors: Sequence[torch.Tensor]) -> int:
    """The size of tensors in bytes.

    >>> size_of([torch.zeros(3), torch.zeros(2, dtype=torch.float64)])
    28
    """
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _side_by_side(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().reshape(len(tensor), -1) for tensor in tensors], dim=1)


def _idle(output: torch.Tensor, module: nn.Module) -> int:
    """1 if a parameter that requires a gradient takes no part in the output, otherwise 0.

    >>> layer = nn.Linear(2, 2)
    >>> _idle(layer(torch.ones(1, 2)), layer), _idle(layer.weight.sum(), layer)
    (0, 1)
    """
    seen, ahead = set(), [output.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in seen:
            seen.add(node)
            ahead += [following for following, _ in node.next_functions]
    reached = {id(getattr(node, "variable", None)) for node in seen}
    return int(any(p.requires_grad and id(p) not in reached for p in module.parameters()))
