"""How fast and how exact the tensor encodings are, on 4096×256 float32 and one thread.

    python -m benchmarks.codecs             about a minute
    python -m benchmarks.codecs --smoke     every encoding once, on a small tensor

The first table is time: encode and decode, measured in turns with a plain copy of the tensor, so
that a noisy neighbour slows both; the best of several turns. The second is the mean squared error
in parts of the data's variance, which is where the defaults of `scalar` and `lattice` come from.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.figures import MISSED, tell_missed
from colonnade.compress import Encoding, Key, Occasion, decode, lattice, parse, scalar
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Embedding

SHAPE, TURNS = (4096, 256), 25
KEY = Key(seed=0, sender="partner", role="embedding", receiver="bank")
LIMITS_MS = {
    **{f"scalar:{bits}:dither": 6.0 for bits in range(2, 9)},
    **{f"lattice:{bits}:dither": 9.0 for bits in (2, 3, 4)},
    **{f"topk:{keep}": 8.0 for keep in (0.0625, 0.25, 0.5)},
    "topk:0.25:shared": 8.0,
}
OTHERS = ("scalar:4", "lattice:4", "scalar:16:dither", "lattice:8:dither", "half", "plain")


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def speed(text: str, tensor: torch.Tensor, turns: int) -> tuple[float, float, float, int]:
    """Seconds of encoding, decoding and a plain copy, and the bytes of the whole frame."""
    encoder = parse(text).encoder(KEY)
    packed = encoder.encode(tensor, Occasion(1))
    measured = [
        (
            seconds(tensor.clone),
            seconds(lambda: encoder.encode(tensor, Occasion(1))),
            seconds(lambda: decode(packed)),
        )
        for _ in range(turns)
    ]
    copy, encoding, decoding = (min(column) for column in zip(*measured, strict=True))
    return encoding, decoding, copy, len(Codec().encode(Embedding(1, packed)))


def error(encoding: Encoding, tensor: torch.Tensor) -> float:
    """The mean squared error in parts of the variance."""
    read = decode(encoding.encoder(KEY).encode(tensor, Occasion(1)))
    return ((read - tensor).square().mean() / tensor.var()).item()


def speed_table(tensor: torch.Tensor, turns: int, judged: bool) -> tuple[Table, list[str]]:
    """All encodings, and those that took longer than they may."""
    names = ("encoding", "encode ms", "decode ms", "sum ms", "limit ms", "plain copies", "bytes")
    shape = "×".join(map(str, tensor.shape))
    table = Table(*names, "", title=f"Time, {shape} float32, one thread")
    missed = []
    for text in (*LIMITS_MS, *OTHERS):
        encoding, decoding, copy, size = speed(text, tensor, turns)
        total_ms, limit_ms = (encoding + decoding) * 1e3, LIMITS_MS.get(text)
        late = limit_ms is not None and total_ms > limit_ms and judged
        if late:
            missed.append(f"{text}: {total_ms:.2f} ms, bound ≤ {limit_ms:g}")
        table.add_row(
            text,
            f"{encoding * 1e3:.2f}",
            f"{decoding * 1e3:.2f}",
            f"{total_ms:.2f}",
            "" if limit_ms is None else f"{limit_ms:.0f}",
            f"{(encoding + decoding) / copy:.0f}",
            f"{size:,}",
            MISSED if late else "kept" if limit_ms is not None and judged else "",
        )
    return table, missed


def error_table(data: dict[str, torch.Tensor]) -> Table:
    kinds = [(scale, dither) for scale in ("minmax", "clipped") for dither in (False, True)]
    names = [
        f"{scale}{', dither' * dither}\n{kind}"
        for scale, dither in kinds
        for kind in ("scalar", "lattice")
    ]
    table = Table("data", "bits", *names, title="Mean squared error / variance")
    for name, tensor in data.items():
        for bits in (1, 2, 3, 4, 6, 8):
            errors = [
                f"{error(kind(bits, scale, dither), tensor):.3g}"
                for scale, dither in kinds
                for kind in (scalar, lattice)
            ]
            table.add_row(name, str(bits), *errors, end_section=bits == 8)
    return table


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="every encoding once, and small")
    smoke = parser.parse_args(words).smoke
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    shape = (32, 64) if smoke else SHAPE
    normal = torch.randn(shape, generator=random)
    uniform = torch.rand(shape, generator=random)
    data = {"normal": normal, "uniform": uniform, "ReLU": normal.clamp_min(0)}
    console = Console(width=130)
    table, missed = speed_table(normal, 1 if smoke else TURNS, judged=not smoke)
    console.print(table)
    tell_missed(missed, console)
    console.print(error_table(data))


if __name__ == "__main__":
    main()
