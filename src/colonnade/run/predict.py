"""Rows scored by all parties together: over the network, or all parties in one place."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    """How many were scored, or answered for."""
    without: int = 0
    """How many of them have no score, or one that rests on a mean."""
    declined: dict[str, str] = field(default_factory=dict)
    """By party that did not answer for some rows, why."""
    differences: dict[str, list[str]] = field(default_factory=dict)


class Scores:
    """The result of a batch: written to a file as it comes."""

    def __init__(
        self, party: PredictParty, version: str, file: ResultFile, mean: bool, raw: bool
    ) -> None:
        self._party, self._version, self._file = party, version, file
        self._mean, self._raw = mean, raw
        self.rows = self.without = 0
        self.declined: dict[str, str] = {}

    def keep(self, piece: Piece, scored: Scored) -> None:
        """Add the rows of a piece."""
        head = self._party.head(self._version)
        columns = columns_of(head, scored, self._mean, self._raw)
        shown = {name: piece.shown[name] for name in piece.shown.column_names}
        self._file.write(pa.table(shown | columns))
        self.rows += len(scored.scores)
        lost = missing_rows(scored, len(scored.scores)) | (len(scored.declined) > 0)
        self.without += int(lost.sum())
        self.declined |= scored.declined

    def batch(self, pieces: Iterator[Piece]) -> Batch:
        """The requests whose results are written here."""
        return Batch(pieces, lambda: self._party.by_id, self._version, self.keep, self._mean)


def asked_pieces(job: Job, ids: Path | None, rows: str | None) -> Iterator[Piece]:
    """What is to be scored: the ids of a file, or the rows of a split of the training."""
    if (ids is None) == (rows is None):
        raise RequestError("say what to score: --ids FILE, or --rows test")
    if ids is not None:
        party = job.parties[job.active]
        columns = id_columns(job.active, party, str(ids))
        file = TableFile(ids, text=columns)
        table = file.read(file.check(columns))
        texts = id_texts(table, columns, job.ids, str(ids))
        return pieces_of(table, texts)
    if rows not in (*SPLITS, "all"):
        raise RequestError(f"--rows {rows} is no split: choose {', '.join(SPLITS)} or all")
    return pieces_at(split_places(job, rows))


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
        self._program = program
        # One ledger for all predictions of a party in a folder, whatever the model.
        same = identity({"program": '"predict"', "parties": ",".join(party.job.parties)})
        super().__init__(party.job, party.me, party.policy, same, folder, subscribers)
        self._answered = 0

    def program(self) -> Predict:
        return self._program

    def status(self, outcome: Any) -> str:
        self._answered = outcome or 0
        return "end"

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
