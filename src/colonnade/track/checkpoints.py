"""Checkpoints: a party's whole state at a round, in files that are either sound or not there.

A file (its inside is described in `sealed.py`) is written beside its place, forced to the disk and
then renamed, so that a crash leaves either the whole of it or nothing that counts.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from colonnade.errors import FailedError, RequestError
from colonnade.party.state import StateError, Tree
from colonnade.track.sealed import FORMAT, Header, inspect, pack, unpack

KEEP = 3
"""How many checkpoints stay: the parties may have to go back by more than one."""

_NAME = re.compile(r"checkpoint-(\d{8,})\.state")
_SPACE = "free some space, or choose another --out folder"
_RIGHTS = "make the folder writable, or choose another --out folder"
_CURES = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: _RIGHTS,
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
}


class CheckpointError(FailedError):
    """A checkpoint cannot be written or read."""


class Store(Protocol):
    """Where a party keeps its checkpoints."""

    def save(self, round: int, tree: Tree) -> None:
        """Keep a state; when this returns it outlives a crash, and later ones are forgotten."""
        ...

    def load(self, round: int) -> Tree:
        """The state of one of `rounds()`."""
        ...

    def rounds(self) -> tuple[int, ...]:
        """The rounds whose state is here and sound, in ascending order."""
        ...

    def forget_after(self, round: int) -> None:
        """The party goes on from this round: what is of later ones was of another past."""
        ...


class MemoryStore:
    """Checkpoints in memory, written and read as those in files are.

    >>> store = MemoryStore()
    >>> store.save(80, {"round": 80})
    >>> store.rounds(), store.load(80)
    ((80,), {'round': 80})
    """

    def __init__(self, keep: int = KEEP) -> None:
        self._keep = keep
        self._saved: dict[int, bytes] = {}

    def save(self, round: int, tree: Tree) -> None:
        """Keep the bytes."""
        self._saved[round] = b"".join(pack(Header(FORMAT, round=round), tree))
        self.forget_after(round)
        for old in self.rounds()[: -self._keep]:
            del self._saved[old]

    def load(self, round: int) -> Tree:
        """Read the bytes."""
        return unpack(self._saved[round])[1]

    def rounds(self) -> tuple[int, ...]:
        """All of them."""
        return tuple(sorted(self._saved))

    def forget_after(self, round: int) -> None:
        """Drop the later ones."""
        self._saved = {kept: data for kept, data in self._saved.items() if kept <= round}


class FileStore:
    """Checkpoints of one party and one job in a folder; opening it clears what a crash left."""

    def __init__(self, folder: Path, party: str, digest: str, keep: int = KEEP) -> None:
        self.folder = folder
        self.faults: list[str] = []
        """A sentence for each damaged checkpoint that was found."""
        self._own = Header(FORMAT, digest, party)
        self._keep = keep
        self._known: dict[Path, tuple[tuple[int, ...], Header | None]] = {}
        """What was found out of a file, by what tells whether it has changed since."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in folder.glob(".checkpoint-*.part"):
                left.unlink()
        except OSError as error:
            raise _failed(f"the folder {folder} cannot be used for checkpoints", error) from None
        self.rounds()

    def save(self, round: int, tree: Tree) -> None:
        """Write beside, force to the disk, rename; then delete what is too old, or of later."""
        header = msgspec.structs.replace(self._own, round=round)
        path = self._path(round)
        beside = path.with_name(f".{path.name}.part")
        try:
            _write(beside, pack(header, tree))
            beside.replace(path)
            _force_folder(self.folder)
            self._known[path] = (_identity(path), header)
        except OSError as error:
            raise _failed(f"the checkpoint {path} cannot be written", error) from None
        finally:
            # If even this fails the first error counts, and the next opening clears it.
            with suppress(OSError):
                beside.unlink()
        oldest = [kept for kept in self.rounds() if kept <= round][-self._keep :][0]
        self._delete(lambda other: not oldest <= other <= round)

    def load(self, round: int) -> Tree:
        """Read the file, and judge it once more."""
        path = self._path(round)
        try:
            return unpack(path.read_bytes())[1]
        except StateError as error:
            raise CheckpointError(
                f"the checkpoint {path} is damaged ({error}): start again, and an older one is used"
            ) from None
        except OSError as error:
            raise _failed(f"the checkpoint {path} cannot be read", error) from None

    def rounds(self) -> tuple[int, ...]:
        """Those whose checksum is right; one of another job is refused."""
        return tuple(sorted(self._sound()))

    def forget_after(self, round: int) -> None:
        """Delete the later ones."""
        self._delete(lambda other: other > round)

    def _path(self, round: int) -> Path:
        return self.folder / f"checkpoint-{round:08}.state"

    def _files(self) -> dict[Path, int]:
        names = [(path, _NAME.fullmatch(path.name)) for path in sorted(self.folder.iterdir())]
        return {path: int(match[1]) for path, match in names if match}

    def _sound(self) -> dict[int, Path]:
        """The sound ones by round; tells of those that are not, once."""
        sound: dict[int, Path] = {}
        damaged: dict[Path, str] = {}
        try:
            for path, round in self._files().items():
                identity = _identity(path)
                if self._known.get(path, ((), None))[0] != identity:
                    header, fault = inspect(path, round)
                    if header is None:
                        damaged[path] = fault
                    else:
                        self._refuse_others(path, header)
                    self._known[path] = (identity, header)
                if self._known[path][1] is not None:
                    sound[round] = path
        except OSError as error:
            raise _failed(f"the checkpoints in {self.folder} cannot be read", error) from None
        used = f"the one of round {max(sound)} is used" if sound else "there is no other"
        self.faults += [f"{path.stem} is damaged ({why}): {used}" for path, why in damaged.items()]
        return sound

    def _refuse_others(self, path: Path, header: Header) -> None:
        """A folder holds the checkpoints of one job and one party."""
        own, cure = self._own, "choose another --out folder"
        if header.format != own.format:
            raise RequestError(
                f"{path} has the format {header.format}, and this version of colonnade reads "
                f"format {own.format}: {cure}, or go on with the version that wrote it"
            )
        if header.digest != own.digest:
            raise RequestError(
                f"{path} is of another job: its digest is {header.digest}, this job's is "
                f"{own.digest}: {cure}"
            )
        if header.party != own.party:
            raise RequestError(
                f"{path} is of the party '{header.party}', not '{own.party}': {cure}"
            )

    def _delete(self, unwanted: Callable[[int], bool]) -> None:
        try:
            paths = [path for path, round in self._files().items() if unwanted(round)]
            for path in paths:
                path.unlink()
                self._known.pop(path, None)
            if paths:
                _force_folder(self.folder)
        except OSError as error:
            raise _failed(f"old checkpoints in {self.folder} cannot be deleted", error) from None


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    """A new file that only its owner may read, forced to the disk."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _force_folder(folder: Path) -> None:
    """Force a rename, or a deletion, to the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _identity(path: Path) -> tuple[int, ...]:
    """What changes when a file does."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _failed(what: str, error: OSError) -> CheckpointError:
    cure = _CURES.get(error.errno or 0, "see to the disk, or choose another --out folder")
    return CheckpointError(f"{what} ({error.strerror or error}): {cure}")
