"""`docs/guides/privacy-review.md`, followed word for word."""

import re

import pytest

from colonnade.cli import main
from tests.guides import following, needs, plainly

GUIDE = "privacy-review.md"
VARIES = re.compile(r"%|R²|auc|on the test rows|batch_min|can tell")
"""Lines with figures that another machine may round otherwise."""
FIGURE = re.compile(r"-?[\d.,]*\d")


@pytest.fixture
def reader(tmp_path):
    needs("credit")
    with following(GUIDE, tmp_path, (), plainly(VARIES, FIGURE)) as found:
        yield found


@pytest.mark.slow
def test_what_crosses_tells_and_costs_is_as_the_guide_says(reader, monkeypatch, capsys):
    reader.read(sections="1234")
    monkeypatch.chdir(reader.place(""))
    words = ["join", "credit", "--me", "partner", "--connect", "bank.example:7443"]
    assert main([*words, "--party", "partner.toml", "--dry-run"]) == 2
    said = capsys.readouterr()
    assert "policy.width_max is 2 and the embedding is 16 wide" in said.out + said.err
