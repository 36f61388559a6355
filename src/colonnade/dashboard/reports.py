"""Runs side by side, as the report has them, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from colonnade.dashboard.finding import Place, still_there
from colonnade.errors import ColonnadeError, RequestError
from colonnade.page.facts import TIMELINE_BYTES, Facts, facts_of
from colonnade.page.reading import clean_text
from colonnade.page.report import report_on


def report(places: Sequence[Place]) -> bytes:
    """The facts of some runs and how they compare; of those that cannot be read, a sentence each.
    `ids` are those of its runs, in their order. Called in a thread."""
    runs: list[Facts] = []
    ids: list[str] = []
    faults: list[dict[str, str]] = []
    for place in places:
        try:
            runs.append(_facts(place, TIMELINE_BYTES // len(places)))
            ids.append(place.id)
        except (ColonnadeError, OSError) as error:
            said = error.strerror or "" if isinstance(error, OSError) else str(error)
            # Of the path people know the part that the list shows.
            said = said.replace(f"{place.path}/", "").replace(str(place.path), place.name)
            faults.append({"name": place.name, "fault": clean_text(said, 500)})
    told: dict[str, Any] = report_on(runs) if runs else {"runs": []}
    # The only values that JSON does not have are texts of a kind of their own.
    return msgspec.json.encode(told | {"ids": ids, "faults": faults}, enc_hook=str)


def _facts(place: Place, timeline_bytes: int) -> Facts:
    if not still_there(place):
        raise RequestError("the folder has gone, or has become a link")
    return facts_of(place.path, timeline_bytes=timeline_bytes) | {"folder": place.name}
