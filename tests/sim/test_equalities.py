"""Every degenerate case of a method equals the simpler method, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import torch

from colonnade import Compute, Costs, methods, simulate, simulate_clock
from colonnade.reproduce.pasta_timing import SETTINGS, epoch_ends
from tests.small import small, with_network

FEDSGD = {"name": "fedsgd"}
WIDTHS = {"p0": 4, "p1": 4}


def pasta(**options):
    return {"name": "pasta", "decay": False, **options}


def celu(**options):
    return {"name": "celu", **options}


def cvfl(q, **options):
    return {"name": "cvfl", "q": q, "compressor": "plain", **options}


def fedbcd(updates):
    return {"name": "fedbcd", "updates": updates}


def flexvfl(timeout, **options):
    return {"name": "flexvfl", "timeout": timeout, **options}


def compressed(**roles):
    return {"name": "fedsgd", "compress": roles}


@dataclass(frozen=True)
class Pair:
    """Two methods that must learn the same, by weights and by the clock."""

    left: dict[str, Any]
    right: dict[str, Any]
    parties: int = 3
    lr: tuple[float, float] = (0.05, 0.05)
    tolerance: float = 0.0
    """Above 0 only where sums are taken in another order."""
    clock: bool = True
    optimizer: str = "sgd"
    alike: bool = False
    """Whether all parties are equally fast, and a forward pass costs nothing."""


LEADING = {
    "costs": Costs(forward="10ms", backward="20ms", aggregate="10ms"),
    "overrides": {"p1": Costs(forward="1ms", backward="2ms", aggregate="10ms")},
}
"""The active party is no slower than the others, so that nothing waits for its updates."""
ALIKE = {"costs": Costs(backward="3ms")}
"""As in Flex-VFL's paper."""
ADAM = {"optimizer": "adam", "lr": (0.01, 0.01)}
REHEARSED = {"clock": False, "alike": True}
"""What rehearses takes one update longer."""
EQUAL = {
    "pasta(b_max=1, s_max=0) = fedsgd": Pair(pasta(b_max=1, s_max=0), FEDSGD, **ADAM),
    "pasta(b_max=1, s_max=2) = fedbcd(3)": Pair(pasta(b_max=1, s_max=2), fedbcd(3), **ADAM),
    "pasta(b_max=1, s_max=4) = fedbcd(5)": Pair(pasta(b_max=1, s_max=4), fedbcd(5), **ADAM),
    "celu(w=1, held, r=3) = fedbcd(3)": Pair(
        celu(w=1, r=3, weigh=False, overlap=False), fedbcd(3), **ADAM
    ),
    "celu(w=1, held, r=5) = fedbcd(5)": Pair(
        celu(w=1, r=5, weigh=False, overlap=False), fedbcd(5), **ADAM
    ),
    "celu(r=1) = fedsgd": Pair(celu(r=1), FEDSGD, **ADAM),
    "celu(w=9, r=1, threshold=0.9) = fedsgd": Pair(celu(w=9, r=1, threshold=0.9), FEDSGD, **ADAM),
    "fedbcd(1) = fedsgd": Pair(fedbcd(1), FEDSGD, **ADAM),
    "cvfl(q=1, gradients, plain) = fedsgd": Pair(cvfl(1, exchange="gradients"), FEDSGD, **ADAM),
    "cvfl(q=4, gradients, plain) = fedbcd(4)": Pair(
        cvfl(4, exchange="gradients"), fedbcd(4), **ADAM
    ),
    "cvfl(q=1, snapshot, plain) = fedsgd": Pair(cvfl(1), FEDSGD, tolerance=1e-12),
    "flexvfl(3 updates' time) = cvfl(3)": Pair(flexvfl("9ms"), cvfl(3), alike=True),
    "sync_min(3 updates' time) = cvfl(3)": Pair(
        {"name": "sync_min", "timeout": "9ms"}, cvfl(3), **REHEARSED
    ),
    "sync_max(3 updates' time) = cvfl(3)": Pair(
        {"name": "sync_max", "timeout": "9ms"}, cvfl(3), **REHEARSED
    ),
    "flexvfl(0s) = pbcd": Pair(flexvfl("0s"), {"name": "pbcd"}),
    "pbcd = fedsgd": Pair({"name": "pbcd"}, FEDSGD, tolerance=1e-12),
    "adaptive, τ⁰ known = a fixed rate": Pair(
        flexvfl("9ms", adaptive=True, first=3.0),
        flexvfl("9ms"),
        lr=(0.3, 0.1),
        tolerance=1e-12,
        alike=True,
    ),
    "adaptive, τ⁰ rehearsed = a fixed rate": Pair(
        flexvfl("9ms", adaptive=True),
        flexvfl("9ms"),
        lr=(0.3, 0.1),
        tolerance=1e-12,
        **REHEARSED,
    ),
    "vafl with one passive = fedsgd": Pair({"name": "vafl"}, FEDSGD, parties=2, **ADAM),
    "flexvfl_s(0) = fedsgd": Pair({"name": "flexvfl_s", "most": 0}, FEDSGD),
    "topk(k=P) = plain": Pair(compressed(embedding="topk:4", gradient="topk:4"), FEDSGD),
    "a constant schedule = its codec": Pair(
        compressed(embedding="steps:0=scalar:4,9=scalar:4"), compressed(embedding="scalar:4")
    ),
}


# Without latency nobody waits, and less of a method is called for.
@pytest.mark.parametrize("latency", [pytest.param("0ms", marks=pytest.mark.slow), "300ms"])
@pytest.mark.parametrize("name", EQUAL)
def test_weights_and_clock_are_equal(name, latency):
    pair, runs = EQUAL[name], []
    for table, lr in zip((pair.left, pair.right), pair.lr, strict=True):
        optimizer = {"name": pair.optimizer, "lr": lr}
        case = small(pair.parties, method=table, rounds=20, optimizer=optimizer, labels="shared")
        job = with_network(case.job, latency=latency)
        compute = Compute(**(ALIKE if pair.alike else LEADING))
        job = msgspec.structs.replace(job, compute=compute)
        runs.append(simulate(job, case.data, case.modules))
    first, second = runs
    for party in first.weights:
        for key, tensor in first.weights[party].items():
            apart = (tensor - second.weights[party][key]).abs().max().item()
            assert apart <= pair.tolerance, (party, key)
    assert not pair.clock or first.time_s == second.time_s
    assert first.summary()["updates"] == second.summary()["updates"]


def test_cvfls_two_algorithms_differ_with_a_lossy_codec():
    """In Algorithm 1 a party uses its own embedding as it is, in Algorithm 2 the active party uses
    it as it was sent."""
    weights = []
    for exchange in ("snapshot", "gradients"):
        table = cvfl(1, exchange=exchange) | {"compressor": "scalar:3"}
        case = small(3, method=table, rounds=20, labels="shared")
        run = simulate(case.job, case.data, case.modules)
        weights.append(run.weights["p0"]["bottom.0.weight"])
    assert not torch.allclose(*weights, atol=1e-6)


def test_equal_things_are_equal_values():
    for left, right in (
        (celu(r=1), FEDSGD),
        (celu(w=1, r=3, weigh=False, overlap=False), fedbcd(3)),
        (fedbcd(1), FEDSGD),
        (pasta(b_max=1, s_max=0), FEDSGD),
        (fedbcd(3) | {"window": "pipelined:1"}, fedbcd(3)),
        (FEDSGD | {"local": "while_waiting:0"}, FEDSGD),
    ):
        assert methods.build(left) == methods.build(right)


@pytest.mark.slow  # The reproduction's own test has all of them, in one.
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name())
def test_pastas_clock_is_the_papers_to_the_unit(setting):
    assert epoch_ends(setting) == {**setting.ends, **setting.derived}


def clock(method, latency, costs=None, rounds=60):
    case = small(2, method=method, rounds=rounds)
    job = with_network(case.job, costs, latency=f"{latency}ms")
    return simulate_clock(job, 48, WIDTHS)


@pytest.mark.parametrize("latency", [5, 50, 100, 1000])
@pytest.mark.parametrize("updates", [1, 3, 5])
def test_theorem_1_of_pasta(latency, updates):
    """A passive party's idle time in a round of FedBCD is what the exchange takes less what the
    party does meanwhile: up, aggregate, down. Under PASTA it is never larger."""
    idle = clock(fedbcd(updates), latency).parties["p0"].idle_s
    assert idle * 1000 == pytest.approx(60 * (2 * latency + 10))
    b_max = 3 if updates > 1 else 1
    piped = clock({"name": "pasta", "b_max": b_max, "s_max": updates - 1}, latency)
    assert piped.parties["p0"].idle_s <= idle


STEPS = [("0s", "50ms"), ("60s", "1s"), ("120s", "50ms")]
THIRD, SETTLE = 60_000, 15_000
"""Of a run at those latencies, in milliseconds; the window needs a while to follow a change."""


def changing_latency(s_max, active):
    """A run whose latency is 50 → 1000 → 50 units, and runs that always have either."""
    method = {"name": "pasta", "b_max": 3, "s_max": s_max, "decay": False}

    def run(latency, rounds):
        case = small(2, method=method, rounds=rounds)
        job = with_network(case.job, latency=latency)
        compute = msgspec.structs.replace(job.compute, overrides={"p1": active})
        return simulate_clock(msgspec.structs.replace(job, compute=compute), 48, WIDTHS)

    steady = {50: run("50ms", 900), 1000: run("1s", 150)}
    return run(STEPS, 2500), steady


def pace(run, start, end):
    """Fresh updates of the passive party in a millisecond."""
    times = [t / 1e6 for t, action, _ in run.parties["p0"].actions if action == "fresh"]
    return sum(start <= t < end for t in times) / (end - start)


def window(run, start, end):
    """The most exchanges that the passive party had in flight between two instants."""
    flying, most = 0, 0
    for t, action, _ in run.parties["p0"].actions:
        flying += {"send": 1, "fresh": -1}.get(action, 0)
        if start <= t / 1e6 < end:
            most = max(most, flying)
    return most


@pytest.mark.parametrize(
    ("s_max", "active"),
    [
        (4, Costs(forward="10ms", backward="20ms", aggregate="30ms")),
        (4, Costs(forward="10ms", backward="20ms", aggregate="50ms")),
        (2, Costs(forward="20ms", backward="40ms", aggregate="20ms")),
    ],
    ids=["aggregate 30", "aggregate 50", "active party half as fast"],
)
def test_pastas_window_follows_the_latency(s_max, active):
    """It grows to B_max and shrinks again, and every third has the pace of a run that always had
    its latency."""
    run, steady = changing_latency(s_max, active)
    for number, (latency, size) in enumerate(((50, 2), (1000, 3), (50, 2))):
        start, end = number * THIRD + SETTLE, (number + 1) * THIRD
        usual = pace(steady[latency], SETTLE, THIRD)
        assert pace(run, start, end) == pytest.approx(usual, rel=0.10), (number, latency)
        assert window(run, start, end) == window(steady[latency], SETTLE, THIRD) == size


def test_pastas_window_may_stay_when_the_latency_falls():
    """With the paper's costs the signals have two fixed points at a latency of 50: a window that
    has always been at 2 stays there, one that has grown to 3 stays too, and is faster."""
    run, steady = changing_latency(4, Costs(forward="10ms", backward="20ms", aggregate="10ms"))
    for number, latency in enumerate((50, 1000)):
        usual = pace(steady[latency], SETTLE, THIRD)
        found = pace(run, number * THIRD + SETTLE, (number + 1) * THIRD)
        assert found == pytest.approx(usual, rel=0.10)
    last = (2 * THIRD + SETTLE, 3 * THIRD)
    assert window(steady[50], SETTLE, THIRD) == 2 and window(run, *last) == 3
    assert pace(run, *last) > 1.4 * pace(steady[50], SETTLE, THIRD)
