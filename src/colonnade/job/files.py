"""Job files: TOML ⇄ plain tables ⇄ records, and `--set` on the way."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from colonnade.errors import JobError, nearest
from colonnade.job.reading import (
    anchor,
    check_numbers,
    check_printable,
    convert,
    parse_toml,
    read_toml,
)
from colonnade.job.records import Compute, Costs, Job, Link, Network, Party
from colonnade.job.texts import parse_method, parse_value
from colonnade.job.trust import outside_names
from colonnade.plugins import check_allowed

_SPLIT = {"network": ("link", Network, Link), "compute": ("costs", Compute, Costs)}
_EITHER = {"epochs": "rounds", "rounds": "epochs"}
_BEGUN: dict[str, dict[str, Any]] = {"model": Party().model, "optimizer": Party().optimizer}
"""What a party has without such a table, for a `--set` that changes a part of it."""


def builtin_names() -> list[str]:
    """The names of the jobs that come with the package.

    >>> "digits" in builtin_names()
    True
    """
    folder = resources.files("colonnade.job") / "builtin"
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def builtin_text(name: str) -> str:
    """The TOML of a job that comes with the package, to read or to copy."""
    if name not in builtin_names():
        raise JobError(f"there is no built-in job '{name}': {nearest(name, builtin_names())}")
    return (resources.files("colonnade.job") / "builtin" / f"{name}.toml").read_text()


def load(
    source: str | Path,
    sets: Iterable[str] = (),
    method: str | Mapping[str, Any] | None = None,
    seed: int | None = None,
    *,
    allow: Collection[str] = (),
) -> Job:
    """Read a job: a TOML file or a built-in name, with `--set` overrides.

    Args:
        source: a job file, or the name of a built-in job.
        sets: settings, as `--set` takes them.
        method: instead of the job's: `"fedbcd:updates=5"`, or a table.
        seed: instead of the job's.
        allow: modules whose code the job *file* may name. What is given here is allowed anyway.

    Example:
        >>> load("digits", ["train.epochs=2"], method="fedbcd:updates=5").method
        {'name': 'fedbcd', 'updates': 5}
    """
    return changed(read_source(source), sets, method, seed, allow=allow)


@dataclass(frozen=True)
class Source:
    """The plain tables of a job, as they were read."""

    tables: Mapping[str, Any]
    is_ours: bool
    """Whether the job comes with the package; a file may be from anybody."""


def read_source(source: str | Path) -> Source:
    """Read the tables of a job file, or of a built-in job by its name.

    >>> read_source("digits").is_ours
    True
    """
    given: Any = source
    if not isinstance(given, str | Path):
        cure = "change it with cn.with_sets" if isinstance(given, Job) else "name a file"
        raise JobError(
            f"a job is read from a file or by its built-in name, not from {type(given).__name__}: "
            f"{cure}"
        )
    path = Path(source)
    if path.suffix == ".toml" or path.is_file():
        return Source(_read(path), is_ours=False)
    return Source(tomllib.loads(builtin_text(str(source))), is_ours=True)


def changed(
    source: Source,
    sets: Iterable[str] = (),
    method: str | Mapping[str, Any] | None = None,
    seed: int | None = None,
    *,
    allow: Collection[str] = (),
    parties: Collection[str] | None = None,
) -> Job:
    """The job of a source with the user's changes; code that the source names must be allowed. Of
    the models only those of `parties` are looked at, if given: the others are not for us to run."""
    tables = copy.deepcopy(dict(source.tables))
    given: Any = method
    if given is not None and not isinstance(given, str | Mapping):
        raise JobError(
            f"method is of type {type(given).__name__}: name it, as in 'fedbcd:updates=5'"
        )
    if method is not None:
        tables["method"] = parse_method(method) if isinstance(method, str) else dict(method)
    if seed is not None:
        tables["seed"] = seed
    apply_sets(tables, sets)
    before = {} if source.is_ours else outside_names(source.tables, parties)
    now = outside_names(tables, parties)
    check_allowed({field: now[field] for field in now if before.get(field) == now[field]}, allow)
    return from_tables(tables)


def _read(path: Path) -> dict[str, Any]:
    tables = read_toml(
        path, "job file", f"give a TOML file or a built-in job ({', '.join(builtin_names())})"
    )
    check_printable(tables, f"the job file {path}")
    parties = tables.get("parties")
    for party in parties.values() if isinstance(parties, dict) else ():
        anchor(party, path.resolve().parent)
    return tables


def settings(sets: Any) -> list[str]:
    """Settings one by one: a text is one of them.

    >>> settings("train.epochs=2"), settings(["train.epochs=2", "seed=1"])
    (['train.epochs=2'], ['train.epochs=2', 'seed=1'])
    """
    texts = [sets] if isinstance(sets, str) else sets
    if isinstance(texts, Mapping) or not isinstance(texts, Iterable):
        raise JobError(f"settings are {sets!r}: write them as texts, as in 'train.epochs=2'")
    found = []
    for text in texts:
        if not isinstance(text, str):
            raise JobError(f"a setting is {text!r}: write it as a text, as in 'train.epochs=2'")
        found.append(text)
    return found


def apply_sets(tables: dict[str, Any], sets: Iterable[str]) -> None:
    """Apply `a.b=c` overrides to plain tables, in place; `*` stands for every key of a table.

    >>> tables = {"parties": {"lab": {"model": {"name": "mlp", "hidden": [8], "embedding": 4}}}}
    >>> apply_sets(tables, ["parties.lab.model.name=linear"])
    >>> tables["parties"]["lab"]["model"]
    {'name': 'linear', 'embedding': 4}
    """
    for text in settings(sets):
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            raise JobError(f"'{text}' is not a setting: write --set table.key=value")
        keys = path.strip().split(".")
        if keys[0] == "train" and keys[-1] in _EITHER:
            # A job ends by one of the two: setting the one takes the other out of the file.
            tables.setdefault("train", {}).pop(_EITHER[keys[-1]], None)
        new = parse_value(value.strip())
        for table in _tables_at(tables, keys[:-1], text):
            if keys[0] == "parties" and keys[2:] == ["model", "name"] and table.get("name") != new:
                # The options were those of another model; all models have these.
                for option in table.keys() - {"embedding", "init", "name"}:
                    del table[option]
            table[keys[-1]] = new


def with_sets(job: Job, *sets: str) -> Job:
    """A job with some settings changed, as `--set` takes them.

    >>> with_sets(load("digits"), "train.epochs=2", "parties.*.optimizer.lr=0.5").train.epochs
    2
    """
    given: Any = job
    if not isinstance(given, Job):
        raise JobError(
            f"with_sets changes a cn.Job, and this is {given!r:.60}: read it with cn.load first"
        )
    tables = to_tables(job)
    apply_sets(tables, [text for each in sets for text in settings(each)])
    return from_tables(tables)


def _tables_at(tables: dict[str, Any], keys: list[str], text: str) -> list[dict[str, Any]]:
    """The tables that a path of keys reaches; those that are not in the file yet are begun."""
    found: list[dict[str, Any]] = [tables]
    for depth, key in enumerate(keys):
        below: list[dict[str, Any]] = []
        for table in found:
            names = list(table) if key == "*" else [key]
            if keys[:depth] == ["parties"] and key != "*" and key not in table:
                raise JobError(f"'{text}' names no party of the job: {nearest(key, table)}")
            children = [table.setdefault(name, dict(_BEGUN.get(name, {}))) for name in names]
            below += [child for child in children if isinstance(child, dict)]
        if not below:
            raise JobError(f"'{text}' reaches nothing: {'.'.join(keys[: depth + 1])} is no table")
        found = below
    return found


def from_tables(tables: Mapping[str, Any]) -> Job:
    """Build a job from the plain tables of a file, or say what is wrong with them."""
    check_numbers(tables)
    plain = dict(tables)
    for name, (own, record, part) in _SPLIT.items():
        if isinstance(plain.get(name), dict):
            plain[name] = _split_overrides(name, plain[name], own, record, part)
    return convert(plain, Job, "the job")


def _split_overrides(name: str, table: dict[str, Any], own: str, record: Any, part: Any) -> Any:
    """`[network]` holds its own fields and, as sub-tables, the parties that differ from it."""
    fields = part.__struct_fields__
    common = {key: value for key, value in table.items() if not isinstance(value, dict)}
    for key in common:
        if key not in fields:
            raise JobError(f"unknown key '{key}' in [{name}]: {nearest(key, fields)}")
    overrides = {key: value for key, value in table.items() if isinstance(value, dict)}
    for party, values in overrides.items():
        for key in values:
            if key not in fields:
                raise JobError(f"unknown key '{key}' in [{name}.{party}]: {nearest(key, fields)}")
    return {own: common, "overrides": {key: common | value for key, value in overrides.items()}}


def to_tables(job: Job) -> dict[str, Any]:
    """The plain tables of a job, without what is as by default; the inverse of `from_tables`."""
    tables: dict[str, Any] = {"name": job.name, "seed": job.seed}
    tables |= {key: value for key in ("data", "alignment") if (value := getattr(job, key))}
    tables["method"] = dict(job.method)
    for name in ("train", "top", "limits", "timeouts", "recovery", "ids"):
        tables[name] = _set_fields(getattr(job, name))
    for name, (own, _, _) in _SPLIT.items():
        section = getattr(job, name)
        table = _set_fields(getattr(section, own))
        common = dict(table)
        for party, part in section.overrides.items():
            # A key that the common part sets must be repeated: it was overridden with the default.
            full = msgspec.to_builtins(part)
            table[party] = {
                key: value
                for key, value in full.items()
                if value is not None and (key in common or key in _set_fields(part))
            }
        tables[name] = table
    tables["parties"] = {name: _set_fields(party) for name, party in job.parties.items()}
    return {key: value for key, value in tables.items() if value != {}}


def modules(job: Job) -> list[str]:
    """The modules of the code from outside that a job names, for another process to allow.

    >>> modules(load("digits", method="mine.methods:twice"))
    ['mine.methods']
    """
    return sorted({name.partition(":")[0] for name in outside_names(to_tables(job)).values()})


def _set_fields(record: msgspec.Struct) -> dict[str, Any]:
    blank = {
        field.name: field.default
        if field.default is not msgspec.NODEFAULT
        else (field.default_factory() if field.default_factory is not msgspec.NODEFAULT else None)
        for field in msgspec.structs.fields(record)
    }
    values: dict[str, Any] = msgspec.to_builtins(record)
    return {
        key: value
        for key, value in values.items()
        if value is not None and msgspec.to_builtins(blank[key]) != value
    }


def dumps(job: Job) -> str:
    """The TOML text of a job.

    >>> loads(dumps(load("digits"))) == load("digits")
    True
    """
    import tomli_w

    return tomli_w.dumps(to_tables(job))


def loads(text: str, *, allow: Collection[str] = ()) -> Job:
    """A job from TOML text; code that it names must be allowed, as for a file."""
    return changed(Source(parse_toml(text, "the job"), is_ours=False), allow=allow)
