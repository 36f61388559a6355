"""Files that outlive a crash and a loss of power, or say why they do not."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from colonnade.errors import FailedError

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
