"""Random jobs by the thousand under random faults, with learners that only count.

Links drop, repeat, delay and reorder; links go dead; processes crash and come back with nothing
but their checkpoints. Every batch must be applied exactly once and in order at every party.
"""

from __future__ import annotations

import pytest

from colonnade.party import calibration
from tests import faults
from tests.faults import check, play

CHUNK = 100
CHUNKS = 2
SLOW_CHUNKS = 200


def play_all(seeds):
    restarts = regroups = 0
    for seed in seeds:
        try:
            played = play(seed)
            check(played)
        except BaseException as error:
            error.add_note(f"play it again: python -m tests.faults {seed}")
            raise
        restarts += played.restarts
        regroups += played.regroups
    return restarts, regroups


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_batch_is_applied_once_and_in_order(chunk):
    restarts, regroups = play_all(range(chunk * CHUNK, (chunk + 1) * CHUNK))
    assert restarts > 0 and regroups > 0, "the faults did nothing"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS, SLOW_CHUNKS))
def test_and_in_many_more(chunk):
    play_all(range(chunk * CHUNK, (chunk + 1) * CHUNK))


def test_a_seed_plays_the_same_again():
    for seed in (0, 6, 10):
        first, second = play(seed), play(seed)
        assert first.simulator.now_ns == second.simulator.now_ns
        assert first.history.rounds == second.history.rounds
        assert first.regroups == second.regroups


def test_lines_that_are_measured_again_and_again_lose_nothing(monkeypatch):
    monkeypatch.setattr(faults, "METHODS", ({"name": "auto", "most": 4, "share": 1.0},))
    monkeypatch.setattr(calibration, "CALM", 1)
    monkeypatch.setattr(calibration.Watch, "changed", lambda self, round, now_ns: round % 3 == 2)
    measured = 0
    for seed in range(60):
        played = play(seed)
        check(played)
        measured += len(played.history.calibrations) - 1
    assert measured > 0, "nothing was measured again"
