"""`docs/guides/credit.md`, followed word for word: from two tables to scores over HTTP."""

import csv
import json
import re
import shutil

import pyarrow.parquet as pq
import pytest

from tests.guides import GUIDES, blocks, following, needs, plainly

GUIDE = "credit.md"
ADDRESSES = (r"(bank\.example)?:7443", r"127\.0\.0\.1:8080")
VARIES = re.compile(
    r"^certificate|auc|^in all|%$|^\d{4}-|verified|\b[0-9a-f]{12}\b|[0-9a-f]{32}|Evaluate |Finish"
    r"|^all |after \d+ rounds;|^weights|^trained with|^Linux|on the test rows|^\"(no|yes)\": 0"
    r"|^\"prediction\": \"|Query|Answer|Hello|Welcome|Ids "
)
"""Lines with figures that are others each time: dates, scores, versions of what is installed."""
FIGURE = re.compile(
    r"(auc|head|trained with|Linux) .*|\b[0-9a-f]{12}\b|\b[0-9a-f]{32}\b|\"(no|yes)\",[\d.e-]+"
    r"|(?<=\"prediction\": )\"\w+\"|[\d.,:-]*\d( (us|ms|s|min|kB|MB)\b)?"
)


@pytest.fixture
def reader(tmp_path):
    needs("credit")
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    pytest.importorskip("uvicorn", reason="the extra serve is not installed")
    with following(GUIDE, tmp_path, ADDRESSES, plainly(VARIES, FIGURE)) as found:
        yield found


@pytest.mark.slow
def test_two_tables_become_scores_as_the_guide_says(reader):
    reader.read(sections="12345678")
    bank, partner = (reader.place("") / name for name in ("bank", "partner"))
    aligned = json.loads((bank / "aligned/credit-bank/alignment.json").read_text())
    assert aligned["count"] == 8_400 and aligned["sizes"] == {"bank": 12_000, "partner": 10_405}
    asked = (bank / "new.csv").read_text().split()[1:]
    with (bank / "scores.csv").open() as file:
        scores = list(csv.DictReader(file))
    assert [row["customer"] for row in scores] == asked
    known = set(pq.read_table(partner / "people.parquet")["client_no"].to_pylist())
    assert [row["missing"] for row in scores] == ["" if id in known else "partner" for id in asked]
    for folder in ("aligned/credit-partner", "runs/credit-partner", "predictions/credit-partner"):
        reconciled = json.loads((partner / folder / "reconciliation.json").read_text())
        assert reconciled == {"bank": []}
    # 1,680 test rows, 6 new ones, 2 over HTTP: what was set aside is given back.
    assert int((partner / "predictions/credit-partner/answered").read_text()) == 1_688


def test_the_guide_goes_the_whole_way():
    commands = "".join(block.text for block in blocks(GUIDES / GUIDE) if block.language == "sh")
    for name in ("look", "align", "join", "inspect", "predict", "ledger", "serve", "stop"):
        assert f"colonnade {name} " in commands
