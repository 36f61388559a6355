"""From TOML to records, and one sentence for whatever is wrong on the way.

Job files and party files are read in the same way: the text becomes plain tables, file names in
them are made relative to the file, and the tables become records.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from colonnade.errors import JobError, nearest
from colonnade.job.train import Record
from colonnade.job.typed import choice, words

R = TypeVar("R", bound=Record)

_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<key>.+?)`(?: - at `\$\.?(?P<at>.*)`)?$")
_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<at>.*)`)?$", re.DOTALL)
_CHOICE = re.compile(r"^Invalid enum value '(?P<value>.*)'$", re.DOTALL)
_QUANTITIES = re.compile(r"^(network|compute|timeouts)\b")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NAMED = ("model", "optimizer", "schedule", "method")
_FILES = ("table", "table_test", "aligned", "label", "label_test", "label_key")


FILE_BYTES_MAX = 1 << 20
"""The largest job file or party file."""
DEPTH_MAX = 32
"""How deep its tables and lists may lie in each other."""
_DOTTED = re.compile(
    r"""(?:\.[ \t]*(?:"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[^.=,\[\]{}\s"']*)[ \t]*)"""
    f"{{{DEPTH_MAX}}}"
)
"""A key of too many parts, for which the parser would take time and memory by their square."""


def read_toml(path: Path, what: str, cure: str) -> dict[str, Any]:
    """The plain tables of a file; `cure` says what to do when there is none.

    >>> read_toml(Path("none.toml"), "job file", "give another")
    Traceback (most recent call last):
    colonnade.errors.JobError: there is no job file none.toml: give another
    """
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
        if len(raw) > FILE_BYTES_MAX:
            raise JobError(f"the {what} {path} is larger than 1 MB: {cure}")
        return parse_toml(raw.decode(), f"the {what} {path}")
    except FileNotFoundError:
        raise JobError(f"there is no {what} {path}: {cure}") from None
    except (OSError, ValueError) as error:
        raise JobError(f"the {what} {path} cannot be read: {error}") from None


def parse_toml(text: str, what: str) -> dict[str, Any]:
    """The plain tables of a text, in a time that its length bounds.

    >>> parse_toml("a = [1", "the file")
    Traceback (most recent call last):
    colonnade.errors.JobError: the file is not valid TOML: Unclosed array (at end of document)
    """
    deep = JobError(f"{what} has tables, lists or keys more than {DEPTH_MAX} deep in each other")
    if _DOTTED.search(text):
        raise deep
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{what} is not valid TOML: {error}") from None
    except RecursionError:
        raise deep from None
    except ValueError as error:  # A number of thousands of digits.
        raise JobError(f"{what} has a value that cannot be read: {error}") from None
    if any(depth > DEPTH_MAX for depth, _ in walk(tables)):
        raise deep
    return tables


def walk(tables: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """Every key and every value within tables, and how deep it lies.

    >>> list(walk({"a": [1]}))
    [(1, 'a'), (1, [1]), (2, 1)]
    """
    waiting: list[tuple[int, Any]] = [(0, tables)]
    while waiting:
        depth, value = waiting.pop()
        if depth:
            yield depth, value
        if isinstance(value, Mapping):
            for key, item in value.items():
                yield depth + 1, key
                waiting.append((depth + 1, item))
        elif isinstance(value, list):
            waiting += [(depth + 1, item) for item in value]


def check_printable(tables: Mapping[str, Any], what: str) -> None:
    """Refuse control characters: a job's text is shown on terminals and names folders.

    >>> check_printable({"name": "a\\x1b[2J"}, "the job file")
    Traceback (most recent call last):
    colonnade.errors.JobError: the job file has control characters in 'a\\x1b[2J': take them out \
(in a pattern of column names, ? stands for any)
    """
    for _, text in walk(tables):
        if isinstance(text, str) and _CONTROL.search(text):
            raise JobError(
                f"{what} has control characters in {text[:60]!a}: take them out (in a pattern "
                "of column names, ? stands for any)"
            )


def check_numbers(tables: Mapping[str, Any]) -> None:
    """Refuse whole numbers of more than 64 bits, which TOML does not have and torch does not take.

    >>> check_numbers({"momentum": 10**20})
    Traceback (most recent call last):
    colonnade.errors.JobError: 100000000000000000000 is too large a number: stay below 2^63
    """
    for _, value in walk(tables):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise JobError(f"{str(value)[:60]} is too large a number: stay below 2^63")


def anchor(party: Any, folder: Path) -> None:
    """Make a party's file names relative to the file that holds them, in place.

    >>> table = {"table": "a.csv", "label": "bought"}
    >>> anchor(table, Path("/data"))
    >>> table
    {'table': '/data/a.csv', 'label': 'bought'}
    """
    from colonnade.job.records import is_array

    for field in _FILES if isinstance(party, dict) else ():
        value = party.get(field)
        named = field in ("label", "label_test")
        is_file = not named or (isinstance(value, str) and is_array(value))
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


def _record_at(root: type[Record], at: str) -> type[Record]:
    """The record at a path like `train` or `parties[...]`."""
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
    known = words(get_type_hints(_record_at(root, path))[field])
    return f"{at.replace('[...]', '.*')} is '{value}': {choice(value, known)}"


def _sentence(message: str, root: type[Record], whole: str) -> str:
    unknown = _UNKNOWN.match(message)
    if unknown:
        at = unknown["at"] or ""
        where = f" in [{at.replace('[...]', '.*')}]" if at else ""
        key = unknown["key"]
        return f"unknown key '{key}'{where}: {nearest(key, _record_at(root, at).__struct_fields__)}"
    match = _AT.match(message)
    assert match is not None
    choices = _CHOICE.match(match["what"])
    if choices and match["at"]:
        return _choose(root, match["at"], choices["value"])
    what = match["what"].replace("`", "")
    where = (match["at"] or whole).replace("[...]", ".*")
    where = where.replace("link.", "").replace("costs.", "").replace("overrides.", "")
    cure = ": write a quantity with its unit, as in '50ms'" if _QUANTITIES.match(where) else ""
    if where.endswith(_NAMED) and what == "Expected object, got str":
        cure = ': write a table with a name, as in { name = "…" }'
    return f"{where}: {what[0].lower()}{what[1:]}{cure}"
