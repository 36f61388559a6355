"""Flex-VFL: how many updates fit, and what it equals in its degenerate cases."""

from __future__ import annotations

import msgspec
import pytest
import torch

from colonnade import Compute, Costs, JobError, Link, Network, WireError, simulate
from colonnade.policies.local import agreed
from colonnade.policies.step import local_momentum, proximal
from colonnade.policies.view import Role, View
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Status
from tests.sim.test_cvfl import Algorithm1
from tests.small import Small, apart, small, with_network

ROUNDS = 10
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


class Algorithm2(Algorithm1):
    """Flex-VFL in one process: local momentum begun anew every round, η = A/(τ·w̄) of the round
    before. How many updates a party did in a round is read from the run's own log."""

    def __init__(self, case, run, rate, momentum, adaptive):
        super().__init__(case, 0, "plain")
        self.rate, self.momentum, self.adaptive = rate, momentum, adaptive
        self.counts = {name: counts(party.actions) for name, party in run.parties.items()}

    def updates(self, party, round):
        return self.counts[party][round]

    def round(self, round, rows):
        for name, module in self.modules.items():
            party = self.case.job.active if name == "top" else name
            rate = self.rate
            if self.adaptive:
                before = self.updates(party, max(round - 1, 0))
                rate /= before * sum(self.momentum**power for power in range(before))
            self.optimizers[name] = torch.optim.SGD(
                module.parameters(), lr=rate, momentum=self.momentum
            )
        super().round(round, rows)


def counts(actions):
    """Updates in each round, from an action log."""
    made = []
    for _, action, _ in actions:
        if action == "fresh":
            made.append(1)
        elif action == "local":
            made[-1] += 1
    return made


def same(first, second, tolerance=0.0) -> bool:
    return all(
        (tensor - second.weights[party][name]).abs().max() <= tolerance
        for party in first.weights
        for name, tensor in first.weights[party].items()
    )


def case(**options) -> Small:
    return at_speeds(small(3, rounds=ROUNDS, labels="shared", **options))


@pytest.mark.parametrize("exchange", ["snapshot", "gradients"])
@pytest.mark.parametrize("timeout", [10, 55, 100, 400])
def test_each_party_does_what_its_speed_allows(timeout, exchange):
    run = train(case(), name="flexvfl", timeout=f"{timeout}ms", exchange=exchange)
    for name, ms in UPDATE_MS.items():
        assert run.parties[name].fresh == ROUNDS
        assert run.parties[name].local == ROUNDS * (max(1, timeout // ms) - 1), name


def test_a_round_is_the_round_trip_and_the_timeout():
    run = train(case(), name="flexvfl", timeout="100ms")
    assert run.time_s == pytest.approx(ROUNDS * (0.050 + 0.100))


def test_a_label_only_server_trains_its_top_model():
    server = small(3, "split", True, rounds=10, labels="shared")
    made = at_speeds(server)
    costs = made.job.compute.overrides | {"p1": Costs(top="10ms", aggregate="0ms")}
    job = msgspec.structs.replace(made.job, compute=Compute(overrides=costs))
    run = train(Small(job, made.data, made.modules), name="flexvfl", timeout="100ms")
    assert [updates for updates, _ in run.parties["p1"].efforts] == [11] * 10


def with_top(made: Small, top_ms: int) -> Small:
    """The active party's pass through the top model takes its time in local updates."""
    costs = made.job.compute.overrides
    active = msgspec.structs.replace(costs[made.job.active], top=f"{top_ms}ms")
    compute = Compute(overrides=costs | {made.job.active: active})
    job = msgspec.structs.replace(made.job, compute=compute)
    return Small(job, made.data, made.modules)


@pytest.mark.parametrize(("name", "updates"), [("sync_min", 1), ("sync_max", 2)])
def test_the_top_models_time_counts_in_what_the_active_party_reports(name, updates):
    """Its update takes 10 + 15 ms and that of the others 15 ms: ⌊40/25⌋ and ⌊40/15⌋ fit."""
    made = with_top(
        at_speeds(small(3, rounds=ROUNDS, labels="shared"), {"p0": 15, "p1": 10, "p2": 15}), 15
    )
    run = train(made, name=name, timeout="40ms")
    for party in run.parties.values():
        assert [count for count, _ in party.efforts] == [updates] * ROUNDS


def test_the_top_models_time_counts_before_the_timeout():
    """At the active party the fresh update takes 10 ms and a local one 10 + 15, so none ends within
    34 ms. In the first round nothing is known of the 15 ms yet, and one is begun."""
    speeds = {"p0": 10, "p1": 10, "p2": 10}
    made = with_top(at_speeds(small(3, rounds=ROUNDS, labels="shared"), speeds), 15)
    made.job = msgspec.structs.replace(made.job, network=Network())
    run = train(made, name="flexvfl", timeout="34ms")
    assert [count for count, _ in run.parties["p1"].efforts] == [2] + [1] * (ROUNDS - 1)
    # The three updates of a passive party last 30 ms, and nobody waits for the server.
    assert run.time_s == pytest.approx(ROUNDS * 0.030 + 0.005)


def test_the_top_models_time_counts_towards_the_deadline():
    """u is 10 + 20 + 30 at the active party, 10 + 20 at the other: the deadline is
    max(max(60, 30 + 10), min(5·60, 5·30 + 10)) = 160, so 2 and 5 updates end in time."""
    case = small(2, method={"name": "flexvfl_s"}, rounds=10)
    costs = {"forward": "10ms", "backward": "20ms", "aggregate": "10ms", "top": "30ms"}
    run = simulate(with_network(case.job, costs, latency="5ms"), case.data, case.modules)
    assert (run.parties["p1"].local, run.parties["p0"].local) == (10 * 1, 10 * 4)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_adaptive_with_constant_speeds_is_a_fixed_rate(momentum):
    """A/(τ·w̄) with the true τ⁰·w̄⁰ is the same rate in every round."""
    even = at_speeds(small(3, rounds=ROUNDS, labels="shared"), dict.fromkeys(UPDATE_MS, 10))
    effort = 4 * local_momentum(momentum).largest_weight(4)
    table = {"name": "flexvfl", "timeout": "40ms", "momentum": momentum}
    adaptive = train(even, lr=0.2, adaptive=True, first=effort, **table)
    fixed = train(even, lr=0.2 / effort, **table)
    assert same(adaptive, fixed, 1e-12)


def test_adaptive_gives_each_party_its_own_rate():
    """With unequal speeds the fast parties' rates are divided by more."""
    uneven = train(case(), lr=0.2, name="flexvfl", timeout="100ms", adaptive=True, first=1.0)
    assert not same(uneven, train(case(), lr=0.2, name="flexvfl", timeout="100ms"))


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


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_it_is_its_algorithm(momentum, adaptive):
    """Speeds that change at a third and two thirds of the run, so that no round is like all."""
    uneven = at_speeds(small(3, rounds=20, labels="shared"))
    steps = [("0s", "20ms"), ("1s", "50ms"), ("2s", "10ms")]
    costs = uneven.job.compute.overrides | {"p2": Costs(forward="0ms", backward=steps)}
    job = msgspec.structs.replace(uneven.job, compute=Compute(overrides=costs))
    uneven = Small(job, uneven.data, uneven.modules)
    table = {"name": "flexvfl", "timeout": "100ms", "momentum": momentum, "adaptive": adaptive}
    run = train(uneven, lr=0.1, **table)
    local = {name: party.local for name, party in run.parties.items()}
    assert local["p0"] == 20 and local["p1"] == 180 and 20 < local["p2"] < 180
    script = Algorithm2(uneven, run, 0.1, momentum, adaptive)
    assert apart(run.weights, script.train(), "p1") <= 1e-12


def test_updates_and_rates_of_every_round_are_recorded():
    table = {"name": "flexvfl", "timeout": "100ms", "adaptive": True}
    run = train(case(), lr=0.6, **table)
    assert run.parties["p0"].efforts == [(2, 0.3)] * ROUNDS
    assert run.parties["p1"].efforts == [(10, pytest.approx(0.06))] * ROUNDS
    assert run.losses[7]["updates_p2"] == 5
    assert run.losses[7]["rate_p2"] == pytest.approx(0.12)


@pytest.mark.parametrize("first", [0.0, 5.0])
def test_the_first_rate_comes_from_a_rehearsal_or_from_prior_knowledge(first):
    table = {"name": "flexvfl", "timeout": "100ms", "adaptive": True}
    run = train(case(), lr=0.6, first=first, **table)
    rates = [rate for _, rate in run.parties["p1"].efforts]
    assert rates[0] == pytest.approx(0.06 if first == 0 else 0.12)
    assert rates[1:] == [pytest.approx(0.06)] * (ROUNDS - 1)
    # The rehearsal takes the time of one update and changes nothing else.
    assert run.time_s == pytest.approx(ROUNDS * 0.150 + (0.050 if first == 0 else 0))


@pytest.mark.parametrize(("name", "updates"), [("sync_min", 2), ("sync_max", 10)])
def test_the_parties_agree_on_a_number(name, updates):
    run = train(case(), name=name, timeout="100ms")
    for party in run.parties.values():
        assert [count for count, _ in party.efforts] == [updates] * ROUNDS
    # The slowest party decides how long a round takes; a rehearsal comes first.
    assert run.time_s == pytest.approx(0.050 + ROUNDS * (0.050 + updates * 0.050))
    kinds = {(e["peer"], e["direction"], e["kind"]): e for e in run.parties["p1"].ledger}
    assert kinds["p0", "received", "Status"]["messages"] == ROUNDS
    assert kinds["p0", "sent", "Status"]["messages"] == ROUNDS


@pytest.mark.parametrize("name", ["sync_min", "sync_max"])
def test_the_number_follows_the_speeds(name):
    uneven = at_speeds(small(3, rounds=20, labels="shared"))
    steps = [("0s", "50ms"), ("1s", "20ms")]
    costs = uneven.job.compute.overrides | {
        party: Costs(forward="0ms", backward=steps) for party in ("p0", "p2")
    }
    job = msgspec.structs.replace(uneven.job, compute=Compute(overrides=costs))
    run = train(Small(job, uneven.data, uneven.modules), name=name, timeout="100ms")
    found = [count for count, _ in run.parties["p0"].efforts]
    assert (found[0], found[-1]) == ((2, 5) if name == "sync_min" else (10, 10))


@pytest.mark.parametrize(("latency", "local"), [(5, {"p0": 3, "p1": 4}), (50, {"p0": 0, "p1": 4})])
def test_flexvfl_s_has_the_numbers_of_pastas_authors(latency, local):
    case = small(2, method={"name": "flexvfl_s"}, rounds=10)
    run = simulate(with_network(case.job, latency=f"{latency}ms"), case.data, case.modules)
    for name, count in local.items():
        assert run.parties[name].local == 10 * count


def test_flexvfl_s_needs_costs_that_are_known():
    case = small(2, method={"name": "flexvfl_s"})
    measured = {"forward": "measured", "backward": "20ms"}
    with pytest.raises(JobError, match="choose local=until"):
        simulate(with_network(case.job, measured, latency="5ms"), case.data, case.modules)


@pytest.mark.parametrize("updates", [0, -3, 10**9])
def test_a_number_that_cannot_be_meant_is_refused_at_the_wire(updates):
    codec = Codec()
    with pytest.raises(WireError, match="Status"):
        codec.decode(codec.encode(Status(0, updates)))


def test_what_a_party_offers_can_cross_the_wire():
    view = View(Role.PASSIVE, 1, 1, 2, update_ns=1)
    offered = agreed("1h", "max").expected(view)
    codec = Codec()
    assert codec.decode(codec.encode(Status(0, offered))) == Status(0, offered)
