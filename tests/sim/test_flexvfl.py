"""Flex-VFL: how many updates fit, and what it equals in its degenerate cases."""

from __future__ import annotations

import msgspec
import pytest
import torch

from colonnade import Compute, Costs, Link, Network, simulate
from colonnade.policies.step import local_momentum, proximal
from tests.small import Small, small

UPDATE_MS = {"p0": 50, "p1": 10, "p2": 20}


def at_speeds(case: Small, update_ms: dict[str, int] | None = None) -> Small:
    """As in the paper: an update takes a party's own time, a forward pass none."""
    costs = {
        name: Costs(forward="0ms", backward=f"{ms}ms", aggregate="0ms")
        for name, ms in (update_ms or UPDATE_MS).items()
    }
    network = Network(link=Link(latency="25ms"))
    job = msgspec.structs.replace(case.job, compute=Compute(overrides=costs), network=network)
    return Small(job, case.data, case.modules)


def train(case: Small, lr: float | None = None, **method):
    job = msgspec.structs.replace(case.job, method=method)
    if lr is not None:
        parties = {
            name: msgspec.structs.replace(party, optimizer={"name": "sgd", "lr": lr})
            for name, party in job.parties.items()
        }
        job = msgspec.structs.replace(job, parties=parties)
    return simulate(job, case.data, case.modules)


def same(first, second, tolerance=0.0) -> bool:
    return all(
        (tensor - second.weights[party][name]).abs().max() <= tolerance
        for party in first.weights
        for name, tensor in first.weights[party].items()
    )


def case(**options) -> Small:
    return at_speeds(small(3, rounds=30, labels="shared", **options))


@pytest.mark.parametrize("exchange", ["snapshot", "gradients"])
@pytest.mark.parametrize("timeout", [10, 55, 100, 400])
def test_each_party_does_what_its_speed_allows(timeout, exchange):
    run = train(case(), name="flexvfl", timeout=f"{timeout}ms", exchange=exchange)
    for name, ms in UPDATE_MS.items():
        assert run.parties[name].fresh == 30
        assert run.parties[name].local == 30 * (max(1, timeout // ms) - 1), name


def test_a_round_is_the_round_trip_and_the_timeout():
    run = train(case(), name="flexvfl", timeout="100ms")
    assert run.time_s == pytest.approx(30 * (0.050 + 0.100))


def test_a_label_only_server_trains_its_top_model():
    server = small(3, "split", True, rounds=10, labels="shared")
    made = at_speeds(server)
    costs = made.job.compute.overrides | {"p1": Costs(top="10ms", aggregate="0ms")}
    job = msgspec.structs.replace(made.job, compute=Compute(overrides=costs))
    run = train(Small(job, made.data, made.modules), name="flexvfl", timeout="100ms")
    assert run.parties["p1"].fresh == 10
    assert run.status == "end"


def test_no_time_is_one_update():
    runs = [
        train(case(), name="flexvfl", timeout="0s"),
        train(case(), name="pbcd"),
        train(case(), name="fedsgd"),
    ]
    assert same(runs[0], runs[1])
    assert same(runs[1], runs[2], 1e-12)


@pytest.mark.parametrize("q", [1, 2, 4])
def test_equal_speeds_are_cvfl_without_compression(q):
    even = at_speeds(small(3, rounds=30, labels="shared"), dict.fromkeys(UPDATE_MS, 10))
    flexible = train(even, name="flexvfl", timeout=f"{10 * q}ms")
    compressed = train(even, name="cvfl", q=q, compressor="plain")
    assert same(flexible, compressed)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_adaptive_with_constant_speeds_is_a_fixed_rate(momentum):
    """A/(τ·w̄) with the true τ⁰·w̄⁰ is the same rate in every round."""
    even = at_speeds(small(3, rounds=30, labels="shared"), dict.fromkeys(UPDATE_MS, 10))
    effort = 4 * local_momentum(momentum).largest_weight(4)
    table = {"name": "flexvfl", "timeout": "40ms", "momentum": momentum}
    adaptive = train(even, lr=0.2, adaptive=True, first=effort, **table)
    fixed = train(even, lr=0.2 / effort, **table)
    assert same(adaptive, fixed, 1e-12)


def test_adaptive_gives_each_party_its_own_rate():
    """With unequal speeds the fast parties' rates are divided by more."""
    uneven = train(case(), lr=0.2, name="flexvfl", timeout="100ms", adaptive=True, first=1.0)
    assert not same(uneven, train(case(), lr=0.2, name="flexvfl", timeout="100ms"))


def test_local_momentum_and_proximal_with_one_update_are_plain():
    plain = train(case(), name="pbcd")
    for step in ("local_momentum:0.9", "proximal:0.3"):
        assert same(plain, train(case(), name="pbcd", step=step)), step


def test_local_momentum_is_torchs_begun_anew_every_round():
    parameter = torch.nn.Parameter(torch.ones(3))
    policy, other = local_momentum(0.9), torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([other], lr=0.1, momentum=0.9)
    memory = policy.begin([parameter])
    for step in range(5):
        gradient = torch.full((3,), float(step + 1))
        parameter.grad, other.grad = gradient.clone(), gradient.clone()
        policy.adjust([parameter], memory)
        parameter.data.add_(parameter.grad, alpha=-0.1)
        optimizer.step()
    torch.testing.assert_close(parameter.data, other.data)


def test_weights_of_steps():
    assert local_momentum(0.5).largest_weight(3) == pytest.approx(1.75)
    assert proximal(0.3).largest_weight(9) == 1.0
