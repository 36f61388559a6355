"""How light Colonnade is: ratios measured side by side in one run (`make bench`).

1. A simulated FedSGD epoch against a plain PyTorch loop of the same split structure, and against
   a joint autograd loop: two parties with 392 columns each, an MLP, batch 256, one thread.
2. Encoded messages per second through the party programs with a null learner.
3. Encoding and decoding 4096×256 float32 against a plain copy of it.
4. One embedding of 256×64 under masks, with four other passive parties (`pairwise:32`).
5. What the timeline costs: the spans of that epoch times the measured cost of noting one, packed
   and spilled to disk as in a long run, and its rounds times that of an exchange, against its time.

Each figure is the best of several turns that alternate between the things compared, so that a
noisy neighbour slows both.

    python -m benchmarks.light              about half a minute
    python -m benchmarks.light --smoke      everything once and tiny, to see that it runs
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
import torch
from rich.console import Console
from torch import nn
from torch.nn import functional as F

from benchmarks.figures import Figures
from benchmarks.messages import best_rate
from colonnade import Job, Party, Run, Top, Train, simulate, vertical
from colonnade.compress import decode, plain
from colonnade.data.batches import BatchPlan
from colonnade.protect.keys import Occasion, Unsigned
from colonnade.protect.masks import Masks
from colonnade.protect.sum import pairwise
from colonnade.record.events import RoundDone
from colonnade.record.exchanges import Exchanges
from colonnade.record.timeline import Timeline
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Embedding

ROWS, COLUMNS, BATCH, CLASSES, TURNS = 12_800, 392, 256, 10, 7
Loop = Callable[[], None]


def bottom() -> nn.Module:
    return nn.Sequential(nn.Linear(COLUMNS, 256), nn.ReLU(), nn.Linear(256, 64))


class Example:
    """The data and the start weights that all three loops share."""

    def __init__(self, rows: int) -> None:
        torch.manual_seed(0)
        self.x = [torch.randn(rows, COLUMNS) for _ in range(2)]
        self.y = torch.randint(CLASSES, (rows,))
        self.plan = BatchPlan(rows, BATCH, seed=0)
        self.modules = {"a": bottom(), "b": bottom(), "top": nn.Linear(128, CLASSES)}

    def rows(self) -> list[torch.Tensor]:
        return [torch.from_numpy(self.plan.batch(r)) for r in range(self.plan.per_epoch)]

    def joint(self) -> Loop:
        """One model, one optimizer, plain autograd."""
        a, b, top = self.modules.values()
        parameters = [p for module in (a, b, top) for p in module.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.01)

        def epoch() -> None:
            for rows in self.rows():
                h = torch.cat([a(self.x[0][rows]), b(self.x[1][rows])], dim=1)
                loss = F.cross_entropy(top(h), self.y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        return epoch

    def split(self) -> Loop:
        """Cut at the embeddings, an optimizer to each party, no messages."""
        a, b, top = self.modules.values()
        optimizers = [torch.optim.SGD(module.parameters(), lr=0.01) for module in (a, b, top)]

        def epoch() -> None:
            for rows in self.rows():
                h = [a(self.x[0][rows]), b(self.x[1][rows])]
                cut = [embedding.detach().requires_grad_() for embedding in h]
                loss = F.cross_entropy(top(torch.cat(cut, dim=1)), self.y[rows])
                for optimizer in optimizers:
                    optimizer.zero_grad()
                loss.backward()
                for embedding, leaf in zip(h, cut, strict=True):
                    embedding.backward(leaf.grad)
                for optimizer in optimizers:
                    optimizer.step()
                loss.item()

        return epoch

    def simulated(self) -> Loop:
        """The same epoch through the party programs, with every byte encoded and counted."""
        job = Job(
            parties={"a": Party(role="active", optimizer={"name": "sgd", "lr": 0.01}),
                     "b": Party(optimizer={"name": "sgd", "lr": 0.01})},
            train=Train(epochs=1, batch_size=BATCH, evaluate_every="never"),
            top=Top(hidden=[]),
        )  # fmt: skip
        data = vertical(
            {"a": self.x[0].numpy(), "b": self.x[1].numpy()},
            self.y.numpy(),
            test_features={"a": np.zeros((1, COLUMNS)), "b": np.zeros((1, COLUMNS))},
            test_labels=[0],
        )
        models = self.modules | {"top": Joined(self.modules["top"])}

        def epoch() -> None:
            self.run = simulate(job, data, models)

        return epoch


class Joined(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, embeddings: list[torch.Tensor]) -> torch.Tensor:
        return self.network(torch.cat(embeddings, dim=1))


def best_seconds(things: dict[str, Loop], turns: int) -> dict[str, float]:
    """The best time of each thing over alternating turns, after one to warm up."""
    best = dict.fromkeys(things, float("inf"))
    for turn in range(turns + 1):
        for name, thing in things.items():
            began = time.perf_counter()
            thing()
            if turn:
                best[name] = min(best[name], time.perf_counter() - began)
    return best


def codec_seconds(rows: int, turns: int) -> dict[str, float]:
    tensor, codec = torch.randn(rows, 256), Codec()
    frame = codec.encode(Embedding(0, plain().encode(tensor)))
    return best_seconds(
        {
            "copy": lambda: [tensor.clone() for _ in range(20)] and None,
            "encode": lambda: (
                [codec.encode(Embedding(0, plain().encode(tensor))) for _ in range(20)] and None
            ),
            "decode": lambda: [decode(codec.decode(frame).tensor) for _ in range(20)] and None,
        },
        turns,
    )


def masks_seconds(turns: int) -> float:
    """To hide one embedding, best of many: five passive parties, so four masks."""
    parties, protection = tuple("abcde"), pairwise(32)
    occasion = Occasion("", "", "")
    made = [Masks(protection, me, parties, occasion, Unsigned(), os.urandom) for me in parties]
    first, tensor, rounds = made[0], torch.randn(BATCH, 64), count()
    for other, name in zip(made[1:], parties[1:], strict=True):
        first.accept("active", other.mine, name)

    def hide() -> None:
        first.hide(tensor, next(rounds), "embedding")

    return best_seconds({"hide": hide}, 50 * turns)["hide"]


def span_seconds(count: int, turns: int) -> float:
    """To note one span, with all that becomes of it until the run is saved."""

    def note() -> None:
        timeline = Timeline()
        code = timeline.code("send", "bank", "Embedding")
        for number in range(count):
            timeline.append((code, number, number + 1, number, 4096))
            timeline.pack_some()

    return best_seconds({"note": note}, turns)["note"] / count


def exchange_seconds(count: int, turns: int) -> float:
    """To tell of one round and to note its exchange."""

    def note() -> None:
        exchanges = Exchanges()
        for number in range(count):
            exchanges(RoundDone("lab", number, number, count, window=2, sent_ns=number))

    return best_seconds({"note": note}, turns)["note"] / count


def recording_share(run: Run, seconds: float, count: int, turns: int) -> float:
    """How much of a run's time goes into its timeline and its exchanges."""
    spans = sum(len(party.spans) for party in run.parties.values())
    rounds = sum(len(party.exchanges) for party in run.parties.values())
    noting = spans * span_seconds(count, turns) + rounds * exchange_seconds(count, turns)
    return noting / seconds


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="everything once and tiny")
    smoke = parser.parse_args(words).smoke
    torch.set_num_threads(1)
    turns = 1 if smoke else TURNS
    example = Example(2 * BATCH if smoke else ROWS)
    loops = best_seconds(
        {"joint": example.joint(), "split": example.split(), "simulated": example.simulated()},
        turns,
    )
    codec = codec_seconds(64 if smoke else 4096, turns)
    figures = Figures("Light: measured side by side, one thread", judged=not smoke)
    ratio = loops["simulated"] / loops["split"]
    figures.add("simulated FedSGD epoch ÷ plain split loop", ratio, f"{ratio:.2f}", most=1.25)
    ratio = loops["simulated"] / loops["joint"]
    figures.add("simulated FedSGD epoch ÷ joint autograd loop", ratio, f"{ratio:.2f}", most=1.4)
    for passives in (1, 4):
        rate = best_rate(passives, *((50, 1) if smoke else ()))
        what = f"messages per second, {passives + 1} parties, null learner"
        figures.add(what, rate, f"{rate:,.0f}", least=40_000)
    ratio = (codec["encode"] + codec["decode"]) / codec["copy"]
    what = "encode + decode 4096×256 float32 ÷ plain copy"
    figures.add(what, ratio, f"{ratio:.2f}", most=3)
    share = 100 * recording_share(
        example.run, loops["simulated"], 2_000 if smoke else 100_000, turns
    )
    figures.add("recording the timeline, % of the simulated epoch", share, f"{share:.2f}", most=1)
    ms = masks_seconds(turns) * 1000
    what = "masking 256×64 float32, five passive parties, ms"
    figures.add(what, ms, f"{ms:.2f}", most=0.3)
    console = Console()
    figures.show(console)
    milliseconds = {name: round(seconds * 1000, 1) for name, seconds in loops.items()}
    console.print(f"epoch of {example.plan.per_epoch} batches, ms: {milliseconds}")


if __name__ == "__main__":
    main()
