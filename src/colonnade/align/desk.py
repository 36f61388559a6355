"""Where a party works on an alignment: its secrets, and what it has done so far, in files that only
it may read, so that a crash loses little and repeats nothing that others could learn from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import numpy as np

from colonnade.align.group import Batch
from colonnade.align.idset import IdSet
from colonnade.errors import PartyError, RequestError
from colonnade.record.checkpoints import ANEW
from colonnade.record.private import OWNER_ONLY, append_to_private, private_file, write_whole

SECRETS = "secrets.json"
IDS = "ids.bin"
ASKED, TABLES = "asked.bin", "tables.bin"
"""What a follower was asked, and what it has given."""
Randomness = Callable[[int], bytes]
"""So many bytes that nobody else can guess."""
_BYTES = 32


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
    """The public keys of the others and how many ids they have, as they first said."""

    @classmethod
    def draw(cls, run: str, ids: str, randomness: Randomness) -> Secrets:
        """New ones."""
        letters, key, blinds, filling, order = (randomness(_BYTES) for _ in range(5))
        return cls(run, letters, key, blinds, filling, order, ids)


class Desk:
    """A folder with a party's files of one alignment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def secrets(self, run: str, randomness: Randomness) -> Secrets:
        """Those of a run; new ones, and nothing left of another run, where there are none."""
        path = self.folder / SECRETS
        try:
            known = msgspec.json.decode(path.read_bytes(), type=Secrets)
        except FileNotFoundError:
            known = None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise RequestError(f"{path} cannot be read, it is damaged: {ANEW}") from None
        ids = self.ids.fingerprint()
        if known is not None and known.run == run:
            # Tables of the same key with other ids would give both away.
            if known.ids != ids:
                raise RequestError(
                    f"the table has changed since this alignment began: put it back, or {ANEW}"
                )
            return known
        if known is not None and self._has_answered():
            # Else whoever leads could break off and ask for other ids, as often as it likes.
            raise PartyError(
                f"the others begin another alignment, {run[:12]}, than that in which this party "
                f"has answered, {known.run[:12]}: {ANEW}"
            )
        self.clear()
        drawn = Secrets.draw(run, ids, randomness)
        self.keep(drawn)
        return drawn

    def _has_answered(self) -> bool:
        paths = [self.folder / name for name in (ASKED, TABLES)]
        return any(path.exists() and path.stat().st_size > 0 for path in paths)

    def keep(self, secrets: Secrets) -> None:
        """Write the secrets."""
        write_whole(self.folder / SECRETS, [msgspec.json.encode(secrets)])

    def clear(self, *but: str) -> None:
        """Delete what was worked on, but for the ids and what is named."""
        for path in self.folder.iterdir():
            if path.is_file() and path.name not in (IDS, *but):
                path.unlink()

    @property
    def ids(self) -> IdSet:
        """The party's ids."""
        return IdSet(self.folder / IDS)

    def appended(self, name: str, width: int) -> Appended:
        """A file of pieces of one size, in the order in which they came."""
        return Appended(self.folder / name, width)

    def rows(self, name: str, count: int, width: int) -> RowFile:
        """A file with a place for each of so many rows, to be written in any order."""
        return RowFile(self.folder / name, count, width)


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
