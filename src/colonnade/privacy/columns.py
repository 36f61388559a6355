"""What is told of a party's columns: every attack that another party could make with what it has of
the embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from colonnade.privacy.findings import Figures, Finding, Source, Step, column_figures
from colonnade.privacy.inversion import inversion
from colonnade.privacy.labels import MEAN, ROWS_MIN
from colonnade.privacy.pooling import draw, features, narrow, shuffled
from colonnade.privacy.recorded import EMBEDDINGS, Array, Own, Recording, Stream
from colonnade.privacy.ridge import ridge
from colonnade.record.traffic import EVERYBODY

ATTACKS = {"ridge": ridge, "inversion": inversion}
COLUMNS_MAX = 256
"""Of wider rows so many are looked at, evenly spread."""


class Seen(NamedTuple):
    """What somebody has of a party's embeddings."""

    by: str
    source: Source
    stream: Stream


def column_attacks(
    recording: Recording, known: int, others: Mapping[str, Recording]
) -> Iterator[Step]:
    """All attacks on a party's columns; `others` are the recordings of other parties at hand."""
    for split, own in recording.by_split().items():
        if own.columns is None:
            continue
        for seen in _seen(own, split, others):
            if len(seen.stream.ids) < ROWS_MIN:
                continue
            for name in ATTACKS:
                run = partial(_finding, recording.party, own.columns, split, seen, known, name)
                yield Step(f"{name} on {recording.party}'s columns, {split} rows", run)


def _seen(own: Recording, split: str, others: Mapping[str, Recording]) -> Iterator[Seen]:
    """Who has what of the embeddings of some rows. What was hidden from somebody counts only where
    it is not known what he had instead."""
    for peer, stream in own.sent(*EMBEDDINGS).items():
        yield Seen(peer, "messages", stream)
    for peer, summands in own.sent("summand").items():
        added = _sum_of(others.get(peer), split)
        if added is None:
            yield Seen(peer, "summand", summands)
        else:
            assert own.columns is not None
            # The two recordings may have ended at different rows.
            yield Seen(peer, "sum", added.within(own.columns.rows))
    for peer, sealed in own.sent("sealed").items():
        if peer not in others:
            yield Seen(peer, "sealed", sealed)


def _sum_of(active: Recording | None, split: str) -> Stream | None:
    """The sum that the active party has made of the embeddings of some rows."""
    found = None if active is None else active.by_split().get(split)
    return None if found is None else found.streams.get(("received", EVERYBODY, "sum"))


def _finding(party: str, columns: Own, split: str, seen: Seen, known: int, name: str) -> Finding:
    truth = narrow(columns.of(seen.stream.ids), COLUMNS_MAX)
    taken = draw(len(truth), known)
    last, all_ = features(seen.stream, one=True), features(seen.stream, one=False)

    def found(values: Array, truth: Array) -> Figures:
        rebuilt = ATTACKS[name](values[taken], truth[taken], values[~taken])
        return column_figures(rebuilt, truth[~taken])

    one = found(last, truth)
    return Finding(
        party=party,
        of="columns",
        to=seen.by,
        attack=name,
        needs=f"the columns of {taken.sum():,} rows",
        rows=int((~taken).sum()),
        releases=seen.stream.releases,
        one=one,
        # Of rows that crossed once there is no more to look at.
        pooled=one if all_.shape == last.shape else found(all_, truth),
        baseline=Figures(r2=0.0),
        baseline_is=MEAN,
        control=found(all_, shuffled(truth)),
        source=seen.source,
        split=split,
    )
