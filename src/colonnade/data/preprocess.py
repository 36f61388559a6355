"""From the columns of a table to the numbers a model reads.

What is learnt about a column (its mean, its categories) is learnt from the training rows alone
and kept, so that test rows and later predictions are treated in exactly the same way.

There are two ways. *Plain* (`plain.py`): numbers are standardised, categories become one 0/1 column
each, and what is neither is refused. *Automatic*: each column is treated by what it looks like
(`kinds.py`): numbers are transformed (`quantities.py`), categories become codes (`codes.py`), dates
some numbers (`dates.py`), and ids, free text and columns that never change are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.data.codes import Coded
from colonnade.data.dates import Moment
from colonnade.data.disguised import refuse_disguised
from colonnade.data.kinds import recognise
from colonnade.data.layout import Input, expanded
from colonnade.data.plain import Category, Number
from colonnade.data.quantities import Quantity
from colonnade.data.values import counted, decoded, is_category, is_text
from colonnade.errors import DataError, nearest

_COLUMNS_MAX = 1 << 16
_EXPANDED_MAX = 1 << 22
_TRANSFORMS = ("standard", "clip", "log", "quantile", "bins")


class LeftOut(msgspec.Struct, frozen=True, tag="left_out", forbid_unknown_fields=True):
    """A column that becomes nothing.

    >>> LeftOut("customer", "id", "it is unique in every row").names
    []
    """

    name: str
    kind: str
    """What it is."""
    why: str

    @property
    def names(self) -> list[str]:
        """None."""
        return []

    @property
    def inputs(self) -> list[Input]:
        """None."""
        return []

    @property
    def word(self) -> str:
        """How a person is told of it."""
        return "left out"

    def fill(self, column: pa.ChunkedArray, out: npt.NDArray[np.floating]) -> None:
        """Write nothing."""


Encoder = Number | Category | Quantity | Coded | Moment | LeftOut


class Preprocessor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was learnt from the training rows of a table, and how to apply it.

    >>> table = pa.table({"age": [20.0, 40.0, 99.0], "sex": ["f", "m", "f"]})
    >>> fitted = Preprocessor.fit(table, np.array([0, 1]))
    >>> fitted.feature_names
    ['age', 'sex=?', 'sex=f', 'sex=m']
    >>> fitted.transform(table)[1].tolist()
    [1.0, 0.0, 0.0, 1.0]
    """

    columns: list[Encoder]

    def __post_init__(self) -> None:
        if len(self.columns) > _COLUMNS_MAX or expanded(self.inputs) > _EXPANDED_MAX:
            raise ValueError("it has more columns than a table may have")

    @classmethod
    def fit(
        cls,
        table: pa.Table,
        rows: npt.NDArray[np.int64],
        categorical: Sequence[str] = (),
        treat: Mapping[str, str] | None = None,
        *,
        auto: bool = False,
        coded: bool = False,
    ) -> Preprocessor:
        """Learn from some rows of a table.

        Args:
            table: its columns.
            rows: the training rows.
            categorical: number columns that are codes.
            treat: columns, or patterns of them, and how they are to be treated.
            auto: treat the others by what they look like, instead of plainly.
            coded: make a code of every column, for a model that reads nothing else.
        """
        treat = treat or {}
        for what, patterns in (("categorical", categorical), ("treat", treat)):
            for pattern in patterns:
                if not any(_matches(name, pattern) for name in table.column_names):
                    raise DataError(
                        f"no column matches the {what} '{pattern}': "
                        f"{nearest(pattern, table.column_names)}"
                    )
        part = table.take(rows)
        found: list[Encoder] = []
        for name in part.column_names:
            listed = any(_matches(name, pattern) for pattern in categorical)
            asked = treatment_of(name, treat)
            if coded and auto:
                found.append(Coded.learn(name, part[name], _coded_form(asked)))
            elif asked is None and not auto:
                found.append(plainly(name, part[name], listed))
            else:
                found.append(learn(name, part[name], asked or ("category" if listed else None)))
        if found and auto and not any(column.names for column in found):
            why = "; ".join(f"'{each.name}': {each.why}" for each in cls(found).left_out[:3])
            raise DataError(
                f"no column is left to learn from ({why}): name others in columns, or say under "
                "treat what they are"
            )
        return cls(found)

    @property
    def inputs(self) -> list[Input]:
        """What a model makes of each column that `transform` returns."""
        return [each for column in self.columns for each in column.inputs]

    @property
    def feature_names(self) -> list[str]:
        """The names of the columns that `transform` returns."""
        return [name for column in self.columns for name in column.names]

    @property
    def width(self) -> int:
        """The number of columns that `transform` returns."""
        return sum(len(column.names) for column in self.columns)

    @property
    def left_out(self) -> list[LeftOut]:
        """The columns that become nothing."""
        return [each for each in self.columns if isinstance(each, LeftOut)]

    def transform(self, table: pa.Table) -> npt.NDArray[Any]:
        """Encode the rows of a table that has the columns learnt from; others are ignored."""
        # Plain rows are what they always were; others are stored in what a model computes with.
        plain = all(isinstance(column, Number | Category) for column in self.columns)
        kind = np.float64 if plain else np.float32
        out = np.zeros((table.num_rows, self.width), dtype=kind)
        self.fill(table, out)
        return out

    def fill(self, table: pa.Table, out: npt.NDArray[Any]) -> None:
        """Write the encoded rows into zeros [rows, width]."""
        start = 0
        for column in self.columns:
            if not column.names:
                continue
            stop = start + len(column.names)
            column.fill(self._column(table, column.name), out[:, start:stop])
            start = stop

    def _column(self, table: pa.Table, name: str) -> pa.ChunkedArray:
        if name not in table.column_names:
            raise DataError(
                f"the table has no column '{name}', which was there in training: "
                f"{nearest(name, table.column_names)}"
            )
        return table[name]

    def unseen(self, table: pa.Table) -> dict[str, int]:
        """How many rows have a category that training did not know, by column; only columns that
        have such rows.

        >>> fitted = Preprocessor([Coded("plan", ["a", "b"])])
        >>> fitted.unseen(pa.table({"plan": ["a", "z"]}))
        {'plan': 1}
        """
        counts = {
            column.name: column.unseen(self._column(table, column.name))
            if isinstance(column, Coded)
            else _unlisted(column, self._column(table, column.name))
            for column in self.columns
            if isinstance(column, Coded | Category)
        }
        return {name: count for name, count in counts.items() if count}

    def to_json(self) -> str:
        """Write down what was learnt; `from_json` reads back an equal value."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Preprocessor:
        """Read what `to_json` wrote; what could not have been learnt is refused.

        >>> Preprocessor.from_json('{"columns":[]}').width
        0
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise DataError(
                f"this is not a stored preprocessor ({error}): fit it again on the training rows"
            ) from None


def treatment_of(name: str, treat: Mapping[str, str]) -> str | None:
    """How a column is to be treated: by its own name, or by the first pattern that fits.

    >>> treatment_of("PAY_0", {"PAY_*": "log", "PAY_0": "bins"})
    'bins'
    """
    fitting = (word for pattern, word in treat.items() if fnmatchcase(name, pattern))
    return treat.get(name) or next(fitting, None)


def learn(name: str, column: pa.ChunkedArray, asked: str | None = None) -> Encoder:
    """Learn from the training rows of a column, by what it looks like or as it is asked for.

    >>> learn("plan", pa.chunked_array([["a", "b"]])).word
    'one-hot'
    """
    if asked is None:
        found = recognise(name, column)
        if found.treatment is None:
            return LeftOut(name, found.kind, "; ".join(found.warnings))
        asked = found.treatment
        if asked == "category" and is_text(decoded(column).type):
            refuse_disguised(name, list(counted(column, name)), len(column))
    if asked == "date":
        return Moment.learn(name, column)
    if asked == "number" or asked in _TRANSFORMS:
        if is_category(column.type):
            raise DataError(
                f"column '{name}' is {column.type}, so it cannot be treated as {asked}: write its "
                "numbers with a decimal point and nothing else, or treat it as a category"
            )
        how: Any = None if asked == "number" else asked
        return Quantity.learn(name, column, how)
    if asked == "boolean" and len(counted(column, name)) > 2:
        raise DataError(
            f"column '{name}' has more than two values, so it is not boolean: treat it as a "
            "category"
        )
    return Coded.learn(name, column, _coded_form("one-hot" if asked == "boolean" else asked))


def _coded_form(asked: str | None) -> Any:
    return asked if asked in ("one-hot", "embedding", "hash") else None


def plainly(name: str, column: pa.ChunkedArray, listed: bool) -> Number | Category:
    """Learn from the training rows of a column in the plain way; `listed` ones are categories."""
    if listed or is_category(column.type):
        return Category.learn(name, column, listed)
    return Number.learn(name, column)


def _unlisted(column: Category, values: pa.ChunkedArray) -> int:
    counts = counted(values, column.name)
    return sum(count for word, count in counts.items() if word not in set(column.values))


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)
