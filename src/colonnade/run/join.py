"""A party takes part in a job over the network, from its start to its last file."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from colonnade.errors import AbsentError, FailedError
from colonnade.job.files import dumps
from colonnade.job.party_file import public_job
from colonnade.job.running import Timeouts
from colonnade.job.terms import identity
from colonnade.learn.participant import Participant
from colonnade.net.detector import FailureDetector, new_generation, new_incarnation, wall_ns
from colonnade.net.link import Emulation
from colonnade.net.runner import Address, run_connected
from colonnade.party.outcome import Outcome
from colonnade.party.session import run_session
from colonnade.party.training import Training
from colonnade.party.world import Over
from colonnade.record.chain import Chain, reconcile
from colonnade.record.checkpoints import FileStore
from colonnade.record.events import Event, Finished, Resumed, Started, Subscriber
from colonnade.record.party_folder import PartyFolder
from colonnade.record.private import write_whole
from colonnade.record.run import PartyRun, Run
from colonnade.run.releases import Counter, allowance
from colonnade.run.simulate import with_efforts
from colonnade.run.surroundings import NotedStore, PartyWorld
from colonnade.tls.identity import Identity
from colonnade.tls.keyring import Keyring
from colonnade.wire.fault import Fault
from colonnade.wire.ledger import Entry

DONE_STATUS = "done"
KEPT_BEFORE = "the result of this party was kept before"
DISK_FAULTS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR),
)


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


def take_part(
    me: Participant,
    address: Address,
    identity: Keyring | Identity,
    folder: PartyFolder,
    emulation: Emulation | None = None,
    subscribers: Sequence[Subscriber] = (),
) -> Joined:
    """Take part in a job; returns when it is over for everybody. The subscribers are told what
    happens."""
    return Participation(me, folder, subscribers).run(address, identity, emulation)


class Participation:
    """One process of a party, from its start to its last file."""

    def __init__(
        self, me: Participant, folder: PartyFolder, subscribers: Sequence[Subscriber] = ()
    ) -> None:
        self.me = me
        self.folder = folder
        job = me.job
        same = identity(me.agreement().terms())
        self.chain = Chain.open(folder.chain, me.me, same, wall_ns())
        elapsed_ns = max(0, wall_ns() - folder.remember("started_ns", wall_ns()))
        self.detector = FailureDetector(
            self._timeouts(), me.me, subscribers, self.chain, elapsed_ns
        )
        kept = FileStore(folder.checkpoints, me.me, same, job.recovery.keep)
        forgives = job.recovery.on_disk_fault == "go_on"
        self.store = NotedStore(kept, self.detector, self.chain, forgives)
        agreement = me.agreement()
        self.per_epoch = agreement.plan.per_epoch
        self.chosen_on = agreement.schedule.chosen_on
        self.run_: Run | None = None
        self.fault: Fault | None = None
        write_whole(folder.path / "job.toml", dumps(public_job(job)))

    def run(
        self, address: Address, identity: Keyring | Identity, emulation: Emulation | None
    ) -> Joined:
        """Connect, train and keep the result."""
        me = self.me
        self._tell(Started, self.chain.entries > 1)
        self.world = PartyWorld(
            me.job,
            me.me,
            self.detector,
            incarnation=new_incarnation(),
            emulation=emulation,
            policy=me.policy,
            generation=new_generation(),
        )
        self.world.receipt = self._receipt
        self.world.releases = None if me.leads else self._counter()
        self.world.begun = self._begun
        self.world.settled = self.folder.complete
        self.training = self.program()
        try:
            status = run_connected(self.world, address, identity, self._session)
            differences = self._reconcile()
            why = "" if self.fault is None else str(self.fault)
            self._tell(Finished, status, why)
        finally:
            self.chain.close()
        loop = self.training.loop
        rounds = self.folder.rounds if loop is None else loop.view.round
        return Joined(status, self.folder.path, rounds, differences, self.run_, self.fault)

    def program(self) -> Training:
        """What the party is to do."""
        return Training.of(self.me, self.store, self._keep)

    def _tell(self, kind: Callable[..., Event], *said: object) -> None:
        self.detector.tell(kind(self.me.me, self.detector.time_ns(), *said))

    def _timeouts(self) -> Timeouts:
        """A passive party that has its result waits for the active one no longer than for a
        goodbye: only that is missing, and perhaps nobody is there to say it."""
        timeouts = self.me.job.timeouts
        if self.me.leads or not self.folder.is_done:
            return timeouts
        return msgspec.structs.replace(timeouts, join=timeouts.finish)

    def _counter(self) -> Counter:
        """The releases, with those of earlier processes; the ledger has them."""
        before: dict[str, int] = {}
        for (_, way, kind), (messages, _) in self.chain.before.items():
            if way == "sent":
                before[kind] = before.get(kind, 0) + messages
        counter = Counter(allowance(self.me), before)
        if not self.folder.is_done:
            counter.check()
        return counter

    async def _session(self) -> str:
        try:
            outcome: Outcome
            (outcome,) = await run_session(self.world, [self.training])
            self.fault = outcome.fault
            return outcome.reason
        except OSError as error:
            if error.errno not in DISK_FAULTS:
                raise
            raise FailedError(
                f"the run folder {self.folder.path} cannot be written ({error.strerror}): "
                "mend the disk, then start the same command again"
            ) from None
        except Over as news:
            if not self.folder.is_done:
                raise
            self.detector.note(f"{news}; {KEPT_BEFORE}")
            self.folder.complete()
            return DONE_STATUS
        except AbsentError as absent:
            # Once the parties have begun again, they need each other to the end.
            if not self.folder.is_done or self.training.loop is not None:
                raise
            self.detector.note(f"{absent}; {KEPT_BEFORE}, and only a goodbye is missing")
            return DONE_STATUS

    def _begun(self, start: int) -> None:
        if not self.detector.begun_ns:
            now_ns = self.detector.now()
            # A clock that was set back must not make the time negative.
            self.world.start_clock(min(now_ns, self.folder.remember("begun_ns", now_ns)))
        if self.world.roster.begun_again or start:
            self._tell(Resumed, start)

    def _receipt(self, peer: str) -> bytes:
        entries = self.world.ledger.entries()
        return msgspec.json.encode([entry for entry in entries if entry["peer"] == peer])

    def _reconcile(self) -> dict[str, list[str]]:
        """Compare the peers' receipts with the own ledger; they come from outside."""
        mine = self.world.ledger.entries()
        found: dict[str, list[str]] = {}
        for peer, receipt in self.world.goodbyes.items():
            try:
                theirs = msgspec.json.decode(receipt, type=list[Entry])
                found[peer] = reconcile(mine, self.me.me, theirs, peer)
            except msgspec.MsgspecError:
                found[peer] = [f"the receipt of {peer} cannot be read"]
            for sentence in found[peer]:
                self.detector.note(sentence)
        self.folder.reconciled(found)
        return found

    def _keep(self, outcome: Outcome) -> None:
        """Keep the result."""
        me, world, view = self.me, self.world, outcome.view
        own = PartyRun(
            fresh=view.fresh,
            local=view.local,
            in_flight_max=view.in_flight_max,
            efforts=view.efforts,
            actions=view.actions,
            busy_s=world.timeline.busy_ns() / 1e9,
            idle_s=world.timeline.total_ns("wait") / 1e9,
            ledger=world.ledger.entries(),
            spans=world.timeline,
            weights=outcome.weights,
            best_weights=outcome.best_weights,
            preprocessing=me.data.columns.preprocessing,
            classes=() if me.data.labels is None else me.data.labels.names,
        )
        facts: dict[str, Any] = {
            "party": me.me,
            "role": me.job.parties[me.me].role,
            "status": outcome.reason,
            "rounds": view.round,
            "per_epoch": self.per_epoch,
            "time_s": view.finished_ns / 1e9,
            "refusals": self.detector.refusals,
        }
        if me.leads:
            self.run_ = self._run(outcome, own)
            self.run_.save_history(self.folder.path)
            summary = msgspec.json.format(msgspec.json.encode(self.run_.summary()), indent=1)
            write_whole(self.folder.path / "summary.json", summary.decode() + "\n")
        self.folder.save(own, facts)

    def _run(self, outcome: Outcome, own: PartyRun) -> Run:
        history = outcome.history
        assert history is not None
        return Run(
            job=public_job(self.me.job),
            composition=self.me.method.composition(),
            metric=self.me.metrics[0],
            status=outcome.reason,
            rounds=outcome.view.round,
            per_epoch=self.per_epoch,
            time_s=outcome.view.finished_ns / 1e9,
            history=history.evaluations,
            test=history.test,
            chosen_on=self.chosen_on,
            losses=with_efforts(history.rounds, {self.me.me: outcome.view.efforts}),
            sizes=None,
            parties={self.me.me: own},
        )


__all__ = ["Joined", "Participation", "take_part"]
