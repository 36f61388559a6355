"""The way in: every tensor from another party passes `received`, the mirror image of `outbound`,
before anything is computed from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.compress import Decoder, Encoding, Occasion, admits, decode, plain
from colonnade.compress.base import ANYBODY, DTYPE_NAMES
from colonnade.errors import BreachError, NotFiniteError, WireError
from colonnade.job.terms import shown
from colonnade.protect.base import SumProtection
from colonnade.wire.messages import Packed

if TYPE_CHECKING:
    from colonnade.learn.agreement import Agreement
    from colonnade.learn.outbound import Purpose

_TAG_CHARS_MAX = 40


_NOTHING = plain()


@dataclass(frozen=True)
class Due:
    """In which encoding a tensor is due, a plain one where nothing else was agreed on, and what
    reads it."""

    encoding: Encoding = _NOTHING
    round: int = 0
    known: bool = True
    """Whether its sender must have known how much each column matters."""
    reader: Decoder = field(default=ANYBODY, compare=False)
    """It may remember what came before from the same sender."""
    rows: NDArray[np.int64] | None = field(default=None, compare=False)
    """The training rows that the tensor stands for, where its reader remembers rows."""


PLAIN = Due()


def due(agreement: Agreement, purpose: Purpose, party: str, round: int) -> Due:
    """What the terms say of a tensor for a purpose; `party` is the one whose embedding it is, or
    by whose embedding it is a derivative, or whose top model.

    >>> from colonnade.job import load
    >>> from colonnade.learn.agreement import Agreement
    >>> job = load("digits", ["method.compress.embedding=scalar:4"])
    >>> agreed = Agreement.of(job, {"train": 100, "validation": 0, "test": 20}, {})
    >>> due(agreed, "embedding", "lab", 3).encoding.text, due(agreed, "upload", "lab", 3) == PLAIN
    ('scalar:4', True)
    """
    method, compress = agreement.method, agreement.methods[party].compress
    if purpose == "embedding":
        # Which columns matter is known once a reply was used.
        return Due(compress.embedding, round, round >= method.window.most)
    if purpose == "evaluation" and not agreement.job.train.evaluate_plain:
        # Where rounds are each party's own, one may be asked before it has had a reply.
        return Due(compress.embedding, round, method.quorum.in_step)
    if purpose in ("gradient", "top"):
        return Due(compress.gradient if purpose == "gradient" else compress.top, round)
    return PLAIN


def received(
    packed: Packed,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    sender: str,
    due: Due = PLAIN,
    *,
    finite: bool = True,
    classes: int | None = None,
) -> torch.Tensor:
    """The tensor of a record from the wire; refuses one of another shape, type or encoding than is
    due, one that is not finite, and labels that are none of so many `classes`.

    >>> from colonnade.compress import plain
    >>> received(plain().encode(torch.ones(2)), (2,), torch.float32, "lab").tolist()
    [1.0, 1.0]
    """
    if packed.shape != shape:
        raise BreachError(
            sender,
            f"{sender} sent a tensor of shape {packed.shape} where {shape} is due: "
            "its model or its batch differs from the job",
        )
    if packed.dtype != DTYPE_NAMES[dtype]:
        raise BreachError(
            sender,
            f"{sender} sent a tensor of type {packed.dtype} where {DTYPE_NAMES[dtype]} is due: "
            "its model differs from the job (train.dtype)",
        )
    try:
        if not admits(due.encoding, packed, due.round, due.known):
            raise BreachError(
                sender,
                f"{sender} sent a tensor in the encoding '{shown(packed.codec, _TAG_CHARS_MAX)}' "
                f"where {due.encoding.text} is due: the job says how each tensor is written",
            )
        tensor = due.reader.decode(packed, Occasion(due.round, due.rows))
    except WireError as fault:
        raise BreachError(sender, f"{sender} sent what cannot be read: {fault}") from None
    # A sum of squares is quick and shows every NaN and all that is too large, whatever its sign;
    # it may also be too large itself where all its terms are well.
    flat = tensor.reshape(-1)
    doubtful = finite and not math.isfinite(torch.dot(flat, flat).item())
    if doubtful and (found := excess(tensor)) is not None:
        raise NotFiniteError(sender, f"{sender} sent a tensor with {found}")
    if classes is not None and tensor.numel():
        low, high = tensor.aminmax()
        if low < 0 or high >= classes:
            raise BreachError(sender, f"{sender} sent labels beyond the {classes} classes")
    return tensor


def received_sum(
    packed: Mapping[str, Packed],
    shape: tuple[int, ...],
    dtype: torch.dtype,
    protection: SumProtection,
) -> torch.Tensor:
    """The sum of what all passive parties sent under masks, by sender: of one part alone nothing
    can be said but its shape and type.

    >>> from colonnade.compress import plain
    >>> from colonnade.protect.sum import pairwise
    >>> parts = {"lab": 2**31 - 1, "shop": 3 * 2**19 - 2**31 + 1}
    >>> sent = {name: plain().encode(torch.tensor([part]).int()) for name, part in parts.items()}
    >>> received_sum(sent, (1,), torch.float32, pairwise(32)).tolist()
    [1.5]
    """
    parts = [
        received(each, shape, protection.dtype, sender, finite=False)
        for sender, each in packed.items()
    ]
    # The words wrap, as they have to.
    return protection.to_float(reduce(torch.add, parts), dtype)


def excess_of(packed: Packed) -> str | None:
    """What makes it impossible to compute a loss from a tensor that was received before."""
    return excess(decode(packed))


def excess(tensor: torch.Tensor) -> str | None:
    """What makes it impossible to compute a loss from a tensor; None where nothing does.

    >>> excess(torch.tensor([3e38]))
    'components as large as 3e+38'
    >>> excess(torch.ones(2))
    """
    if not torch.isfinite(tensor).all():
        return "NaN or infinite components"
    largest = tensor.abs().max().item() if tensor.numel() else 0.0
    most = torch.finfo(tensor.dtype).max if tensor.dtype.is_floating_point else math.inf
    return f"components as large as {largest:.0e}" if largest > math.sqrt(most) else None
