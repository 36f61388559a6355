"""Where a party works on an alignment: its secrets, and what it has done so far, in files that only
it may read, so that a crash loses little and repeats nothing that others could learn from.

The first *step* of an alignment is about all ids, each later one, an update, about those that were
added. The key and the seeds that parties share stay; whatever else is drawn from is another in each
step, so that nothing that is sent in one of them repeats or completes what was sent before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from colonnade.align.group import Batch
from colonnade.align.idset import IdSet, Words
from colonnade.align.work import labelled
from colonnade.errors import PartyError, RequestError
from colonnade.formats import FORMATS, check_json
from colonnade.record.checkpoints import ANEW
from colonnade.record.private import OWNER_ONLY, append_to_private, private_file, write_whole

SECRETS = "secrets.json"
IDS = "ids.bin"
ASKED, TABLES = "asked", "tables"
"""What a follower was asked, and what it has given, in one step."""
NEWS, COMMON = "ids", "common"
"""The ids that a step has brought, and those that all have after it, in their order."""
_PASSING = (ASKED, TABLES)
"""What nobody needs when the step is over, as far as names begin so."""
Randomness = Callable[[int], bytes]
"""So many bytes that nobody else can guess."""
_BYTES = 32
_PIECE = 65_536


class Secrets(msgspec.Struct, frozen=True):
    """What a party draws once for an alignment."""

    run: str
    """For which run."""
    letters: bytes
    """The private key with which letters to it are opened."""
    key: bytes
    """The seed of the key with which it evaluates points."""
    blinds: bytes
    """What its blinds come from."""
    filling: bytes
    """What the free slots of its tables come from."""
    order: bytes
    """What the common order comes from, where it leads."""
    ids: str = ""
    """A fingerprint of its ids."""
    peers: Mapping[str, tuple[bytes, int]] = {}
    """The public keys of the others and how many ids they have, as they first said in this
    step."""
    step: int = 0
    sizes: tuple[Mapping[str, int], ...] = ()
    """How many ids each party had, by step."""
    lead: str = ""
    """Who leads, from the first step on."""
    format: int = FORMATS["desk"].version
    """Of this file, and of all that lies beside it."""

    @classmethod
    def draw(cls, run: str, ids: str, randomness: Randomness) -> Secrets:
        """New ones."""
        letters, key, blinds, filling, order = (randomness(_BYTES) for _ in range(5))
        return cls(run, letters, key, blinds, filling, order, ids)

    @property
    def label(self) -> bytes:
        """Of the present step, and the run of it; empty in the first step."""
        return b"%d %s" % (self.step, self.run.encode()) if self.step else b""

    def of_step(self) -> Secrets:
        """Those to draw from in the present step; what stays the same in all is the key, and what
        letters are opened with."""
        drawn = {name: labelled(getattr(self, name), self.label) for name in _OF_STEP}
        return msgspec.structs.replace(self, **drawn)


_OF_STEP = ("blinds", "filling", "order")


class Desk:
    """A folder with a party's files of one alignment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def secrets(self, run: str, randomness: Randomness, step: int = 0) -> Secrets:
        """Those of a run; new ones, and nothing left of another run, where there are none. In a
        later step they are those of the step before, for another run."""
        known, ids = self._known(), self.ids.fingerprint()
        if (known.step if known is not None else -1) not in (step - 1, step):
            raise RequestError(
                f"{self.folder / SECRETS} is not of the alignment that is to be updated: {ANEW}"
            )
        if known is not None and known.step == step - 1:
            known = msgspec.structs.replace(known, run=run, ids=ids, peers={}, step=step)
            self.clear(step)
            self.keep(known)
            return known
        if known is not None and known.run == run:
            # Tables of the same key with other ids would give both away.
            if known.ids != ids:
                raise RequestError(
                    f"the table has changed since this alignment began: put it back, or {ANEW}"
                )
            return known
        if known is not None and self._has_answered(step):
            # Else whoever leads could break off and ask for other ids, as often as it likes.
            raise PartyError(
                f"the others begin another alignment, {run[:12]}, than that in which this party "
                f"has answered, {known.run[:12]}: {ANEW}"
            )
        self.clear(step)
        if known is not None and step:
            drawn = msgspec.structs.replace(known, run=run, ids=ids, peers={})
        else:
            drawn = Secrets.draw(run, ids, randomness)
        self.keep(drawn)
        return drawn

    def _known(self) -> Secrets | None:
        path = self.folder / SECRETS
        try:
            content = path.read_bytes()
            check_json("desk", content, path)
            return msgspec.json.decode(content, type=Secrets)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise RequestError(f"{path} cannot be read, it is damaged: {ANEW}") from None

    def _has_answered(self, step: int) -> bool:
        paths = [self._path(name, step) for name in (ASKED, TABLES)]
        return any(path.exists() and path.stat().st_size > 0 for path in paths)

    def _path(self, name: str, step: int) -> Path:
        return self.folder / f"{name}-{step}.bin"

    def keep(self, secrets: Secrets) -> None:
        """Write the secrets."""
        write_whole(self.folder / SECRETS, [msgspec.json.encode(secrets)])

    def clear(self, step: int = 0) -> None:
        """Delete what was worked on in a step, but for the ids; with the first one everything."""
        for path in self.folder.iterdir():
            own = path.stem.endswith(f"-{step}") if step else path.name != IDS
            if path.is_file() and own and path.stem not in (f"{NEWS}-{step}",):
                path.unlink()

    def settle(self, step: int) -> None:
        """A step is over for everybody: what only it needed is deleted."""
        for path in self.folder.iterdir():
            if path.name.startswith(_PASSING) or path == self._path(COMMON, step - 1):
                path.unlink()

    @property
    def ids(self) -> IdSet:
        """The party's ids."""
        return IdSet(self.folder / IDS)

    def divide(self, step: int) -> int:
        """Set the ids apart that a step brings; how many of the steps before are not here any
        more."""
        earlier = self.generations(step - 1)
        return self.ids.without(earlier, self._path(NEWS, step))[1]

    def generations(self, step: int) -> list[IdSet]:
        """The ids that each step up to this one has brought."""
        paths = [self._path(NEWS, number) for number in range(step + 1)]
        for path in paths:
            if not path.is_file():
                raise RequestError(f"{path} is gone, which an update needs: {ANEW}")
        return [IdSet(path) for path in paths]

    def keep_common(self, step: int, ids: Words) -> None:
        """Keep which ids all parties have after a step."""
        write_whole(self._path(COMMON, step), [ids.astype("<u8").tobytes()])

    def common(self, step: int) -> Words:
        """The ids that all parties had after a step; none before the first."""
        if step < 0:
            return np.empty((0, 2), dtype=np.uint64)
        try:
            flat = np.fromfile(self._path(COMMON, step), dtype="<u8")
        except FileNotFoundError:
            raise RequestError(
                f"{self._path(COMMON, step)} is gone, which an update needs: {ANEW}"
            ) from None
        return flat.reshape(-1, 2).astype(np.uint64)

    def appended(self, name: str, step: int, width: int) -> Appended:
        """A file of pieces of one size, in the order in which they came in a step."""
        return Appended(self._path(name, step), width)

    def rows(self, name: str, sizes: Sequence[int], width: int) -> list[RowFile]:
        """A file for each step with a place for each of so many rows. That of the last step is to
        be written in any order; those of earlier ones must be there."""
        paths = [self._path(name, step) for step in range(len(sizes))]
        for path, size in zip(paths[:-1], sizes, strict=False):
            if not path.is_file() or path.stat().st_size != size * width:
                raise RequestError(f"{path} is gone or damaged, which an update needs: {ANEW}")
        return [RowFile(path, size, width) for path, size in zip(paths, sizes, strict=True)]


class RowFile:
    """Rows of bytes in a file, each at its place. It is not mapped: what is mapped counts as the
    process's memory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = RowFile(Path(folder) / "rows", count=3, width=2)
    ...     rows.write(1, np.array([[7, 8]], dtype=np.uint8))
    ...     rows.read(0, 3).tolist()
    [[0, 0], [7, 8], [0, 0]]
    """

    def __init__(self, path: Path, count: int, width: int) -> None:
        self.path, self.width = path, width
        size = count * width
        if not path.exists() or path.stat().st_size != size:
            with private_file(path).open("r+b") as file:
                file.truncate(size)

    def write(self, start: int, rows: Batch) -> None:
        """Some rows; they are on the disk when this returns."""
        with self.path.open("r+b") as file:
            file.seek(start * self.width)
            file.write(np.ascontiguousarray(rows).tobytes())
            file.flush()
            os.fsync(file.fileno())

    def read(self, start: int, stop: int) -> Batch:
        """The rows from one place to another."""
        with self.path.open("rb") as file:
            file.seek(start * self.width)
            flat = file.read((stop - start) * self.width)
        return np.frombuffer(flat, dtype=np.uint8).reshape(-1, self.width)

    def part(self, columns: slice) -> Batch:
        """Some bytes of all rows, read piece by piece."""
        count = self.path.stat().st_size // self.width
        none = np.empty((0, self.width), dtype=np.uint8)[:, columns]
        starts = range(0, count, _PIECE)
        return np.concatenate(
            [none, *(self.read(at, min(at + _PIECE, count))[:, columns].copy() for at in starts)]
        )


class Appended:
    """Pieces of one size in a file, each on the disk before it counts.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pieces = Appended(Path(folder) / "pieces", 2)
    ...     pieces.add(b"ab"); pieces.add(b"cd")
    ...     len(pieces), pieces[1]
    (2, b'cd')
    """

    def __init__(self, path: Path, width: int) -> None:
        self.path, self.width = path, width
        os.close(append_to_private(path))
        with path.open("r+b") as file:
            # A crash may have left a part of a piece.
            file.truncate(path.stat().st_size // width * width)

    def __len__(self) -> int:
        return self.path.stat().st_size // self.width

    def __getitem__(self, number: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(number * self.width)
            return file.read(self.width)

    def add(self, piece: bytes) -> None:
        """One more."""
        assert len(piece) == self.width
        opened = os.open(self.path, os.O_WRONLY | os.O_APPEND, OWNER_ONLY)
        with os.fdopen(opened, "ab") as file:
            file.write(piece)
            file.flush()
            os.fsync(file.fileno())

    def cut(self, count: int) -> None:
        """Forget all but the first so many."""
        with self.path.open("r+b") as file:
            file.truncate(min(count, len(self)) * self.width)
