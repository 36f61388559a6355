"""Checkpoints: a party's whole state at a round, in files that are either sound or not there.

A file (its inside is described in `sealed.py`) is written beside its place, forced to the disk and
then renamed, so that a crash leaves either the whole of it or nothing that counts.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from colonnade.errors import FailedError, RequestError
from colonnade.formats import FORMATS, check_json
from colonnade.record.lineage import Lineage
from colonnade.record.private import write_whole
from colonnade.record.sealed import FORMAT, Header, inspect, pack, unpack
from colonnade.record.tree import StateError, Tree

_SPACE = "free some space, or choose another --out folder"
_RIGHTS = "make the folder writable, or choose another --out folder"
_FILES = "raise the limit on open files (ulimit -n), or choose another --out folder"
_CURES = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: _RIGHTS,
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
}


class CheckpointError(FailedError):
    """A checkpoint cannot be written or read."""

    told = "the checkpoint cannot be written or read, and its own log says why"


def force_folder(folder: Path) -> None:
    """Force a rename, or a deletion, to the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def failed(what: str, error: OSError) -> CheckpointError:
    """What went wrong, with the cure.

    >>> str(failed("x.state cannot be written", OSError(errno.EROFS, "Read-only file system")))
    'x.state cannot be written (Read-only file system): make the folder writable, or choose \
another --out folder'
    """
    cure = _CURES.get(error.errno or 0, "see to the disk, or choose another --out folder")
    return CheckpointError(f"{what} ({error.strerror or error}): {cure}")


KEEP = 3
"""How many checkpoints stay: the parties may have to go back by more than one."""

RUN = "run.json"
"""The name of the file that says to which run a folder belongs."""
ANEW = "begin anew at all parties, each with --restart or another --out folder"

_NAME = re.compile(r"checkpoint-(\d{8,})\.state")


class Store(Protocol):
    """Where a party keeps its checkpoints."""

    @property
    def run(self) -> str:
        """The run to which they belong; empty for a party that has taken part in none."""

    def save(self, round: int, tree: Tree) -> None:
        """Keep a state; when this returns it outlives a crash, and those that nobody can want any
        more are deleted."""

    def load(self, round: int) -> Tree:
        """The state of one of the rounds in `marks()`."""

    def marks(self) -> dict[int, str]:
        """The rounds whose state is here and sound, in ascending order, each with the attempt
        that reached it."""

    def begin(self, run: str, attempt: str, start: int) -> None:
        """All have agreed to go on from a round; nothing is deleted for that."""


class _Noted(msgspec.Struct, frozen=True):
    """What a folder says of itself."""

    run: str = ""
    saved: bool = False
    """Whether a checkpoint of the run was ever saved here."""
    format: int = FORMATS["attempts"].version


def _read_run(path: Path) -> _Noted:
    try:
        content = path.read_bytes()
        check_json("attempts", content, path)
        return msgspec.json.decode(content, type=_Noted)
    except FileNotFoundError:
        return _Noted()
    except OSError as error:
        raise failed(f"the file {path} cannot be read", error) from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise RequestError(f"{path} cannot be read, it is damaged: {ANEW}") from None


class FileStore:
    """Checkpoints of one party and one job in a folder; opening it clears what a crash left."""

    def __init__(self, folder: Path, party: str, digest: str, keep: int = KEEP) -> None:
        self.folder = folder
        self.faults: list[str] = []
        """A sentence for each damaged checkpoint that was found."""
        self._own = Header(FORMAT, digest, party)
        self._keep = keep
        self._line = Lineage()
        self._known: dict[Path, tuple[tuple[int, ...], Header | None]] = {}
        """What was found out of a file, by what tells whether it has changed since."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in folder.glob(".checkpoint-*.part"):
                left.unlink()
        except OSError as error:
            raise failed(f"the folder {folder} cannot be used for checkpoints", error) from None
        self._noted = _read_run(folder / RUN)
        self._line = Lineage(self._noted.run)
        if not self.marks() and self._noted.saved:
            raise RequestError(
                f"the checkpoints of the run {self.run[:12]} that were in {folder} are gone or "
                f"damaged: put them back, or {ANEW}"
            )

    @property
    def run(self) -> str:
        """As it was begun, by this process or one before."""
        return self._line.run

    def save(self, round: int, tree: Tree) -> None:
        """Write beside, force to the disk, rename; then delete what nobody can want any more."""
        line = self._line
        header = msgspec.structs.replace(self._own, round=round, run=line.run, attempt=line.attempt)
        path = self._path(round)
        try:
            write_whole(path, pack(header, tree))
            force_folder(self.folder)
            self._known[path] = (_identity(path), header)
        except OSError as error:
            raise failed(f"the checkpoint {path} cannot be written", error) from None
        if line.run and not self._noted.saved:
            self._note(_Noted(line.run, saved=True))
        kept = line.retained(self.marks(), round, self._keep)
        self._delete(lambda other: other not in kept)

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
            raise failed(f"the checkpoint {path} cannot be read", error) from None

    def marks(self) -> dict[int, str]:
        """Those whose checksum is right; one of another job is refused."""
        return dict(sorted(self._sound().items()))

    def begin(self, run: str, attempt: str, start: int) -> None:
        """Note the run in a file, if it is another than before."""
        assert run == self.run or not self.marks(), "checkpoints of two runs do not mix"
        if run != self.run:
            self._note(_Noted(run))
        self._line = Lineage(run, attempt, start)

    def _note(self, noted: _Noted) -> None:
        path = self.folder / RUN
        try:
            write_whole(path, [msgspec.json.encode(noted)])
            force_folder(self.folder)
        except OSError as error:
            raise failed(f"the file {path} cannot be written", error) from None
        self._noted = noted

    def _path(self, round: int) -> Path:
        return self.folder / f"checkpoint-{round:08}.state"

    def _files(self) -> dict[Path, int]:
        names = [(path, _NAME.fullmatch(path.name)) for path in sorted(self.folder.iterdir())]
        return {path: int(match[1]) for path, match in names if match}

    def _sound(self) -> dict[int, str]:
        """The attempts of the sound ones by round; tells of those that are not, once."""
        sound: dict[int, str] = {}
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
                if (found := self._known[path][1]) is not None:
                    sound[round] = found.attempt
        except OSError as error:
            raise failed(f"the checkpoints in {self.folder} cannot be read", error) from None
        used = f"the one of round {max(sound)} is used" if sound else "there is no other"
        self.faults += [f"{path.stem} is damaged ({why}): {used}" for path, why in damaged.items()]
        return sound

    def _refuse_others(self, path: Path, header: Header) -> None:
        """A folder holds the checkpoints of one job, one run and one party."""
        own, cure = self._own, "choose another --out folder"
        if header.digest != own.digest:
            raise RequestError(
                f"{path} is of another job: its digest is {header.digest}, this job's is "
                f"{own.digest}: {cure}"
            )
        if header.party != own.party:
            raise RequestError(
                f"{path} is of the party '{header.party}', not '{own.party}': {cure}"
            )
        if header.run != self.run:
            raise RequestError(
                f"{path} is of another run of this job, {header.run[:12] or 'without a name'}, "
                f"than the folder, {self.run[:12] or 'which has none'}: {cure}"
            )

    def _delete(self, unwanted: Callable[[int], bool]) -> None:
        try:
            paths = [path for path, round in self._files().items() if unwanted(round)]
            for path in paths:
                path.unlink()
                self._known.pop(path, None)
            if paths:
                force_folder(self.folder)
        except OSError as error:
            raise failed(f"old checkpoints in {self.folder} cannot be deleted", error) from None


def _identity(path: Path) -> tuple[int, ...]:
    """What changes when a file does."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
