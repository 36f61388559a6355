"""One party that is about to score rows: its models, its table, and where it keeps its keys."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from colonnade import methods
from colonnade.align.workers import Threads, Workers
from colonnade.data.ids import id_texts
from colonnade.errors import DataError, RequestError
from colonnade.job.policy import Policy
from colonnade.job.records import Job
from colonnade.learn.outbound import Outbound
from colonnade.learn.saved import Bottom, Head, SavedParty, read_saved
from colonnade.predict.account import RowAccount, names_of
from colonnade.predict.batch import IdRows
from colonnade.predict.part import OwnPart
from colonnade.predict.program import Predict, Ready
from colonnade.predict.quota import Quota
from colonnade.predict.request import Source
from colonnade.predict.rows import PartyRows, read_rows
from colonnade.predict.tags import TagIndex
from colonnade.protect.base import Protect, parse
from colonnade.protect.secret import KEY_BYTES, Randomness, Secret
from colonnade.run.accounting import noise_of
from colonnade.run.budget import Budget, Trainings, keep, spent_together, trainings_of

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
        part = OwnPart(rows, bottoms, self._shape)
        if self.leads:
            heads = {
                version: Head(saved, allow=self.allow, device=device)
                for version, saved in self.models.items()
            }
            return Ready(part, heads=heads)
        listed = self.policy.predict_ids
        mask = None if listed is None else _listed(listed, rows, self.job)
        quota, account = Quota(self.policy, self.folder, mask), self._account(rows)
        if rows.ids is None:
            return Ready(part, quota=quota, account=account)
        place = self.folder / STATE, self.workers, self.randomness
        index = TagIndex(rows.ids, self.job.ids, *place)
        return Ready(part, index, quota=quota, account=account)

    @cached_property
    def protect(self) -> Protect:
        """The protections of the job."""
        return methods.build(self.job.method).protect

    def _shape(self, embedding: torch.Tensor) -> torch.Tensor:
        for protection in self.protect.embedding:
            embedding = protection.shape(embedding)
        return embedding

    @cached_property
    def trainings(self) -> Trainings:
        """What the trainings of its models have spent, and of those that it scored with before."""
        cards = {version: saved.card for version, saved in self.models.items()}
        return trainings_of(cards, self.folder)

    @cached_property
    def budget(self) -> Budget | None:
        """What rows that are scored may tell, of a passive party that adds noise to them."""
        noise = noise_of(self.protect)
        if self.leads or noise is None:
            return None
        return Budget(noise, spent_together(self.trainings), self.policy.epsilon_max)

    def _account(self, rows: PartyRows) -> RowAccount | None:
        budget = self.budget
        if budget is None:
            return None
        names, rule = names_of(rows, self.job.ids, self.job.parties[self.me].id)
        refusal = "" if budget.epsilon_max is None else budget.refusal
        return RowAccount(self.folder, names, rule, budget.once, budget.most, refusal)

    def privacy(self) -> dict[str, float | None] | None:
        """What its rows have told by now; None where nothing leaves with noise, or the party did
        not come as far as to read them."""
        ready: Ready | None = self.__dict__.get("ready")
        if self.budget is None or ready is None or ready.account is None:
            return None
        return self.budget.facts(ready.account.began, ready.account.highest)

    def remember(self) -> None:
        """The party begins to score with others: its folder knows with which models."""
        if not self.leads:
            keep(self.trainings, self.folder)

    def settle(self) -> None:
        """The process ends: keep how many rows were answered for, if it came that far."""
        ready: Ready | None = self.__dict__.get("ready")
        if ready is not None and ready.quota is not None:
            ready.quota.settle()
        if ready is not None and ready.account is not None:
            ready.account.settle()

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
        protect = self.protect
        for version, saved in self.models.items():
            _check_protected(version, saved.card.method, protect)
        self._check_budget()
        more: dict[str, Any] = {} if window is None else {"window": window}
        return Predict(
            self.job,
            self.me,
            {version: saved.card for version, saved in self.models.items()},
            lambda: self.ready,
            source=source,
            workers=self.workers,
            randomness=self.randomness,
            outbound=Outbound(self.job.seed, self.me, Secret(self.randomness(KEY_BYTES)), protect),
            restarts=self.restarts,
            **more,
        )

    def _check_budget(self) -> None:
        """Refuse to score where the policy lets no row leave once more."""
        most, budget = self.policy.epsilon_max, self.budget
        if self.leads or most is None:
            return
        if budget is None:
            raise RequestError(
                f"policy.epsilon_max is {most:g}, and rows that are scored leave without noise, so "
                "nothing bounds what they tell: score with a model that was trained with noise "
                "(method.protect.embedding, as in gauss:1:4), or leave policy.epsilon_max out of "
                "the party file"
            )
        if (refusal := budget.refuse()) is not None:
            raise RequestError(refusal)


def _check_protected(version: str, method: Mapping[str, Any], protect: Protect) -> None:
    """Hold the job to what the model was trained under, of which the party's own folder tells: a
    job that came since may promise less."""
    table = method.get("protect")
    trained = parse(table) if isinstance(table, Mapping) else Protect()
    if protect.sum is not None or trained.sum is not None:
        raise RequestError(
            f"the model {version} was trained on sums under masks (method.protect.sum), and a "
            "prediction would show the active party single embeddings: train without masks to "
            "score rows over the network"
        )
    if trained.embedding and trained.embedding != protect.embedding:
        text = trained.texts["embedding"]
        raise RequestError(
            f"the model {version} was trained with method.protect.embedding = '{text}', and the "
            "job says otherwise: score with the job that it was trained with"
        )


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
