"""What encryption costs: milliseconds, and bytes beside those of float32.

    python -m benchmarks.cipher             about a minute
    python -m benchmarks.cipher --smoke     small

A batch of 256×10 embeddings under a key of 2048 bits, one thread: milliseconds of the processor,
the best of several turns. The bytes are those of the whole frame, beside the frame of the plain
tensor, at widths 1 to 64. Then sums of numbers of 32 bits, under Paillier and, where TenSEAL is
installed, under CKKS.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from rich.console import Console

from benchmarks.figures import Figures
from colonnade.cipher.ckks import MODULUS_BITS, CkksScheme
from colonnade.cipher.paillier import generate
from colonnade.cipher.scheme import PaillierScheme, Scheme
from colonnade.cipher.seal import Missing, sealapi
from colonnade.cipher.slots import Slots, to_fixed
from colonnade.cipher.tensor import Encrypted, decrypt, encrypt, received
from colonnade.compress import plain
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Buffer, Embedding, Packed

ROWS, WIDTH, TURNS = 256, 10, 15
FRACTION, VALUE_BITS, SLOT_BYTES = 24, 40, 7
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
RATIO_MAX = 4.2
SUM_BITS, SUM_WIDTHS, SUM_TURNS = 32, (10, 64), 5


def best_ms(work: Callable[[], object], turns: int) -> float:
    took = []
    for _ in range(turns):
        start = time.process_time()
        work()
        took.append((time.process_time() - start) * 1e3)
    return min(took)


def frame_bytes(tensor: Packed) -> int:
    return len(Codec().encode(Embedding(0, tensor)))


def ratio(content: bytes, shape: tuple[int, ...]) -> float:
    """Bytes on the wire, beside those of the plain tensor."""
    packed = Packed("paillier", "float32", shape, Buffer(memoryview(content)))
    return frame_bytes(packed) / frame_bytes(plain().encode(torch.zeros(shape)))


def measure_sums(name: str, scheme: Scheme, figures: Figures, rows: int, turns: int) -> None:
    """What two parts and known numbers cost those who encrypt, add and decrypt."""
    holder, random = scheme.generate(os.urandom), np.random.default_rng(0)
    adder = scheme.adder(holder.public)
    for width in SUM_WIDTHS:
        shape = rows, width
        values = to_fixed(random.normal(size=shape), FRACTION, 1 << SUM_BITS - 2)
        sent = holder.encrypt(values)
        part = adder.received(sent, shape)
        total = adder.total([part, part], values)
        assert (holder.decrypt(total, shape) == 3 * values).all()
        for what, work in (
            ("encrypt", lambda values=values: holder.encrypt(values)),
            ("check", lambda sent=sent, shape=shape: adder.received(sent, shape)),
            ("add", lambda part=part, values=values: adder.total([part, part], values)),
            ("decrypt", lambda total=total, shape=shape: holder.decrypt(total, shape)),
        ):
            took_ms = best_ms(work, turns)
            figures.add(f"{name}, {rows}×{width}: {what}, ms", took_ms, f"{took_ms:.1f}")
    for width in WIDTHS:
        found = ratio(holder.encrypt(np.zeros((rows, width), int)).tobytes(), (rows, width))
        figures.add(f"{name}, {rows}×{width}: bytes ÷ plain", found, f"{found:.2f}")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="one turn, and small")
    smoke = parser.parse_args(words).smoke
    turns, rows = (1, 8) if smoke else (TURNS, ROWS)
    figures = Figures(f"Paillier, 2048 bits, {rows}×{WIDTH}, one thread", judged=not smoke)
    key, slots, bound = generate(2048, os.urandom), Slots(2048, SLOT_BYTES), 1 << VALUE_BITS - 1
    random = np.random.default_rng(0)

    def under(rows: int, width: int) -> Encrypted:
        values = to_fixed(random.normal(size=(rows, width)), FRACTION, bound)
        return encrypt(values, key.public, slots, bound, os.urandom)

    batch, shape = under(rows, WIDTH), (rows, WIDTH)
    sent = batch.to_bytes()
    for what, work in (
        ("encrypt", lambda: under(rows, WIDTH)),
        (
            "check what was received",
            lambda: received(sent, shape, key.public, slots, bound),
        ),
        ("add two", lambda: batch + batch),
        ("multiply by 1,000", lambda: batch.times(1000)),
        ("decrypt", lambda: decrypt(batch, key)),
    ):
        took_ms = best_ms(work, turns)
        figures.add(f"{what}, ms", took_ms, f"{took_ms:.1f}")
    for width in WIDTHS:
        found = ratio(under(rows, width).to_bytes(), (rows, width))
        what = f"bytes ÷ plain, {rows}×{width}"
        figures.add(what, found, f"{found:.2f}", most=RATIO_MAX)
    figures.show(console := Console())

    sums = Figures(f"Sums of numbers of {SUM_BITS} bits, one thread", judged=not smoke)
    measure_sums("paillier:2048", PaillierScheme(2048, SUM_BITS), sums, rows, min(turns, SUM_TURNS))
    for degree in () if isinstance(sealapi, Missing) else MODULUS_BITS:
        scheme = CkksScheme(degree, SUM_BITS)
        measure_sums(f"ckks:{degree}", scheme, sums, rows, min(turns, SUM_TURNS))
    sums.show(console)
    if isinstance(sealapi, Missing):
        console.print("ckks is not measured: pip install 'colonnade[ckks]'", markup=False)


if __name__ == "__main__":
    main()
