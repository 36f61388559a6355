"""The `[top]` table of a job: how the active party turns embeddings into a prediction."""

from __future__ import annotations

from typing import Any, Literal

from colonnade.job.bounds import LAYERS_MAX, WIDTH_MAX
from colonnade.job.train import Record, require
from colonnade.job.typed import settle

LAYERS = (64,)
"""The hidden layers of a job that names none."""


class Top(Record, frozen=True, kw_only=True):
    """The active party's fusion model (the `[top]` table)."""

    kind: Literal["split", "agg", "dot", "module"] = "split"
    hidden: list[int] | None = None
    """The hidden layers of `split`, by default `[64]`; the other kinds have none."""
    dropout: float = 0.0
    bias: bool = True
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
        given = {"hidden": layers, "dropout": self.dropout, "bias": not self.bias}
        for field, value in given.items():
            require(
                self.kind == "split" or not value,
                f"top.{field} has no effect with top.kind = '{self.kind}', since only 'split' has "
                f"layers that it could be of: leave it out, or set top.kind = 'split'",
            )

    @property
    def layers(self) -> list[int]:
        """The hidden layers that the model has.

        >>> Top().layers, Top(kind="agg").layers
        ([64], [])
        """
        if self.hidden is not None:
            return list(self.hidden)
        return list(LAYERS) if self.kind == "split" else []
