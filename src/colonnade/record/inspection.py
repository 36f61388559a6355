"""What the folder of a run holds: whose model, how it came about, whether its files are whole, and
what is missing. A folder may have come from anybody: it is read within limits, and nothing runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from colonnade.data.layout import expanded
from colonnade.data.plain import Category, Number
from colonnade.data.preprocess import LeftOut, Preprocessor
from colonnade.errors import ColonnadeError, RequestError, nearest
from colonnade.formats import check_json
from colonnade.job.bounds import PARTIES_MAX
from colonnade.record.card import FILE, PREPROCESSING, Card, read_card
from colonnade.record.lock import running
from colonnade.record.reading import hash_of, read_regular, shapes_of

Report = dict[str, Any]
PREPROCESSING_BYTES_MAX = 2**28
_FACTS_BYTES_MAX = 2**28
_OF_A_RUN = ("checkpoints", "ledger.chain", "start.json", "lock")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_INTERRUPTED = "interrupted: the same command goes on"
T = TypeVar("T")


class Facts(msgspec.Struct, frozen=True):
    """What `party.json` and `summary.json` say of how a run went."""

    status: str = ""
    rounds: int = 0
    time_s: float = 0.0
    clock: str = "wall"


class Count(msgspec.Struct, frozen=True):
    """A line of a ledger."""

    direction: str
    purpose: str
    bytes: int


def inspect(folder: Path, party: str | None = None) -> Report:
    """All that a run folder says of its models, in plain values; of one party only, if asked.

    >>> inspect(Path("nowhere"))
    Traceback (most recent call last):
    colonnade.errors.RequestError: there is no folder nowhere: give the folder of a run, as --out \
named it
    """
    own = parties_of(folder)
    if party is not None and party not in own:
        raise RequestError(f"{folder} holds nothing of {party}: {nearest(party, own)}")
    together = (folder / "parties").is_dir()
    facts = _read(folder / "summary.json", Facts, "run") if together else None
    ledgers = _read(folder / "ledger.json", dict[str, list[Count]]) if together else None
    found = [
        _party(name, path, facts, (ledgers or {}).get(name))
        for name, path in own.items()
        if party in (None, name)
    ]
    versions = {each["model"]["version"] for each in found if each["model"] is not None}
    mixed = ["its parties have models of different runs"] if len(versions) > 1 else []
    return {"folder": str(folder), "problems": mixed, "parties": found}


def parties_of(folder: Path) -> dict[str, Path]:
    """The folders of the parties, by name."""
    if not folder.is_dir():
        raise RequestError(
            f"there is no folder {folder}: give the folder of a run, as --out named it"
        )
    if (folder / "parties").is_dir():
        paths = [path for path in sorted((folder / "parties").iterdir()) if path.is_dir()]
        named = [path for path in paths if _NAME.fullmatch(path.name)]
        if named:
            return {path.name: path for path in named[:PARTIES_MAX]}
    if (folder / FILE).exists():
        return {read_card(folder).party: folder}
    if any((folder / name).exists() for name in _OF_A_RUN):
        return {folder.name: folder}
    kinds = {
        "comparison.json": "a comparison: give one of the runs below its folder runs",
        "sweep.json": "a sweep, which keeps no models: train its best settings with --out",
        "alignment.json": "an alignment: give the folder of a run that trained on it",
    }
    for name, what in kinds.items():
        if (folder / name).exists():
            raise RequestError(f"{folder} holds {what}")
    raise RequestError(f"{folder} holds no run: give the folder of a run, as --out named it")


def _party(name: str, path: Path, shared: Facts | None, ledger: list[Count] | None) -> Report:
    networked = any((path / each).exists() for each in _OF_A_RUN)
    facts = (_read(path / "party.json", Facts, "party") if networked else shared) or Facts()
    counts = _read(path / "ledger.json", list[Count]) if networked else ledger
    model, problems = None, list[str]()
    if (path / FILE).exists() or (path / FILE).is_symlink():
        try:
            model, problems = _model(path, name)
        except ColonnadeError as error:
            problems = [str(error)]
    else:
        problems = ["there is no model yet: model.json is missing"]
    return {
        "party": name,
        "state": _state(path, facts, networked),
        "status": facts.status or None,
        "rounds": facts.rounds,
        "time_s": facts.time_s,
        "clock": facts.clock,
        "bytes": _bytes(counts or []),
        "model": model,
        "problems": problems,
    }


def _state(path: Path, facts: Facts, networked: bool) -> str:
    """How far the run of a folder has come."""
    if not networked:
        known = {"": "not written to its end", "interrupted": "interrupted"}
        return known.get(facts.status, "ended")
    if running(path) is not None:
        return "running"
    if (path / "complete").exists():
        return "ended"
    return "done here, not everywhere" if facts.status else _INTERRUPTED


def _bytes(counts: list[Count]) -> dict[str, int]:
    found = {"sent": 0, "received": 0}
    for each in counts:
        if each.direction in found:
            found[each.direction] += each.bytes
    return found


def _model(path: Path, name: str) -> tuple[Report, list[str]]:
    """A model in plain values, and what is wrong with its files."""
    card = read_card(path)
    fitted, problems = None, list[str]()
    if card.party != name:
        problems.append(f"it is a model of {card.party}, in the folder of {name}")
    integrity = {file: _sound(path / file, sum_) for file, sum_ in card.hashes.items()}
    problems += [f"{file} {how}" for file, how in integrity.items() if how != "verified"]
    if not card.hashes:
        problems.append("model.json has no hashes, so that changed files do not show")
    parameters: dict[str, int] = {}
    try:
        parameters = _parameters(path / f"{card.weights}.safetensors")
        if (path / PREPROCESSING).exists():
            text = read_regular(path / PREPROCESSING, PREPROCESSING_BYTES_MAX)
            fitted = Preprocessor.from_json(text.decode(errors="replace"))
        elif card.columns:
            problems.append(f"{PREPROCESSING} is missing")
    except ColonnadeError as error:
        problems.append(str(error))
    if card.width and card.model is None:
        problems.append("its bottom model is a module of one's own, which is not in the folder")
    if card.task is not None and card.top is None:
        problems.append("the top model is a module of one's own, which is not in the folder")
    plain: Report = msgspec.to_builtins(card)
    extra = {"version": card.version, "parameters": parameters, "integrity": integrity}
    return plain | extra | {"columns": _columns(card, fitted)}, problems


def _sound(path: Path, expected: str) -> str:
    if not path.exists():
        return "is missing"
    return "verified" if hash_of(path) == expected else "differs from what model.json says"


def _parameters(weights: Path) -> dict[str, int]:
    """How many numbers each part has."""
    counts: dict[str, int] = {}
    for name, each in shapes_of(weights).items():
        part = name.partition(".")[0]
        counts[part] = counts.get(part, 0) + each.count
    return counts


def _columns(card: Card, fitted: Preprocessor | None) -> list[dict[str, Any]]:
    """What each column becomes."""
    if fitted is None:
        return [{"name": name, "type": card.types.get(name)} for name in card.columns]
    return [
        {
            "name": each.name,
            "type": card.types.get(each.name),
            "becomes": _word(each),
            "inputs": expanded(each.inputs),
            "why": each.why if isinstance(each, LeftOut) else "",
        }
        for each in fitted.columns
    ]


def _word(column: Any) -> str:
    plain: Mapping[type, str] = {Number: "standard", Category: "one-hot"}
    return plain.get(type(column)) or str(column.word)


def _read(path: Path, kind: type[T], format: str | None = None) -> T | None:
    """A file of facts; None where there is none, or nothing that can be read."""
    if not path.exists():
        return None
    content = read_regular(path, _FACTS_BYTES_MAX)
    if format is not None:
        check_json(format, content, path)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise RequestError(f"{path} is damaged: copy the whole folder of the run again") from None
