"""A rank's copy of a model, which computes its slice of the batch.

DistributedDataParallel prepares each backward pass in the forward pass before it, and a second
forward pass undoes that. So a rank keeps the graph of its newest forward pass only. A backward
pass that belongs to an older one, as with several exchanges in flight, repeats that one first,
with the same weights, rows and random numbers.
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
from colonnade.parallel.group import Order, Ranks

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32]
"""Of inputs, as an order numbers them."""


class Replica:
    """A rank's copy of a module. All ranks call the same methods; only rank 0 has what to give."""

    def __init__(self, module: nn.Module, part: int, ranks: Ranks) -> None:
        self.part = part
        self.ranks = ranks
        self.calls = count()
        self.kept = -1
        """The call whose graph is here."""
        self.module = copy.deepcopy(module).to(ranks.device)
        if ranks.device.type == "cuda":
            self.module = nn.SyncBatchNorm.convert_sync_batchnorm(self.module)  # type: ignore[no-untyped-call]
        self._inputs: list[torch.Tensor] = []
        self._output = torch.empty(0)
        self._parallel: DistributedDataParallel | None = None
        ranks.at_end(self._release)

    def _release(self) -> None:
        self._parallel, self._inputs, self._output = None, [], torch.empty(0)

    def __deepcopy__(self, memo: dict[int, Any]) -> Replica:
        """A copied module is computed by the same replicas: each call brings its weights."""
        return self

    def forward(
        self,
        order: Order,
        state: Sequence[torch.Tensor] | None = None,
        inputs: Sequence[torch.Tensor] | None = None,
    ) -> None:
        """Take rank 0's weights and this rank's rows, and compute."""
        self.kept, self._output = -1, torch.empty(0)
        self._load(order.state, state)
        device, rows = self.ranks.device, self.ranks.rows(order.rows, self.ranks.rank)
        widths = [torch.Size(shape).numel() for shape in order.shapes]
        mine = torch.empty(rows, sum(widths), dtype=DTYPES[order.dtype], device=device)
        mine = self.ranks.scatter(None if inputs is None else _side_by_side(inputs), mine)
        self._inputs = [
            piece.reshape(rows, *shape).requires_grad_(order.inputs == 1)
            for piece, shape in zip(torch.split(mine, widths, dim=1), order.shapes, strict=True)
        ]
        self.module.train(order.training == 1)
        gpus = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=gpus), torch.set_grad_enabled(order.has_graph):
            torch.manual_seed((order.seed + self.ranks.rank) % 2**63)
            self._output = self._run(order)

    def _load(self, size: int, state: Sequence[torch.Tensor] | None) -> None:
        own = state_of(self.module)
        if size != size_of(own):
            raise JobError("another model than that of rank 0: give all ranks the same files")
        if state is None:
            flat = torch.empty(size, dtype=torch.uint8, device=self.ranks.device)
        else:
            flat = torch.cat([tensor.detach().reshape(-1).view(torch.uint8) for tensor in state])
        with torch.no_grad():
            pieces = torch.split(self.ranks.broadcast(flat), [size_of([tensor]) for tensor in own])
            for tensor, piece in zip(own, pieces, strict=True):
                # A copy first, because a view of other numbers has to begin at a multiple of them.
                tensor.copy_(piece.clone().view(tensor.dtype).view(tensor.shape))

    def _run(self, order: Order) -> torch.Tensor:
        given = self._inputs if order.listed else self._inputs[0]
        parallel = self._parallel if order.parameters else None
        output: torch.Tensor = self.module(given) if parallel is None else parallel(given)
        if order.parameters and parallel is None:
            # It has to know whether weights take no part, so the first graph is only looked at.
            idle = torch.tensor([_idle(output, self.module)], device=self.ranks.device)
            dist.all_reduce(idle, op=dist.ReduceOp.MAX)
            self._parallel = DistributedDataParallel(
                self.module, find_unused_parameters=idle.item() == 1
            )
            return output.detach()
        self.kept = order.call if order.has_graph else -1
        return output

    def output(self, order: Order) -> torch.Tensor:
        """The rows of all ranks, at rank 0."""
        return self.ranks.gather(self._output.detach(), order.rows)

    def backward(
        self, order: Order, gradient: torch.Tensor | None = None
    ) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
        """The gradients by the inputs and by the parameters, where wanted, at rank 0."""
        assert self.kept == order.call, "the graph of another call is here"
        mine = self.ranks.scatter(gradient, self._output.new_empty(self._output.shape))
        # Without `inputs` this goes by everything that wants a gradient.
        torch.autograd.backward(
            self._output, mine, inputs=None if order.parameters else self._inputs
        )
        self.kept, self._output = -1, torch.empty(0)
        by_parameters: list[torch.Tensor | None] = []
        for parameter in self.module.parameters():
            # The ranks' mean; the loss is over the whole batch already, so their sum is wanted.
            mean, parameter.grad = parameter.grad, None
            by_parameters.append(None if mean is None else mean * self.ranks.size)
        if not order.inputs:
            return [], by_parameters
        found = [x.new_zeros(x.shape) if x.grad is None else x.grad for x in self._inputs]
        whole = self.ranks.gather(_side_by_side(found), order.rows)
        widths = [x[0].numel() for x in found]
        pieces = zip(torch.split(whole, widths, dim=1), order.shapes, strict=True)
        return [piece.reshape(-1, *shape) for piece, shape in pieces], by_parameters


def state_of(module: nn.Module) -> list[torch.Tensor]:
    """All that decides what a module computes, as it is at this moment.

    >>> [tuple(tensor.shape) for tensor in state_of(nn.Linear(2, 3))]
    [(3, 2), (3,)]
    """
    return [*module.parameters(), *module.buffers()]


def size_of(tensors: Sequence[torch.Tensor]) -> int:
    """How many bytes they are.

    >>> size_of([torch.zeros(3), torch.zeros(2, dtype=torch.float64)])
    28
    """
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _side_by_side(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().reshape(len(tensor), -1) for tensor in tensors], dim=1)


def _idle(output: torch.Tensor, module: nn.Module) -> int:
    """1 where a weight that wants a gradient takes no part in the output.

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
