"""One process of a party over the network, from its start to its last file, for any program."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from colonnade.errors import AbsentError, FailedError
from colonnade.job.files import dumps
from colonnade.job.party_file import public_job
from colonnade.job.policy import Policy
from colonnade.job.records import Job
from colonnade.job.running import Timeouts
from colonnade.net.detector import FailureDetector, new_generation, new_incarnation, wall_ns
from colonnade.net.link import Emulation
from colonnade.net.runner import Address, run_connected
from colonnade.party.program import Program
from colonnade.party.session import run_session
from colonnade.party.world import Over
from colonnade.record.chain import Chain, reconcile
from colonnade.record.events import Event, Finished, Resumed, Started, Subscriber
from colonnade.record.party_folder import PartyFolder
from colonnade.record.private import write_whole
from colonnade.run.releases import Gate
from colonnade.run.surroundings import NotedStore, PartyWorld
from colonnade.tls.keyring import Keyring
from colonnade.wire.ledger import Entry

Result = TypeVar("Result")
DONE_STATUS = "done"
KEPT_BEFORE = "the result of this party was kept before"
DISK_FAULTS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
    *(errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR),
)


class Participation(ABC, Generic[Result]):
    """What a process needs around its program: a ledger, checkpoints, a clock, and an end."""

    chain_kind: type[Chain] = Chain
    world_kind: type[PartyWorld] = PartyWorld
    keeps_time = True
    """Whether what the party does and when is kept in its folder."""
    goes_on = True
    """Whether a process goes on with the work of the one before it, so that the ledger counts what
    that one did as repeated, the clock goes on from its beginning, and so does the timeline."""

    def __init__(
        self,
        job: Job,
        me: str,
        policy: Policy,
        same: str,
        folder: PartyFolder,
        subscribers: Sequence[Subscriber] = (),
        keep: int | None = None,
        tells_saved: bool = True,
    ) -> None:
        """`same` is the same for all processes that may go on with one another's work; `keep` is
        how many checkpoints stay, where other than the job says."""
        self.job, self.name, self.policy = job, me, policy
        self.leads = me == job.active
        self.folder = folder
        self.chain = self.chain_kind.open(folder.chain, me, same, wall_ns())
        elapsed_ns = max(0, wall_ns() - folder.remember("started_ns", wall_ns()))
        self.detector = FailureDetector(self._timeouts(), me, subscribers, self.chain, elapsed_ns)
        whose = folder.checkpoints, me, same, keep or job.recovery.keep
        forgives = job.recovery.on_disk_fault == "go_on"
        self.store = NotedStore(*whose, self.detector, self.chain, forgives, tells_saved)
        self._has_begun = False
        write_whole(folder.path / "job.toml", dumps(public_job(job)))

    def crossed(self) -> list[Entry]:
        """What has crossed so far, by peer, direction and kind; another thread may ask."""
        world = vars(self).get("world")
        return [] if world is None else world.ledger.entries()

    @abstractmethod
    def program(self) -> Program:
        """What the party is to do."""

    @abstractmethod
    def status(self, outcome: Result) -> str:
        """How the program ended."""

    def reason(self, status: str) -> str:
        """How the end is told."""
        return status

    def counter(self) -> Gate | None:
        """What counts the releases, where they are limited or cost something."""
        return None

    def why(self) -> str:
        """More about how it ended."""
        return ""

    def settled(self) -> None:
        """The job is over for everybody."""
        self.folder.complete()

    def take_part(
        self, address: Address, keyring: Keyring, emulation: Emulation | None
    ) -> tuple[str, dict[str, list[str]]]:
        """Connect, run the program and keep the result: how it ended, and where a peer's count of
        what crossed differs from this party's, by peer."""
        self._tell(Started, self.goes_on and self.chain.entries > 1)
        self.world = self.world_kind(
            self.job,
            self.name,
            self.detector,
            incarnation=new_incarnation(),
            emulation=emulation,
            policy=self.policy,
            generation=new_generation(),
        )
        self.world.receipt = self._receipt
        self.world.releases = self.counter()
        self.world.begun = self._begun
        self.world.settled = self.settled
        if self.keeps_time and self.goes_on:
            self.world.folder = self.folder
        program = self.program()
        try:
            # Whatever is wrong with the data is found before anybody waits.
            _ = program.hello
            status = run_connected(self.world, address, keyring, lambda: self._session(program))
            differences = self._reconcile()
            self._tell(Finished, self.reason(status), self.why())
        finally:
            self.chain.close()
        return status, differences

    def _tell(self, kind: Callable[..., Event], *said: object) -> None:
        self.detector.tell(kind(self.name, self.detector.time_ns(), *said))

    def _timeouts(self) -> Timeouts:
        """A passive party that has its result waits for the active one no longer than for a
        goodbye: only that is missing, and perhaps nobody is there to say it."""
        timeouts = self.job.timeouts
        if self.leads or not self.folder.is_done:
            return timeouts
        return msgspec.structs.replace(timeouts, join=timeouts.finish)

    async def _session(self, program: Program) -> str:
        try:
            (outcome,) = await run_session(self.world, [program])
            return self.status(outcome)
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
            self.settled()
            return DONE_STATUS
        except AbsentError as absent:
            # Once the parties have begun again, they need each other to the end.
            if not self.folder.is_done or self._has_begun:
                raise
            self.detector.note(f"{absent}; {KEPT_BEFORE}, and only a goodbye is missing")
            return DONE_STATUS

    def _begun(self, start: int) -> None:
        self._has_begun = True
        if not self.detector.begun_ns:
            now_ns = self.detector.now()
            known_ns = self.folder.remember("begun_ns", now_ns) if self.goes_on else now_ns
            # A clock that was set back must not make the time negative.
            self.world.start_clock(min(now_ns, known_ns))
        if self.world.roster.begun_again or start:
            self.world.tell(Resumed(self.name, self.detector.time_ns(), start))

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
                found[peer] = reconcile(mine, self.name, theirs, peer)
            except msgspec.MsgspecError:
                found[peer] = [f"the receipt of {peer} cannot be read"]
            for sentence in found[peer]:
                self.detector.note(sentence)
        self.folder.reconciled(found)
        return found
