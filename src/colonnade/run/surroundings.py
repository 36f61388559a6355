"""What is around a party's program over the network: a world that counts, checkpoints that are
noted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from colonnade.net.detector import FailureDetector
from colonnade.net.world import NetworkWorld
from colonnade.record.chain import Chain
from colonnade.record.checkpoints import CheckpointError, FileStore
from colonnade.record.events import Saved
from colonnade.record.party_folder import PartyFolder
from colonnade.record.timeline import Timeline
from colonnade.record.tree import Tree
from colonnade.run.releases import Gate
from colonnade.wire.messages import Message


class NotedStore(FileStore):
    """Checkpoints in files, each noted in the ledger; a fault of the disk is said, and the party
    goes on without, unless the job says otherwise."""

    def __init__(
        self,
        folder: Path,
        party: str,
        digest: str,
        keep: int,
        detector: FailureDetector,
        chain: Chain,
        forgives: bool,
        tells: bool = True,
    ) -> None:
        super().__init__(folder, party, digest, keep)
        self._detector = detector
        self._chain = chain
        self._forgives = forgives
        self._tells = tells
        for fault in self.faults:
            detector.note(fault)

    def save(self, round: int, tree: Tree) -> None:
        """Save, and let the ledger know."""
        try:
            super().save(round, tree)
        except CheckpointError as error:
            if not self._forgives:
                raise
            self._detector.note(f"{error}; the training goes on without (recovery.on_disk_fault)")
            return
        if self._tells:
            self._detector.tell(Saved(self._detector.me, self._detector.time_ns(), round))
        self._chain.sync()

    def begin(self, run: str, attempt: str, start: int) -> None:
        """Go on from one of them; the ledger tells which run it is."""
        if run != self.run:
            self._detector.note(f"takes part in the run {run[:12]}")
        super().begin(run, attempt, start)


class PartyWorld(NetworkWorld):
    """The network, with a clock that begins when all parties are there: how long somebody was
    awaited before says nothing of the training. What leaves is counted, where that is limited."""

    releases: Gate | None = None
    begun: Callable[[int], None] = staticmethod(lambda start: None)
    """Called with the checkpoint from which all go on, each time that they have agreed on it."""
    folder: PartyFolder | None = None
    """Where spans and exchanges outlive the process; None where nobody asks for them."""

    def agree(self, start: int) -> None:
        super().agree(start)
        self.begun(start)

    async def send(self, to: str, message: Message) -> None:
        """Count first: what must not leave is not even encoded."""
        if self.releases is not None:
            self.releases.release(message)
        await super().send(to, message)

    def start_clock(self, begun_ns: int) -> None:
        """The training began at this instant; what came before it is not counted."""
        before, self.timeline = self.timeline, self.new_timeline()
        self.detector.begun_ns = begun_ns
        # What crossed before, such as the handshake, is counted, and has negative times.
        before.move(self.timeline, ("send", "receive", "begin"), begun_ns)

    def new_timeline(self) -> Timeline:
        """Where what this party does is noted."""
        return Timeline() if self.folder is None else self.folder.timeline()

    def now(self) -> int:
        return self.detector.time_ns()
