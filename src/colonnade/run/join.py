"""A party takes part in a training over the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from colonnade.job.party_file import public_job
from colonnade.job.terms import identity
from colonnade.learn.participant import Participant
from colonnade.net.link import Emulation
from colonnade.net.runner import Address
from colonnade.party.outcome import Outcome
from colonnade.party.training import Training
from colonnade.record.chain import Line, verify
from colonnade.record.events import Subscriber
from colonnade.record.party_folder import PartyFolder
from colonnade.record.private import write_whole
from colonnade.record.run import Run
from colonnade.run.accounting import Accountant, RowReleases, noise_of
from colonnade.run.participation import Participation
from colonnade.run.releases import Counter, allowance
from colonnade.run.simulate import party_run, run_of
from colonnade.tls.keyring import Keyring
from colonnade.wire.fault import Fault


@dataclass
class Joined:
    """What became of a party's part."""

    status: str
    """Why the job ended: `end`, `target`, `patience`, `diverged`; or `done`, where the party was
    away at the end, or came back after it, and its result had been kept before."""
    folder: Path
    rounds: int
    differences: dict[str, list[str]] = field(default_factory=dict)
    """Where a peer's count of what crossed differs from this party's, by peer."""
    run: Run | None = None
    """At the active party: the training in figures, as far as one party knows them."""
    fault: Fault | None = None
    """What was wrong, where it diverged."""


class TrainingParticipation(Participation[Outcome]):
    """One process of a party that trains."""

    def __init__(
        self, me: Participant, folder: PartyFolder, subscribers: Sequence[Subscriber] = ()
    ) -> None:
        self.me = me
        self.agreement = me.agreement()
        same = identity(self.agreement.terms())
        super().__init__(me.job, me.me, me.policy, same, folder, subscribers)
        self.run_: Run | None = None
        self.fault: Fault | None = None

    def run(self, address: Address, keyring: Keyring, emulation: Emulation | None) -> Joined:
        """Take part in the job, and return when it is over for everybody."""
        status, differences = self.take_part(address, keyring, emulation)
        loop = self.training.loop
        rounds = self.folder.rounds if loop is None else loop.view.round
        return Joined(status, self.folder.path, rounds, differences, self.run_, self.fault)

    def program(self) -> Training:
        self.training = Training.of(self.me, self.store, self._keep)
        return self.training

    def status(self, outcome: Outcome) -> str:
        self.fault = outcome.fault
        return outcome.reason

    def why(self) -> str:
        return "" if self.fault is None else str(self.fault)

    def counter(self) -> Counter | None:
        """The releases, with those of earlier processes; the ledger has them."""
        if self.leads:
            return None
        before: dict[str, int] = {}
        for (_, way, kind), (messages, _) in self.chain.before.items():
            if way == "sent":
                before[kind] = before.get(kind, 0) + messages
        counter = Counter(allowance(self.me), before, self._accountant())
        if not self.folder.is_done:
            counter.check()
        return counter

    def _accountant(self) -> Accountant | None:
        """What counts how often rows leave, where they leave with noise."""
        noise = noise_of(self.me.method.protect)
        if noise is None:
            return None
        rows, lines = RowReleases(self.agreement), list[Line]()
        verify(self.chain.path, lines.append)
        rows.recall(lines)
        return Accountant(noise, rows, self.me.policy.epsilon_max)

    def _keep(self, outcome: Outcome) -> None:
        """Keep the result."""
        me, view = self.me, outcome.view
        assert self.training.loop is not None
        agreement = self.training.loop.agreement
        own = party_run(outcome, self.world, me, agreement, self.store.run)
        facts: dict[str, Any] = {
            "party": me.me,
            "role": me.job.parties[me.me].role,
            "status": outcome.reason,
            "rounds": view.round,
            "per_epoch": self.agreement.plan.per_epoch,
            "time_s": view.finished_ns / 1e9,
            "refusals": self.detector.refusals,
        }
        releases = self.world.releases
        if releases is not None and releases.accountant is not None:
            facts["privacy"] = releases.accountant.facts()
            self.detector.note(releases.accountant.sentence())
        if me.leads:
            job, parts = public_job(me.job), ({me.me: outcome}, {me.me: own})
            self.run_ = run_of(job, self.agreement, me.metrics[0], *parts)
            self.run_.save_history(self.folder.path)
            summary = msgspec.json.format(msgspec.json.encode(self.run_.summary()), indent=1)
            write_whole(self.folder.path / "summary.json", summary.decode() + "\n")
        self.folder.save(own, facts)
