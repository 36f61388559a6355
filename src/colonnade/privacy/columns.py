"""What a party's own recording tells of its columns: every attack that another party could make
with the embeddings that it was sent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade.privacy.findings import Figures, Finding, column_figures
from colonnade.privacy.inversion import inversion
from colonnade.privacy.labels import MEAN, ROWS_MIN
from colonnade.privacy.pooling import draw, features, shuffled
from colonnade.privacy.recorded import Array, Recording
from colonnade.privacy.ridge import ridge

ATTACKS = {"ridge": ridge, "inversion": inversion}
COLUMNS_MAX = 256
"""Of wider rows so many are looked at, evenly spread."""


def audit_columns(recording: Recording, known: int) -> Iterator[Finding]:
    """All attacks on a party's columns by whoever has its embeddings."""
    if recording.columns is None:
        return
    for (way, peer, purpose), sent in recording.streams.items():
        if way != "sent" or purpose != "embedding" or len(sent.ids) < ROWS_MIN:
            continue
        truth = _narrow(recording.columns.of(sent.ids))
        taken = draw(len(truth), known)
        last, all_ = features(sent, one=True), features(sent, one=False)

        def found(name: str, values: Array, truth: Array, taken: Array = taken) -> Figures:
            rebuilt = ATTACKS[name](values[taken], truth[taken], values[~taken])
            return column_figures(rebuilt, truth[~taken])

        for name in ATTACKS:
            yield Finding(
                party=recording.party,
                of="columns",
                to=peer,
                attack=name,
                needs=f"the columns of {taken.sum():,} rows",
                rows=int((~taken).sum()),
                releases=sent.releases,
                one=found(name, last, truth),
                pooled=found(name, all_, truth),
                baseline=Figures(r2=0.0),
                baseline_is=MEAN,
                control=found(name, all_, shuffled(truth)),
            )


def _narrow(columns: Array) -> Array:
    width = columns.shape[1]
    if width <= COLUMNS_MAX:
        return columns
    return columns[:, np.linspace(0, width - 1, COLUMNS_MAX).astype(np.int64)]
