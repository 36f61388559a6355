"""The lock of a party's folder: who runs there, for `colonnade stop`, which should be quick."""

from __future__ import annotations

import os
from pathlib import Path

from colonnade.errors import RequestError, reason

try:
    import fcntl
except ImportError:
    raise RequestError(
        "a party of a network runs on Linux and macOS only, because this system has no file locks "
        "as Unix has them: use WSL, or simulate the job"
    ) from None


def take_lock(path: Path) -> int:
    """Lock a party's folder, which is made, for as long as the file that is returned is open."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise RequestError(f"--out {path} cannot be written: {reason(error)}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise RequestError(
            f"the folder {path} is in use by another process: choose another --out, or end "
            f"that one with colonnade stop {path}"
        ) from None
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return lock


def running(path: Path) -> int | None:
    """The number of the process that uses a party's folder; None when none does."""
    try:
        lock = os.open(path / "lock", os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return int(os.read(lock, 32) or b"0") or None
    finally:
        os.close(lock)
