"""The formats of the files that Colonnade writes, each with its version, and what becomes of a file
that another version of Colonnade wrote.

A version is a whole number, counted from 1. It goes up only when a program that knows the format
would misread the file; what is merely added is read by default. A file that says no version has the
first one: that is how files looked before they said any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from colonnade.errors import RequestError

KEY = "format"
"""Where a JSON file says its version."""
METADATA_KEY = "colonnade.format"
"""Where a Parquet or safetensors file does, in its metadata."""
_DIGITS_MAX = 9
"""A version in metadata is text, and no text from a file becomes a number whatever its length."""
_UPDATE = "update Colonnade (pip install --upgrade colonnade)"
_TRAIN = "read it with the version of Colonnade that wrote it, or train again"


@dataclass(frozen=True)
class Format:
    """One kind of file."""

    files: str
    """What they are called."""
    version: int = 1
    """That this program writes, and the newest that it reads."""
    oldest: int = 1
    """The oldest that it reads."""
    cure: str = _TRAIN
    """What to do with one that is older than that."""

    @property
    def reads(self) -> str:
        """What this program reads, in words.

        >>> Format("a.json", 3, 3).reads, Format("a.json", 3, 1).reads
        ('format 3', 'formats 1 to 3')
        """
        if self.oldest == self.version:
            return f"format {self.version}"
        return f"formats {self.oldest} to {self.version}"


FORMATS: Mapping[str, Format] = {
    "run": Format("summary.json"),
    "party": Format("start.json, party.json"),
    "history": Format("history.parquet"),
    "rounds": Format("rounds.parquet"),
    "timeline": Format("timeline.parquet", version=2),
    "exchanges": Format("exchanges.parquet"),
    "checkpoint": Format(
        "checkpoints/*.state",
        version=3,
        oldest=3,
        cure="choose another --out folder, or go on with the version of Colonnade that wrote it",
    ),
    "attempts": Format("checkpoints/run.json"),
    "ledger": Format(
        "ledger.chain",
        cure="read it with the version of Colonnade that wrote it, or choose another --out folder",
    ),
    "model": Format("model.json"),
    "recording": Format("traffic/*.safetensors"),
    "audit": Format("privacy.json", cure="audit the run again"),
    "alignment": Format("alignment.json", cure="align again, with --restart at all parties"),
    "desk": Format("secrets.json", cure="align again, with --restart at all parties"),
    "prediction": Format("prediction.json", cure="score the rows again"),
    "comparison": Format("comparison.json", cure="compare again"),
    "sweep": Format("sweep.json, points/*.json", cure="make the sweep again"),
    "race": Format("race.json, points/*.json", cure="run the race again, in another --out folder"),
    "study": Format("results.parquet, claims.json", cure="reproduce it again"),
    "account": Format("spent", cure="go on with the version of Colonnade that wrote it"),
}
"""Every kind of file with a version of its own. What lies beside one and says none (`job.toml`,
`ledger.json`, `classes.json`, …) is covered by it; docs/formats.md has the table."""


def stamp(kind: str) -> dict[str, int]:
    """What a JSON object of a kind says of its format.

    >>> stamp("run")
    {'format': 1}
    """
    return {KEY: FORMATS[kind].version}


def metadata(kind: str) -> dict[str, str]:
    """What the metadata of a Parquet or safetensors file of a kind says.

    >>> metadata("history")
    {'colonnade.format': '1'}
    """
    return {METADATA_KEY: str(FORMATS[kind].version)}


def check(
    kind: str, found: object, where: str | Path, error: type[RequestError] = RequestError
) -> int:
    """The version of a file that says `found` of it (None where it says nothing), or the refusal of
    one that this program cannot read.

    >>> check("run", None, "runs/first/summary.json")
    1
    >>> check("run", 7, "runs/first/summary.json")
    Traceback (most recent call last):
    colonnade.errors.RequestError: runs/first/summary.json has format 7, written by a newer \
Colonnade, and this one reads format 1: update Colonnade (pip install --upgrade colonnade)
    """
    known = FORMATS[kind]
    if found is None:
        found = 1
    if type(found) is not int or found < 1:
        raise error(
            f"{where} says that its format is {_shown(found)}, and this Colonnade reads "
            f"{known.reads}: copy the file again from where it was written"
        )
    if found > known.version:
        raise error(
            f"{where} has format {_shown(found)}, written by a newer Colonnade, and this one reads "
            f"{known.reads}: {_UPDATE}"
        )
    if found < known.oldest:
        raise error(
            f"{where} has format {found}, written by an older Colonnade, and this one reads "
            f"{known.reads}: {known.cure}"
        )
    return found


def check_json(
    kind: str, content: bytes, where: str | Path, error: type[RequestError] = RequestError
) -> int:
    """As `check`, for a JSON file before anything else of it is read: in another format its fields
    may be others. What is no JSON object is left to whoever reads it.

    >>> check_json("model", b'{"format": 1, "job": "credit"}', "model.json")
    1
    """
    try:
        found = msgspec.json.decode(content, type=_Stamped).format
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return FORMATS[kind].version
    return check(kind, found, where, error)


def check_metadata(kind: str, found: Mapping[Any, Any] | None, where: str | Path) -> int:
    """As `check`, for the metadata of a Parquet file (bytes) or a safetensors file (text).

    >>> check_metadata("history", {b"colonnade.format": b"1"}, "history.parquet")
    1
    """
    held = found or {}
    said = held.get(METADATA_KEY, held.get(METADATA_KEY.encode()))
    if said is None:
        return check(kind, None, where)
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    return check(kind, int(text) if is_number else text, where)


class _Stamped(msgspec.Struct, frozen=True):
    format: Any = None


def _shown(found: object) -> str:
    """What a file says, of any length and with any letters, as part of a sentence."""
    text = ascii(found)
    return text if len(text) <= 40 else f"{text[:40]}…"
