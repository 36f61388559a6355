"""Scores of rows whose parts lie with several parties, all of them in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.data.own import FileRows
from colonnade.errors import DataError
from colonnade.estimators.rows import located
from colonnade.estimators.tables import Held
from colonnade.learn.saved import Bottom, Head, SavedParty, saved_of
from colonnade.record.run import Run

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Scored:
    """What a model says of the active party's rows."""

    scores: Array
    """[rows, outputs]; NaN where a party lacks the row, and nothing stands in for it."""
    lacks: dict[str, NDArray[np.bool_]]
    """For each party, which rows it lacks."""

    @property
    def lacking(self) -> NDArray[np.bool_]:
        """Which rows some party lacks."""
        return np.asarray(np.stack(list(self.lacks.values())).any(axis=0))

    def refuse_lacking(self) -> None:
        """Refuse rows without a score, where each needs a prediction."""
        missing = np.isnan(self.scores[:, 0])
        if not missing.any():
            return
        counts = {name: int(own.sum()) for name, own in self.lacks.items() if own.any()}
        who = ", ".join(f"{name} lacks {count}" for name, count in counts.items())
        raise DataError(
            f"{int(missing.sum())} of {len(missing)} rows cannot be predicted ({who}): leave them "
            "out (predict_rows names them), or set missing='mean'"
        )


class Model:
    """The parts of a model that was trained, from all parties."""

    def __init__(self, run: Run) -> None:
        self.active = run.job.active
        self.saved = {name: _precise(saved_of(run, name)) for name in run.job.parties}
        self.means: dict[str, torch.Tensor] = {}

    def learn_means(self, parts: Mapping[str, FileRows]) -> None:
        """Keep the mean embedding of each passive party over the rows of the training."""
        for name, own in parts.items():
            if name != self.active:
                self.means[name] = self._embed(name, own.features).mean(0)

    def _embed(self, name: str, table: Any) -> torch.Tensor:
        saved = self.saved[name]
        assert saved.preprocessor is not None
        try:
            rows = saved.preprocessor.transform(table)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        return Bottom(saved).embed(rows)

    def score(self, held: Mapping[str, Held], stand_in: bool) -> Scored:
        """The scores of the active party's rows, in the order of its frame.

        Args:
            held: the frames of all parties.
            stand_in: whether a party's mean embedding stands in for a row that it lacks.
        """
        places = located(held, self.active)
        lacks = {name: own < 0 for name, own in places.items()}
        embeddings = {}
        for name, saved in self.saved.items():
            if saved.card.width:
                embeddings[name] = self._found(name, held[name], places[name])
        head = Head(self.saved[self.active])
        scored = Scored(np.array(head.scores(embeddings)), lacks)
        if not stand_in:
            scored.scores[scored.lacking] = np.nan
        return scored

    def _found(self, name: str, own: Held, places: NDArray[np.int64]) -> torch.Tensor:
        there = places >= 0
        found = self._embed(name, own.table.take(places[there]))
        if there.all():
            return found
        whole = self.means[name].repeat(len(places), 1)
        whole[torch.from_numpy(there)] = found
        return whole


def _precise(saved: SavedParty) -> SavedParty:
    """The same model in 64 bits: so the score of a row does not depend on those beside it, which
    the order of 32-bit sums does."""
    return replace(saved, card=msgspec.structs.replace(saved.card, dtype="float64"))
