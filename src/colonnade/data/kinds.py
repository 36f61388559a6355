"""What a column is, by its type, its values and its name, and what a person should know of it."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from colonnade.data.dates import form_of
from colonnade.data.disguised import disguise
from colonnade.data.values import counted, decoded, is_date, is_number, is_text, numbers

Kind = Literal["number", "category", "date", "boolean", "id", "text", "constant", "empty", "other"]
_LEFT_OUT = ("id", "text", "constant", "empty", "other")
_MANY = 100
_HUGE = 1_000
_FEW = 20
_MOSTLY = 0.5
_PAIRS = (
    "yes no",
    "y n",
    "true false",
    "t f",
    "1 0",
    "ja nein",
    "j n",
    "oui non",
    "sí no",
    "si no",
)
_WORDS_OF_TWO = {frozenset(pair.split()) for pair in _PAIRS}
_CODE_NAMES = re.compile(
    r"(^|[_\W])(zip|zip_?code|plz|post_?code|postal(_?code)?|phone(_?n(o|umber))?|telefon|tel|"
    r"mobile|iban|bic|sku|ean|branch(_?(id|code|no))?|area_?code)($|[_\W])",
    re.IGNORECASE,
)
_ID_NAMES = re.compile(r"(^|[_\W])(id|uuid|guid|key|nr|no|number|index|row)($|[_\W])|Id$|ID$", re.I)


class Found(NamedTuple):
    """What a column is.

    >>> recognise("x", pa.chunked_array([["a", "a"]]))
    Found(kind='constant', treatment=None, warnings=["it never changes ('a')"])
    """

    kind: Kind
    treatment: str | None
    """How it becomes numbers, where not by its kind; None: it does not."""
    warnings: list[str]


def recognise(name: str, column: pa.ChunkedArray) -> Found:
    """Say what a column is, of which some rows are given."""
    column = decoded(column)
    missing = _missing(column)
    warnings = []
    if len(column) and _MOSTLY < missing < 1:
        warnings.append(f"{missing:.0%} of its values are missing")
    if missing == 1:
        return Found("empty", None, ["it has no values"])
    kind: Kind
    if is_date(column.type):
        kind, more = _date(column)
    elif pa.types.is_boolean(column.type):
        kind, more = "boolean", _constant(counted(column, name))
    elif is_text(column.type):
        kind, more = _text(name, column)
    elif is_number(column.type):
        kind, more = _number(name, column)
    else:
        kind, more = "other", [f"it has type {column.type}, which cannot be encoded"]
    if any("never changes" in warning for warning in more):
        kind = "constant"
    return Found(kind, _treatment(kind, column.type), [*more, *warnings])


def _treatment(kind: Kind, stored: pa.DataType) -> str | None:
    if kind == "boolean":
        return "standard" if is_number(stored) else "one-hot"
    return None if kind in _LEFT_OUT else kind


def _missing(column: pa.ChunkedArray) -> float:
    if not len(column):
        return 1.0
    absent: int = column.null_count
    if pa.types.is_floating(column.type):
        absent = int(pc.sum(pc.is_null(column, nan_is_null=True)).as_py())
    return absent / len(column)


def _constant(counts: dict[str, int]) -> list[str]:
    return [f"it never changes ('{_short(next(iter(counts)))}')"] if len(counts) == 1 else []


def _date(column: pa.ChunkedArray) -> tuple[Kind, list[str]]:
    known = pc.unique(column).drop_null()
    return "date", [f"it never changes ('{known[0]}')"] if len(known) == 1 else []


def _text(name: str, column: pa.ChunkedArray) -> tuple[Kind, list[str]]:
    counts = counted(column, name)
    words, rows = list(counts), sum(counts.values())
    if len(words) == 1:
        return "constant", _constant(counts)
    if len(words) == 2:
        pair = frozenset(word.strip().lower() for word in words)
        return ("boolean" if pair in _WORDS_OF_TWO else "category"), []
    form = form_of(column)
    if form is not None:
        either = form.startswith(("%d/%m", "%d-%m")) and not _past_twelve(words)
        return "date", ["days and months may be exchanged: no day is past the 12th"] * either
    if len(words) > _MANY and 2 * len(words) > rows:
        spaced = sum(" " in word.strip() for word in words[:1000]) > min(len(words), 1000) / 2
        if not spaced and len(words) == rows:
            return "id", ["it is unique in every row, as an id is"]
        if spaced or not _digits(words):
            return "text", [f"it has {len(words):,} different values in {rows:,} rows"]
    if len(words) > _FEW and (what := disguise(words)[0]):
        return "category", [f"it {what}"]
    warnings = []
    if len(words) > _FEW and _digits(words):
        warnings.append("its values are digits, some with zeros in front: read as codes")
    if len(words) > _HUGE:
        warnings.append(f"it has {len(words):,} categories")
    return "category", warnings


def _digits(words: list[str]) -> bool:
    return all(word.strip().isdecimal() for word in words)


def _past_twelve(words: list[str]) -> bool:
    return any(int(part) > 12 for word in words for part in re.split(r"[/-]", word)[:2])


def _number(name: str, column: pa.ChunkedArray) -> tuple[Kind, list[str]]:
    warnings = []
    values = np.array(pc.cast(column, pa.float64(), safe=False).to_numpy())
    infinite = int(np.isinf(values).sum())
    if infinite:
        warnings.append(f"{infinite:,} of its numbers are infinite, and count as missing")
    present = numbers(column, name, bounded=False)
    present = present[~np.isnan(present)]
    known = np.unique(present)
    if len(known) <= 1:
        shown = f"{known[0]:g}" if len(known) else "infinite"
        return "constant", [f"it never changes ('{shown}')"]
    if len(known) == 2:
        return ("boolean" if known.tolist() == [0, 1] else "number"), warnings
    if not bool((known == np.floor(known)).all()):
        return "number", warnings
    unique = len(known) == len(present) > _MANY
    span = known[-1] - known[0] + 1
    if unique and (span <= 1.01 * len(known) or _ID_NAMES.search(name)):
        return "id", ["it is unique in every row, as an id is"]
    if len(known) > _FEW and known[0] >= 0 and _CODE_NAMES.search(name):
        return "category", ["its name is that of a code, and zeros in front may be lost"]
    lengths = {len(str(int(value))) for value in known[:: max(1, len(known) // 500)]}
    if len(known) > _MANY and len(lengths) == 1 and min(lengths) >= 5:
        warnings.append(f"all its numbers have {min(lengths)} digits: perhaps a code")
    return "number", warnings


def _short(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:29]}…"
