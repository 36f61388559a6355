"""What an alignment leaves behind: which rows of a party's table all parties have, and in which
order; written by `colonnade align`, read when the rows are trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.data.fingerprint import buffers
from colonnade.errors import DataError
from colonnade.formats import FORMATS, check_json

FACTS, ROWS = "alignment.json", "rows.npy"
_ANEW = "align again, with --restart at all parties"
Rows = npt.NDArray[np.int64]


class Alignment(msgspec.Struct, frozen=True, kw_only=True):
    """What a party knows of an alignment, beside the rows."""

    format: int = FORMATS["alignment"].version
    party: str
    common: str
    """A name that all parties of the alignment know, and nobody else."""
    count: int
    """How many rows all parties have."""
    sizes: Mapping[str, int]
    """How many ids each party brought, in the order of the job."""
    id: tuple[str, ...]
    """The columns that name the rows."""
    rule: str
    """What of an id counts."""
    table: str
    """A fingerprint of all ids of the table, in their order."""


class TableFingerprint:
    """Of the ids of a table, in pieces of any size: another one, where rows were added, removed or
    moved.

    >>> def of(*pieces):
    ...     mixed = TableFingerprint()
    ...     for piece in pieces:
    ...         mixed.update(pa.array(piece))
    ...     return mixed.text()
    >>> of(["a", "bc"]) == of(["a"], ["bc"]), of(["a", "bc"]) == of(["ab", "c"])
    (True, False)
    """

    def __init__(self) -> None:
        self.count = 0
        self._lengths, self._text = hashlib.sha256(), hashlib.sha256()

    def update(self, texts: pa.Array) -> None:
        """The next ids."""
        self.count += len(texts)
        lengths, text = buffers(texts.cast(pa.large_string()))
        self._lengths.update(lengths)
        self._text.update(text)

    def text(self) -> str:
        """Of all so far."""
        return hashlib.sha256(self._lengths.digest() + self._text.digest()).hexdigest()


def pack_rows(rows: Rows) -> bytes:
    """The rows as a `.npy` file."""
    out = BytesIO()
    np.save(out, rows.astype("<i8"), allow_pickle=False)
    return out.getvalue()


def default_folder(job: str, party: str) -> Path:
    """Where the alignment of a party lies, unless somebody says otherwise.

    >>> default_folder("credit", "bank").as_posix()
    'aligned/credit-bank'
    """
    return Path("aligned") / f"{job}-{party}"


def has_alignment(folder: Path) -> bool:
    """Whether a folder holds the result of an alignment.

    >>> has_alignment(Path("nowhere"))
    False
    """
    return (folder / FACTS).is_file()


def read_facts(folder: Path) -> Alignment:
    """What an alignment says of itself."""
    path = folder / FACTS
    try:
        content = path.read_bytes()
        check_json("alignment", content, path, DataError)
        return msgspec.json.decode(content, type=Alignment)
    except FileNotFoundError:
        raise DataError(f"{folder} holds no alignment: run colonnade align first") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): {_ANEW}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise DataError(f"{path} is no alignment, or damaged: {_ANEW}") from None


def aligned_rows(folder: Path, facts: Alignment, texts: pa.Array, where: str) -> Rows:
    """The common rows of a table in the common order; `texts` are its ids under the same rule."""
    mixed = TableFingerprint()
    mixed.update(texts)
    if mixed.text() != facts.table:
        raise DataError(
            f"{where} has changed since it was aligned (its ids, or their order): put it back, or "
            f"{_ANEW}"
        )
    path = folder / ROWS
    try:
        rows = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise DataError(f"{path} cannot be read, or is damaged: {_ANEW}") from None
    sound = rows.ndim == 1 and rows.dtype == np.dtype("<i8") and len(rows) == facts.count
    if sound and len(rows):
        sound = bool(rows.min() >= 0 and rows.max() < len(texts))
        sound = sound and len(np.unique(rows)) == len(rows)
    if not sound:
        raise DataError(f"{path} does not belong to {folder / FACTS}: {_ANEW}")
    found: Rows = rows
    return found
