"""How fast and how exact the tensor encodings are, on 4096×256 float32 and one thread.

    python benchmarks/codecs.py

The first table is time: encode and decode, measured in turns with a plain copy of the tensor, so
that a noisy neighbour slows both; the best of several turns. The second is the mean squared error
in parts of the data's variance, which is where the defaults of `scalar` and `lattice` come from.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

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


def speed(text: str, tensor: torch.Tensor) -> tuple[float, float, float, int]:
    """Seconds of encoding, decoding and a plain copy, and the bytes of the whole frame."""
    encoder = parse(text).encoder(KEY)
    packed = encoder.encode(tensor, Occasion(1))
    turns = [
        (
            seconds(tensor.clone),
            seconds(lambda: encoder.encode(tensor, Occasion(1))),
            seconds(lambda: decode(packed)),
        )
        for _ in range(TURNS)
    ]
    copy, encoding, decoding = (min(column) for column in zip(*turns, strict=True))
    return encoding, decoding, copy, len(Codec().encode(Embedding(1, packed)))


def error(encoding: Encoding, tensor: torch.Tensor) -> float:
    """The mean squared error in parts of the variance."""
    read = decode(encoding.encoder(KEY).encode(tensor, Occasion(1)))
    return ((read - tensor).square().mean() / tensor.var()).item()


def speed_table(tensor: torch.Tensor) -> Table:
    names = ("encoding", "encode ms", "decode ms", "sum ms", "limit ms", "plain copies", "bytes")
    table = Table(*names, title="Time, 4096×256 float32, one thread")
    for text in (*LIMITS_MS, *OTHERS):
        encoding, decoding, copy, size = speed(text, tensor)
        total_ms, limit_ms = (encoding + decoding) * 1e3, LIMITS_MS.get(text)
        late = limit_ms is not None and total_ms > limit_ms
        table.add_row(
            text,
            f"{encoding * 1e3:.2f}",
            f"{decoding * 1e3:.2f}",
            f"[red]{total_ms:.2f}[/]" if late else f"{total_ms:.2f}",
            "" if limit_ms is None else f"{limit_ms:.0f}",
            f"{(encoding + decoding) / copy:.0f}",
            f"{size:,}",
        )
    return table


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


def main() -> None:
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    normal = torch.randn(SHAPE, generator=random)
    uniform = torch.rand(SHAPE, generator=random)
    data = {"normal": normal, "uniform": uniform, "ReLU": normal.clamp_min(0)}
    console = Console(width=130)
    console.print(speed_table(normal))
    console.print(error_table(data))


if __name__ == "__main__":
    main()
