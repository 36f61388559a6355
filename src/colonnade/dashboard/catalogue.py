"""All runs as they are now: looked for now and then, and shared by everybody who asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from colonnade.dashboard.finding import Findings, Place, find
from colonnade.dashboard.rows import Known, Row, row_of
from colonnade.dashboard.threads import Workers

FRESH_S = 1.0
"""How old an answer may be. Where looking takes long it is done more rarely."""
SHARE = 5
"""Looking takes at most one part in so many of the time."""


@dataclass(frozen=True)
class Snapshot:
    """What was found."""

    findings: Findings = field(default_factory=Findings)
    rows: Mapping[str, Row] = field(default_factory=dict)


class Catalogue:
    """The runs below a folder."""

    def __init__(self, root: Path, workers: Workers) -> None:
        self.root, self._workers = root, workers
        self._known: dict[str, Known] = {}
        self._snapshot = Snapshot()
        self._until_s = 0.0
        self._looking: asyncio.Future[None] | None = None

    async def snapshot(self) -> Snapshot:
        """What there is, at most a moment old."""
        if self._looking is None and time.monotonic() >= self._until_s:
            self._looking = asyncio.ensure_future(self._look())
        if self._looking is not None:
            # Shielded: others wait for the same.
            await asyncio.shield(self._looking)
        return self._snapshot

    async def run(self, id_: str) -> Place | None:
        """A run by its id; None where there is none."""
        return (await self.snapshot()).findings.runs.get(id_)

    async def _look(self) -> None:
        began_s = time.monotonic()
        try:
            self._snapshot = await self._workers.run(self._found)
        finally:
            now_s = time.monotonic()
            self._until_s = now_s + max(FRESH_S, SHARE * (now_s - began_s))
            self._looking = None

    def _found(self) -> Snapshot:
        findings = find(self.root)
        known = {
            place.id: row_of(place, self._known.get(place.id)) for place in findings.runs.values()
        }
        self._known = known
        return Snapshot(findings, {id_: each.row for id_, each in known.items()})
