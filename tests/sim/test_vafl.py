"""VAFL: every passive party by itself, against a table of what the others last sent."""

from __future__ import annotations

import copy

import msgspec
import pytest
import torch
from torch.nn import functional as F

from colonnade import Link, Network, simulate
from colonnade.data.batches import BatchPlan
from tests.small import Small, apart, small, with_network

LATENCY_US = {"p0": 7_013, "p2": 31_127, "p3": 97_401}
RATE = 0.1


def case(parties=4, start="zeros", **options) -> Small:
    made = small(parties, method={"name": "vafl", "start": start},
                 optimizer={"name": "sgd", "lr": RATE}, **options)  # fmt: skip
    links = {name: Link(latency=f"{LATENCY_US[name]}us") for name in made.job.passives}
    job = with_network(made.job, latency="0ms")
    job = msgspec.structs.replace(job, network=Network(overrides=links))
    return Small(job, made.data, made.modules)


def turns(run):
    """Whose embedding of which round the active party took, in order: as they arrived."""
    arrivals = [
        (sent_ns + LATENCY_US[name] * 1000, name, round)
        for name in run.job.passives
        for sent_ns, action, round in run.parties[name].actions
        if action == "send"
    ]
    taken = [round for _, action, round in run.parties["p1"].actions if action == "aggregate"]
    order = [(name, round) for _, name, round in sorted(arrivals)][: len(taken)]
    assert [round for _, round in order] == taken
    return order


def script(case: Small, order, start):
    """VAFL in one process."""
    modules = copy.deepcopy(case.modules)
    optimizers = {
        name: torch.optim.SGD(module.parameters(), lr=RATE) for name, module in modules.items()
    }
    x = {name: case.x(name) for name in case.parties if case.has_features(name)}
    with torch.no_grad():
        table = {name: modules[name](x[name]) for name in case.job.passives}
    if start == "zeros":
        table = {name: torch.zeros_like(rows) for name, rows in table.items()}
    plan = BatchPlan(case.data.train_count, case.job.train.batch_size, case.job.seed)
    for name, round in order:
        index = torch.from_numpy(plan.batch(round).copy())
        live = [party for party in (name, "p1") if party in x]
        fresh = {party: modules[party](x[party][index]) for party in live}
        table[name][index] = fresh[name].detach()
        embeddings = [
            fresh[party] if party in fresh else table[party][index]
            for party in case.parties
            if party in x
        ]
        loss = F.binary_cross_entropy_with_logits(modules["top"](embeddings), case.y()[index])
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        for part in (*live, "top"):
            optimizers[part].step()
    return modules


@pytest.mark.parametrize("start", ["zeros", "upload"])
@pytest.mark.parametrize("label_only", [False, True])
def test_it_is_its_algorithm(start, label_only):
    made = case(start=start, label_only=label_only, rounds=50)
    run = simulate(made.job, made.data, made.modules)
    order = turns(run)
    assert len(order) == 150
    assert apart(run.weights, script(made, order, start), "p1") <= 1e-12


def test_who_is_near_does_more_rounds_and_nobody_waits_for_the_far_one():
    made = case(rounds=60)
    run = simulate(made.job, made.data, made.modules)
    fresh = {name: run.parties[name].fresh for name in made.job.passives}
    assert fresh["p0"] > 1.5 * fresh["p3"] and sum(fresh.values()) == 180
    waiting = msgspec.structs.replace(made.job, method={"name": "fedsgd"})
    assert run.time_s < simulate(waiting, made.data, made.modules).time_s


@pytest.mark.parametrize("latency", ["0ms", "50ms"])
@pytest.mark.parametrize("label_only", [False, True])
def test_one_passive_party_is_fedsgd_in_weights_and_clock(latency, label_only):
    runs = []
    for name in ("vafl", "fedsgd"):
        made = small(2, "split", label_only, method={"name": name}, rounds=40,
                     evaluate_every="7 rounds")  # fmt: skip
        job = with_network(made.job, latency=latency, bandwidth="1mbit")
        runs.append(simulate(job, made.data, made.modules))
    asynchronous, plain = runs
    for party, weights in plain.weights.items():
        for key, tensor in weights.items():
            assert torch.equal(tensor, asynchronous.weights[party][key]), (party, key)
    assert asynchronous.time_s == plain.time_s
    assert asynchronous.history == plain.history
    assert asynchronous.losses == plain.losses


def test_an_upload_is_counted_and_paid_for():
    runs = {}
    for start in ("zeros", "upload"):
        made = case(start=start, rounds=5)
        runs[start] = simulate(made.job, made.data, made.modules)
    kinds = {(e["peer"], e["kind"]): e for e in runs["upload"].parties["p1"].ledger}
    # 48 training rows in batches of 8, four numbers of eight bytes each.
    assert kinds["p0", "Upload"]["messages"] == 6
    assert kinds["p0", "Upload"]["bytes"] > 48 * 4 * 8
    assert kinds["p0", "Upload"]["purpose"] == "training"
    assert runs["upload"].time_s > runs["zeros"].time_s
    assert not any(e["kind"] == "Upload" for e in runs["zeros"].parties["p1"].ledger)


def test_the_weights_that_are_judged_are_those_of_one_moment():
    """A party is asked after the last round that it has a reply of; the best weights are kept by
    all."""
    made = case(rounds=30, evaluate_every="5 rounds", full_loss=True)
    run = simulate(made.job, made.data, made.modules)
    assert [row["round"] for row in run.history] == [5, 10, 15, 20, 25, 30]
    assert all(weights is not None for weights in run.best_weights.values())
    assert run.history[-1]["full_loss"] < run.history[0]["full_loss"]


def test_local_updates_and_compression_go_with_it():
    made = case(rounds=30, full_loss=True, evaluate_every="10 rounds")
    table = {"name": "vafl", "local": "repeat:3", "compress": {"embedding": "scalar:8"}}
    job = msgspec.structs.replace(made.job, method=table)
    run = simulate(job, made.data, made.modules)
    assert run.history[-1]["full_loss"] < run.history[0]["full_loss"]
    assert all(party.local >= 2 * (party.fresh - 1) for party in run.parties.values())
