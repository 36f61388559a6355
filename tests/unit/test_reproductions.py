"""What experiments have found, in the documentation: made by a script, never typed."""

from __future__ import annotations

import json

import pytest

from colonnade import reproduce
from scripts import reproductions
from scripts.reproductions import BEGIN, END, UnfitError, headline, publish, replaced

CLAIM = {"claim": "faster", "rule": "paper", "paper": "4.6", "ours": "4.4", "verdict": "reproduced"}


def test_the_table_of_all_claims_is_what_the_claims_of_all_experiments_make():
    page = reproductions.INDEX.read_text()
    assert page == replaced(page, headline(reproductions.known()))


def test_every_result_is_of_an_experiment_that_there_is_and_has_a_page():
    for name in reproductions.known():
        assert name in reproduce.known()
        assert BEGIN in (reproductions.PAGES / f"{name}.md").read_text()


def test_claims_by_both_rules_stand_side_by_side():
    fair = CLAIM | {"rule": "fair", "ours": "1.4", "verdict": "not reproduced"}
    other = CLAIM | {"claim": "as good", "paper": "–", "ours": "–", "verdict": "not measured"}
    lines = headline({"a": {"claims": [CLAIM, fair, other]}}).splitlines()[2:]
    page = "[a](reproductions/a.md)"
    assert lines == [
        f"| {page} | faster | 4.6 | 4.4, **reproduced** | 1.4, **not reproduced** |",
        "|  | as good | – | not measured | – |",
    ]


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name, folder in (("PAGES", ""), ("RESULTS", "results"), ("PICTURES", "pictures")):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.setattr(reproductions, name, tmp_path / folder)
    return tmp_path


def finished(folder, claims):
    folder.mkdir()
    (folder / "claims.json").write_text(json.dumps({"format": 1, "claims": claims}))
    (folder / "page.md").write_text("![curves](fair.svg)\n\n| a |\n")
    (folder / "fair.svg").write_text("<svg/>\n")
    return folder


def test_an_experiment_brings_its_page_its_pictures_and_its_claims(place, tmp_path):
    folder = finished(tmp_path / "celu", [CLAIM])
    (place / "celu.md").write_text(f"# celu\n\nBefore.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")
    publish(folder)
    page = (place / "celu.md").read_text()
    assert page == (
        f"# celu\n\nBefore.\n\n{BEGIN}\n\n![curves](pictures/celu-fair.svg)\n\n| a |\n\n{END}"
        "\n\nAfter.\n"
    )
    assert (place / "pictures" / "celu-fair.svg").read_text() == "<svg/>\n"
    assert json.loads((place / "results" / "celu.json").read_text())["claims"] == [CLAIM]


def test_what_is_not_finished_or_only_quick_is_refused(place, tmp_path):
    with pytest.raises(UnfitError, match="is no finished experiment"):
        publish(tmp_path / "nothing")
    with pytest.raises(UnfitError, match="only the full form has"):
        publish(finished(tmp_path / "quick", []))
    with pytest.raises(UnfitError, match="the page has no"):
        replaced("# a page\n", "made")
