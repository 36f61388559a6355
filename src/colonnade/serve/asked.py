"""What somebody asks for over HTTP: read, checked, and brought into the form that parties use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec
import pyarrow as pa
from numpy.typing import NDArray

from colonnade.data.ids import id_texts
from colonnade.data.preprocess import Preprocessor
from colonnade.data.types import check_types, kind_of
from colonnade.errors import DataError, nearest
from colonnade.job.ids import Ids
from colonnade.job.terms import shown
from colonnade.predict.request import ROWS_MAX

Array = NDArray[Any]
Part = str | int
Value = str | int | float | bool | None
ID_CHARS_MAX = 1024
_PLACE_MAX = 2**62


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON object of a request."""

    ids: list[Part | list[Part]] | None = None
    """The rows, by their ids; one of several columns is a list."""
    rows: list[dict[str, Value]] | None = None
    """The rows with the active party's own columns, the id among them."""
    model: str | None = None
    """A version or a run; by default the first that was loaded."""
    missing: Literal["null", "mean"] | None = None
    """What becomes of a row that a party lacks."""
    deadline_ms: int | None = None
    """In how many milliseconds the answer is needed, at the most."""


class BodyError(Exception):
    """The body of a request is wrong: one sentence, for whoever sent it."""


_decoder = msgspec.json.Decoder(Body)


def read_body(content: bytes) -> Body:
    """Read a body, or raise a `BodyError`.

    >>> read_body(b'{"ids": ["c1", 7]}').ids
    ['c1', 7]
    >>> read_body(b'{"id": "c1"}')
    Traceback (most recent call last):
    colonnade.serve.asked.BodyError: the body is not as it should be: Object contains unknown \
field `id`
    """
    try:
        body = _decoder.decode(content)
    except msgspec.ValidationError as error:
        raise BodyError(f"the body is not as it should be: {shown(str(error), 200)}") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise BodyError('the body is no JSON: send an object such as {"ids": ["c1"]}') from None
    if (body.ids is None) == (body.rows is None):
        raise BodyError('say which rows: give either "ids" or "rows"')
    count = len(body.ids if body.ids is not None else body.rows or [])
    if not 0 < count <= ROWS_MAX:
        raise BodyError(f"{count:,} rows are asked for: ask for 1 to {ROWS_MAX:,} at once")
    if body.deadline_ms is not None and body.deadline_ms < 1:
        raise BodyError(f"deadline_ms is {body.deadline_ms}: give 1 or more")
    return body


class IdReader:
    """Brings ids as people send them into the form that parties compare.

    >>> IdReader(("id",), Ids(case="lower")).texts([" C1 ", 7])
    ['c1', '7']
    >>> IdReader((), Ids()).texts([7])
    ['7']
    """

    def __init__(self, columns: Sequence[str], rule: Ids) -> None:
        """`columns` are those of the active party's table that name a row; none where rows are
        named by their places."""
        self.columns, self._rule = tuple(columns), rule
        self._quick = rule.case == "keep" and len(self.columns) == 1

    def texts(self, ids: Sequence[Part | list[Part]]) -> list[str]:
        """The texts of ids, or a `BodyError`."""
        if not self.columns:
            return [_place(each) for each in ids]
        # What the rule leaves as it is needs no table; almost all ids are of this kind.
        if self._quick:
            plain = [
                each
                if type(each) is str and each.isascii() and each.isalnum()
                else str(each)
                if type(each) is int
                else None
                for each in ids
            ]
            if None not in plain and all(len(text or "") <= ID_CHARS_MAX for text in plain):
                return plain  # type: ignore[return-value]
        return self._by_rule([each if isinstance(each, list) else [each] for each in ids])

    def _by_rule(self, ids: Sequence[list[Part]]) -> list[str]:
        width = len(self.columns)
        for each in ids:
            if len(each) != width:
                raise BodyError(
                    f"an id has {len(each)} parts, and rows are named by {width}: "
                    f"{', '.join(self.columns)}"
                )
            if any(len(str(part)) > ID_CHARS_MAX for part in each):
                raise BodyError(f"an id is longer than {ID_CHARS_MAX:,} letters")
        try:
            table = pa.table(
                {
                    name: pa.array([str(each[place]) for each in ids], pa.string())
                    for place, name in enumerate(self.columns)
                }
            )
            found: list[str] = id_texts(table, self.columns, self._rule, "the request").to_pylist()
        except (pa.ArrowException, UnicodeError):
            raise BodyError("an id is no text: send whole numbers or Unicode text") from None
        except DataError as error:
            raise BodyError(shown(str(error), 300)) from None
        return found


def _place(each: Part | list[Part]) -> str:
    if type(each) is not int or not 0 <= each < _PLACE_MAX:
        raise BodyError("rows have no ids here: name them by their places, as in [0, 17]")
    return str(each)


class RowReader:
    """Encodes rows of the active party's columns, as its model reads them.

    >>> import numpy as np
    >>> fitted = Preprocessor.fit(pa.table({"age": [20.0, 40.0]}), np.array([0, 1]))
    >>> reader = RowReader(("id",), fitted)
    >>> ids, numbers = reader.read([{"id": "c1", "age": 30}])
    >>> ids, numbers.tolist()
    (['c1'], [[0.0]])
    """

    def __init__(
        self,
        ids: Sequence[str],
        fitted: Preprocessor | None,
        types: Mapping[str, str] | None = None,
    ) -> None:
        """`types` are those that the columns had in training."""
        self._ids, self._fitted, self._types = tuple(ids), fitted, types or {}
        columns = [] if fitted is None else fitted.columns
        self._columns = [each.name for each in columns if each.names]
        self._known = {*self._ids, *(each.name for each in columns)}

    def read(self, rows: Sequence[Mapping[str, Value]]) -> tuple[list[Part | list[Part]], Array]:
        """The ids of rows, and their numbers, or a `BodyError`."""
        if self._fitted is None or not self._ids:
            raise BodyError('this model reads no columns of a table here: give "ids" instead')
        for row in rows:
            self._check(row)
        ids = [_id([row[name] for name in self._ids]) for row in rows]
        try:
            table = pa.table(
                {name: self._column(name, [row[name] for row in rows]) for name in self._columns}
            )
            check_types(table.schema, self._types, "the request")
            return ids, self._fitted.transform(table)
        except (pa.ArrowException, UnicodeError, OverflowError):
            raise BodyError("a column has values of several types, or that are no dates") from None
        except DataError as error:
            raise BodyError(shown(str(error), 300)) from None

    def _column(self, name: str, values: list[Value]) -> pa.Array:
        column = pa.array(values)
        # JSON has no dates.
        if kind_of(self._types.get(name, "")) == "date" and pa.types.is_string(column.type):
            return column.cast(pa.timestamp("us"))
        return column

    def _check(self, row: Mapping[str, Value]) -> None:
        for name in (*self._ids, *self._columns):
            if name not in row:
                raise BodyError(f"a row has no '{shown(name, 60)}': give all columns, or null")
        for name in row:
            if name not in self._known:
                which = shown(nearest(name, self._known), 200)
                raise BodyError(f"there is no column '{shown(name, 60)}': {which}")


def _id(parts: list[Value]) -> Part | list[Part]:
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, str | int):
            raise BodyError("the id of a row must be a whole number or text")
    named: list[Part] = [part for part in parts if isinstance(part, str | int)]
    return named if len(named) > 1 else named[0]


def choose_model(asked: str | None, versions: Collection[str]) -> str:
    """The version that is asked for: by its name, or by the beginning of its run's.

    >>> choose_model("4f4f", ["4f4f4f4f4f4f-120", "aaaaaaaaaaaa-3"])
    '4f4f4f4f4f4f-120'
    """
    if asked is None:
        return next(iter(versions))
    found = [
        version
        for version in versions
        if version == asked or (len(asked) >= 4 and version.startswith(asked))
    ]
    # A run may be named by all its 32 digits, of which a version has twelve.
    found = found or [each for each in versions if len(asked) == 32 and asked[:12] == each[:12]]
    if len(found) != 1:
        raise BodyError(
            f"no one model is '{shown(asked, 60)}': the versions are {', '.join(versions)}"
        )
    return found[0]
