"""Records that are built in Python: what is obviously meant is taken, wrong types are refused.

Job files are held against the types when they are read; a call is not. So every record settles its
fields when it is built: a number of numpy becomes a plain one, a path becomes text, the name of an
optimizer becomes a table with that name. Files have no such short forms.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePath
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from colonnade.errors import JobError, nearest

_NAMED = ("model", "optimizer", "schedule")
"""Fields that are tables with a name."""
_EXPECTED = re.compile(r"^Expected `(?P<kinds>.+?)`, got `.+?`(?P<inner> - at `\$.*`)?$")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "True or False",
    "array": "a list",
    "object": "a dict",
    "null": "None",
}
_QUANTITY = "write a quantity with its unit, as in '50ms'"
_FILE = "give the path of a file, or hand frames and arrays to cn.vertical"
_CURES = {
    "Party.table": _FILE,
    "Party.table_test": _FILE,
    "Party.model": 'give {"name": "mlp"}, or ready-made modules to cn.simulate as models',
    "Party.optimizer": 'give {"name": "adam", "lr": 0.001}',
    "Party.schedule": 'give {"name": "StepLR", "step_size": 30}',
    "Job.data": "name a data set, or hand data of your own to cn.simulate as data",
    "Job.method": 'give "fedbcd:updates=5", or {"name": "fedbcd", "updates": 5}',
    "Job.network": "give cn.Link(latency='50ms'), or cn.Network for links that differ",
    "Job.compute": "give cn.Costs(forward='5ms'), or cn.Compute for costs that differ",
    "Network.overrides": "give {'telco': cn.Link(latency='50ms')}",
    "Compute.overrides": "give {'telco': cn.Costs(forward='5ms')}",
    "Job.parties": 'give {"bank": cn.Party(role="active"), "telco": cn.Party()}',
    "Train.evaluate_every": "write '1 epoch', '100 rounds' or 'never'",
}
_SHOWN_MAX = 40


def settle(record: msgspec.Struct) -> None:
    """Take what is obviously meant by the fields of a new record, and refuse what cannot be."""
    for name, kind in _types(type(record)).items():
        value = getattr(record, name)
        meant = _meant(name, value)
        try:
            converted = msgspec.convert(meant, kind)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, JobError):
                raise error.__cause__ from None
            raise JobError(_sentence(record, name, value, kind, str(error))) from None
        # Only records are taken as they were converted: a list may stay the tuple that it was.
        settled = converted if _holds_records(kind) else meant
        if settled is not value:
            msgspec.structs.force_setattr(record, name, settled)


@cache
def _types(record: type[msgspec.Struct]) -> dict[str, Any]:
    hints = get_type_hints(record)
    return {name: hints[name] for name in record.__struct_fields__}


def _holds_records(kind: Any) -> bool:
    inner = (kind, *get_args(kind))
    return any(isinstance(each, type) and issubclass(each, msgspec.Struct) for each in inner)


def _meant(name: str, value: Any) -> Any:
    """What a value stands for: foreign types that have one plain counterpart."""
    if name in _NAMED and isinstance(value, str):
        return {"name": value}
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, dict):
        plain = {key: _meant("", item) for key, item in value.items()}
        return plain if any(plain[key] is not value[key] for key in value) else value
    home, kind = type(value).__module__, type(value).__name__
    if home == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    if (home, kind) in (("torch", "device"), ("torch", "dtype")):
        return str(value).removeprefix("torch.")
    return value


def _sentence(record: msgspec.Struct, name: str, value: Any, kind: Any, message: str) -> str:
    where = f"{type(record).__name__}.{name}"
    known = words(kind)
    if known and isinstance(value, str):
        return f"{where} is '{value}': {choice(value, known)}"
    shown = repr(value)
    shown = f"{shown}, " if len(shown) <= _SHOWN_MAX and "\n" not in shown else ""
    return f"{where} is {shown}of type {type(value).__name__}: {_cure(where, known, message)}"


def _cure(where: str, known: list[str], message: str) -> str:
    if where in _CURES:
        return _CURES[where]
    if where.startswith(("Link.", "Costs.", "Timeouts.")):
        return _QUANTITY
    if known:
        return f"choose one of {', '.join(known)}"
    match = _EXPECTED.match(message)
    if match is None:
        return message.replace("`", "'").lower()
    kinds = [_KINDS.get(each, each) for each in match["kinds"].split(" | ")]
    inside = " inside" if match["inner"] else ""
    return f"give {' or '.join(kinds)}{inside}"


def words(kind: Any) -> list[str]:
    """All words that a type such as `Literal["a", "b"] | None` allows.

    >>> words(Literal["a", "b"] | list[float])
    ['a', 'b']
    """
    if get_origin(kind) is Literal:
        return [word for word in get_args(kind) if isinstance(word, str)]
    return [word for part in get_args(kind) for word in words(part)]


def choice(value: str, known: list[str]) -> str:
    """The cure for a word that is none of the known ones: the nearest of them, and all.

    >>> choice("mce", ["mse", "l1"])
    "did you mean 'mse'? Choose one of mse, l1"
    """
    close = nearest(value, known)
    hint = f"{close} Choose" if close.startswith("did") else "choose"
    return f"{hint} one of {', '.join(known)}"
