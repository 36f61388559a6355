"""The `[train]` table of a job, how long, in which batches, towards what; and its `[top]` table."""

from __future__ import annotations

import re
from math import inf, isfinite
from typing import Any, Literal

import msgspec

from colonnade.errors import JobError, nearest
from colonnade.job.bounds import COUNT_MAX, LAYERS_MAX, WIDTH_MAX, check_seed
from colonnade.job.metrics import METRICS, fitting
from colonnade.job.typed import settle


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The common shape of all records of a job."""

    def __post_init__(self) -> None:
        settle(self)


def require(condition: bool, sentence: str) -> None:
    """Refuse a record with a sentence unless the condition holds."""
    if not condition:
        raise JobError(sentence)


def _no_metric(name: str) -> str:
    """The sentence for a metric that is none; what a job's task is shows only with its data."""
    close = nearest(name, METRICS)
    hint = f"{close} For" if close.startswith("did") else "for"
    return (
        f"train.metric: there is no metric '{name}': {hint} two classes choose one of "
        f"{', '.join(fitting('binary'))}; for more also top5; for quantities "
        f"{', '.join(fitting('regression'))}"
    )


UNEVALUATED: dict[str, Any] = {
    "evaluate_every": "never",
    "patience": None,
    "stop": "end",
    "full_loss": False,
    "extra_metrics": [],
}
"""What a training without evaluations has in the fields that are about them."""


class Train(Record, frozen=True, kw_only=True):
    """How long, in which batches, towards what (the `[train]` table)."""

    epochs: int | None = None
    """Passes over the training rows. Give this or `rounds`; with neither it is 10 epochs."""
    rounds: int | None = None
    """Exchanges in all, instead of `epochs`."""
    batch_size: int = 256
    """Rows in one exchange."""
    shuffle: Literal["epoch", "once", "never"] = "epoch"
    """A new order every epoch, one order for all epochs, or the order of the rows."""
    drop_last: bool = False
    """Leave out the last batch of an epoch when it is smaller than the others."""
    labels: Literal["private", "shared"] = "private"
    """Whether passive parties may see the labels (snapshot methods need that)."""
    loss: Literal["auto", "bce", "cross_entropy", "mse", "l1", "huber", "taylor"] = "auto"
    """`auto`: bce for two classes, cross_entropy for more, mse for quantities. `taylor` is the
    logistic loss to second order, which can be differentiated under encryption."""
    class_weights: Literal["none", "balanced"] | list[float] = "none"
    """How much the rows of each class count; `balanced` makes all classes count the same."""
    pos_weight: float | None = None
    """How much a positive row counts under bce."""
    clip_norm: float | None = None
    """Each party scales its own gradients down to this norm; nobody sees the joint gradient."""
    dtype: Literal["float32", "float64"] = "float32"
    metric: str = "auto"
    """`auto`: auc for two classes, accuracy for more, mae for quantities."""
    extra_metrics: list[str] = []
    """Metrics to record beside `metric`."""
    target: float | None = None
    stop: Literal["end", "target"] = "end"
    """Whether reaching the target ends the run."""
    patience: int | None = None
    """Evaluations without a better metric after which the run ends."""
    evaluate_every: str = "1 epoch"
    """`"2 epochs"`, `"100 rounds"` or `"never"`."""
    evaluate_plain: bool = False
    """Send embeddings for evaluations as they are, where those of the training are compressed."""
    full_loss: bool = False
    """Evaluate the loss on all training rows too (the running loss is always recorded)."""
    test: float = 0.2
    """Share of the rows held out, for data without a test part of its own."""
    validation: float = 0.1
    """Share of the other rows by which choices are made: best round, target, patience, sweeps. With
    0 the test rows have to serve for that too."""
    split_seed: int = 0
    """Decides which rows are test and validation rows; apart from `seed`, so that seeds share
    them."""
    checkpoint_every: int | None = None
    """Rounds between the checkpoints of a run over the network. All parties must agree on it."""

    def __post_init__(self) -> None:
        settle(self)
        require(
            self.epochs is None or self.rounds is None,
            "train has both epochs and rounds: keep the one that should end the run",
        )
        for field in ("epochs", "rounds", "batch_size", "patience", "checkpoint_every"):
            value = getattr(self, field)
            require(value is None or value >= 1, f"train.{field} is {value}: it must be 1 or more")
            require(
                value is None or value <= COUNT_MAX,
                f"train.{field} is {value}: it must be {COUNT_MAX:,} or less",
            )
        check_seed(self.split_seed, "train.split_seed")
        for field in ("pos_weight", "clip_norm"):
            value = getattr(self, field)
            require(
                value is None or 0 < value < inf,
                f"train.{field} is {value}: it must be positive, and finite",
            )
        require(
            self.target is None or isfinite(self.target),
            f"train.target is {self.target}: give a value of the metric",
        )
        for field in ("test", "validation"):
            share = getattr(self, field)
            require(0 <= share < 1, f"train.{field} is {share}: give a share from 0 to below 1")
        require(
            self.stop == "end" or self.target is not None,
            "train.stop is 'target' but there is no train.target: set one",
        )
        for name in (self.metric, *self.extra_metrics):
            if name not in METRICS and not name == self.metric == "auto":
                raise JobError(_no_metric(name))
        if self.evaluation_period() is None:
            # A target is let through: it is also what other runs of the job are measured by.
            for field in UNEVALUATED.keys() - {"evaluate_every"}:
                require(
                    getattr(self, field) == UNEVALUATED[field],
                    f"train.{field} has no effect with train.evaluate_every = 'never': leave it "
                    "out, or evaluate, as with '1 epoch'",
                )

    def evaluation_period(self) -> tuple[int, Literal["epoch", "round"]] | None:
        """How often to evaluate, as a count and a unit; None for never.

        >>> Train(evaluate_every="100 rounds").evaluation_period()
        (100, 'round')
        """
        if self.evaluate_every == "never":
            return None
        match = re.fullmatch(r"(\d{1,12}) (epoch|round)s?", self.evaluate_every)
        if match is None or int(match[1]) < 1:
            raise JobError(
                f"train.evaluate_every is '{self.evaluate_every[:40]}': "
                "write '1 epoch', '100 rounds' or 'never'"
            )
        return int(match[1]), "epoch" if match[2] == "epoch" else "round"


LAYERS = (64,)
"""The hidden layers of a job that names none."""


class Top(Record, frozen=True, kw_only=True):
    """The active party's fusion model (the `[top]` table)."""

    kind: Literal["split", "agg", "dot", "module"] = "split"
    hidden: list[int] | None = None
    """The hidden layers of `split`, by default `[64]`, or of `agg` after the sum, by default none;
    the other kinds have none."""
    dropout: float = 0.0
    bias: bool = True
    init: str | None = None
    """How its initial weights are drawn, as for a bottom model; by default torch's."""
    module: str | None = None
    """`package.module:function`, called with the embedding widths and the output width."""
    optimizer: dict[str, Any] | None = None
    """Its own optimizer; without one it shares the active party's."""

    def __post_init__(self) -> None:
        settle(self)
        require(
            (self.kind == "module") == (self.module is not None) or self.kind == "module",
            "top.module is set but top.kind is not 'module': set top.kind = 'module'",
        )
        require(0 <= self.dropout < 1, f"top.dropout is {self.dropout}: give 0 to below 1")
        layers = self.hidden or []
        require(
            len(layers) <= LAYERS_MAX and all(1 <= size <= WIDTH_MAX for size in layers),
            f"top.hidden has a layer that is not 1 to {WIDTH_MAX:,} wide, or more than "
            f"{LAYERS_MAX} layers: choose a smaller top model",
        )
        given = {
            "hidden": layers,
            "dropout": self.dropout,
            "bias": not self.bias,
            "init": self.init,
        }
        layered = self.kind == "split" or (self.kind == "agg" and len(layers) > 0)
        kind, cure = f"'{self.kind}'", "set top.kind = 'split'"
        if self.kind == "agg":
            kind, cure = "'agg' and no top.hidden", "give top.hidden, as in [32]"
        for field, value in given.items():
            require(
                layered or not value,
                f"top.{field} has no effect with top.kind = {kind}, which has no layers that it "
                f"could be of: leave it out, or {cure}",
            )

    @property
    def layers(self) -> list[int]:
        """The hidden layers that the model has.

        >>> Top().layers, Top(kind="agg").layers, Top(kind="agg", hidden=[32]).layers
        ([64], [], [32])
        """
        if self.hidden is not None:
            return list(self.hidden)
        return list(LAYERS) if self.kind == "split" else []
