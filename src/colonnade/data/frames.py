"""pandas objects: rows are matched by their index, columns of test rows by their names.

Arrays, tensors, polars frames and Arrow tables have no index and are matched by place. A default
index (0, 1, 2, …) says no more than the place does. Where objects with another index and objects
without one meet, nothing says which rows belong together, so that is refused.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError

Array = npt.NDArray[Any]


def is_indexed(value: Any) -> bool:
    """Whether something is a frame or a series of pandas.

    >>> is_indexed(np.ones(3))
    False
    """
    # Whoever holds a pandas object has imported pandas; nobody else should wait for it.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame | pandas.Series)


def is_default_index(index: Any) -> bool:
    """Whether a pandas index says no more than the place of a row.

    >>> import pandas as pd
    >>> is_default_index(pd.RangeIndex(3)), is_default_index(pd.Index([3, 1]))
    (True, False)
    """
    pandas = sys.modules["pandas"]
    return isinstance(index, pandas.RangeIndex) and index.equals(pandas.RangeIndex(len(index)))


def in_one_order(holders: Mapping[str, Any], kind: str = "rows") -> dict[str, Any]:
    """The same holders of rows, with pandas objects in the order of the first one's index.

    >>> import pandas as pd
    >>> bank = pd.DataFrame({"age": [20, 30]}, index=["ann", "bob"])
    >>> telco = pd.DataFrame({"calls": [3, 2]}, index=["bob", "ann"])
    >>> in_one_order({"bank": bank, "telco": telco})["telco"]["calls"].tolist()
    [2, 3]
    """
    given = dict(holders)
    indexed = {name: value for name, value in given.items() if is_indexed(value)}
    named = [name for name, value in indexed.items() if not is_default_index(value.index)]
    if not named:
        return given
    for name, value in given.items():
        if value is not None and name not in indexed:
            raise DataError(
                f"the {kind} of {named[0]} have an index and there is none for {name}, so nothing "
                f"says which {kind} belong together: give {name} as a Series or DataFrame with "
                f"the same index, or {named[0]} as .to_numpy() to match by place"
            )
    for name, value in indexed.items():
        _refuse_duplicates(name, value.index, kind)
    first = next(iter(indexed))
    order = indexed[first].index
    for name, value in indexed.items():
        if not value.index.equals(order):
            given[name] = value.iloc[_places(first, order, name, value.index, kind)]
    return given


def _refuse_duplicates(name: str, index: Any, kind: str) -> None:
    again = index.duplicated()
    if again.any():
        raise DataError(
            f"{name} has {int(again.sum())} {kind} with an index that came before, such as "
            f"{index[again][0]!r}, so its {kind} cannot be matched by index: keep one row for "
            "each, or drop the index everywhere with .reset_index(drop=True) to match by place"
        )


def _places(first: str, order: Any, name: str, index: Any, kind: str) -> npt.NDArray[np.intp]:
    """Where in `index` each entry of `order` is found; both have no duplicates."""
    places: npt.NDArray[np.intp] = index.get_indexer(order)
    lacking, surplus = order[places < 0], index[order.get_indexer(index) < 0]
    if len(lacking) or len(surplus):
        there, absent = (first, name) if len(lacking) else (name, first)
        example = (lacking if len(lacking) else surplus)[0]
        if len(lacking) == len(order) > 0 and len(surplus):
            raise DataError(
                f"different indexes: {first} and {name} have no entry in common ({first} has "
                f"{lacking[0]!r}, {name} has {surplus[0]!r}): give both the same kind "
                "of index, as with .index.astype(str), or drop the index everywhere with "
                ".reset_index(drop=True) to match by place"
            )
        raise DataError(
            f"different indexes: {len(lacking)} {kind} of {first} are missing at {name} and "
            f"{len(surplus)} of {name} at {first} ({there} has {example!r}, {absent} does not): "
            "keep the common ones, as with .loc[a.index.intersection(b.index)], or drop the "
            "index everywhere with .reset_index(drop=True) to match by place"
        )
    return places


def same_columns(name: str, train: Any, test: Any) -> Any:
    """Test rows with their columns in the order of the training rows, where both have names.

    >>> import pandas as pd
    >>> train, test = pd.DataFrame({"a": [1], "b": [2]}), pd.DataFrame({"b": [4], "a": [3]})
    >>> same_columns("bank", train, test).to_numpy().tolist()
    [[3, 4]]
    """
    names, own = getattr(train, "columns", None), getattr(test, "columns", None)
    if not (is_indexed(train) and is_indexed(test)) or names is None or own is None:
        return test
    if names.equals(own):
        return test
    odd = sorted(map(str, names.symmetric_difference(own)))
    if odd or not names.is_unique:
        which = f" ('{odd[0]}' is on one side only)" if odd else ""
        raise DataError(
            f"the test rows of {name} have other columns than its training rows{which}: "
            "give both the same columns"
        )
    return test[names]


def numbers(name: str, value: Any) -> Array:
    """A party's features as an array; a frame with columns that are no numbers is refused.

    >>> import pandas as pd
    >>> numbers("bank", pd.DataFrame({"age": [20.5], "vip": [True]})).tolist()
    [[20.5, 1.0]]
    """
    array = plain_array(f"the features of {name}", value)
    if array.dtype.kind != "O" or not is_indexed(value) or value.ndim != 2:
        return array
    pandas = sys.modules["pandas"]
    types = pandas.api.types
    odd = [
        str(column)
        for column, kind in value.dtypes.items()
        if not (types.is_numeric_dtype(kind) or types.is_bool_dtype(kind))
    ]
    if odd:
        raise DataError(
            f"columns of {name} are not numbers ({', '.join(odd[:5])}): encode them, as with "
            "pandas.get_dummies, or let a job read the table, which encodes text"
        )
    return np.asarray(value.to_numpy(dtype=np.float64, na_value=np.nan))


def plain_array(what: str, value: Any) -> Array:
    """Anything that is like an array as one of numpy; tensors may be on any device.

    >>> plain_array("the labels", [[1, 2], [3]])
    Traceback (most recent call last):
    colonnade.errors.DataError: the labels have rows of different length: give every row the same \
columns
    """
    if hasattr(value, "toarray"):
        raise DataError(f"{what} are a sparse matrix: give .toarray(), if it fits into memory")
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        return np.asarray(value)
    except ValueError:
        raise DataError(
            f"{what} have rows of different length: give every row the same columns"
        ) from None


def label_values(values: Any) -> Array:
    """Labels as an array; Python strings, as pandas keeps them, become text.

    >>> label_values(np.array(["no", "yes"], dtype=object)).dtype.kind
    'U'
    """
    array = plain_array("the labels", values)
    if array.dtype.kind != "O" or array.ndim != 1:
        return array
    whole = array.tolist()
    missing = sum(_is_missing(value) for value in whole)
    if missing:
        raise DataError(f"the label is missing in {missing} rows: leave out the rows without one")
    same = any(all(isinstance(value, kind) for value in whole) for kind in (str, int, float))
    return np.asarray(whole) if same else array


def _is_missing(value: Any) -> bool:
    nan = isinstance(value, float) and math.isnan(value)
    return value is None or nan or type(value).__name__ in ("NAType", "NaTType")
