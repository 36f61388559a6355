"""What the active party's own recording tells of its labels: every attack that another party could
make with what it was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from colonnade.privacy import direction as by_direction
from colonnade.privacy import norm as by_norm
from colonnade.privacy import spectral as by_spectral
from colonnade.privacy.completion import completion
from colonnade.privacy.direction import direction
from colonnade.privacy.findings import Figures, Finding, Step, class_figures, column_figures, prior
from colonnade.privacy.norm import norm
from colonnade.privacy.pooling import Guess, common, draw, features, shuffled
from colonnade.privacy.recorded import Array, Own, Recording, Rows, Stream
from colonnade.privacy.ridge import ridge
from colonnade.privacy.spectral import spectral
from colonnade.record.traffic import EVERYBODY

ROWS_MIN = 8
CLASSES_MAX = 1000
"""Of more classes nothing is tried."""
COMMONEST = "the commonest class"
MEAN = "the mean"
OWN_COLUMNS = "the same from its own columns"


@dataclass(frozen=True, eq=False)
class Seen:
    """What one party has seen of the rows: gradients, and the embeddings that it has sent."""

    ids: Rows
    gradients: Stream | None
    embeddings: Stream | None

    def first(self) -> Seen:
        """One release of each row: its first gradient, and its last embedding."""
        gradients = None if self.gradients is None else self.gradients.first()
        return Seen(self.ids, gradients, self.embeddings)


Attack = Callable[[Seen, Array, bool], Guess]
"""What is guessed of each row by somebody who has seen this, and knows some of the labels; with one
release of each row, or with all."""


def label_attacks(
    recording: Recording, peer: str, known: int, beside: Recording | None = None
) -> Iterator[Step]:
    """All attacks of one party on the labels; `beside` is the attacker's own recording, where it is
    at hand: for the baseline, and for what the active party has not seen itself."""
    if recording.labels is None:
        return
    title = f"on {recording.party}'s labels by {peer}"
    outright = recording.streams.get(("sent", EVERYBODY, "labels"))
    if outright is not None:
        yield Step(f"labels shared with {peer}", partial(_told_outright, recording, peer, outright))
    gradients, embeddings = _seen_by(recording, recording.labels, peer, beside)
    given = [each for each in (gradients, embeddings) if each is not None]
    ids, streams = common(given)
    if len(ids) < ROWS_MIN:
        return
    seen = Seen(
        ids,
        streams[0] if gradients is not None else None,
        streams[-1] if embeddings is not None else None,
    )
    labels = _codes(recording.labels.of(ids))
    about = partial(_finding, recording.party, peer, seen, labels, known)
    columns = None if beside is None else beside.columns
    for name, needs, attack in _attacks(seen, labels, known):
        yield Step(f"{name} {title}", partial(about, name, needs, attack, columns))


def _seen_by(
    recording: Recording, labels: Own, peer: str, beside: Recording | None
) -> tuple[Stream | None, Stream | None]:
    """The gradients that a party was sent, and the embeddings that it has sent; where masks or
    encryption kept the active party from seeing them, as the party itself has recorded them."""
    gradients = recording.streams.get(("sent", peer, "gradient"))
    embeddings = recording.streams.get(("received", peer, "embedding"))
    if beside is None:
        return gradients, embeddings
    if gradients is None:
        gradients = beside.streams.get(("received", recording.party, "gradient"))
    if embeddings is None:
        embeddings = beside.sent("summand", "sealed").get(recording.party)
    # The two recordings may have ended at different rows.
    return _within(gradients, labels.rows), _within(embeddings, labels.rows)


def _within(stream: Stream | None, rows: Rows) -> Stream | None:
    return None if stream is None else stream.within(rows)


def _codes(labels: Array) -> Array:
    """Classes by the numbers from 0 on, those without any rows left out; quantities as they are."""
    if labels.dtype.kind != "i":
        return labels
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _attacks(seen: Seen, labels: Array, known: int) -> Iterator[tuple[str, str, Attack]]:
    """Those that the labels and what was seen allow: name, what it needs, and the attack."""
    classes = len(np.unique(labels)) if labels.dtype.kind == "i" else 0
    # Where each row is a class of its own there is none to be told by another.
    if classes == 1 or classes > CLASSES_MAX or classes == len(labels):
        return
    if seen.gradients is not None and classes == 2:
        share = float(labels.mean())
        yield "norm", by_norm.NEEDS, _norm
        needs = by_spectral.NEEDS_EVEN if by_spectral.is_even(share) else by_spectral.NEEDS
        yield "spectral", needs, _spectral
    if seen.gradients is not None and classes:
        yield "direction", by_direction.NEEDS, _direction
    needs = f"the labels of {draw(len(seen.ids), known).sum():,} rows"
    if seen.embeddings is not None:
        yield "completion", needs, partial(_learnt, known, False)
    if seen.gradients is not None and seen.embeddings is not None:
        yield "combined", needs, partial(_learnt, known, True)


def _norm(seen: Seen, labels: Array, one: bool) -> Guess:
    assert seen.gradients is not None
    scores = norm(seen.gradients, float(labels.mean()))
    return Guess(np.stack([-scores, scores], axis=1), np.zeros(len(labels), bool))


def _spectral(seen: Seen, labels: Array, one: bool) -> Guess:
    assert seen.gradients is not None
    share, (examples, taken) = float(labels.mean()), _examples(seen.ids, labels)
    scores = spectral(seen.gradients, share, examples)
    if not by_spectral.is_even(share):
        taken = np.zeros(len(labels), bool)
    return Guess(np.stack([-scores, scores], axis=1), taken)


def _direction(seen: Seen, labels: Array, one: bool) -> Guess:
    assert seen.gradients is not None
    examples, taken = _examples(seen.ids, labels)
    return Guess(direction(seen.gradients, examples), taken)


def _learnt(known: int, combined: bool, seen: Seen, labels: Array, one: bool) -> Guess:
    """From embeddings, and gradients too where it is `combined`."""
    streams = [seen.gradients, seen.embeddings] if combined else [seen.embeddings]
    parts = [features(each, one) for each in streams if each is not None]
    return _model(np.concatenate(parts, axis=1), labels, known)


def _model(values: Array, labels: Array, known: int) -> Guess:
    """From the rows whose labels are known to all others."""
    taken = draw(len(labels), known)
    if labels.dtype.kind != "i":
        return Guess(ridge(values[taken], labels[taken, None], values), taken)
    classes = int(labels.max()) + 1
    return Guess(completion(values[taken], labels[taken], values, classes), taken)


def _examples(ids: Rows, labels: Array) -> tuple[Rows, Array]:
    """A row of each class, and which rows those are."""
    order = np.random.default_rng(0).permutation(len(ids))
    places = np.array([order[np.argmax(labels[order] == each)] for each in np.unique(labels)])
    taken = np.zeros(len(ids), bool)
    taken[places] = True
    return ids[places], taken


def _figures(guess: Guess, labels: Array) -> Figures:
    """Of the rows that the attacker does not know anyway."""
    asked = ~guess.known
    if labels.dtype.kind != "i":
        return column_figures(guess.scores[asked], labels[asked, None])
    return class_figures(guess.scores[asked], labels[asked])


def _baseline(
    name: str, ids: Rows, labels: Array, known: int, columns: Own | None
) -> tuple[Figures, str]:
    """What the attacker would tell without what it received."""
    if name in ("completion", "combined") and columns is not None and columns.has(ids):
        own = columns.of(ids).reshape(len(ids), -1)
        return _figures(_model(own, labels, known), labels), OWN_COLUMNS
    if labels.dtype.kind != "i":
        return Figures(r2=0.0), MEAN
    return prior(labels), COMMONEST


def _finding(
    party: str,
    peer: str,
    seen: Seen,
    labels: Array,
    known: int,
    name: str,
    needs: str,
    attack: Attack,
    columns: Own | None,
) -> Finding:
    baseline = _baseline(name, seen.ids, labels, known, columns)
    pooled, mixed = attack(seen, labels, False), shuffled(labels)
    gradients = seen.gradients if seen.gradients is not None else seen.embeddings
    assert gradients is not None
    return Finding(
        party=party,
        of="labels",
        to=peer,
        attack=name,
        needs=needs,
        rows=int((~pooled.known).sum()),
        releases=gradients.releases,
        one=_figures(attack(seen.first(), labels, True), labels),
        pooled=_figures(pooled, labels),
        baseline=baseline[0],
        baseline_is=baseline[1],
        control=_figures(attack(seen, mixed, False), mixed),
    )


def _told_outright(recording: Recording, peer: str, sent: Stream) -> Finding:
    """The labels themselves have left."""
    assert recording.labels is not None
    rows = recording.labels.rows[np.isin(recording.labels.rows, sent.ids)]
    labels = recording.labels.of(rows)
    told = Own(sent.ids, sent.first_values()).of(rows).reshape(len(rows))
    quantity = labels.dtype.kind != "i"

    def figures(truth: Array) -> Figures:
        if quantity:
            return column_figures(told[:, None], truth[:, None])
        classes = np.unique(truth)
        if len(classes) > CLASSES_MAX:
            return Figures(accuracy=float((told == truth).mean()))
        # They may be others than the true ones, where they are protected.
        return class_figures((told[:, None] == classes).astype(np.float64), _codes(truth))

    return Finding(
        party=recording.party,
        of="labels",
        to=peer,
        attack="none needed",
        needs="nothing: the job shares the labels",
        rows=len(rows),
        releases=sent.releases,
        one=figures(labels),
        pooled=figures(labels),
        baseline=Figures(r2=0.0) if quantity else prior(labels),
        baseline_is=MEAN if quantity else COMMONEST,
        control=figures(shuffled(labels)),
    )
