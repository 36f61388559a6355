"""A party's own part of a prediction: the embeddings of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.learn.saved import Bottom
from colonnade.predict.rows import LACKING, PartyRows, Rows

Array = NDArray[Any]
SAMPLE = 16_384
"""From so many rows, spread evenly over the table, a party's mean embedding is computed."""


class OwnPart:
    """The rows of a party and its bottom models, by version."""

    def __init__(
        self,
        rows: PartyRows,
        bottoms: Mapping[str, Bottom],
        shape: Callable[[torch.Tensor], torch.Tensor] = lambda embedding: embedding,
    ) -> None:
        """`shape` is what protections make of embeddings before noise is added; a mean is of rows
        that have been through it, so that no row has a larger share in it than another."""
        self.rows, self._shape = rows, shape
        self._bottoms = bottoms
        self._means: dict[str, torch.Tensor] = {}

    def width(self, model: str) -> int:
        """Of its embeddings; 0 for a party that has none."""
        return self._bottoms[model].width if model in self._bottoms else 0

    def embed(
        self, model: str, rows: Rows, mean: bool, features: Array | None = None
    ) -> tuple[torch.Tensor, NDArray[np.bool_]]:
        """The embeddings of rows, and which of them the party lacks: those get zeros, or the mean.
        With `features` the rows' numbers are given, and none is lacking."""
        bottom = self._bottoms[model]
        if features is not None:
            return bottom.embed(features), np.zeros(len(features), dtype=np.bool_)
        lacking: NDArray[np.bool_] = rows == LACKING
        if not lacking.any():
            return bottom.embed(self.rows.features[model][rows]), lacking
        whole = torch.zeros(len(rows), bottom.width, dtype=bottom.dtype)
        if mean:
            whole[:] = self._mean(model)
        if not lacking.all():
            found = bottom.embed(self.rows.features[model][rows[~lacking]])
            whole[torch.as_tensor(~lacking)] = found.cpu()
        return whole, lacking

    @property
    def sample(self) -> slice:
        """The rows of which the mean is."""
        return slice(None, None, max(1, -(-self.rows.count // SAMPLE)))

    def _mean(self, model: str) -> torch.Tensor:
        if model not in self._means:
            embedded = self._bottoms[model].embed(self.rows.features[model][self.sample])
            self._means[model] = self._shape(embedded).mean(dim=0).cpu()
        return self._means[model]
