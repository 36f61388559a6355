"""How tensors are written into messages, by tensor role.

    plain()                             the tensor's own bytes
    half()                              float16 or bfloat16
    scalar(bits), lattice(bits)         quantisers, of single components and of pairs
    topk(keep)                          the largest, or the most important, columns
    error_feedback(encoding)            what was lost is sent later
    differences(encoding)               only what changed since a row was last sent
    steps(...), diminishing(...)        another encoding, or more bits, in later rounds
    by_link(least, most)                as many bits as the line has room for

The quantisers are clipped and without dither unless told otherwise; `docs/compression.md` has the
errors by which that was chosen (`python -m benchmarks.codecs` prints them).

May import wire.
"""

from colonnade.compress.base import (
    ANY,
    DECODERS,
    DTYPE_NAMES,
    DTYPES,
    Compress,
    Decoder,
    Encoder,
    Encoding,
    Key,
    Occasion,
    Plain,
    Stateless,
    admits,
    choose,
    decode,
    decoder,
    finite_range,
    payload,
    plain,
    remembers,
    shown,
    without_importance,
    without_memory,
)
from colonnade.compress.by_link import ByLink, by_link, chooses, chosen
from colonnade.compress.differences import differences
from colonnade.compress.feedback import error_feedback
from colonnade.compress.half import Half, half
from colonnade.compress.lattice import Lattice, lattice
from colonnade.compress.scalar import Scalar, scalar
from colonnade.compress.schedule import diminishing, steps
from colonnade.compress.text import describe, parse
from colonnade.compress.topk import TopK, topk
from colonnade.wire.messages import Buffer, Packed

# Also what an encoding from outside is written with.
__all__ = [
    "ANY",
    "DECODERS",
    "DTYPES",
    "DTYPE_NAMES",
    "Buffer",
    "ByLink",
    "Compress",
    "Decoder",
    "Encoder",
    "Encoding",
    "Key",
    "Occasion",
    "Packed",
    "Plain",
    "Stateless",
    "admits",
    "by_link",
    "choose",
    "chooses",
    "chosen",
    "decode",
    "decoder",
    "describe",
    "differences",
    "diminishing",
    "error_feedback",
    "finite_range",
    "half",
    "lattice",
    "parse",
    "payload",
    "plain",
    "remembers",
    "scalar",
    "shown",
    "steps",
    "topk",
    "without_importance",
    "without_memory",
]

# A tag that nobody can read would be found out only by the receiver, in the middle of a job.
for _encoding in (Plain, Half, Scalar, Lattice, TopK):
    assert set(_encoding.TAGS) <= set(DECODERS), f"{_encoding.__name__} has no decoder"
