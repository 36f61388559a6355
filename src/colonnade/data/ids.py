"""Ids as all parties write them: one rule turns what a table holds into the text that counts.

The rule is part of the job. Types do not matter: the number 284 and the text `284` are the same id,
`00284` is another.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from colonnade.data.tables import id_text
from colonnade.errors import DataError
from colonnade.job.ids import Ids

_BETWEEN = "\x1f"
"""Between the parts of an id of several columns; no part may contain it."""


def id_texts(
    table: pa.Table, columns: Sequence[str], rule: Ids, where: str, first: int = 0
) -> pa.Array:
    """The ids of a table's rows, in their order, as text under the rule; the `first` of them may be
    a later row of a file that is read in pieces.

    >>> table = pa.table({"country": ["AT ", "de"], "number": [7, 8]})
    >>> id_texts(table, ["country", "number"], Ids(case="lower"), "bank.csv").to_pylist()
    ['at\\x1f7', 'de\\x1f8']
    """
    parts = [_part(table[name], name, rule, where, first) for name in columns]
    if len(parts) == 1:
        return parts[0]
    for name, part in zip(columns, parts, strict=True):
        if pc.any(pc.match_substring(part, _BETWEEN)).as_py():
            raise DataError(
                f"the id column '{name}' of {where} holds the control character U+001F, which "
                "stands between the parts of an id: take it out"
            )
    return pc.binary_join_element_wise(*parts, pa.scalar(_BETWEEN, pa.large_string()))


def _part(column: pa.ChunkedArray, name: str, rule: Ids, where: str, first: int) -> pa.Array:
    text = id_text(column, name, where)
    text = pc.utf8_normalize(text, form="NFC")
    if rule.trim:
        text = pc.utf8_trim_whitespace(text)
    if rule.case == "lower":
        text = pc.utf8_lower(text)
    missing = pc.or_kleene(pc.is_null(text), pc.equal(pc.utf8_length(text), 0))
    if pc.any(missing).as_py():
        row = first + pc.index(missing.fill_null(True), True).as_py() + 1
        count = pc.sum(missing.fill_null(True)).as_py()
        raise DataError(
            f"{count:,} rows of {where} have no id in '{name}', the first is row {row:,}: "
            "fill the ids in, or leave those rows out"
        )
    return text
