"""Tensors of the right size, as they cross the wire, from a party that computes nothing."""

from __future__ import annotations

import math

import torch

from colonnade.compress import Occasion
from colonnade.learn.outbound import Stage
from colonnade.policies.view import Exchange
from colonnade.protect.base import Protect
from colonnade.record.tree import Tree
from colonnade.wire.messages import Packed


class Template:
    """Tensors of one party and role as they cross the wire, by their number of rows."""

    def __init__(
        self, stage: Stage, width: int, dtype: torch.dtype, protect: Protect | None = None
    ) -> None:
        self._stage = stage
        self._width = width
        self._dtype = dtype
        self._protect = protect or Protect()
        self._made: dict[int, torch.Tensor] = {}
        self._packed: dict[int, Packed] = {}

    def packed(self, exchange: Exchange, importance: torch.Tensor | None = None) -> Packed:
        """The tensor of an exchange; a plain one is always the same."""
        rows = len(exchange.rows)
        found = self._packed.get(rows)
        return found or self._pack(rows, Occasion(exchange.round, exchange.rows, importance))

    def piece(self, rows: int, round: int) -> Packed:
        """A piece of an evaluation."""
        return self._pack(rows, Occasion(round, importance=torch.ones(self._width)))

    def _pack(self, rows: int, use: Occasion) -> Packed:
        found = self._packed.get(rows)
        if found is None:
            if rows not in self._made:
                purpose = self._stage.purpose
                crossing = self._protect.crossing((rows, self._width), self._dtype, purpose)
                self._made[rows] = some_values(*crossing)
            found = self._stage.pack(self._made[rows], use)
            if self._stage.is_plain:
                self._packed[rows] = found
        return found

    def choose(self, bits: int) -> None:
        """As of a stage."""
        self._stage.choose(bits)

    def state(self) -> Tree:
        return self._stage.state()

    def restore(self, state: Tree) -> None:
        self._stage.restore(state)


def some_values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Some numbers; not zeros, because a quantiser may write a constant tensor in fewer bytes."""
    return (torch.arange(math.prod(shape), dtype=dtype) / 7 % 1).to(dtype).view(shape)
