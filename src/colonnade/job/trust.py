"""What a job file may decide at a party, and what it may not.

A job file comes from a partner as often as not. Code that it names runs only where the user allows
it, under every command. And what it says of a party's own business (data, model, optimizer, device)
counts under `colonnade join` only where the party says that it trusts the job; its secret seed
never does, because who knows it knows the initial weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from colonnade.errors import JobError
from colonnade.job.party_file import PartyFile, replaced
from colonnade.job.records import PUBLIC
from colonnade.job.terms import shown

_VALUE_CHARS_MAX = 200


def outside_names(
    tables: Mapping[str, Any], parties: Collection[str] | None = None
) -> dict[str, str]:
    """The code from outside that plain tables name, by field; of the models of these parties only,
    if given.

    >>> outside_names({"method": {"name": "mine:twice"}, "top": {"module": "mine:top"}})
    {'method.name': 'mine:twice', 'top.module': 'mine:top'}
    """
    entries = _table(tables, "parties")
    places: list[tuple[str, Any]] = [
        ("method.name", _table(tables, "method").get("name")),
        *(
            (f"parties.{name}.model.name", _table(_table(entries, name), "model").get("name"))
            for name in entries
            if parties is None or name in parties
        ),
    ]
    found = {field: name for field, name in places if isinstance(name, str) and ":" in name}
    found |= _outside_encodings(tables)
    module = _table(tables, "top").get("module")
    return found | ({"top.module": module} if isinstance(module, str) else {})


def _outside_encodings(tables: Mapping[str, Any]) -> dict[str, str]:
    """Those that the method and the parties compress with; each is imported by all parties, which
    have to read what it writes."""
    entries = _table(tables, "parties")
    owners = {"method": _table(tables, "method")}
    owners |= {f"parties.{name}": _table(entries, name) for name in entries}
    texts = {
        f"{owner}.compress.{role}": text
        for owner, table in owners.items()
        for role, text in _table(table, "compress").items()
        if isinstance(text, str) and ":" in text
    }
    if not texts:
        return {}
    from colonnade.compress.text import outside_names as named

    return {
        field if place == 1 else f"{field} ({place})": name
        for field, text in texts.items()
        for place, name in enumerate(named(text), start=1)
    }


def taken_from_job(
    tables: Mapping[str, Any], me: str, file: PartyFile, sets: Iterable[str]
) -> dict[str, Any]:
    """What the tables of a job file decide of a party's own business, by field: neither its party
    file nor a `--set` replaces it.

    >>> tables = {"data": "digits", "parties": {"lab": {"view": "left", "device": "cpu"}}}
    >>> taken_from_job(tables, "lab", PartyFile(device="cuda:0"), ["data=mnist"])
    {'parties.lab.view': 'left'}
    """
    own = _table(_table(tables, "parties"), me)
    if "seed" in own:
        raise JobError(
            f"the job sets the secret seed of {me}, so whoever has the job knows the initial "
            f"weights of {me}: take parties.{me}.seed out of the job file"
        )
    mine = {text.partition("=")[0].strip() for text in sets}
    given = {field for field in PartyFile.__struct_fields__ if getattr(file, field) is not None}
    given |= {*PUBLIC, *replaced(file)}
    found = {"data": tables["data"]} if "data" in tables and not replaced(file) else {}
    found |= {f"parties.{me}.{key}": value for key, value in own.items() if key not in given}
    return {
        field: value
        for field, value in found.items()
        if not {field, field.replace(f".{me}.", ".*.")} & mine
    }


def check_taken(taken: Mapping[str, Any], me: str, trusted: bool) -> None:
    """Refuse what a job file decides of a party's own business, unless the party trusts the job."""
    if taken and not trusted:
        fields = ", ".join(field.removeprefix(f"parties.{me}.") for field in taken)
        raise JobError(
            f"the job file decides what is the own business of {me} ({fields}): put it into the "
            f"party file of {me}, or give --trust-job if you have read the job and agree"
        )


def taken_notes(taken: Mapping[str, Any]) -> list[str]:
    """A line for each field that a party takes from the job file, with its value.

    >>> taken_notes({"parties.lab.view": "left"})
    ['taken from the job file (--trust-job): parties.lab.view = "left"']
    """
    return [
        f"taken from the job file (--trust-job): {field} = "
        f"{shown(msgspec.json.encode(value).decode(), _VALUE_CHARS_MAX)}"
        for field, value in taken.items()
    ]


def _table(tables: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = tables.get(key)
    return found if isinstance(found, Mapping) else {}
