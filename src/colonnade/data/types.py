"""The types of a table's columns at training, and whether later rows still have them.

Whole numbers and those with a fraction are alike, and so are all ways to store text. But text that
becomes a number, or the reverse, means that a file is written or read otherwise: codes may have
lost the zeros in front of them, and every row would be taken for something it is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from colonnade.data.preprocess import Preprocessor
from colonnade.errors import DataError

_KINDS = (
    ("number", re.compile(r"u?int\d+|float|double|halffloat|decimal")),
    ("text", re.compile(r"(large_)?string")),
    ("boolean", re.compile(r"bool")),
    ("date", re.compile(r"date|timestamp")),
)
_CURES = {
    "number": "write it as plain numbers again",
    "text": "store it as text again",
    "boolean": "write it as true and false again",
    "date": "write it as dates again",
}
_NOTHING = "null"


def arrow_types(schema: pa.Schema, fitted: Preprocessor) -> dict[str, str]:
    """The types of the columns that become something, by name, as Arrow writes them.

    >>> table = pa.table({"age": [20.0, 40.0], "sex": ["f", "m"], "note": ["x", "y"]})
    >>> from colonnade.data.plain import Number
    >>> arrow_types(table.schema, Preprocessor([Number("age", 30.0, 10.0, False)]))
    {'age': 'double'}
    """
    return {each.name: str(schema.field(each.name).type) for each in fitted.columns if each.names}


def check_types(schema: pa.Schema, types: Mapping[str, str], where: str) -> None:
    """Refuse a table in which a column is of another kind than in training; one without values
    may be of any, and one that is not there is for others to name.

    >>> check_types(pa.schema([("age", pa.int32())]), {"age": "double"}, "new.csv")
    >>> check_types(pa.schema([("age", pa.string())]), {"age": "double"}, "new.csv")
    Traceback (most recent call last):
    colonnade.errors.DataError: the column 'age' of new.csv is string, and was double in \
training: write it as plain numbers again
    """
    for name, before in types.items():
        if (place := schema.get_field_index(name)) < 0:
            continue
        now = str(schema.field(place).type)
        kind = kind_of(before)
        if kind_of(now) != kind and now != _NOTHING:
            cure = _CURES.get(kind, f"give it the type {before} again")
            raise DataError(
                f"the column '{name}' of {where} is {now}, and was {before} in training: {cure}"
            )


def text_columns(types: Mapping[str, str]) -> list[str]:
    """Those that were text in training, and are to be read as text wherever a file does not say:
    in a CSV file that has only digits there now, they would be taken for numbers.

    >>> text_columns({"age": "int64", "plan": "string"})
    ['plan']
    """
    return [name for name, stored in types.items() if kind_of(stored) == "text"]


def kind_of(stored: str) -> str:
    """What a type holds, whichever way it is stored.

    >>> [kind_of(text) for text in ("int64", "large_string", "decimal128(5, 2)", "list<x: int8>")]
    ['number', 'text', 'number', 'list<x: int8>']
    >>> kind_of(str(pa.dictionary(pa.int32(), pa.string())))
    'text'
    """
    if found := re.match(r"dictionary<values=(.*), indices=", stored):
        return kind_of(found[1])
    return next((kind for kind, pattern in _KINDS if pattern.match(stored)), stored)
