"""Every degenerate case of a method equals the simpler method, bit for bit."""

from __future__ import annotations

import msgspec
import pytest
import torch

from colonnade import Costs, methods, simulate, simulate_clock
from colonnade.reproduce.pasta_timing import SETTINGS, epoch_ends
from tests.small import small, with_network

FEDSGD = {"name": "fedsgd"}


def pasta(**options):
    return {"name": "pasta", "decay": False, **options}


def celu(**options):
    return {"name": "celu", **options}


def cvfl(**options):
    return {"name": "cvfl", "compressor": "plain", **options}


def fedbcd(updates):
    return {"name": "fedbcd", "updates": updates}


EQUAL = {
    "pasta(b_max=1, s_max=0) = fedsgd": (pasta(b_max=1, s_max=0), FEDSGD),
    "pasta(b_max=1, s_max=2) = fedbcd(3)": (pasta(b_max=1, s_max=2), fedbcd(3)),
    "pasta(b_max=1, s_max=4) = fedbcd(5)": (pasta(b_max=1, s_max=4), fedbcd(5)),
    "celu(w=1, held, r=3) = fedbcd(3)": (celu(w=1, r=3, weigh=False, overlap=False), fedbcd(3)),
    "celu(w=1, held, r=5) = fedbcd(5)": (celu(w=1, r=5, weigh=False, overlap=False), fedbcd(5)),
    "celu(r=1) = fedsgd": (celu(r=1), FEDSGD),
    "celu(w=9, r=1, threshold=0.9) = fedsgd": (celu(w=9, r=1, threshold=0.9), FEDSGD),
    "fedbcd(1) = fedsgd": (fedbcd(1), FEDSGD),
    "cvfl(q=1, gradients, plain) = fedsgd": (cvfl(q=1, exchange="gradients"), FEDSGD),
    "cvfl(q=4, gradients, plain) = fedbcd(4)": (cvfl(q=4, exchange="gradients"), fedbcd(4)),
}


@pytest.mark.parametrize("latency", ["0ms", "300ms"])
@pytest.mark.parametrize("name", EQUAL)
def test_weights_and_clock_are_equal(name, latency):
    runs = []
    for table in EQUAL[name]:
        case = small(3, method=table, rounds=40, optimizer={"name": "adam", "lr": 0.01})
        job = with_network(case.job, latency=latency)
        # The active party is no slower than the others, so that nothing waits for its updates.
        fast = Costs(forward="1ms", backward="2ms", aggregate="10ms")
        compute = msgspec.structs.replace(job.compute, overrides={"p1": fast})
        job = msgspec.structs.replace(job, compute=compute)
        runs.append(simulate(job, case.data, case.modules))
    first, second = runs
    for party in first.weights:
        for key, tensor in first.weights[party].items():
            assert torch.equal(tensor, second.weights[party][key]), (party, key)
    assert first.time_s == second.time_s
    assert first.summary()["updates"] == second.summary()["updates"]


def test_equal_things_are_equal_values():
    for left, right in (
        (celu(r=1), FEDSGD),
        (celu(w=1, r=3, weigh=False, overlap=False), fedbcd(3)),
        (fedbcd(1), FEDSGD),
    ):
        assert methods.build(left) == methods.build(right)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name())
def test_pastas_clock_is_the_papers_to_the_unit(setting):
    assert epoch_ends(setting) == setting.ends


def clock(method, latency, costs=None, rounds=60):
    case = small(2, method=method, rounds=rounds)
    job = with_network(case.job, costs, latency=f"{latency}ms")
    return simulate_clock(job, 48, {"p0": 4, "p1": 4})


@pytest.mark.parametrize("latency", [5, 50, 100, 1000])
@pytest.mark.parametrize("updates", [1, 3, 5])
def test_theorem_1_of_pasta(latency, updates):
    """A passive party's idle time in a round of FedBCD is what the exchange takes less what the
    party does meanwhile: up, aggregate, down. Under PASTA it is never larger."""
    idle = clock(fedbcd(updates), latency).parties["p0"].idle_s
    assert idle * 1000 == pytest.approx(60 * (2 * latency + 10))
    piped = clock({"name": "pasta", "b_max": 3, "s_max": updates - 1}, latency)
    assert piped.parties["p0"].idle_s <= idle


def test_pasta_adapts_to_the_latency():
    """50 → 1000 → 50 units at the thirds of a run: the window follows, and no third is slower
    than a run that always had its latency. (It may be faster: with these costs the paper's signals
    let a window that has grown stay.)"""
    method = {"name": "pasta", "b_max": 3, "s_max": 4, "decay": False}

    def pace(run, start, end):
        times = [t / 1e6 for t, action, _ in run.parties["p0"].actions if action == "fresh"]
        return sum(start <= t < end for t in times) / (end - start)

    steady = {latency: clock(method, latency, rounds=600) for latency in (50, 1000)}
    steps = [("0s", "50ms"), ("60s", "1s"), ("120s", "50ms")]
    case = small(2, method=method, rounds=2500)
    changing = simulate_clock(with_network(case.job, latency=steps), 48, {"p0": 4, "p1": 4})
    third, settle = 60_000, 15_000
    for number, latency in enumerate((50, 1000, 50)):
        usual = pace(steady[latency], 10_000, 50_000)
        found = pace(changing, number * third + settle, (number + 1) * third)
        assert found >= 0.9 * usual, (number, latency)
        assert number == 2 or found == pytest.approx(usual, rel=0.10)
    assert steady[50].summary()["max_in_flight"]["p0"] == 2
    assert changing.summary()["max_in_flight"]["p0"] == 3
