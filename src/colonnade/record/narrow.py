"""Tables that are wider than the terminal that shall show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

WORDS_MIN = 16
"""How narrow a column of words may become."""
GAP, INDENT = 2, 2
"""Spaces between columns; and before the facts of a paragraph."""
BETWEEN = "   "


def fitted(table: Table, width: int) -> RenderableType:
    """A table as it is where it fits into this width. Else a paragraph for each row, in which every
    figure stands behind its heading: none may be cut, nor a name be broken letter by letter.

    >>> from rich.console import Console
    >>> from colonnade.record.table import columns_table
    >>> table = columns_table(["method"], ["rounds", "bytes to 0.9", "reached"])
    >>> table.add_row("fedsgd", "525", "8.38 MB", "1/1")
    >>> Console(width=26).print(fitted(table, 26))
    fedsgd
      rounds 525
      bytes to 0.9 8.38 MB
      reached 1/1
    """
    from rich.cells import cell_len
    from rich.console import Group
    from rich.text import Text

    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    needed = [
        max(cell_len(line) for text in column for line in text.split("\n")) for column in columns
    ]
    for place, column in enumerate(table.columns):
        if column.justify != "right":
            needed[place] = min(needed[place], WORDS_MIN)
    if sum(needed) + GAP * (len(needed) - 1) <= width:
        return table
    headings, *rows = (list(row) for row in zip(*columns, strict=True))
    told = [_paragraph(headings, row, width) for row in rows]
    title, caption = (
        [] if text is None else [text if isinstance(text, Text) else Text(text)]
        for text in (table.title, table.caption)
    )
    return Group(*title, *told, *caption)


def _paragraph(headings: Sequence[str], row: Sequence[str], width: int) -> Text:
    """A row, with its first cell above the others."""
    from rich.cells import cell_len
    from rich.text import Text

    lines: list[str] = []
    for heading, cell in zip(headings[1:], row[1:], strict=True):
        fact = " ".join(f"{heading} {cell}".split())
        if not cell.strip():
            continue
        longer = f"{lines[-1]}{BETWEEN}{fact}" if lines else ""
        if lines and cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(" " * INDENT + fact)
    return Text("\n").join([Text(row[0], style="bold"), *map(Text, lines)])
