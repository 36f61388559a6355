"""Rows scored by all parties together: over the network, or all parties in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from colonnade.errors import RequestError
from colonnade.job.terms import identity
from colonnade.net.link import Emulation
from colonnade.net.runner import Address
from colonnade.party.session import run_session
from colonnade.predict.batch import Batch
from colonnade.predict.program import Predict
from colonnade.predict.request import Source
from colonnade.record.events import Subscriber
from colonnade.record.party_folder import PartyFolder
from colonnade.record.prediction import Prediction
from colonnade.run.budget import show, told
from colonnade.run.participation import Participation
from colonnade.run.predict_party import PredictParty
from colonnade.run.scores import asked
from colonnade.sim.kernel import Simulator
from colonnade.tls.keyring import Keyring
from colonnade.units import NS_PER

NOTHING_SENT = "this was a dry run: nothing was sent"


@dataclass
class Predicted:
    """What became of a prediction, at one party."""

    status: str
    folder: Path
    rows: int
    """How many were scored; of a passive party, how many it has answered for."""
    differences: dict[str, list[str]] = field(default_factory=dict)
    """Where a peer's count of what crossed differs from this party's, by peer."""
    privacy: dict[str, float | None] | None = None
    """Of a passive party that adds noise: the ε of the row that has cost most, before and after."""


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
    what = "predict"
    """What the folder is told that the party does."""

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
        self._rows = 0
        self._about = Prediction(
            program=self.what,
            party=party.me,
            role=party.job.parties[party.me].role,
            models=tuple(party.models),
        )

    def program(self) -> Predict:
        return self._program

    def status(self, outcome: Any) -> str:
        self._rows = outcome or 0
        return "end"

    def take_part(
        self, address: Address, keyring: Keyring, emulation: Emulation | None
    ) -> tuple[str, dict[str, list[str]]]:
        self._taking.remember()
        self._about.save(self.folder.path)
        try:
            status, differences = super().take_part(address, keyring, emulation)
            self._keep_time(status)
            return status, differences
        finally:
            self._taking.settle()
            if (privacy := self._taking.privacy()) is not None:
                self.detector.notice(told(privacy))

    def _keep_time(self, status: str) -> None:
        """Keep what this prediction took; the one before it in the folder is not added."""
        spans, now_s = self.world.timeline, self.detector.time_ns() / NS_PER["s"]
        if self.keeps_time:
            self.folder.save_timeline(self.name, spans)
        took = {"busy_s": spans.busy_ns() / 1e9, "idle_s": spans.total_ns("wait") / 1e9}
        replace(self._about, status=status, rows=self._rows, time_s=now_s, **took).save(
            self.folder.path
        )

    def reason(self, status: str) -> str:
        return "answered" if status == "end" else status

    def settled(self) -> None:
        """The folder goes on: the next prediction uses it too."""

    def run(self, address: Address, keyring: Keyring, emulation: Emulation | None) -> Predicted:
        """Take part, and return when it is over for everybody."""
        status, differences = self.take_part(address, keyring, emulation)
        path, privacy = self.folder.path, self._taking.privacy()
        return Predicted(status, path, self._rows, differences, privacy)


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
    noise = None if party.budget is None else party.budget.noise.text
    says += [
        f"it would answer {party.job.active} for {most}, with {card.width} numbers, {size} bytes, "
        f"a row, {'as they are' if noise is None else f'with {noise}'}",
        f"{party.job.active} learns the embeddings of rows that it asks for, and which of the ids "
        f"that it asks for {party.me} does not have",
        f"{party.me} learns which of its rows are asked for, and nothing of ids that it does not "
        "have but their number",
    ]
    unlimited = [name for name, value in limits.items() if value is None]
    if unlimited:
        says.append(f"not limited by the party file: {', '.join(f'policy.{n}' for n in unlimited)}")
    cost, sentences = _cost(party)
    says += [*sentences, NOTHING_SENT]
    return facts | {"bytes_per_row": size, "policy": limits, "epsilon": cost, "says": says}


def _cost(party: PredictParty) -> tuple[dict[str, float | None] | None, list[str]]:
    """What it costs a passive party's rows to be scored once, in figures and in words."""
    budget, account = party.budget, party.ready.account
    if budget is None or account is None:
        return None, []
    facts = budget.facts(account.highest, account.highest + budget.once)
    before, after = (show(facts[name]) for name in ("before", "epsilon"))
    says = [
        f"the row that has told most has cost ε = {before} at δ = {budget.delta:g} by training "
        f"and scoring, and costs {after} when it is scored once more"
    ]
    limit, more = budget.epsilon_max, budget.more(account.highest)
    if limit is None:
        says.append("not limited by the party file: policy.epsilon_max")
    else:
        says.append(f"policy.epsilon_max ({limit:g}) lets it be scored {more:,} times more")
    return facts | {"more": more}, says
