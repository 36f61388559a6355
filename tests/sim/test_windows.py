"""Windows that fill the pipe: what they reach, what they follow, and what they equal when empty."""

from __future__ import annotations

import math
import random
from statistics import fmean

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade import Costs, Link, RequestError, simulate
from colonnade.job.files import load
from colonnade.methods import build
from colonnade.policies.path import observe
from colonnade.policies.view import Role, View
from colonnade.run.clock import simulate_clock
from tests.small import small, with_network

WIDTHS = {"clinic": 16, "lab": 16, "insurer": 16}


def clocked(method: str, links: dict[str, Link], costs: Costs, rounds: int = 300):
    job = load("digits", [f"method={{ name = 'fedsgd', window = '{method}' }}"])
    job = msgspec.structs.replace(
        job,
        train=msgspec.structs.replace(job.train, rounds=rounds, epochs=None),
        network=msgspec.structs.replace(job.network, overrides=links),
        compute=msgspec.structs.replace(
            job.compute, overrides=dict.fromkeys(("clinic", "lab", "insurer"), costs)
        ),
    )
    return simulate_clock(job, rows=10_000, widths=WIDTHS)


def test_with_one_exchange_in_flight_every_window_is_lock_step():
    plain = small(3, method={"name": "fedsgd"}, rounds=12)
    # Less than a whole exchange of an epoch fits, so that one is in flight all the same.
    stale = {"weight": "cosine_fresh:0.5", "rate": "stale:2", "momentum": "shared"}
    tiny = small(3, method={"name": "fedsgd", "window": "bandwidth_delay:8:0.01", **stale},
                 rounds=12)  # fmt: skip
    runs = [
        simulate(with_network(case.job, latency="1s"), case.data, case.modules)
        for case in (plain, tiny)
    ]
    one, other = (run.weights for run in runs)
    for party, tensors in one.items():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, other[party][name]), (party, name)
    assert runs[0].time_s == runs[1].time_s
    assert runs[0].summary()["bytes"] == runs[1].summary()["bytes"]


def test_a_window_that_is_annealed_falls_over_the_first_half():
    link = Link(latency="2s")
    costs = Costs(forward="1ms", backward="1ms", aggregate="1ms")
    run = clocked("fixed:8:2", dict.fromkeys(("lab", "insurer"), link), costs, rounds=200)
    sent, sizes = 0, []
    for _, action, round in run.parties["lab"].actions:
        sent += action == "send"
        if action == "fresh":
            sizes.append(sent - round)
    assert sizes[0] == 8 and set(sizes[:60]) >= {8, 7, 6, 5}
    assert sizes == sorted(sizes, reverse=True)
    assert set(sizes[102:198]) == {2} and run.summary()["max_in_flight"]["lab"] == 8
    with pytest.raises(RequestError, match="give 1 to 4"):
        build({"name": "fedsgd", "window": "fixed:4:5"})


def in_flight(run, name: str, rounds: int) -> float:
    """How many exchanges a party had in flight, mean over its last rounds."""
    counted, found = 0, []
    for _, action, round in run.parties[name].actions:
        counted += {"send": 1, "fresh": -1}[action]
        if action == "send" and round >= run.rounds - rounds:
            found.append(counted)
    return fmean(found)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_nearly_as_fast_as_any_window_and_holds_no_more_than_it_needs(seed):
    draw = random.Random(seed)
    latencies = [draw.randint(1, 800) for _ in range(2)]
    bandwidths = [draw.choice([1, 5, 50, 1000]) for _ in range(2)]
    work = draw.randint(1, 30)
    links = {
        name: Link(latency=f"{latency}ms", bandwidth=f"{bandwidth}mbit")
        for name, latency, bandwidth in zip(("lab", "insurer"), latencies, bandwidths, strict=True)
    }
    costs = Costs(forward=f"{work}ms", backward=f"{2 * work}ms", aggregate=f"{work}ms")
    most = 48
    adaptive = clocked(f"bandwidth_delay:{most}:1", links, costs, rounds=600)
    widest = clocked(f"fixed:{most}", links, costs, rounds=600)
    times = [event[0] for event in adaptive.parties["clinic"].actions if event[1] == "aggregate"]
    fastest = [event[0] for event in widest.parties["clinic"].actions if event[1] == "aggregate"]
    steady = (times[-1] - times[300]) / (fastest[-1] - fastest[300])
    assert steady <= 1.1
    period_ms = (times[-1] - times[300]) / 299 / 10**6
    for name, latency in zip(links, latencies, strict=True):
        # The way there and back, with what a message of 4 kB takes on the line.
        way_ms = 2 * latency + 4 * work + 2 * 33 / bandwidths[list(links).index(name)]
        assert in_flight(adaptive, name, 200) <= 1.3 * way_ms / period_ms + 2, name


def test_a_party_near_by_has_fewer_in_flight_than_one_far_away():
    links = {"lab": Link(latency="5ms"), "insurer": Link(latency="200ms")}
    costs = Costs(forward="5ms", backward="10ms", aggregate="5ms")
    run = clocked("bandwidth_delay:64:1", links, costs, rounds=600)
    near, far = (in_flight(run, name, 100) for name in ("lab", "insurer"))
    assert far >= 20
    assert near <= far / 4
    # The way far away is 430 ms, and the slowest stage takes 20: it starts within a dozen ways.
    assert run.time_s <= 600 * 0.02 + 12 * 0.43


def path_with(rate_of, rounds: int, most: int = 64):
    """The windows of a job whose rounds come at a rate that follows from the window."""
    view = View(Role.ACTIVE, rounds=rounds, per_epoch=rounds, parties=2)
    view.meet(["telco"])
    windows = [1]
    for view.round in range(rounds):
        view.now_ns += int(1e9 / rate_of(view.round, windows[-1]))
        observe(view, most)
        windows.append(view.path.windows["telco"])
    return windows


def pipe(way_s: float, stage_s: float):
    return lambda window: min(window / way_s, 1 / stage_s)


@settings(max_examples=50, deadline=None)
@given(st.floats(0.001, 10), st.floats(0.001, 1), st.integers(1, 200))
def test_it_settles_where_the_slowest_stage_is_busy(way_s, stage_s, most):
    rate = pipe(way_s, stage_s)
    windows = path_with(lambda _, window: rate(window), 3000, most)
    assert max(windows) <= most
    ideal = min(max(1.0, way_s / stage_s), most)
    settled = sorted(windows[1500:])[750]
    assert ideal / 1.15 - 1 <= settled <= 1.25 * ideal + 1


@pytest.mark.parametrize(
    ("after", "settled"),
    [
        (pipe(1.0, 0.2), 5),  # A stage twice as slow: half of the window is a queue.
        (pipe(2.0, 0.1), 20),  # A way twice as long: twice as much fits.
        (pipe(1.0, 0.05), 20),  # A stage twice as fast.
        (pipe(0.5, 0.1), 5),  # A way half as long.
    ],
)
def test_it_follows_a_path_that_changes(after, settled):
    before = pipe(1.0, 0.1)
    windows = path_with(lambda round, n: (before if round < 500 else after)(n), 3000)
    assert 9 <= sorted(windows[200:500])[150] <= 12
    last = sorted(windows[2000:])[500]
    assert 0.8 * settled <= last <= 1.3 * settled + 1


def test_memory_bounds_what_is_in_flight():
    table = {"name": "fedsgd", "window": "bandwidth_delay:32:1"}
    case = small(2, method=table, rounds=40)
    job = with_network(case.job, latency="5s")
    free = simulate(job, case.data, case.modules)
    assert max(free.summary()["max_in_flight"].values()) > 4
    limits = msgspec.structs.replace(job.limits, in_flight_bytes=2048)
    bounded = simulate(msgspec.structs.replace(job, limits=limits), case.data, case.modules)
    assert max(bounded.summary()["max_in_flight"].values()) < 4


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"window": "fixed:0"}, "lets nothing be sent"),
        ({"window": "bandwidth_delay:2000"}, "too large"),
        ({"window": "bandwidth_delay:4:0"}, "how much of an epoch"),
        ({"rate": "stale:3"}, "no update comes between"),
        ({"rate": "stale:0", "window": "fixed:3"}, "the staleness at which the rate is halved"),
        ({"momentum": "shared"}, "no update comes between"),
        ({"weight": "cosine_fresh:0.5"}, "no local updates to weigh"),
        ({"weight": "cosine_fresh:2", "window": "fixed:3"}, "a cosine from 0"),
        ({"weight": "cosine:0.5", "window": "fixed:3"}, "no local updates to weigh"),
        ({"window": "fixed:3", "quorum": "anyone"}, "nothing to pipeline"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_cure(table, words):
    with pytest.raises(RequestError, match=words):
        build({"name": "fedsgd", **table})


@pytest.mark.parametrize(("signal", "window"), [(-5, 1), (0, 1), (3, 3), (8, 8), (2**63, 8)])
def test_a_party_holds_the_window_that_it_is_told_to_its_own_bounds(signal, window):
    policy = build({"name": "fedsgd", "window": "bandwidth_delay:8:1"}).window
    view = View(Role.PASSIVE, rounds=100, per_epoch=100, parties=2)
    policy.on_signal(view, signal)
    assert view.window.size == window
    view.room = 2
    policy.on_signal(view, signal)
    assert view.window.size == min(window, 2)


def test_a_window_at_its_bound_is_kept_though_batches_come_in_bursts():
    """What is sent at once comes back at once: a part of a window looks faster than it is."""
    links = dict.fromkeys(("lab", "insurer"), Link(latency="100ms"))
    costs = Costs(forward="1ms", backward="2ms", aggregate="1ms")
    bounded, fixed = (
        clocked(f"{w}", links, costs, 1000) for w in ("bandwidth_delay:8:1", "fixed:8")
    )
    assert bounded.time_s <= 1.12 * fixed.time_s


@pytest.mark.parametrize("seed", range(8))
def test_noise_does_not_make_it_grow(seed):
    """Rounds whose lengths vary by a quarter, as when parties share cores; the first are slow."""
    draw, rate = random.Random(seed), pipe(0.26, 0.05)

    def noisy(round, window):
        slow = 5 if round < 2 else 1
        return rate(window) * math.exp(draw.gauss(0, 0.25)) / slow

    windows = path_with(noisy, 1500, most=16)
    assert 3 <= fmean(windows[300:]) <= 8, "5.2 fill the pipe"
    assert sorted(windows[300:])[int(0.95 * 1200)] <= 11
