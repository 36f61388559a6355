"""Lines and speeds are measured while a job runs, and what the method leaves open is chosen."""

from __future__ import annotations

import random

import msgspec
import pytest
import torch

from colonnade import Costs, JobError, Link, simulate
from colonnade.compress import chooses
from colonnade.job.files import load
from colonnade.job.records import Compute
from colonnade.methods import build
from colonnade.party import calibration
from colonnade.party.probes import is_zeros, zeros
from colonnade.planning.choice import choose
from colonnade.planning.workload import Workload
from colonnade.run.clock import simulate_clock
from tests.small import small, with_network

WIDTHS = {"clinic": 16, "lab": 16, "insurer": 16}
ROWS = 6400
"""A hundred rounds an epoch."""


def clocked(method, links, rounds=150, costs=None, **train):
    job = load("digits", method=method)
    costs = costs or Costs(forward="2ms", backward="4ms", aggregate="3ms")
    job = msgspec.structs.replace(
        job,
        train=msgspec.structs.replace(job.train, rounds=rounds, epochs=None, **train),
        network=msgspec.structs.replace(job.network, overrides=links),
        compute=msgspec.structs.replace(job.compute, overrides=dict.fromkeys(WIDTHS, costs)),
    )
    return simulate_clock(job, rows=ROWS, widths=WIDTHS)


def some_links(seed):
    draw = random.Random(seed)
    return {
        name: Link(
            latency=f"{draw.randint(1, 400)}ms", bandwidth=f"{int(10 ** draw.uniform(4.5, 8))}bit"
        )
        for name in ("lab", "insurer")
    }


@pytest.mark.parametrize("seed", range(4))
def test_what_is_measured_is_what_the_job_says(seed):
    links = some_links(seed)
    (found,) = clocked("auto", links, rounds=30).calibrations
    measured = {each["party"]: each for each in found["parties"]}
    for name, link in links.items():
        each = measured[name]
        assert each["forward_ns"] == 2_000_000
        assert each["backward_ns"] == 4_000_000
        bits = int(link.bandwidth.removesuffix("bit"))
        assert each["up_bits"] == pytest.approx(bits, rel=0.02)
        assert each["down_bits"] == pytest.approx(bits, rel=0.02)
        # A short message takes its own time on the line too.
        latency_ns = int(link.latency.removesuffix("ms")) * 10**6
        assert 0 <= each["latency_ns"] - latency_ns <= 80 * 8 * 10**9 / bits
    assert measured["clinic"]["aggregate_ns"] == 3_000_000


@pytest.mark.parametrize("seed", range(4))
def test_what_is_chosen_is_what_the_plan_says(seed):
    run = clocked("auto", some_links(seed), rounds=30)
    (found,) = run.calibrations
    planned = choose(build(run.job.method), Workload.of(run.job, ROWS, WIDTHS))
    for each in found["parties"][:-1]:
        name = each["party"]
        assert abs(each["window"] - planned.windows[name]) <= 1
        # What was measured differs by a percent, so that a rung may.
        rungs = chooses(build(run.job.method).compress.embedding).choices
        for bits, wanted in (("embedding", planned.up), ("gradient", planned.down)):
            apart = rungs.index(each[f"{bits}_bits"]) - rungs.index(wanted[name])
            assert abs(apart) <= 1


def test_an_update_that_is_measured_as_one_is_a_third_forward():
    case = small(3, method={"name": "auto", "share": 1.0}, rounds=4)
    costs = Costs(forward="measured", backward="measured", aggregate="measured")
    job = msgspec.structs.replace(case.job, compute=Compute(costs=costs))
    run = simulate(with_network(job, latency="5ms"), case.data, case.modules)
    for each in run.calibrations[0]["parties"]:
        assert each["forward_ns"] > 0
        assert each["backward_ns"] == pytest.approx(2 * each["forward_ns"], abs=2)


def test_a_slow_line_gets_fewer_bits_and_a_quick_one_all():
    links = {"lab": Link(bandwidth="100kbit"), "insurer": Link(bandwidth="100mbit")}
    run = clocked("auto", links, rounds=60)
    bits = {each["party"]: each["embedding_bits"] for each in run.calibrations[0]["parties"]}
    assert bits["lab"] == 4
    assert bits["insurer"] == 32
    sent = {
        name: next(
            e["bytes"] / e["messages"]
            for e in run.parties[name].ledger
            if (e["direction"], e["kind"]) == ("sent", "Embedding")
        )
        for name in ("lab", "insurer")
    }
    assert sent["lab"] < sent["insurer"] / 6


@pytest.mark.parametrize("seed", range(6))
def test_it_measures_once_where_nothing_changes(seed):
    assert len(clocked("auto", some_links(seed), rounds=300).calibrations) == 1


@pytest.mark.parametrize("at", ["1s", "1.03s", "1.07s"])
def test_a_line_that_loses_half_of_its_bandwidth_is_followed_within_20_rounds(at):
    before, after = "600kbit", "300kbit"
    trace = [("0s", before), (at, after)]
    links = {"lab": Link(latency="20ms", bandwidth=trace), "insurer": Link(latency="20ms")}
    run = clocked("auto:bits=2", links, rounds=300)
    first, second, *more = run.calibrations
    assert not more
    changed = next(row["round"] for row in run.losses if row["time_s"] >= float(at[:-1]))
    assert 0 < second["round"] - changed <= 20
    lab = [
        next(each for each in found["parties"] if each["party"] == "lab")
        for found in (first, second)
    ]
    assert lab[1]["up_bits"] == pytest.approx(lab[0]["up_bits"] / 2, rel=0.05)
    assert lab[1]["embedding_bits"] < lab[0]["embedding_bits"]


def test_a_party_that_becomes_slower_is_followed_too():
    slow = Costs(forward=[("0s", "2ms"), ("3s", "30ms")], backward="4ms", aggregate="3ms")
    links = {name: Link(latency="50ms", bandwidth="1mbit") for name in ("lab", "insurer")}
    run = clocked("auto", links, rounds=500, costs=slow)
    first, second, *_ = run.calibrations
    assert second["parties"][0]["forward_ns"] == 30_000_000
    assert second["parties"][0]["window"] < first["parties"][0]["window"]
    assert second["parties"][0]["embedding_bits"] > first["parties"][0]["embedding_bits"]


def test_bits_that_leave_nothing_to_choose_are_a_plain_quantiser_bit_for_bit():
    runs = []
    for encoding in ("by_link:4:4", "scalar:4"):
        table = {"name": "fedsgd", "compress": {"embedding": encoding, "gradient": encoding}}
        case = small(3, method=table, rounds=12)
        runs.append(simulate(case.job, case.data, case.modules))
    assert runs[0].job.method != runs[1].job.method
    assert runs[0].composition == runs[1].composition
    for party, tensors in runs[0].weights.items():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, runs[1].weights[party][name]), (party, name)
    assert runs[0].calibrations == []


@pytest.mark.parametrize(
    "table",
    [
        {"name": "fedbcd", "updates": 3},
        {"name": "pasta"},
        {"name": "celu"},
        {"name": "cvfl", "exchange": "gradients"},
        {"name": "vafl"},
        {"name": "fullpipe", "share": 1.0},
    ],
    ids=lambda table: table["name"],
)
def test_every_method_can_have_bits_by_link(table):
    compress = {"embedding": "ef+by_link:3:16", "gradient": "ef21+by_link:3:16"}
    case = small(3, method={**table, "compress": compress}, rounds=12)
    slow = with_network(case.job, latency="5ms", bandwidth="20kbit")
    run = simulate(slow, case.data, case.modules)
    assert run.status == "end"
    chosen = run.calibrations[0]["parties"][0]
    assert chosen["embedding_bits"] < 16
    assert chosen["gradient_bits"] < 16


def test_snapshots_can_have_bits_by_link_for_embeddings():
    table = {"name": "cvfl", "compressor": "by_link:3:16", "compress": {"top": "plain"}}
    case = small(3, method=table, rounds=12, labels="shared")
    run = simulate(with_network(case.job, bandwidth="20kbit"), case.data, case.modules)
    assert run.calibrations[0]["parties"][0]["embedding_bits"] < 16


def test_what_cannot_follow_a_line_is_refused():
    with pytest.raises(JobError, match="the top model goes to everybody"):
        build({"name": "cvfl", "compress": {"top": "by_link:3:16"}})
    job = load("digits", ["parties.lab.compress.embedding=by_link:3:8"])
    with pytest.raises(JobError, match=r"parties\.lab\.compress has bits to choose"):
        simulate(job)


def test_a_job_measures_a_bounded_number_of_times(monkeypatch):
    monkeypatch.setattr(calibration, "CALIBRATIONS_MAX", 2)
    steps = [(f"{2 * i}s", "500kbit" if i % 2 else "50kbit") for i in range(10)]
    links = {name: Link(latency="10ms", bandwidth=steps) for name in ("lab", "insurer")}
    run = clocked("auto:bits=2", links, rounds=400)
    assert len(run.calibrations) == 2
    assert run.status == "end"


def test_a_calibration_at_a_checkpoint_s_round_comes_after_it():
    trace = [("0s", "120kbit"), ("2s", "30kbit")]
    links = {name: Link(latency="20ms", bandwidth=trace) for name in ("lab", "insurer")}
    run = clocked("auto:bits=2", links, rounds=200, checkpoint_every=1)
    assert run.status == "end"
    assert run.rounds == 200


def test_a_probe_that_hides_more_bytes_than_its_shape_says_is_none():
    hidden = msgspec.structs.replace(zeros(4), data=zeros(10**8).data)
    assert is_zeros(zeros(4), 4)
    assert not is_zeros(zeros(4), 5)
    assert not is_zeros(hidden, 4)
