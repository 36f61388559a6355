"""Virtual time, to the nanosecond."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from colonnade import Compute, Costs, Job, Link, Network, Party, Train, simulate_clock
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Buffer, Embedding, Gradient, Packed

MS = 1_000_000
ROUNDS = 7


def clock_job(method=None, latency=5, parties=2, rounds=ROUNDS, **link):
    names = ["active", *(f"passive{i}" for i in range(1, parties))]
    return Job(
        parties={name: Party(role="active" if name == "active" else "passive") for name in names},
        method=method or {"name": "fedsgd"},
        train=Train(rounds=rounds, batch_size=4),
        network=Network(link=Link(latency=f"{latency}ms", **link)),
        compute=Compute(costs=Costs(forward="10ms", backward="20ms", aggregate="10ms")),
    )


def run_clock(job, width=2, active_width=2):
    widths = {name: active_width if name == job.active else width for name in job.parties}
    return simulate_clock(job, rows=64, widths=widths)


def total_ms(job, **widths):
    return run_clock(job, **widths).time_s * 1000


@pytest.mark.parametrize("latency", [0, 5, 50, 1000])
@pytest.mark.parametrize("parties", [2, 3, 5])
def test_fedsgd_round_takes_2l_plus_40(latency, parties):
    job = clock_job(latency=latency, parties=parties)
    assert total_ms(job) == pytest.approx(ROUNDS * (2 * latency + 40), abs=1e-9)


@pytest.mark.parametrize("latency", [0, 5, 50, 1000])
@pytest.mark.parametrize("updates", [1, 2, 5])
def test_fedbcd_p_round(latency, updates):
    """f + L + agg + L + b + (Q−1)(f+b): 2L+160 for Q = 5."""
    job = clock_job({"name": "fedbcd", "updates": updates}, latency)
    per_round = 2 * latency + 40 + 30 * (updates - 1)
    assert updates != 5 or per_round == 2 * latency + 160
    assert total_ms(job) == pytest.approx(ROUNDS * per_round, abs=1e-9)


@pytest.mark.parametrize("latency", [0, 5, 50, 1000])
@pytest.mark.parametrize("updates", [1, 2, 5])
@pytest.mark.parametrize("reply", ["after", "last"])
def test_fedbcd_s_round(latency, updates, reply):
    """The active party's updates come first: f + L + [agg + b + (Q−1)(f+b) + f + agg] + L +
    [b + (Q−1)(f+b)], which is 2L+320 for Q = 5, twice the compute of -p; with reply="last" there
    is no f + agg for the reply, 2L+300."""
    method = {"name": "fedbcd", "updates": updates, "order": "sequential", "reply": reply}
    local = 30 * (updates - 1)
    own = 10 + 20 + local + (20 if reply == "after" else 0)
    per_round = 10 + latency + own + latency + 20 + local
    assert (updates, reply) != (5, "after") or per_round == 2 * latency + 320
    assert total_ms(clock_job(method, latency)) == pytest.approx(ROUNDS * per_round, abs=1e-9)


def test_label_only_active_party_pays_nothing_for_columns():
    run = run_clock(clock_job(latency=5), active_width=0)
    assert run.time_s * 1000 == pytest.approx(ROUNDS * 50)
    assert run.parties["active"].busy_s * 1000 == pytest.approx(ROUNDS * 10)


def test_codec_costs_are_paid_where_tensors_are_packed_and_unpacked():
    """Once for each embedding and gradient at the passive, and at the active for all it reads
    and each it writes."""
    job = clock_job(latency=5)
    costs = msgspec.structs.replace(job.compute.costs, codec="1ms")
    run = run_clock(msgspec.structs.replace(job, compute=Compute(costs=costs)))
    assert run.time_s * 1000 == pytest.approx(ROUNDS * (50 + 4))


@pytest.mark.parametrize(("active_width", "busy"), [(2, 10 + 30 + 2 * 37), (0, 10 + 2 * 7)])
def test_top_costs_are_paid_in_local_updates_only(active_width, busy):
    job = clock_job({"name": "fedbcd", "updates": 3}, latency=5, rounds=1)
    costs = msgspec.structs.replace(job.compute.costs, top="7ms")
    job = msgspec.structs.replace(job, compute=Compute(costs=costs))
    run = run_clock(job, active_width=active_width)
    assert run.parties["active"].busy_s * 1000 == pytest.approx(busy)


@pytest.mark.parametrize("more", [{"version": "recompute"}, {"weight": "cosine_fresh"}])
def test_one_forward_more_is_paid_for_every_reply_that_is_stale(more):
    table = {"name": "fedsgd", "window": "fixed:2", **more}
    run = run_clock(clock_job(table, latency=5))
    # But for the first one every reply comes with an update in between.
    busy_ms = ROUNDS * (10 + 20) + (ROUNDS - 1) * 10
    assert run.parties["passive1"].busy_s * 1000 == pytest.approx(busy_ms)


def test_unequal_speeds_cut_nobodys_updates():
    """A passive party ten times faster than the active one still gets five updates a round."""
    job = clock_job({"name": "fedbcd", "updates": 5}, latency=5)
    costs = job.compute.costs
    fast = Costs(forward="1ms", backward="2ms")
    for slow in (Compute(costs=costs, overrides={"passive1": fast}),
                 Compute(costs=costs, overrides={"active": fast})):  # fmt: skip
        run = run_clock(msgspec.structs.replace(job, compute=slow))
        for counts in run.summary()["updates"].values():
            assert counts == {"fresh": ROUNDS, "local": 4 * ROUNDS}


def frame_bytes(kind, rows, width):
    data = Buffer(memoryview(bytes(4 * rows * width)))
    return len(Codec().encode(kind(0, Packed("plain", "float32", (rows, width), data))))


def test_bandwidth_takes_its_time():
    """One embedding and one gradient of n bytes each take n·8/rate longer."""
    job = clock_job(latency=5, rounds=1)
    slow = clock_job(latency=5, rounds=1, bandwidth="1mbit")
    sizes = [frame_bytes(kind, 4, 100) for kind in (Embedding, Gradient)]
    ns = [size * 8 * 1000 for size in sizes]
    assert round((run_clock(slow, 100).time_s - run_clock(job, 100).time_s) * 1e9) == sum(ns)


def test_queued_messages_wait_for_each_other():
    """Two messages sent at one instant on one wire arrive one transmission apart."""
    from colonnade.sim.links import Pipe

    pipe = Pipe.of(Link(latency="5ms", bandwidth="1mbit"), (0,), ())
    first = pipe.arrivals("a", "b", "Embedding", 125, 0)[0]
    second = pipe.arrivals("a", "b", "Embedding", 125, 0)[0]
    later = pipe.arrivals("a", "b", "Embedding", 125, 100 * MS)[0]
    assert (first, second, later) == (6 * MS, 7 * MS, 106 * MS)


def test_costs_may_follow_a_trace():
    """The second half of the run has a backward pass of 50 ms."""
    steps = [("0s", "20ms"), ("150ms", "50ms")]
    job = clock_job(latency=5)
    costs = Costs(forward="10ms", backward=steps, aggregate="10ms")
    run = run_clock(msgspec.structs.replace(job, compute=Compute(costs=costs)))
    assert run.time_s * 1000 == pytest.approx(3 * 50 + 4 * 80)


def test_latency_may_change_over_time():
    job = clock_job(latency=0)
    link = Link(latency=[("0s", "5ms"), ("100ms", "45ms")])
    changed = msgspec.structs.replace(job, network=Network(link=link))
    assert total_ms(changed) == pytest.approx(2 * 50 + 5 * 130)


def test_one_slow_link_sets_the_pace():
    job = clock_job(latency=5, parties=3)
    network = Network(link=job.network.link, overrides={"passive2": Link(latency="500ms")})
    assert total_ms(msgspec.structs.replace(job, network=network)) == pytest.approx(ROUNDS * 1040)


def test_measured_costs_are_real_time():
    job = clock_job(latency=5)
    measured = Compute(costs=Costs(forward="measured", backward="measured", aggregate="measured"))
    run = run_clock(msgspec.structs.replace(job, compute=measured))
    assert ROUNDS * 10 < run.time_s * 1000 < ROUNDS * 10 + 1000
    assert run.parties["active"].busy_s > 0


def test_busy_and_idle_fill_the_time():
    run = run_clock(clock_job(latency=50))
    for name, party in run.parties.items():
        spans = [span for span in party.spans if span.kind not in ("send", "receive")]
        for one, other in itertools.pairwise(sorted(spans, key=lambda span: span.start_ns)):
            assert one.end_ns <= other.start_ns, name
        assert party.busy_s + party.idle_s <= run.time_s + 1e-9
    passive = run.parties["passive1"]
    assert passive.busy_s == pytest.approx(ROUNDS * 0.030)
    assert passive.busy_s + passive.idle_s == pytest.approx(run.time_s)
    assert run.summary()["max_in_flight"] == {"passive1": 1}


def test_the_clock_of_a_job_that_may_end_early_runs_to_its_end():
    job = clock_job()
    train = msgspec.structs.replace(job.train, patience=1, target=0.5, stop="target")
    assert run_clock(msgspec.structs.replace(job, train=train)).rounds == ROUNDS
