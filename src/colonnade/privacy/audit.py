"""An audit: of every party whose recording is at hand, by itself, what others could tell from what
it has sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from colonnade.privacy.columns import column_attacks
from colonnade.privacy.findings import Audit, Covered, Step
from colonnade.privacy.labels import label_attacks
from colonnade.privacy.recorded import Recording
from colonnade.privacy.verdict import not_tested, verdict

KNOWN = 1000
"""How many rows an attacker is taken to know, where an attack needs some."""
OnStep = Callable[[int, int, str], None]
"""Told how many attacks are done, of how many, and which one begins."""


def audit(
    recordings: Mapping[str, Recording],
    known: int = KNOWN,
    parties: Iterable[str] | None = None,
    on_step: OnStep | None = None,
) -> Audit:
    """What the recordings of some parties of one run tell of these parties, by default of all.

    >>> audit({}).findings
    []
    """
    audited = {name: recordings[name] for name in (recordings if parties is None else parties)}
    steps = [
        step
        for recording in audited.values()
        for step in (
            *_labels(recording, recordings, known),
            *column_attacks(recording, known, recordings),
        )
    ]
    findings = []
    for done, step in enumerate(steps):
        if on_step is not None:
            on_step(done, len(steps), step.title)
        findings.append(step.run())
    return Audit(
        known=known,
        covered=[_covered(each) for each in audited.values()],
        findings=findings,
        verdict=verdict(findings, audited),
        not_tested=not_tested(findings, audited),
    )


def _labels(
    recording: Recording, recordings: Mapping[str, Recording], known: int
) -> Iterator[Step]:
    told = {
        *(peer for way, peer, kind in recording.streams if way == "received" and kind != "sum"),
        *(peer for way, peer, kind in recording.streams if (way, kind) == ("sent", "gradient")),
        *(
            name
            for name, other in recordings.items()
            if ("received", recording.party, "gradient") in other.streams
        ),
    }
    for peer in sorted(told):
        # The attacker's own is there only where all parties are in one place.
        yield from label_attacks(recording, peer, known, recordings.get(peer))


def _covered(recording: Recording) -> Covered:
    kinds: dict[str, dict[str, int]] = {"sent": {}, "received": {}}
    for of in recording.by_split().values():
        for (way, _, kind), stream in of.streams.items():
            kinds[way][kind] = kinds[way].get(kind, 0) + len(stream.rows)
    sent, received = (sum(kinds[way].values()) for way in ("sent", "received"))
    return Covered(recording.party, recording.rounds, sent, received, kinds)
