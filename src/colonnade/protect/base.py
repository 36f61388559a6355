"""The axis of protections: a choice for each thing that could tell others too much."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import torch
from numpy.typing import NDArray

from colonnade.cipher.scheme import Scheme
from colonnade.errors import JobError, nearest
from colonnade.plugins import call, own_functions
from colonnade.protect.secret import Draws, Stream

ENCRYPTED = ("embedding", "gradient")
"""The purposes of the tensors that a cipher hides."""
Crossing = tuple[tuple[int, ...], torch.dtype]


class LabelProtection(Protocol):
    """What stands in for the labels, once for all: the active party trains on that."""

    @property
    def text(self) -> str:
        """How a job writes it: what `parse` makes this very value of."""

    def column(self, labels: NDArray[Any], classes: int, draws: Draws) -> NDArray[Any]:
        """The labels to use in the place of these; `draws` has two numbers from (0, 1) a row."""


class GradientProtection(Protocol):
    """What the active party does to a gradient before it leaves."""

    @property
    def text(self) -> str: ...

    @property
    def binary(self) -> bool:
        """Whether it hides which of two classes a row has, and can do nothing else."""

    def leaving(self, gradient: torch.Tensor, labels: torch.Tensor, random: Stream) -> torch.Tensor:
        """The gradient as it leaves, of rows with these labels."""


class EmbeddingProtection(Protocol):
    """What a party does to its embeddings."""

    @property
    def text(self) -> str: ...

    def shape(self, embedding: torch.Tensor) -> torch.Tensor:
        """The embedding as the party trains with it; its derivatives are known."""

    def leaving(self, embedding: torch.Tensor, random: Stream) -> torch.Tensor:
        """The embedding as it leaves."""

    def penalty(self, embedding: torch.Tensor, columns: torch.Tensor) -> torch.Tensor | None:
        """What the party adds to the loss, of a batch and the columns it was made from."""


class SumProtection(Protocol):
    """What hides a passive party's embeddings from everybody, and not their sum."""

    @property
    def text(self) -> str: ...

    @property
    def bits(self) -> int:
        """Of the words."""

    @property
    def dtype(self) -> torch.dtype:
        """Of embeddings as they cross."""

    def to_fixed(self, tensor: torch.Tensor, parties: int) -> NDArray[Any]:
        """The components as words that so many parties' can be added of; refuses those that are
        too large for that."""

    def to_float(self, total: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """The sum of the words of all parties as numbers."""


class CipherProtection(Protocol):
    """What hides training embeddings from the active party, and their sum too."""

    @property
    def text(self) -> str: ...

    @property
    def parties_max(self) -> float:
        """How many passive parties' embeddings can be added up."""

    def scheme(self, bits: int) -> Scheme:
        """The cryptosystem, for whole numbers of so many bits."""


@dataclass(frozen=True)
class Protect:
    """What is protected, and how; the neutral element protects nothing.

    >>> Protect() == parse({})
    True
    """

    labels: LabelProtection | None = None
    gradient: GradientProtection | None = None
    embedding: tuple[EmbeddingProtection, ...] = ()
    """One after the other, joined by `+` in a text."""
    sum: SumProtection | None = None
    cipher: CipherProtection | None = None
    """Of the numbers that `sum` makes; evaluations cross under its masks."""

    @property
    def scheme(self) -> Scheme | None:
        """The cryptosystem of training embeddings and gradients; None where they are not
        encrypted."""
        if self.cipher is None or self.sum is None:
            return None
        return self.cipher.scheme(self.sum.bits)

    def crossing(self, shape: tuple[int, ...], dtype: torch.dtype, role: str) -> Crossing:
        """Shape and type of a tensor as it crosses, where it is not compressed; `role` is its
        purpose."""
        scheme = self.scheme
        if scheme is not None and role in ENCRYPTED:
            return scheme.cells(math.prod(shape)), torch.uint8
        if self.sum is not None and role != "gradient":
            return shape, self.sum.dtype
        return shape, dtype

    @property
    def texts(self) -> dict[str, str]:
        """What differs from the neutral element, as a job writes it."""
        found = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value:
                parts = value if isinstance(value, tuple) else (value,)
                found[field.name] = "+".join(part.text for part in parts)
        return found


def parse(table: Mapping[str, Any], base: Protect | None = None) -> Protect:
    """The protections of a job's `[method.protect]` table.

    >>> parse({"labels": "flip:2"}).texts
    {'labels': 'flip:2'}
    """
    known = [field.name for field in fields(Protect)]
    chosen: dict[str, Any] = {}
    for name, spec in table.items():
        if name not in known:
            raise JobError(f"there is no method.protect.{name}: {nearest(name, known)}")
        if not isinstance(spec, str):
            raise JobError(f"method.protect.{name} is {spec!r}: write it as text, as in 'flip:2'")
        parts = tuple(_one(name, word) for word in spec.split("+"))
        if len({type(part) for part in parts}) < len(parts):
            raise JobError(f"method.protect.{name} is '{spec}', one thing twice: keep one of them")
        if name != "embedding" and len(parts) > 1:
            raise JobError(f"method.protect.{name} is '{spec}': only embeddings take several")
        chosen[name] = parts if name == "embedding" else parts[0]
    made = replace(base or Protect(), **chosen)
    if made.cipher is not None and made.sum is None:
        # The fixed point that is encrypted, and the masks of evaluations.
        made = replace(made, sum=_one("sum", "pairwise:32"))
    if made.cipher is not None and made.sum is not None:
        made.cipher.scheme(made.sum.bits)  # Refuses numbers that are too long for it.
    return made


def _one(field: str, text: str) -> Any:
    name, *words = text.split(":")
    known = own_functions(importlib.import_module(f"colonnade.protect.{field}"))
    if name not in known:
        raise JobError(f"there is no protection '{name}' of {field}: {nearest(name, known)}")
    return call(known[name], name, words)
