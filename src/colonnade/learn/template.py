"""Tensors of the right size, as they cross the wire, from a party that computes nothing."""

from __future__ import annotations

import math

import torch

from colonnade.compress import Encoding, Key, Occasion, plain
from colonnade.policies.view import Exchange
from colonnade.record.tree import Tree
from colonnade.wire.messages import Packed


class Template:
    """Tensors of one party and role as they cross the wire, by their number of rows."""

    def __init__(self, encoding: Encoding, key: Key, width: int, dtype: torch.dtype) -> None:
        self._encoder = None if encoding == plain() else encoding.encoder(key)
        self._width = width
        self._dtype = dtype
        self._made: dict[int, torch.Tensor] = {}
        self._packed: dict[int, Packed] = {}

    def packed(self, exchange: Exchange, importance: torch.Tensor | None = None) -> Packed:
        """The tensor of an exchange; a plain one is always the same."""
        rows = len(exchange.rows)
        if self._encoder is None and rows in self._packed:
            return self._packed[rows]
        return self._encode(rows, Occasion(exchange.round, exchange.rows, importance))

    def piece(self, rows: int, round: int) -> Packed:
        """A piece of an evaluation."""
        return self._encode(rows, Occasion(round, importance=torch.ones(self._width)))

    def _encode(self, rows: int, use: Occasion) -> Packed:
        found = self._packed.get(rows)
        if found is None:
            self._made[rows] = some_values((rows, self._width), self._dtype)
            found = self._packed[rows] = plain().encode(self._made[rows])
        return found if self._encoder is None else self._encoder.encode(self._made[rows], use)

    def state(self) -> Tree:
        """What its encoder remembers."""
        return None if self._encoder is None else self._encoder.state()

    def restore(self, state: Tree) -> None:
        """Go on from there."""
        if self._encoder is not None:
            self._encoder.restore(state)


def some_values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Some numbers; not zeros, because a quantiser may write a constant tensor in fewer bytes."""
    return (torch.arange(math.prod(shape), dtype=dtype) / 7 % 1).view(shape)
