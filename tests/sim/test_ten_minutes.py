"""The page "Your own data in ten minutes" and its notebook: run as they stand."""

from __future__ import annotations

import json
import re

import pytest

from tests.documented import ROOT
from tests.notebook import NOTEBOOKS, written

PAGE = ROOT / "docs" / "guides" / "ten-minutes.md"


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_says_what_its_page_says(page):
    assert NOTEBOOKS[page].read_text() == written(page), "run python -m tests.notebook"


def test_links_of_the_notebook_lead_somewhere():
    path = NOTEBOOKS[PAGE]
    for link in re.findall(r"\]\(([^)#]+)", path.read_text()):
        assert (path.parent / link).exists(), link


def test_its_cells_run_and_the_partner_is_worth_what_the_page_says(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOKS[PAGE].read_text())["cells"]
    names = {"__name__": "notebook"}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    said = re.search(r"# alone ([\d.]+), together ([\d.]+)", PAGE.read_text())
    assert float(said[1]) == pytest.approx(names["auc_alone"], abs=0.03)
    assert float(said[2]) == pytest.approx(names["auc_joint"], abs=0.03)
    assert names["auc_joint"] > names["auc_alone"] + 0.1
    assert "telco" in capsys.readouterr().out
