"""The multiplications of an alignment on a Ray cluster, where Ray is installed."""

from __future__ import annotations

import pytest

from colonnade.align.group import InvalidPoint
from colonnade.align.work import blind_all, evaluate_all, outputs_all, own_outputs_all
from colonnade.align.workers import Threads, workers

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def test_a_cluster_of_this_host_computes_what_threads_do():
    ids, secret, here = [number.to_bytes(16, "big") for number in range(3000)], bytes(32), Threads()
    there = workers("ray")
    try:
        points = blind_all(there, ids, secret, 7)
        assert points == blind_all(here, ids, secret, 7)
        answers = evaluate_all(there, points, secret)
        assert answers == evaluate_all(here, points, secret)
        for found in (outputs_all(there, ids, answers, secret, 7),
                      own_outputs_all(there, ids, secret)):  # fmt: skip
            assert (found == own_outputs_all(here, ids, secret)).all()
        with pytest.raises(InvalidPoint):
            evaluate_all(there, bytes(64), secret)
    finally:
        there.close()
        here.close()
