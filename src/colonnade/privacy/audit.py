"""An audit: of every party whose recording is at hand, by itself, what others could tell from what
it has sent."""

from __future__ import annotations

from collections.abc import Mapping

from colonnade.privacy.columns import audit_columns
from colonnade.privacy.findings import Audit, Covered, Finding
from colonnade.privacy.labels import audit_labels
from colonnade.privacy.recorded import Recording
from colonnade.privacy.verdict import NOT_TESTED, verdict

KNOWN = 1000
"""How many rows an attacker is taken to know, where an attack needs some."""


def audit(recordings: Mapping[str, Recording], known: int = KNOWN) -> Audit:
    """What the recordings of some parties of one run tell.

    >>> audit({}).findings
    []
    """
    findings = [
        finding
        for recording in recordings.values()
        for finding in (*_labels(recording, recordings, known), *audit_columns(recording, known))
    ]
    covered = [_covered(each) for each in recordings.values()]
    return Audit(
        known=known,
        covered=covered,
        findings=findings,
        verdict=verdict(findings, recordings),
        not_tested=list(NOT_TESTED),
    )


def _labels(recording: Recording, recordings: Mapping[str, Recording], known: int) -> list[Finding]:
    received = {peer for way, peer, _ in recording.streams if way == "received"}
    sent = {peer for way, peer, what in recording.streams if (way, what) == ("sent", "gradient")}
    found: list[Finding] = []
    for peer in sorted(received | sent):
        # Only where all parties are in one place; it serves to compare, and nothing is told of it.
        beside = recordings[peer].columns if peer in recordings else None
        found += audit_labels(recording, peer, known, beside)
    return found


def _covered(recording: Recording) -> Covered:
    lines = {"sent": 0, "received": 0}
    for (way, _, _), stream in recording.streams.items():
        lines[way] += len(stream.rows)
    return Covered(recording.party, recording.rounds, lines["sent"], lines["received"])
