"""A party takes part in an alignment over the network."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa

from colonnade.align.desk import IDS, SECRETS, Desk
from colonnade.align.idset import IdSet
from colonnade.align.plan import WINDOW
from colonnade.align.program import Align, align_terms
from colonnade.align.roles import Found
from colonnade.align.shapes import hint, shape_of
from colonnade.align.workers import Workers
from colonnade.data.aligned import (
    FACTS,
    ROWS,
    Alignment,
    TableFingerprint,
    has_alignment,
    pack_rows,
    read_facts,
)
from colonnade.data.ids import id_texts
from colonnade.data.own import id_columns, open_table
from colonnade.errors import DataError, RequestError
from colonnade.job.policy import Policy
from colonnade.job.records import Job, is_array
from colonnade.job.terms import identity
from colonnade.net.link import Emulation
from colonnade.net.runner import Address
from colonnade.record.events import Subscriber
from colonnade.record.party_folder import PartyFolder
from colonnade.record.private import write_whole
from colonnade.run.participation import Participation
from colonnade.tls.keyring import Keyring
from colonnade.tls.signature import Credentials

DESK = "work"
"""The folder of a party's secrets, within that of its alignment."""
KEPT = (SECRETS, "prediction-tags.bin")
_FEW = 0.01
"""A smaller share of the smallest set is almost nothing, and worth a hint."""


@dataclass
class Aligned:
    """What became of a party's part."""

    folder: Path
    status: str
    facts: Alignment
    differences: dict[str, list[str]] = field(default_factory=dict)
    """Where a peer's count of what crossed differs from this party's, by peer."""
    hints: list[str] = field(default_factory=list)
    """Why there may be so few common ids."""


@dataclass(frozen=True)
class OwnIds:
    """The ids of a party's table."""

    columns: tuple[str, ...]
    count: int
    table: str
    """Their fingerprint."""
    shape: str
    """What they look like."""


def read_ids(job: Job, me: str, desk: Desk | None = None) -> OwnIds:
    """Read the ids of a party's table, and put their digests on its desk, if it is given."""
    party = job.parties[me]
    if party.table is None or is_array(party.table):
        raise DataError(
            f"{me} has no table with ids to align: set parties.{me}.table to its file and "
            f"parties.{me}.id to the column that names its rows"
        )
    path, columns = party.table, id_columns(me, party, party.table)
    file, mixed = open_table(me, party, path), TableFingerprint()
    shapes: list[str] = []

    def texts() -> Iterator[pa.Array]:
        for batch in file.batches(columns):
            piece = pa.Table.from_batches([batch])
            found = id_texts(piece, columns, job.ids, path, first=mixed.count)
            if not shapes and len(found):
                shapes.append(shape_of(found))  # The first of them are as good as all.
            mixed.update(found)
            yield found

    if desk is not None:
        IdSet.build(desk.folder / IDS, texts(), job.ids, path)
    else:
        deque(texts(), maxlen=0)
    if not mixed.count:
        raise DataError(f"{path} has no rows: name a table that has some")
    return OwnIds(columns, mixed.count, mixed.text(), shapes[0])


def align(
    job: Job,
    me: str,
    policy: Policy,
    address: Address,
    credentials: Credentials,
    keyring: Keyring,
    folder: PartyFolder,
    workers: Workers,
    emulation: Emulation | None = None,
    subscribers: Sequence[Subscriber] = (),
) -> Aligned:
    """Take part in an alignment; returns when everybody has the result."""
    taking = _Aligning(job, me, policy, credentials, folder, workers, subscribers)
    return taking.run(address, keyring, emulation)


def finished(job: Job, me: str, folder: PartyFolder) -> Alignment | None:
    """What the alignment in a folder found, if it is over; one of another table is refused."""
    folder.refuse_others(me, identity(align_terms(job)))
    if not folder.is_complete:
        return None
    if not has_alignment(folder.path):
        raise RequestError(
            f"the alignment in {folder.path} found no common id: see to the ids, then align again, "
            "with --restart at all parties"
        )
    facts = read_facts(folder.path)
    if read_ids(job, me).table != facts.table:
        raise RequestError(
            f"the table of {me} has changed since it was aligned: align again, with --restart at "
            "all parties"
        )
    return facts


class _Aligning(Participation[Found]):
    def __init__(
        self,
        job: Job,
        me: str,
        policy: Policy,
        credentials: Credentials,
        folder: PartyFolder,
        workers: Workers,
        subscribers: Sequence[Subscriber],
    ) -> None:
        sends = receives = [kind.__name__ for kind in Align.kinds.sends]
        refusal = policy.refuse_job(job, me, sends=sends, receives=receives, trains=False)
        if refusal is not None:
            raise RequestError(refusal)
        same = identity(align_terms(job))
        super().__init__(
            job, me, policy, same, folder, subscribers, keep=WINDOW + 2, tells_saved=False
        )
        self._desk = Desk(folder.path / DESK)
        self._credentials, self._workers = credentials, workers
        self._facts: Alignment | None = None

    def run(self, address: Address, keyring: Keyring, emulation: Emulation | None) -> Aligned:
        status, differences = self.take_part(address, keyring, emulation)
        facts = self._facts or read_facts(self.folder.path)
        return Aligned(self.folder.path, status, facts, differences, self._hints(facts))

    def program(self) -> Align:
        self._align = Align(
            self.job,
            self.name,
            self._read,
            self._desk,
            self._workers,
            self._credentials,
            os.urandom,
            policy=self.policy,
            store=self.store,
            keep=self._keep,
        )
        return self._align

    def _read(self) -> str:
        self._own = read_ids(self.job, self.name, self._desk)
        return self._own.shape if self.policy.shares_id_shape else ""

    def status(self, outcome: Found) -> str:
        return "end"

    def settled(self) -> None:
        super().settled()
        self._desk.clear(*KEPT)

    def _keep(self, found: Found) -> None:
        role, path = self._align.role, self.folder.path
        assert role is not None
        self._facts = Alignment(
            party=self.name,
            common=found.common,
            count=len(found.rows),
            sizes=role.place.plan.sizes,
            id=self._own.columns,
            rule=self.job.ids.text(),
            table=self._own.table,
        )
        if len(found.rows):
            write_whole(path / ROWS, [pack_rows(found.rows)])
            text = msgspec.json.format(msgspec.json.encode(self._facts), indent=1).decode()
            write_whole(path / FACTS, text + "\n")
        entries = json.dumps(self.world.ledger.entries(), indent=1)
        write_whole(path / "ledger.json", entries + "\n")
        done = {
            "party": self.name,
            "role": self.job.parties[self.name].role,
            "program": "align",
            "status": "end",
            "rounds": role.place.plan.rounds,
        }
        write_whole(path / "party.json", json.dumps(done) + "\n")

    def _hints(self, facts: Alignment) -> list[str]:
        if facts.count >= _FEW * min(facts.sizes.values()):
            return []
        said = self._align.introductions
        found = [
            hint(self._own.shape, other.shape, name)
            for name, other in said.items()
            if name != self.name and other.shape
        ]
        return [text for text in found if text is not None]
