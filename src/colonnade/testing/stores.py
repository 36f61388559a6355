"""A place for checkpoints that is gone with the test."""

from __future__ import annotations

from colonnade.record.checkpoints import KEEP
from colonnade.record.lineage import Lineage
from colonnade.record.sealed import FORMAT, Header, pack, unpack
from colonnade.record.tree import Tree


class MemoryStore:
    """Checkpoints in memory, written and read as those in files are."""

    def __init__(self, keep: int = KEEP) -> None:
        self._keep = keep
        self._line = Lineage()
        self._saved: dict[int, tuple[str, bytes]] = {}

    @property
    def run(self) -> str:
        return self._line.run

    def save(self, round: int, tree: Tree) -> None:
        data = b"".join(pack(Header(FORMAT, round=round), tree))
        self._saved[round] = (self._line.attempt, data)
        kept = self._line.retained(self.marks(), round, self._keep)
        self._saved = {round: saved for round, saved in self._saved.items() if round in kept}

    def load(self, round: int) -> Tree:
        return unpack(self._saved[round][1])[1]

    def marks(self) -> dict[int, str]:
        return {round: attempt for round, (attempt, _) in sorted(self._saved.items())}

    def begin(self, run: str, attempt: str, start: int) -> None:
        assert not self._saved or run == self.run, "checkpoints of two runs do not mix"
        self._line = Lineage(run, attempt, start)
