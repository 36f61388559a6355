"""What torch learners put into an exchange: a forward pass, and a round's snapshot."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.record.tree import register
from colonnade.wire.messages import Packed


@dataclass(slots=True)
class Forward:
    """A forward pass: the embedding with the graph behind it."""

    embedding: torch.Tensor
    stashed: dict[str, torch.Tensor] | None = None
    """Copies of the weights that made it, where those may change before it goes backward."""
    columns: torch.Tensor | None = None
    """What it was made from, where that is asked for again."""
    drawn: list[torch.Tensor] | None = None
    """The random numbers before it, where it is made again later; None where none are drawn."""


@dataclass(frozen=True)
class Shared:
    """A round's snapshot as a party reads it."""

    embeddings: dict[str, torch.Tensor]
    top: dict[str, torch.Tensor]
    """The top model's parameters by name, at the round's start."""


@dataclass(frozen=True)
class Share:
    """What the active party shares of a round, as sent and as everybody reads it."""

    packed: dict[str, Packed]
    """The embeddings, by party, in the encoding in which they came."""
    top_packed: tuple[Packed, ...]
    read: Shared


# A forward pass is saved without its graph, and so without the weights stashed for it.
register(Forward, embedding=torch.Tensor)
register(Shared, embeddings=dict, top=dict)
register(Share, packed=dict, top_packed=tuple, read=Shared)
