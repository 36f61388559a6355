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
from colonnade.run.accounting import Accountant, accountant_of
from colonnade.run.participation import Participation
from colonnade.run.releases import Counter, Gate, allowance
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
        self._account: Accountant | None = None

    def run(self, address: Address, keyring: Keyring, emulation: Emulation | None) -> Joined:
        """Take part in the job, and return when it is over for everybody."""
        status, differences = self.take_part(address, keyring, emulation)
        loop = self.training.loop
        rounds = self.folder.rounds if loop is None else loop.view.round
        return Joined(status, self.folder.path, rounds, differences, self.run_, self.fault)

    def program(self) -> Training:
        self.world.exchanges = self.folder.exchanges()
        self.training = Training.of(self.me, self.store, self._keep)
        return self.training

    def status(self, outcome: Outcome) -> str:
        self.fault = outcome.fault
        return outcome.reason

    def why(self) -> str:
        return "" if self.fault is None else str(self.fault)

    def counter(self) -> Gate | None:
        """The releases, with those of earlier processes; the ledger has them."""
        self._account = self._accountant()
        if self.leads:
            return self._account
        before: dict[str, int] = {}
        for (_, way, kind), (messages, _) in self.chain.before.items():
            if way == "sent":
                before[kind] = before.get(kind, 0) + messages
        counter = Counter(allowance(self.me), before, self._account)
        if not self.folder.is_done:
            counter.check()
        return counter

    def _accountant(self) -> Accountant | None:
        """What counts how often rows leave, where they leave with noise."""
        account, lines = accountant_of(self.me), list[Line]()
        if account is not None:
            verify(self.chain.path, lines.append)
            account.rows.recall(lines)
            account.tell = self._recount
        return account

    def _recount(self) -> None:
        """More is about to leave than the result says that is kept: others go on from it."""
        assert self._account is not None
        if self.folder.is_done:
            self.folder.recount(self._account.spent, self._account.facts())

    def _keep(self, outcome: Outcome) -> None:
        """Keep the result."""
        me, view = self.me, outcome.view
        assert self.training.loop is not None
        agreement = self.training.loop.agreement
        account = self._account
        own = party_run(outcome, self.world, me, agreement, self.store.run, account)
        facts: dict[str, Any] = {
            "party": me.me,
            "role": me.job.parties[me.me].role,
            "status": outcome.reason,
            "rounds": view.round,
            "per_epoch": self.agreement.plan.per_epoch,
            "time_s": view.finished_ns / 1e9,
            "refusals": self.detector.refusals,
        }
        if account is not None:
            facts["privacy"] = own.privacy
            self.detector.note(account.sentence())
        if me.leads:
            job, parts = public_job(me.job), ({me.me: outcome}, {me.me: own})
            self.run_ = run_of(job, self.agreement, me.metrics[0], *parts)
            self.run_.save_history(self.folder.path)
            summary = msgspec.json.format(msgspec.json.encode(self.run_.summary()), indent=1)
            write_whole(self.folder.path / "summary.json", summary.decode() + "\n")
        self.folder.save(own, facts)
