"""The timeline and the exchanges of every method agree with whatever else is known of a run."""

from __future__ import annotations

import json
import operator
from collections import Counter
from itertools import pairwise

import pyarrow.parquet as pq
import pytest

from colonnade import methods, simulate
from colonnade.party.training import Training
from colonnade.policies.weight import compensate
from colonnade.record.events import LocalDone, RoundDone
from colonnade.record.timeline import NEITHER
from colonnade.run.setup import prepare
from tests.contract.test_two_worlds import NAMED
from tests.netrun import run_trainings
from tests.small import small, with_network

ROUNDS = 8
CASES = NAMED | {
    "celu, pipelined": {"name": "celu", "window": "pipelined:3"},
    "fixed window, fresh weights": {"name": "fedsgd", "window": "fixed:3",
                                    "weight": "cosine_fresh:0.1"},
}  # fmt: skip


def case_of(method, rounds=ROUNDS):
    case = small(3, method=CASES[method], rounds=rounds, evaluate_every="4 rounds",
                 labels="shared", validation=0.2)  # fmt: skip
    case.job = with_network(case.job, latency="5ms", bandwidth="1mbit", jitter="1ms")
    return case


@pytest.fixture(scope="module", params=CASES)
def made(request, tmp_path_factory):
    """A run of each method, what it told, and its folder."""
    case, heard = case_of(request.param), []
    run = simulate(case.job, case.data, case.modules, observers=[heard.append])
    return run, heard, run.save(tmp_path_factory.mktemp("run"))


def crossed(rows):
    """Bytes by peer, direction and kind, from spans."""
    found = Counter()
    for span in rows:
        if span["kind"] in ("send", "receive"):
            way = {"send": "sent", "receive": "received"}[span["kind"]]
            found[span["peer"], way, span["message"]] += span["bytes"]
    return found


def counted(ledger):
    return Counter({(e["peer"], e["direction"], e["kind"]): e["bytes"] for e in ledger})


def test_its_sums_are_those_of_the_summary_to_the_nanosecond(made):
    _, _, folder = made
    summary = json.loads((folder / "summary.json").read_text())
    spans = pq.read_table(folder / "timeline.parquet").to_pylist()
    for party, busy_s in summary["busy_s"].items():
        own = [span for span in spans if span["party"] == party]
        busy = sum(s["end_ns"] - s["start_ns"] for s in own if s["kind"] not in NEITHER)
        idle = sum(s["end_ns"] - s["start_ns"] for s in own if s["kind"] == "wait")
        assert (busy / 1e9, idle / 1e9) == (busy_s, summary["idle_s"][party])
        at_work = sorted(
            (s["start_ns"], s["end_ns"]) for s in own if s["kind"] not in ("send", "receive")
        )
        assert all(one[1] <= other[0] for one, other in pairwise(at_work))


def test_its_bytes_are_those_of_the_ledger(made):
    _, _, folder = made
    ledgers = json.loads((folder / "ledger.json").read_text())
    spans = pq.read_table(folder / "timeline.parquet").to_pylist()
    for party, ledger in ledgers.items():
        assert crossed(s for s in spans if s["party"] == party) == counted(ledger)


def pairs(timelines, sender, to):
    """The n-th message of a kind that left, and the n-th that came."""
    left = [s for s in timelines[sender] if s.kind == "send" and s.peer == to]
    came = [s for s in timelines[to] if s.kind == "receive" and s.peer == sender]
    by_kind = operator.attrgetter("message")
    return list(zip(sorted(left, key=by_kind), sorted(came, key=by_kind), strict=True))


def test_what_leaves_first_comes_first_of_its_kind(made):
    """What only measures a training is off the clock of a simulation, and overtakes the rest."""
    run, _, _ = made
    timelines = {name: party.spans for name, party in run.parties.items()}
    for name in run.job.passives:
        for sender, to in ((name, run.job.active), (run.job.active, name)):
            for one, other in pairs(timelines, sender, to):
                assert (one.message, one.bytes, one.round) == (
                    other.message, other.bytes, other.round)  # fmt: skip
                assert one.start_ns <= one.end_ns <= other.start_ns <= other.end_ns
            bits = [s for s in timelines[sender] if s.message == "Embedding" and s.kind == "send"]
            assert all(s.end_ns - s.start_ns == s.bytes * 8000 for s in bits)


def test_its_exchanges_are_those_of_the_action_log(made):
    run, _, _ = made
    for name in run.job.passives:
        party = run.parties[name]
        sent, used, stale, updates, since = {}, {}, {}, Counter(), 0
        for now_ns, action, round in party.actions:
            if action == "send":
                sent[round] = now_ns, since
            elif action != "again":
                if action == "fresh":
                    used[round], stale[round] = now_ns, since - sent[round][1]
                since += 1
                updates[round] += 1
        rows = list(party.exchanges)
        assert [row.round - 1 for row in rows] == list(used)
        for row in rows:
            round = row.round - 1
            assert (row.sent_ns, row.used_ns) == (sent[round][0], used[round])
            assert row.sent_ns < row.replied_ns <= row.used_ns
            assert (row.staleness, row.updates) == (stale[round], updates[round])
            assert 1 <= row.in_flight <= party.in_flight_max
        assert max(row.window for row in rows) >= party.in_flight_max


def test_its_exchanges_say_how_rows_were_weighed(made):
    run, _, _ = made
    weight = methods.build(run.job.method).weight
    weighs, most = weight.weighs, 2.0 if weight == compensate() else 1.0
    for party in run.parties.values():
        weighed = [row for row in party.exchanges if row.weight_p50 is not None]
        assert bool(weighed) <= weighs
        for row in weighed:
            assert row.weight_p10 <= row.weight_p50 <= row.weight_p90 <= most + 1e-9
    if weighs:
        assert any(r.weight_p50 is not None for p in run.parties.values() for r in p.exchanges)


def test_rounds_tell_what_was_done_so_far(made):
    run, heard, _ = made
    for name, party in run.parties.items():
        rounds = [e for e in heard if isinstance(e, RoundDone) and e.party == name]
        locals_ = [e for e in heard if isinstance(e, LocalDone) and e.party == name]
        assert len(locals_) == party.local
        assert [e.local for e in locals_] == list(range(1, party.local + 1))
        if name != run.job.active:
            assert [e.fresh for e in rounds] == list(range(1, party.fresh + 1))
        both = [(e.bytes_up, e.bytes_down) for e in rounds]
        assert both == sorted(both) and all(up > 0 for up, _ in both)


def test_frames_have_the_columns_of_the_files(made):
    run, _, folder = made
    assert run.timeline.equals(pq.read_table(folder / "timeline.parquet").to_pandas())
    assert run.exchanges.equals(pq.read_table(folder / "exchanges.parquet").to_pandas())


@pytest.mark.parametrize("method", ["fedbcd", "celu, pipelined"])
def test_over_the_network_too(method):
    case = case_of(method)
    parties = prepare(case.job, case.data, case.modules)
    trainings = {name: Training.of(party) for name, party in parties.items()}
    outcomes, worlds = run_trainings(case.job, trainings)
    timelines = {name: world.timeline for name, world in worlds.items()}
    for name, world in worlds.items():
        rows = [span._asdict() for span in world.timeline]
        assert crossed(rows) == counted(world.ledger.entries())
        assert [row["kind"] for row in rows].count("begin") == 1
        kinds = {row["kind"] for row in rows}
        assert kinds >= {"forward", "backward", "local", "encode", "decode", "wait", "checkpoint"}
        at_work = sorted(
            (s["start_ns"], s["end_ns"]) for s in rows if s["kind"] not in ("send", "receive")
        )
        assert all(one[1] <= other[0] for one, other in pairwise(at_work))
        assert [row.round for row in world.exchanges] == list(range(1, ROUNDS + 1))
        updates = sum(row.updates for row in world.exchanges)
        assert updates == outcomes[name].view.fresh + outcomes[name].view.local
    for name in case.job.passives:
        for sender, to in ((name, case.job.active), (case.job.active, name)):
            for one, other in pairs(timelines, sender, to):
                assert (one.message, one.bytes, one.round) == (
                    other.message, other.bytes, other.round)  # fmt: skip
                assert one.start_ns <= one.end_ns and other.start_ns <= other.end_ns
