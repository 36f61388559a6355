"""What an audit says, for somebody who has to answer for the data and not for the mathematics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from colonnade.privacy.findings import Figures, Finding, Source
from colonnade.privacy.recorded import EMBEDDINGS, Recording
from colonnade.record.traffic import EVERYBODY

NOT_TESTED = (
    "parties that put together what each of them received",
    "parties that depart from the protocol, as by gradients made to draw out more",
    "attacks other than those listed, and attackers who know more than stated",
    "rounds that were not recorded, and the embeddings that are sent for prediction",
    "what the trained model itself tells of the rows it was trained on",
)
LEVELS = ((0.8, "nearly all"), (0.3, "much"), (0.05, "something"))
"""From how large a leak on it is called what."""
CONTROL_OFF = 0.03
SUPPOSED: dict[Source, str] = {
    "summand": "had the embeddings of all other passive parties",
    "sealed": "had the key",
}
"""What an attacker is taken to have that nobody has told it in this run."""


def verdict(findings: Sequence[Finding], recordings: Mapping[str, Recording]) -> list[str]:
    """A sentence for each party that could tell something, by the attack that told most; then what
    the recordings at hand cannot answer.

    >>> verdict([], {})
    []
    """
    told = [_sentence(group) for group in _groups(findings)]
    return told + _unsure(findings) + _left_to_others(recordings)


def _groups(findings: Iterable[Finding]) -> list[list[Finding]]:
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for each in findings:
        about = each.party, each.of, each.to, each.source, each.split
        groups.setdefault(about, []).append(each)
    return list(groups.values())


def level(leak: float) -> str:
    """How a leak is called.

    >>> level(0.9), level(0.01)
    ('nearly all', 'nothing')
    """
    return next((word for least, word in LEVELS if leak >= least), "nothing")


def percent(share: float) -> str:
    """A share that is nearly 1 is not called 1.

    >>> percent(0.9997), percent(0.779)
    ('99.97%', '77.9%')
    """
    return f"{share:.2%}" if 0.99 < share < 1 else f"{share:.1%}"


def _sentence(group: Sequence[Finding]) -> str:
    # Of several that tell as much, the first needs least.
    worst = max(group, key=lambda each: round(each.leak, 2))
    to = "Every other party" if worst.to == EVERYBODY else worst.to
    word = level(worst.leak)
    whose = told_of(worst) + (" from the sum of the embeddings" if worst.source == "sum" else "")
    if word == "nothing":
        tried = ", ".join(each.attack for each in group)
        who = f"Even if {_supposed(worst)}, it" if worst.supposed else to
        return (
            f"{who} could not be shown to tell anything of {whose} beyond what it would know "
            f"without the training ({tried}). This does not prove that nothing can be told."
        )
    who = f"If {_supposed(worst)}, it could" if worst.supposed else f"{to} can"
    return f"{who} tell {word} of {whose}: {_figures(worst)}; it needs {worst.needs}."


def told_of(finding: Finding) -> str:
    """What a finding is about, with the rows where they are not those of the training."""
    rows = "" if finding.split == "train" else f" of {finding.split} rows"
    return f"{finding.party}'s {finding.of}{rows}"


def _supposed(finding: Finding) -> str:
    return f"{finding.to} {SUPPOSED[finding.source]}"


def _figures(worst: Finding) -> str:
    best = worst.best
    if best.r2 is not None:
        return (
            f"it rebuilds them with R² {best.r2:.2f} ({worst.attack}), where 1 is exact and 0 is "
            "what the averages tell"
        )
    assert best.accuracy is not None and worst.baseline.accuracy is not None
    assert best.auc is not None and worst.baseline.auc is not None
    return (
        f"the right label for {percent(best.accuracy)} of {worst.rows:,} rows ({worst.attack}), "
        f"where {worst.baseline_is} gives {percent(worst.baseline.accuracy)}; it orders rows "
        f"with AUC {best.auc:.3f} against {worst.baseline.auc:.3f}"
    )


def _unsure(findings: Sequence[Finding]) -> list[str]:
    """Where the control is not what chance gives, figures mean less than they seem to."""
    off = [
        f"{each.attack} on {told_of(each)} for {each.to}"
        for each in findings
        if _off(each.control) > CONTROL_OFF
    ]
    if not off:
        return []
    return [
        f"Where the truth is shuffled, these attacks differ from chance by more than {CONTROL_OFF}:"
        f" {', '.join(off)}. There are too few rows for their figures to be exact."
    ]


def _off(control: Figures) -> float:
    if control.auc is not None:
        return abs(control.auc - 0.5)
    return abs(control.r2 or 0.0)


def _left_to_others(recordings: Mapping[str, Recording]) -> list[str]:
    """What only somebody else has the truth for."""
    said = []
    for name, own in recordings.items():
        received = {(peer, what) for way, peer, what in own.streams if way == "received"}
        from_ = sorted({peer for peer, what in received if what in EMBEDDINGS})
        others = [peer for peer in from_ if peer not in recordings]
        if others:
            said.append(
                f"What {name} can tell of the columns of {', '.join(others)} only they can say: "
                "each audits its own recording."
            )
        active = sorted({peer for peer, what in received if what == "gradient"} - set(recordings))
        if active:
            said.append(
                f"What {name} can tell of the labels of {active[0]} only {active[0]} can say, "
                "by an audit of its own recording."
            )
    return said


def not_tested(findings: Sequence[Finding], recordings: Mapping[str, Recording]) -> list[str]:
    """What the audit of some recordings leaves open: what every audit does, and what nobody could
    read.

    >>> not_tested([], {}) == list(NOT_TESTED)
    True
    """
    said = list(NOT_TESTED)
    for name, own in recordings.items():
        parts = list(own.by_split().values())
        added = any(("received", EVERYBODY, "sum") in each.streams for each in parts)
        if added and not any(each.source == "sum" and each.to == name for each in findings):
            said.append(
                f"what {name} can tell of columns from the sum of the embeddings: that takes the "
                "recordings of all parties in one place, as simulate and launch leave them"
            )
        tried = {each.to for each in findings if (each.party, each.source) == (name, "sum")}
        said += [
            f"what {to} can tell of {name}'s columns from the sum of the embeddings alone: {name} "
            "does not know that sum"
            for to in _receivers(parts, "summand") - tried
        ]
        said += [
            f"the encryption, by which {to} is taken to read nothing of what {name} encrypted; and "
            f"what other passive parties can tell of {name}'s columns from the gradients that they "
            "decrypt"
            for to in _receivers(parts, "sealed")
        ]
        if own.labels is not None and not any(each.of == "labels" for each in findings):
            said.append(
                f"what others can tell of {name}'s labels: no gradient that anybody could read is "
                "in the recordings at hand"
            )
    return said


def _receivers(parts: Iterable[Recording], kind: str) -> set[str]:
    """Who was sent something of a kind."""
    return {to for each in parts for to in each.sent(kind)}
