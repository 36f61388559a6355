"""`docs/guides/three-hosts.md`, followed word for word.

Files and commands are taken from the guide, and nothing of them is repeated here. What it says that
one will see is compared with what one sees.
"""

import json
import re

import pytest

from colonnade.cli.dry_run import Line, look_ahead
from colonnade.job import load
from colonnade.job.party_file import load_party, own_job
from tests.guides import GUIDES, blocks, following, plainly

GUIDE = "three-hosts.md"
PARTIES = ("bank", "telco", "insurer")
VARIES = re.compile(
    r"^certificate|auc|^in all|%$|^\d{4}-|verified|\b[0-9a-f]{12}\b|Evaluate |Finish|^all "
    r"|after round|the end of round|on the test rows"
)
"""Lines with figures that are others each time: dates, scores, what depends on the best round."""
FIGURE = re.compile(r"(auc|head) .*|\b[0-9a-f]{12}\b|[\d.,:-]*\d( (us|ms|s|min|kB|MB)\b)?")
LATER = ("Evaluate", "Finish")
"""Kinds that carry the number of the best round, which is known only later."""


@pytest.fixture
def reader(tmp_path):
    places, plain = (r"(bank\.example)?:7443",), plainly(VARIES, FIGURE)
    # A test stops a party sooner than a person does, who has to change to another terminal.
    instead = {"latency=200ms": "latency=80ms"}
    with following(GUIDE, tmp_path, places, plain, instead) as found:
        yield found


def counts(rows):
    return {
        (row["peer"], row["direction"], row["kind"]): (row["messages"], row["bytes"])
        for row in rows
    }


def forecast(folder, party):
    job, file = load(folder / "job.toml"), load_party(folder / f"{party}.toml")
    return look_ahead(own_job(job, party, file), party, file, Line())["traffic"]


def test_three_parties_train_as_the_guide_says(reader):
    reader.read(sections="12345678")
    for party in PARTIES:
        folder = reader.place("") / party
        (run,) = (folder / "runs").iterdir()
        ledger = counts(json.loads((run / "ledger.json").read_text()))
        expected = counts(forecast(folder, party))
        assert ledger.keys() == expected.keys()
        for key, (messages, size) in ledger.items():
            margin = messages if key[2] in LATER else 0
            assert expected[key][0] == messages, key
            assert size <= expected[key][1] <= size + margin, key
        reconciled = json.loads((run / "reconciliation.json").read_text())
        assert reconciled and not any(reconciled.values())
    assert "no difference\nverified: " in reader.shown()


def test_a_party_stops_and_goes_on_as_the_guide_says(reader):
    reader.read(sections="123459")
    assert "goes on from the end of round" in reader.shown()


def test_the_guide_has_all_that_it_promises():
    commands = [block.text for block in blocks(GUIDES / GUIDE) if block.language == "sh"]
    for party in PARTIES:
        assert sum(f"--me {party}" in text and "--dry-run" not in text for text in commands) >= 2
    for word in ("keys init", "keys issue", "--dry-run", "colonnade ledger", "colonnade stop"):
        assert any(word in text for text in commands), word
