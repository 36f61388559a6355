"""Top-k sparsification: the k most important columns, exactly; the others are read as zero.

By magnitude every row keeps its own largest components, and the squared error is at most
(1 - k/P)·‖h‖² for a width of P. C-VFL keeps one set of columns for a whole batch, those with the
largest |batch-summed gradient| of the previous round; `by="importance"` is that, and sends a
tensor whose importance is not known yet (the first round's) as it is. Column numbers take
ceil(log2 P) bits each and are part of what is counted.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.compress.base import (
    DECODERS,
    DTYPE_NAMES,
    DTYPES,
    ENCODINGS,
    Encoding,
    Key,
    Keyed,
    Occasion,
    Parse,
    finite_range,
    options,
    payload,
    plain,
    split,
    whole,
    width_of,
)
from colonnade.compress.bits import code_type, pack, packed_bytes, unpack
from colonnade.errors import PartyError, RequestError, WireError, nearest
from colonnade.wire.codec import ITEM_BYTES
from colonnade.wire.messages import Buffer, Packed

By = Literal["magnitude", "importance"]

_DETAILS = struct.Struct("<I?")


@dataclass(frozen=True)
class TopK(Keyed):
    """The most important columns of each row, or of the batch; see `topk`."""

    TAGS: ClassVar[tuple[str, ...]] = ("topk", "plain")
    keep: int | float
    by: By = "magnitude"
    shared: bool = False

    @property
    def text(self) -> str:
        word = self.by if self.by == "importance" else "shared" if self.shared else None
        return f"topk:{self.keep!r}" + (f":{word}" if word else "")

    def admits(self, packed: Packed, round: int, known: bool) -> bool:
        width = width_of(packed.shape)
        kept = self.count(width)
        if kept == width or 0 in packed.shape:
            return packed.codec == "plain"
        if packed.codec == "plain":
            return self.by == "importance" and not known
        return (packed.codec, packed.details) == ("topk", _DETAILS.pack(kept, self.shared))

    def write(self, tensor: torch.Tensor, key: Key, use: Occasion) -> Packed:
        finite_range(tensor, key)
        width = width_of(tuple(tensor.shape))
        kept = self.count(width)
        unknown = self.by == "importance" and use.importance is None
        if kept == width or unknown or not tensor.numel():
            return plain().encode(tensor)
        flat = tensor.detach().to("cpu").contiguous()
        table = flat.view(_integer(flat.element_size())).numpy().reshape(-1, width)
        if self.shared:
            weight = self._weight(flat.view(-1, width), use.importance, key)
            columns = np.sort(np.argsort(-weight, kind="stable")[:kept])
            values = table[:, columns]
        else:
            places = _largest(table, kept)
            values = table.reshape(-1).take(places)
            columns = _within_rows(places, kept, width)
        bits = (width - 1).bit_length()
        numbers = pack(columns.astype(code_type(bits)), bits)
        data = np.concatenate((values.reshape(-1).view(np.uint8), numbers))
        details = _DETAILS.pack(kept, self.shared)
        name = DTYPE_NAMES[tensor.dtype]
        return Packed("topk", name, tuple(tensor.shape), Buffer(data.data), details)

    def _weight(
        self, table: torch.Tensor, importance: torch.Tensor | None, key: Key
    ) -> NDArray[np.floating[Any]]:
        if self.by == "magnitude":
            # Divided by the largest, since squares of very large and very small numbers are lost.
            wide = table if table.dtype == torch.float64 else table.float()
            energy = (wide / (wide.abs().amax() or 1.0)).square_().sum(0)
            return cast(NDArray[np.float64], energy.double().numpy())
        assert importance is not None
        weight: NDArray[np.float64] = importance.detach().to("cpu").double().abs().numpy()
        if weight.shape != (table.shape[1],) or not np.isfinite(weight).all():
            raise PartyError(
                f"the {key.role} of '{key.sender}' has {table.shape[1]} columns, and "
                f"its importance is not one finite number for each (shape {weight.shape})"
            )
        return weight

    def without_importance(self) -> Encoding:
        return plain() if self.by == "importance" else self

    def count(self, width: int) -> int:
        """How many of `width` columns are kept."""
        if isinstance(self.keep, int):
            return min(self.keep, width)
        # 0.7 of 10 columns is 7.000000000000001 of them.
        return min(width, max(1, math.ceil(self.keep * width - 1e-9)))


def topk(keep: int | float, by: By = "magnitude", shared: bool = False) -> Encoding:
    """Keep so many columns (a whole number) or this share of them (a fraction, rounded up).

    With `shared` the whole batch keeps the same columns: by magnitude those with the largest sum
    of squares, by "importance" (always shared) the largest of the vector given to `encode`.
    `topk(1.0)` is `plain()`.

    >>> from colonnade.compress.base import decode
    >>> encoder = topk(1).encoder(Key(0, "partner", "embedding"))
    >>> decode(encoder.encode(torch.tensor([[1.0, -3.0], [2.0, 0.5]]))).tolist()
    [[0.0, -3.0], [2.0, 0.0]]
    """
    if by not in get_args(By):
        raise RequestError(f"topk cannot choose by '{by}': {nearest(by, get_args(By))}")
    whole = type(keep) is int and keep >= 1
    if not whole and not (type(keep) is float and 0 < keep <= 1):
        raise RequestError(
            f"topk cannot keep {keep!r}: give a number of columns (1, 2, …) "
            "or a share of them (over 0, up to 1.0)"
        )
    if keep == 1.0 and not whole:
        return plain()
    return TopK(keep, by, bool(shared) or by == "importance")


def _integer(size: int) -> torch.dtype:
    return {2: torch.int16, 4: torch.int32, 8: torch.int64}[size]


def _largest(table: NDArray[Any], kept: int) -> NDArray[np.int64]:
    """Where in the flat table the `kept` largest magnitudes of each row stand, in order.

    Without their sign bit, floating-point numbers are ordered as the whole numbers of their bits,
    and those a partition handles many times faster than it sorts positions.
    """
    magnitude = table & np.iinfo(table.dtype).max
    width = table.shape[1]
    least = np.partition(magnitude, width - kept, axis=1)[:, width - kept, None]
    chosen = magnitude >= least
    counts = chosen.sum(axis=1, dtype=np.int32)
    if (counts > kept).any():
        # Rows in which others tie with the last one kept: the first of the tied ones stay.
        tied = np.flatnonzero(counts > kept)
        equal = magnitude[tied] == least[tied]
        spare = (counts[tied] - kept)[:, None]
        last = np.cumsum(equal, axis=1, dtype=np.int32)
        equal &= last > last[:, -1:] - spare
        chosen[tied] &= ~equal
    return np.flatnonzero(chosen)


def _within_rows(places: NDArray[np.int64], kept: int, width: int) -> NDArray[np.int64]:
    """Column numbers of flat positions, `kept` of them in every row."""
    starts = np.arange(places.size // kept, dtype=np.int64) * width
    return (places.reshape(-1, kept) - starts[:, None]).reshape(-1)


def _decode(packed: Packed) -> torch.Tensor:
    if len(packed.details) != _DETAILS.size or packed.details[-1] > 1:
        raise WireError("a topk tensor whose details are not a number and a flag: it was cut")
    kept, shared = _DETAILS.unpack(packed.details)
    dtype, width = DTYPES[packed.dtype], width_of(packed.shape)
    if not 1 <= kept < width or 0 in packed.shape or not dtype.is_floating_point:
        raise WireError(f"a topk tensor of {packed.dtype} cannot keep {kept} of {width} columns")
    lines = math.prod(packed.shape[:-1])
    count, bits = kept if shared else lines * kept, (width - 1).bit_length()
    start = lines * kept * ITEM_BYTES[packed.dtype]
    data = payload(packed, start + packed_bytes(count, bits))
    columns = unpack(data[start:], count, bits).astype(np.int64).reshape(-1, kept)
    if (columns[:, -1] >= width).any() or (columns[:, 1:] <= columns[:, :-1]).any():
        raise WireError("a topk tensor's column numbers do not ascend, or exceed its width")
    kind = torch.empty(0, dtype=_integer(ITEM_BYTES[packed.dtype])).numpy().dtype
    values = np.frombuffer(data[:start], kind).reshape(lines, kept)
    table = np.zeros((lines, width), kind)
    if shared:
        table[:, columns[0]] = values
    else:
        columns += np.arange(lines, dtype=np.int64)[:, None] * width
        table.reshape(-1)[columns.reshape(-1)] = values.reshape(-1)
    return torch.from_numpy(table).view(dtype).view(packed.shape)


def _read(rest: str, parse: Parse) -> Encoding:
    keep, *words = split(rest) or [""]
    known = {"magnitude": "by", "importance": "by", "shared": "shared"}
    found = options("topk", words, known)
    try:
        number = float(keep)
    except ValueError:
        raise RequestError(
            f"'{keep}' is no number of columns: write for example topk:0.25 or topk:16"
        ) from None
    by: By = "importance" if "importance" in found else "magnitude"
    return topk(whole("topk:16", keep) if keep.isdigit() else number, by, "shared" in found)


ENCODINGS["topk"] = _read
DECODERS["topk"] = _decode
