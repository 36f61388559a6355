"""Rows scored by all parties together: over the network, or all parties in one place."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.align.desk import Randomness
from colonnade.align.workers import Threads, Workers
from colonnade.data.files import TableFile
from colonnade.data.ids import id_texts
from colonnade.data.named import load as load_named
from colonnade.data.own import id_columns
from colonnade.data.party import read_files, split_files
from colonnade.data.splits import SPLITS, Split, split_rows
from colonnade.errors import DataError, RequestError
from colonnade.job.policy import Policy
from colonnade.job.records import Job
from colonnade.job.terms import identity
from colonnade.learn.outbound import Outbound, Secret
from colonnade.learn.saved import Bottom, Head, SavedParty, read_saved
from colonnade.net.link import Emulation
from colonnade.net.runner import Address
from colonnade.party.session import run_session
from colonnade.predict.batch import Batch, IdRows, Piece, pieces_at, pieces_of
from colonnade.predict.part import OwnPart
from colonnade.predict.program import Predict, Ready
from colonnade.predict.quota import Quota
from colonnade.predict.request import Scored, Source
from colonnade.predict.result import ResultFile, columns_of, missing_rows
from colonnade.predict.rows import PartyRows, Rows, read_rows
from colonnade.predict.tags import TagIndex
from colonnade.record.events import Subscriber
from colonnade.record.party_folder import PartyFolder
from colonnade.run.participation import Participation
from colonnade.sim.kernel import Simulator
from colonnade.tls.keyring import Keyring

Models = Mapping[str, SavedParty]
"""What a party has of each version of a model."""
NOTHING_SENT = "this was a dry run: nothing was sent"
STATE = "rows"
"""The folder of a passive party's key and tags, within that of its predictions."""


def read_models(folders: Sequence[Path], me: str) -> dict[str, SavedParty]:
    """What a party has of the models in some run folders, by version, in this order."""
    found: dict[str, SavedParty] = {}
    for folder in folders:
        saved = read_saved(folder, me)
        if saved.version in found:
            raise RequestError(f"{folder} holds the model {saved.version}, which was named before")
        found[saved.version] = saved
    first = next(iter(found.values())).card
    for saved in found.values():
        card = saved.card
        if (card.active, card.widths.keys()) != (first.active, first.widths.keys()):
            raise RequestError(
                f"the models {first.version} and {card.version} are of other parties: serve them "
                "apart"
            )
    return found


def check_models(job: Job, me: str, models: Models) -> None:
    """Refuse models of another job."""
    for version, saved in models.items():
        card = saved.card
        if list(card.widths) != list(job.parties) or card.active != job.active:
            raise RequestError(
                f"the model {version} is of another job, {card.job} with the parties "
                f"{', '.join(card.widths)}: give the run folder of this job"
            )


@dataclass(eq=False)
class PredictParty:
    """One party that is about to score rows, and where it keeps what it needs for that."""

    job: Job
    me: str
    models: Models
    folder: Path
    policy: Policy = field(default_factory=Policy)
    allow: Collection[str] = ()
    workers: Workers = field(default_factory=Threads)
    randomness: Randomness = os.urandom
    restarts: int | None = None

    @property
    def leads(self) -> bool:
        """Whether this is the active party."""
        return self.me == self.job.active

    @cached_property
    def ready(self) -> Ready:
        """The party with its rows, which are read, and its models, which are built, now."""
        rows = read_rows(self.job, self.me, self.models)
        device = self.job.parties[self.me].device
        bottoms = {
            version: Bottom(saved, allow=self.allow, device=device)
            for version, saved in self.models.items()
            if saved.card.width
        }
        part = OwnPart(rows, bottoms)
        if self.leads:
            heads = {
                version: Head(saved, allow=self.allow, device=device)
                for version, saved in self.models.items()
            }
            return Ready(part, heads=heads)
        listed = self.policy.predict_ids
        mask = None if listed is None else _listed(listed, rows, self.job)
        quota = Quota(self.policy, self.folder, mask)
        if rows.ids is None:
            return Ready(part, quota=quota)
        place = self.folder / STATE, self.workers, self.randomness
        return Ready(part, TagIndex(rows.ids, self.job.ids, *place), quota=quota)

    def settle(self) -> None:
        """The process ends: keep how many rows were answered for, if it came that far."""
        ready: Ready | None = self.__dict__.get("ready")
        if ready is not None and ready.quota is not None:
            ready.quota.settle()

    @cached_property
    def by_id(self) -> IdRows:
        """The party's rows by their ids."""
        return IdRows(self.ready.part.rows, self.job.ids)

    def head(self, version: str) -> Head:
        """At the active party: the top model of a version."""
        assert self.ready.heads is not None
        return self.ready.heads[version]

    def program(self, source: Source | None = None, window: int | None = None) -> Predict:
        """Its part in the prediction; the active party has a source of requests."""
        more: dict[str, Any] = {} if window is None else {"window": window}
        return Predict(
            self.job,
            self.me,
            {version: saved.card for version, saved in self.models.items()},
            lambda: self.ready,
            source=source,
            workers=self.workers,
            randomness=self.randomness,
            outbound=Outbound(self.job.seed, self.me, Secret(_number(self.randomness))),
            restarts=self.restarts,
            **more,
        )


def _number(randomness: Randomness) -> int:
    return int.from_bytes(randomness(8), "little")


def _listed(path: str, rows: PartyRows, job: Job) -> Any:
    """Which rows have an id that is in a file, one a line."""
    if rows.ids is None:
        raise DataError(
            "policy.predict_ids lists ids, and the rows have none: give the table an id column"
        )
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeError):
        raise DataError(
            f"{path} (policy.predict_ids) cannot be read: see that it is text"
        ) from None
    words = pa.table({"id": pa.array([line for line in lines if line.strip()], pa.string())})
    texts = (
        id_texts(words, ["id"], job.ids, path)
        if words.num_rows
        else pa.array([], pa.large_string())
    )
    known = set(texts.to_pylist())
    return np.array([text in known for text in rows.ids.to_pylist()], dtype=np.bool_)


@dataclass
class Predicted:
    """What became of a prediction, at one party."""

    status: str
    folder: Path
    rows: int
    """How many a passive party answered for."""
    differences: dict[str, list[str]] = field(default_factory=dict)
    """Where a peer's count of what crossed differs from this party's, by peer."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What is to be scored."""

    count: int
    pieces: Iterator[Piece]
    by_place: bool = False


class Scores:
    """The result of a batch: written to a file as it comes."""

    def __init__(self, party: PredictParty, path: Path, mean: bool, raw: bool) -> None:
        """The first of the party's models scores."""
        self.path, self.version = path, next(iter(party.models))
        self.rows = self.without = 0
        """How many rows were scored, and how many of these some party lacked."""
        self.missing: dict[str, int] = {}
        """By party, how many rows it lacked."""
        self.declined: dict[str, str] = {}
        """By party that did not answer for some rows, why."""
        self.treatment = "its mean embedding stands in" if mean else "no score"
        self.imputes, self._party, self._raw = mean, party, raw
        about = {"colonnade.model": self.version, "colonnade.missing": "mean" if mean else "null"}
        self._file = ResultFile(path, about)

    def keep(self, piece: Piece, scored: Scored) -> None:
        """Add the rows of a piece."""
        head, rows = self._party.head(self.version), len(scored.scores)
        columns = columns_of(head, scored, self.imputes, self._raw)
        shown = {name: piece.shown[name] for name in piece.shown.column_names}
        taken = [name for name in shown if name in columns]
        if taken:
            raise RequestError(
                f"the ids are in a column named '{taken[0]}', as a column of the result is: give "
                "it another name"
            )
        self._file.write(pa.table(shown | columns))
        self.rows += rows
        self.without += int((missing_rows(scored, rows) | (len(scored.declined) > 0)).sum())
        for name, lacking in scored.lacking.items():
            self.missing[name] = self.missing.get(name, 0) + int(lacking.sum())
        self.declined |= scored.declined

    def close(self) -> None:
        """All rows are there: give the file its name."""
        self._file.close()

    def discard(self) -> None:
        """Leave nothing half-written behind."""
        self._file.discard()

    def batch(self, asked: Asked) -> Batch:
        """The requests whose results are written here."""
        party, more = self._party, (self.imputes, asked.count)
        if asked.by_place and party.ready.part.rows.order is None:
            raise RequestError(
                f"the table of {party.me} has changed since the training, so its rows cannot be "
                "asked for by their places: put it back, or ask by id (--ids)"
            )
        pieces = map(self._named, asked.pieces) if asked.by_place else asked.pieces
        return Batch(pieces, lambda: party.by_id, self.version, self.keep, *more)

    def _named(self, piece: Piece) -> Piece:
        """A piece of rows by place, with their ids beside it where one column has them."""
        rows, column = self._party.ready.part.rows, self._party.job.parties[self._party.me].id
        if rows.ids is None or not isinstance(column, str) or piece.places is None:
            return piece
        ids = rows.ids.take(pa.array(rows.at(piece.places))).cast(pa.string())
        return replace(piece, shown=piece.shown.append_column(column, ids))


def asked(job: Job, ids: Path | None, rows: str | None) -> Asked:
    """The ids of a file, or the rows of a split of the training."""
    if (ids is None) == (rows is None):
        raise RequestError("say what to score: --ids FILE, or --rows test")
    if ids is not None:
        party = job.parties[job.active]
        if party.id is None:
            raise RequestError(
                f"the rows of {job.active} have no ids, so none can be asked for: score those of "
                "the training, with --rows test"
            )
        columns = id_columns(job.active, party, str(ids))
        file = TableFile(ids, text=columns)
        table = file.read(file.check(columns))
        texts = id_texts(table, columns, job.ids, str(ids))
        return Asked(len(texts), pieces_of(table, texts))
    if rows not in (*SPLITS, "all"):
        raise RequestError(f"--rows {rows} is no split: choose {', '.join(SPLITS)} or all")
    places = split_places(job, rows)
    return Asked(len(places), pieces_at(places), by_place=True)


def split_places(job: Job, which: str) -> Rows:
    """The places of a split's rows in the order of the training."""
    train = job.train
    if job.data is not None:
        dataset = load_named(job.data)
        held = train.test if dataset.test_rows is None else dataset.test_rows
        parts = split_rows(len(dataset.labels), held, train.validation, train.split_seed)
    else:
        parts = split_files(train, read_files(job, job.active))
    if which == "all":
        return np.arange(sum(len(part) for part in parts))
    split: Split = which  # type: ignore[assignment]
    return parts[SPLITS.index(split)]


def predict(
    party: PredictParty,
    address: Address,
    keyring: Keyring,
    folder: PartyFolder,
    batch: Batch | None = None,
    emulation: Emulation | None = None,
    subscribers: Sequence[Subscriber] = (),
) -> Predicted:
    """Take part in a prediction over the network; the active party has the batch."""
    taking = PredictParticipation(party, folder, party.program(batch), subscribers)
    return taking.run(address, keyring, emulation)


class PredictParticipation(Participation[Any]):
    """One process of a party that scores rows with others."""

    goes_on = False

    def __init__(
        self,
        party: PredictParty,
        folder: PartyFolder,
        program: Predict,
        subscribers: Sequence[Subscriber] = (),
    ) -> None:
        sends, receives = program.kinds.names()
        refusal = party.policy.refuse_job(
            party.job, party.me, sends=sends, receives=receives, trains=False
        )
        if refusal is not None:
            raise RequestError(refusal)
        self._program, self._taking = program, party
        # One ledger for all predictions of a party in a folder, whatever the model.
        same = identity({"program": '"predict"', "parties": ",".join(party.job.parties)})
        super().__init__(party.job, party.me, party.policy, same, folder, subscribers)
        self._answered = 0

    def program(self) -> Predict:
        return self._program

    def status(self, outcome: Any) -> str:
        self._answered = outcome or 0
        return "end"

    def take_part(
        self, address: Address, keyring: Keyring, emulation: Emulation | None
    ) -> tuple[str, dict[str, list[str]]]:
        try:
            return super().take_part(address, keyring, emulation)
        finally:
            self._taking.settle()

    def reason(self, status: str) -> str:
        return "answered" if status == "end" else status

    def settled(self) -> None:
        """The folder goes on: the next prediction uses it too."""

    def run(self, address: Address, keyring: Keyring, emulation: Emulation | None) -> Predicted:
        """Take part, and return when it is over for everybody."""
        status, differences = self.take_part(address, keyring, emulation)
        return Predicted(status, self.folder.path, self._answered, differences=differences)


def predict_simulated(
    parties: Mapping[str, PredictParty], source: Source, window: int | None = None
) -> Simulator:
    """Score rows with all parties in this process."""
    active = next(party for party in parties.values() if party.leads)
    simulator = Simulator(active.job)
    programs = {
        name: party.program(source if party.leads else None, window)
        for name, party in parties.items()
    }
    simulator.run(
        {name: run_session(simulator.worlds[name], [own]) for name, own in programs.items()}
    )
    return simulator


def forecast(party: PredictParty, ids: Path | None, rows: str | None) -> dict[str, Any]:
    """What would leave a party, and who would learn what: the dry run."""
    own, policy, ready = party.job.parties[party.me], party.policy, party.ready.part.rows
    card = next(iter(party.models.values())).card
    sends, receives = party.program().kinds.names()
    facts: dict[str, Any] = {
        "party": party.me,
        "models": list(party.models),
        "rows": ready.count,
        "known_by_place": 0 if ready.order is None else len(ready.order),
        "known_by_id": 0 if ready.ids is None else ready.count,
        "unseen": dict(ready.unseen or {}),
        "sends": sends,
        "receives": receives,
    }
    table = own.table or party.job.data
    says = [f"{party.me} has {ready.count:,} rows in {table}, for the model {card.version}"]
    for column, count in (ready.unseen or {}).items():
        says.append(f"{count:,} rows have a category of '{column}' that training did not know")
    if party.leads:
        wanted = asked(party.job, ids, rows).count
        facts["asked"] = wanted
        peers = ", ".join(party.job.passives)
        learner = peers if len(party.job.passives) == 1 else f"each of {peers}"
        says += [
            f"it would ask {peers} about {wanted:,} rows: 8 bytes a row that was in the training, "
            "24 and a blinded point of 32 bytes for another",
            f"{learner} learns which of its own rows are asked for, and how many others",
            NOTHING_SENT,
        ]
        return facts | {"says": says}
    limits = {
        name: getattr(policy, name)
        for name in ("predict_rows_max", "predict_rows_per_minute", "predict_ids")
    }
    size = card.width * (8 if card.dtype == "float64" else 4)
    most = (
        "as many rows as it is asked for"
        if policy.predict_rows_max is None
        else (f"up to {policy.predict_rows_max:,} rows (policy.predict_rows_max)")
    )
    says += [
        f"it would answer {party.job.active} for {most}, with {card.width} numbers, {size} bytes, "
        "a row, as they are",
        f"{party.job.active} learns the embeddings of rows that it asks for, and which of the ids "
        f"that it asks for {party.me} does not have",
        f"{party.me} learns which of its rows are asked for, and nothing of ids that it does not "
        "have but their number",
    ]
    unlimited = [name for name, value in limits.items() if value is None]
    if unlimited:
        says.append(f"not limited by the party file: {', '.join(f'policy.{n}' for n in unlimited)}")
    says.append(NOTHING_SENT)
    return facts | {"bytes_per_row": size, "policy": limits, "says": says}
