"""Tables on terminals of any width: whole, or told row by row."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from colonnade.cli import screen
from colonnade.record.narrow import WORDS_MIN, fitted
from colonnade.record.table import columns_table

CELLS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=9)


def printed(shown: object, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(shown)
    return console.file.getvalue()


@given(
    st.integers(1, 8).flatmap(
        lambda count: st.lists(
            st.lists(CELLS, min_size=count, max_size=count), min_size=1, max_size=5
        )
    ),
    st.integers(WORDS_MIN + 4, 120),
)
def test_no_cell_is_cut_at_any_width(rows, width):
    figures = [f"f{number}" for number in range(len(rows[0]) - 1)]
    table = columns_table(["method"], figures)
    for row in rows:
        table.add_row(*row)
    shown = printed(fitted(table, width), width)
    assert all(cell in shown for row in rows for cell in row)
    assert all(figure in shown for figure in figures) and "…" not in shown


def test_what_stands_around_a_table_stays_and_empty_cells_are_passed_over():
    table = columns_table(["method"], ["a heading\nof two lines", "another one"])
    table.title, table.caption = "above", "below"
    table.add_row("fedsgd", "1.5", "")
    wide, narrow = printed(fitted(table, 60), 60), printed(fitted(table, 28), 28)
    assert "another one" in wide and "another one" not in narrow
    assert narrow.splitlines() == ["above", "fedsgd", "  a heading of two lines 1.5", "below"]


def test_a_table_on_a_narrow_terminal_is_told_row_by_row(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    table = Table("method", *(f"column {number}" for number in range(8)))
    table.add_row("fedbcd:updates=5", *("123.4 ± 5.6" for _ in range(8)))
    screen.show(table)
    out = capsys.readouterr().out
    assert "fedbcd:updates=5\n  column 0 123.4 ± 5.6\n" in out
