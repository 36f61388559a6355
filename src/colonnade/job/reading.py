"""From TOML to records, and one sentence for whatever is wrong on the way.

Job files and party files are read in the same way: the text becomes plain tables, file names in
them are made relative to the file, and the tables become records.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from colonnade.errors import JobError, nearest
from colonnade.job.train import Record

R = TypeVar("R", bound=Record)

_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<key>.+?)`(?: - at `\$\.?(?P<at>.*)`)?$")
_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<at>.*)`)?$", re.DOTALL)
_CHOICE = re.compile(r"^Invalid enum value '(?P<value>.*)'$", re.DOTALL)
_QUANTITIES = re.compile(r"^(network|compute|timeouts)\b")
_FILES = ("table", "table_test", "label", "label_test")


def read_toml(path: Path, what: str, cure: str) -> dict[str, Any]:
    """The plain tables of a file; `cure` says what to do when there is none.

    >>> read_toml(Path("none.toml"), "job file", "give another")
    Traceback (most recent call last):
    colonnade.errors.JobError: there is no job file none.toml: give another
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise JobError(f"there is no {what} {path}: {cure}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"the {what} {path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"the {what} {path} is not valid TOML: {error}") from None


def anchor(party: Any, folder: Path) -> None:
    """Make a party's file names relative to the file that holds them, in place.

    >>> table = {"table": "a.csv", "label": "bought"}
    >>> anchor(table, Path("/data"))
    >>> table
    {'table': '/data/a.csv', 'label': 'bought'}
    """
    from colonnade.data.arrays import is_array

    for field in _FILES if isinstance(party, dict) else ():
        value = party.get(field)
        is_file = field.startswith("table") or (isinstance(value, str) and is_array(value))
        if isinstance(value, str) and is_file:
            party[field] = str(folder / value)


def convert(plain: Mapping[str, Any], record: type[R], whole: str) -> R:
    """Plain tables as a record; `whole` is what to call them in an error.

    >>> from colonnade.job.running import Recovery
    >>> convert({"keeps": 2}, Recovery, "the table")
    Traceback (most recent call last):
    colonnade.errors.JobError: unknown key 'keeps': did you mean 'keep'?
    """
    try:
        return msgspec.convert(plain, record)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, JobError):
            raise error.__cause__ from None
        raise JobError(_sentence(str(error), record, whole)) from None


def _fields_at(root: type[Record], at: str) -> Iterable[str]:
    """The field names of the record at a path like `train` or `parties[...]`."""
    return tuple(_record_at(root, at).__struct_fields__)


def _record_at(root: type[Record], at: str) -> type[Record]:
    record: Any = root
    for step in re.findall(r"[A-Za-z_]+|\[\.\.\.\]", at):
        hint = get_type_hints(record).get(step) if step != "[...]" else None
        if step == "[...]":
            continue
        for candidate in (hint, *getattr(hint, "__args__", ())):
            if isinstance(candidate, type) and issubclass(candidate, Record):
                record = candidate
    found: type[Record] = record
    return found


def _choose(root: type[Record], at: str, value: str) -> str:
    """The sentence for a word that is none of those a field takes."""
    path, _, field = at.rpartition(".")
    known = _words(get_type_hints(_record_at(root, path))[field])
    close = nearest(value, known)
    hint = f"{close} " if close.startswith("did") else ""
    where = at.replace("[...]", ".*")
    return f"{where} is '{value}': {hint}choose one of {', '.join(known)}"


def _words(hint: Any) -> list[str]:
    """All words that a type such as `Literal["a", "b"] | None` allows."""
    if get_origin(hint) is Literal:
        return [word for word in get_args(hint) if isinstance(word, str)]
    return [word for part in get_args(hint) for word in _words(part)]


def _sentence(message: str, root: type[Record], whole: str) -> str:
    unknown = _UNKNOWN.match(message)
    if unknown:
        at = unknown["at"] or ""
        where = f" in [{at.replace('[...]', '.*')}]" if at else ""
        key = unknown["key"]
        return f"unknown key '{key}'{where}: {nearest(key, _fields_at(root, at))}"
    match = _AT.match(message)
    assert match is not None
    choices = _CHOICE.match(match["what"])
    if choices and match["at"]:
        return _choose(root, match["at"], choices["value"])
    what = match["what"].replace("`", "")
    where = (match["at"] or whole).replace("[...]", ".*")
    where = where.replace("link.", "").replace("costs.", "").replace("overrides.", "")
    cure = ": write a quantity with its unit, as in '50ms'" if _QUANTITIES.match(where) else ""
    return f"{where}: {what[0].lower()}{what[1:]}{cure}"
