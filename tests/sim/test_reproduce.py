"""The reproductions that are quick enough to run with the tests."""

from __future__ import annotations

import pytest
from rich.console import Console

from colonnade import reproduce


def shown(table) -> str:
    console = Console(width=140, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_pasta_timing_agrees_with_the_paper_to_the_unit():
    said: list[str] = []
    result = reproduce.known()["pasta-timing"](None, None, False, said.append)
    assert result.to_dict()["equal"] == result.to_dict()["of"] == 31
    assert "31 of 31 equal" in shown(result.table())
    assert len(said) == 15


@pytest.mark.slow
def test_methods_at_a_glance_in_its_quick_form(tmp_path):
    made = reproduce.known()["methods-at-a-glance"](tmp_path, None, True, lambda text: None)
    by_method = {(row[0], row[1]): row for row in made.rows}
    assert len(by_method) == len(made.rows) == 22
    assert all(row[3] != "missed" for row in made.rows)
    assert (tmp_path / "latency-5" / "comparison.json").is_file()
