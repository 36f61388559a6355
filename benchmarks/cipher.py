"""What encryption costs: milliseconds, and bytes beside those of float32.

    python -m benchmarks.cipher             about ten seconds
    python -m benchmarks.cipher --smoke     small

A batch of 256×10 embeddings under a key of 2048 bits, one thread: milliseconds of the processor,
the best of several turns. The bytes are those of the whole frame, beside the frame of the plain
tensor, at widths 1 to 64.
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
from colonnade.cipher.paillier import generate
from colonnade.cipher.slots import Slots, to_fixed
from colonnade.cipher.tensor import Encrypted, decrypt, encrypt, received
from colonnade.compress import plain
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Buffer, Embedding, Packed

ROWS, WIDTH, TURNS = 256, 10, 15
FRACTION, VALUE_BITS, SLOT_BYTES = 24, 40, 7
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
RATIO_MAX = 4.2


def best_ms(work: Callable[[], object], turns: int) -> float:
    took = []
    for _ in range(turns):
        start = time.process_time()
        work()
        took.append((time.process_time() - start) * 1e3)
    return min(took)


def frame_bytes(tensor: Packed) -> int:
    return len(Codec().encode(Embedding(0, tensor)))


def ratio(tensor: Encrypted) -> float:
    """Bytes on the wire, beside those of the plain tensor."""
    data = Buffer(memoryview(tensor.to_bytes()))
    packed = Packed("paillier", "float32", tensor.shape, data)
    return frame_bytes(packed) / frame_bytes(plain().encode(torch.zeros(tensor.shape)))


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
        found = ratio(under(rows, width))
        what = f"bytes ÷ plain, {rows}×{width}"
        figures.add(what, found, f"{found:.2f}", most=RATIO_MAX)
    figures.show(Console())


if __name__ == "__main__":
    main()
