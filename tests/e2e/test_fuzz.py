"""The short form of `make fuzz`: mutated segments and handshakes against a live job."""

from __future__ import annotations

import pytest

from tests.fuzz import main


@pytest.mark.usefixtures("stood_in")
def test_nothing_that_is_sent_harms_the_job():
    found = main(["--count", "800", "--seed", "5"])
    assert found.read.total() > 800 and found.sent["socket"] > 5
    assert found.rounds > 0
    assert found.refusals["p2"] > 25 and found.refusals["the certificate of x"] > 10
    # What each of them met was said to be the active party's fault, or nothing had come yet.
    assert set(found.victims) <= {"PartyError", "BreachError", "RefusedError", "Over", "went on"}
