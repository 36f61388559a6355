"""The messages by which a line is measured: what both ends must know of them."""

from __future__ import annotations

import itertools

from colonnade.compress import Buffer, Packed
from colonnade.learn.agreement import Agreement
from colonnade.learn.participant import DTYPES
from colonnade.planning.workload import NS_PER_S, Line
from colonnade.policies.view import PROBE_BYTES_MAX
from colonnade.wire.messages import Echo

READY, SHORT, LONG = 0, (1, 2), (3, 4, 5)
"""The numbers of the probes."""
CALIBRATIONS_MAX = 20
"""How often a job may measure, the first time included."""
FRAME_BYTES = 64
"""About what a probe has beside its zeros."""


def long_bytes(agreement: Agreement, passive: str) -> int:
    """How long the long probes of a party are: as a plain batch of embeddings, up to a bound."""
    train = agreement.job.train
    rows = min(train.batch_size, agreement.rows["train"])
    return min(rows * agreement.widths[passive] * DTYPES[train.dtype].itemsize, PROBE_BYTES_MAX)


def zeros(count: int) -> Packed:
    """So many bytes that say nothing."""
    return Packed("plain", "uint8", (count,), Buffer(memoryview(bytes(count))))


def is_zeros(packed: Packed, count: int) -> bool:
    """Whether they are so many, and all zero; how many there are is looked at first."""
    described = packed.codec, packed.dtype, packed.shape, packed.details
    sized = described == ("plain", "uint8", (count,), b"") and packed.data.view.nbytes == count
    return sized and not any(packed.data.view)


def line_of(trips_ns: list[int], answers: list[tuple[int, Echo]], size: int) -> Line:
    """A line, by how long short messages took there and back, and by how far apart long ones came
    at either end.

    >>> echo = Echo(3, 2_000_000, 0, 0, zeros(0))
    >>> line_of([100_000_000, 102_000_000], [(0, echo), (1_000_000, echo)], size=1000)
    Line(latency_ns=50000000, up_bits=8512000, down_bits=4256000, jitter_ns=2000000)
    """
    crossing = 8 * (size + FRAME_BYTES)
    came = [when for when, _ in answers]
    up_ns = min(later - before for before, later in itertools.pairwise(came))
    down_ns = min(echo.apart_ns for _, echo in answers[1:])
    return Line(
        latency_ns=min(trips_ns) // 2,
        up_bits=crossing * NS_PER_S // up_ns if up_ns > 0 else None,
        down_bits=crossing * NS_PER_S // down_ns if down_ns > 0 else None,
        jitter_ns=max(trips_ns) - min(trips_ns),
    )
