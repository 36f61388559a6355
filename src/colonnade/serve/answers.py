"""Scores as an answer over HTTP: class names, calibrated probabilities, and who lacked a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.learn.saved import Head
from colonnade.predict.request import Scored

RATE, TOO_LATE = "policy.predict_rows_per_minute", "the time of the question was up"
"""How the reason of a party begins that may answer a minute later, and of one that was too slow."""


@dataclass(frozen=True)
class Reply:
    """A status of HTTP, and the body."""

    status: int
    body: Any
    headers: Mapping[str, str] | None = None


def refusal(status: int, sentence: str, retry_s: int | None = None, **more: Any) -> Reply:
    """A reply that says in one sentence what is wrong.

    >>> refusal(503, "too much waits already", retry_s=1).headers
    {'retry-after': '1'}
    """
    headers = None if retry_s is None else {"retry-after": str(retry_s)}
    return Reply(status, {"error": sentence, **more}, headers)


def late_reply(late: Sequence[str], deadline_ms: float, model: Mapping[str, str]) -> Reply:
    """The time is up: who had not answered."""
    names = ", ".join(late)
    said = f"no answer of {names} within {deadline_ms:g} ms"
    return refusal(504, said, late=list(late), model=dict(model))


def declined_reply(declined: Mapping[str, str], model: Mapping[str, str]) -> Reply:
    """Some party does not answer for these rows, and says why."""
    said = "; ".join(f"{name} declines: {why}" for name, why in declined.items())
    if all(why.startswith(TOO_LATE) for why in declined.values()):
        return refusal(504, said, late=list(declined), model=dict(model))
    soon = all(why.startswith(RATE) for why in declined.values())
    status, retry_s = (429, 60) if soon else (403, None)
    return refusal(status, said, retry_s, declined=dict(declined), model=dict(model))


def scored_reply(
    head: Head, ids: Sequence[Any], scored: Scored, mean: bool, model: Mapping[str, str]
) -> Reply:
    """The rows with their predictions; null for a row that some party lacks."""
    scores = scored.scores
    finite = np.isfinite(scores)
    known: list[bool] = np.asarray(finite.all(axis=1)).tolist()
    lacking: dict[str, list[bool]] = {
        name: lacked.tolist() for name, lacked in scored.lacking.items()
    }
    if head.card.task == "regression":
        predictions: list[Any] = scores[:, 0].tolist()
        shares: list[Any] = []
    else:
        found = head.probabilities(np.where(finite, scores, 0.0))
        predictions = [head.card.classes[code] for code in found.argmax(axis=1).tolist()]
        shares = found.tolist()
    rows = []
    for place, each in enumerate(ids):
        lacks = [name for name, lacked in lacking.items() if lacked[place]]
        row: dict[str, Any] = {"id": each, "prediction": predictions[place]}
        if shares:
            row["probabilities"] = dict(zip(head.card.classes, shares[place], strict=True))
        if not known[place]:
            row = dict.fromkeys(row) | {"id": each}
        row["missing"] = lacks or None
        if mean:
            row["imputed"] = "mean" if lacks else None
        rows.append(row)
    missing = "mean" if mean else "null"
    return Reply(200, {"model": model, "missing": missing, "rows": rows})
