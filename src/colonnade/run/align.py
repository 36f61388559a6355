"""A party takes part in an alignment over the network."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from colonnade.align.desk import IDS, Desk
from colonnade.align.idset import IdSet
from colonnade.align.plan import WINDOW
from colonnade.align.program import Align, align_terms
from colonnade.align.roles import Found, Rows
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
from colonnade.formats import stamp
from colonnade.job.policy import Policy
from colonnade.job.records import Job, is_array
from colonnade.job.terms import identity
from colonnade.net.link import Emulation
from colonnade.net.runner import Address
from colonnade.record.events import Subscriber
from colonnade.record.party_folder import PartyFolder, is_complete, is_done
from colonnade.record.private import write_whole
from colonnade.run.participation import Participation
from colonnade.tls.keyring import Keyring
from colonnade.tls.signature import Credentials

DESK = "work"
"""The folder of a party's secrets, within that of its alignment."""
UPDATES = "updates"
"""The folder of the updates of an alignment, each a folder of its own."""
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
    path, columns, mixed = party.table, id_columns(me, party, party.table), TableFingerprint()
    shapes: list[str] = []

    def texts() -> Iterator[pa.Array]:
        for found in _texts(job, me, path):
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


def _texts(job: Job, me: str, path: str) -> Iterator[pa.Array]:
    """The ids of a party's table as text, piece by piece."""
    party, count = job.parties[me], 0
    columns = id_columns(me, party, path)
    for batch in open_table(me, party, path).batches(columns):
        found = id_texts(pa.Table.from_batches([batch]), columns, job.ids, path, first=count)
        count += len(found)
        yield found


def by_id(job: Job, me: str, rows: Rows) -> Rows:
    """Rows of a party's table in the order of their ids."""
    path = job.parties[me].table
    assert path is not None
    texts = pa.concat_arrays(_texts(job, me, path)).take(pa.array(rows))
    ordered: Rows = rows[pc.sort_indices(texts).to_numpy()]
    return ordered


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
    step: int = 0,
    sorts: bool = False,
) -> Aligned:
    """Take part in an alignment, or the update of it that has the number `step`; returns when
    everybody has the result. Where all parties `sort`, the rows come in the order of their ids, as
    in a simulation, and not in one that nobody can foresee."""
    with step_folder(folder, step) as own:
        taking = _Aligning(
            job, me, policy, credentials, folder.path, own, workers, subscribers, step, sorts
        )
        return taking.run(address, keyring, emulation)


@contextmanager
def step_folder(folder: PartyFolder, step: int) -> Iterator[PartyFolder]:
    """The run folder of a step: that of the alignment itself, or one within it."""
    if not step:
        yield folder
        return
    with closing(PartyFolder(folder.path / UPDATES / str(step))) as own:
        yield own


def next_step(job: Job, me: str, folder: PartyFolder, update: bool) -> int:
    """Which step is to be taken: the newest that is not over, or another one, if there is to be an
    update."""
    folder.refuse_others(me, identity(align_terms(job)))
    numbers = [int(path.name) for path in folder.path.glob(f"{UPDATES}/*") if path.name.isdecimal()]
    newest = max(numbers, default=0)
    if not update:
        return newest
    if not folder.is_complete:
        raise RequestError(
            f"{folder.path} holds no alignment that is complete, so there is nothing to update: "
            "run colonnade align without --update first"
        )
    place = folder.path / UPDATES / str(newest) if newest else folder.path
    # One that was kept here and not at the others goes on, unless there is something new.
    is_over = is_complete(place) or (is_done(place) and _has_changed(job, me, folder.path))
    return newest + 1 if is_over else newest


def finished(job: Job, me: str, folder: PartyFolder, step: int = 0) -> Alignment | None:
    """What the alignment in a folder found, if it is over with this step; one of another table is
    refused."""
    if not is_complete(folder.path / UPDATES / str(step) if step else folder.path):
        return None
    if _has_changed(job, me, folder.path):
        raise RequestError(
            f"the table of {me} has changed since it was aligned: where ids were only added, align "
            "again with --update, else with --restart, at all parties"
        )
    return read_facts(folder.path)


def _has_changed(job: Job, me: str, folder: Path) -> bool:
    if not has_alignment(folder):
        raise RequestError(
            f"the alignment in {folder} found no common id: see to the ids, then align again, "
            "with --restart at all parties"
        )
    return read_ids(job, me).table != read_facts(folder).table


class _Aligning(Participation[Found]):
    def __init__(
        self,
        job: Job,
        me: str,
        policy: Policy,
        credentials: Credentials,
        home: Path,
        folder: PartyFolder,
        workers: Workers,
        subscribers: Sequence[Subscriber],
        step: int,
        sorts: bool,
    ) -> None:
        sends = receives = [kind.__name__ for kind in Align.kinds.sends]
        refusal = policy.refuse_job(job, me, sends=sends, receives=receives, trains=False)
        if refusal is not None:
            raise RequestError(refusal)
        same = identity(align_terms(job, step))
        super().__init__(
            job, me, policy, same, folder, subscribers, keep=WINDOW + 2, tells_saved=False
        )
        self._home, self._step, self._sorts = home, step, sorts
        self._desk = Desk(home / DESK)
        self._credentials, self._workers = credentials, workers
        self._facts: Alignment | None = None

    def run(self, address: Address, keyring: Keyring, emulation: Emulation | None) -> Aligned:
        status, differences = self.take_part(address, keyring, emulation)
        facts = self._facts or read_facts(self._home)
        return Aligned(self._home, status, facts, differences, self._hints(facts))

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
            step=self._step,
        )
        return self._align

    def _read(self) -> str:
        self._own = read_ids(self.job, self.name, self._desk)
        return self._own.shape if self.policy.shares_id_shape else ""

    def status(self, outcome: Found) -> str:
        return "end"

    def reason(self, status: str) -> str:
        return "aligned" if status == "end" else status

    def settled(self) -> None:
        super().settled()
        self._desk.settle(self._step)

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
            rows = by_id(self.job, self.name, found.rows) if self._sorts else found.rows
            write_whole(self._home / ROWS, [pack_rows(rows)])
            text = msgspec.json.format(msgspec.json.encode(self._facts), indent=1).decode()
            write_whole(self._home / FACTS, text + "\n")
        entries = json.dumps(self.world.ledger.entries(), indent=1)
        write_whole(path / "ledger.json", entries + "\n")
        spans = self.world.timeline
        self.folder.save_timeline(self.name, spans)
        done = {
            **stamp("party"),
            "party": self.name,
            "role": self.job.parties[self.name].role,
            "program": "align",
            "status": "end",
            "rounds": role.place.plan.rounds,
            "time_s": self.world.now() / 1e9,
            "busy_s": spans.busy_ns() / 1e9,
            "idle_s": spans.total_ns("wait") / 1e9,
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
