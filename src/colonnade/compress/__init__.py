"""How tensors are written into messages, by tensor role.

    plain()                             the tensor's own bytes
    half()                              float16 or bfloat16
    scalar(bits), lattice(bits)         quantisers, of single components and of pairs
    topk(keep)                          the largest, or the most important, columns
    error_feedback(encoding)            what was lost is sent later
    steps(...), diminishing(...)        another encoding, or more bits, in later rounds

Mean squared error of the quantisers in parts of the variance, on 4096 x 256 components
(`python -m benchmarks.codecs` prints it; S is scalar, L is lattice):

                   minmax        with dither   clipped       with dither
    data     bits  S      L      S      L      S      L      S      L
    normal   2     .956   .624   .822   1.16   .119   .122   .129   .162
             3     .151   .140   .151   .185   .0379  .0380  .0390  .0450
             4     .0329  .0296  .0329  .0338  .0116  .0113  .0117  .0120
    uniform  2     .111   .0791  .111   .156   .0625  .0768  .0781  .104
             3     .0204  .0186  .0204  .0250  .0156  .0176  .0175  .0211
             4     .0044  .0040  .0044  .0046  .0039  .0041  .0041  .0043
    ReLU     2     .295   .415   .591   .831   .0752  .104   .120   .150
             4     .0118  .0205  .0236  .0244  .0055  .0091  .0101  .0104

So both are clipped and without dither unless told otherwise: at 4, 3 and 2 bits a range that
covers everything costs scalar 3, 4 and 8 times the error on normal data, and dither lowers no
clipped error but some of the lattice's on ReLU data. Choose `minmax` for a bound on every
component, and dither for an error that is zero in the mean.

The lattice is not always better. On normal and uniform data it beats scalar with minmax and no
dither, and by 1 to 4 % on clipped normal data from 4 bits. It loses when clipped at 2 and 3 bits
(and at 4 on uniform data), with dither up to 4 bits, and without dither everywhere on ReLU data,
whose many zeros are a level of scalar's but no point of the lattice.

May import wire.
"""

from colonnade.compress.base import (
    ANY,
    DECODERS,
    DTYPE_NAMES,
    DTYPES,
    Compress,
    Encoder,
    Encoding,
    Key,
    Occasion,
    Plain,
    Stateless,
    decode,
    finite_range,
    payload,
    plain,
    without_importance,
)
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
    "Compress",
    "Encoder",
    "Encoding",
    "Key",
    "Occasion",
    "Packed",
    "Plain",
    "Stateless",
    "decode",
    "describe",
    "diminishing",
    "error_feedback",
    "finite_range",
    "half",
    "lattice",
    "parse",
    "payload",
    "plain",
    "scalar",
    "steps",
    "topk",
    "without_importance",
]

# A tag that nobody can read would be found out only by the receiver, in the middle of a job.
for _encoding in (Plain, Half, Scalar, Lattice, TopK):
    assert set(_encoding.TAGS) <= set(DECODERS), f"{_encoding.__name__} has no decoder"
