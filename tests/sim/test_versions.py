"""With which weights replies go backward: those of then, the present ones, and the present ones
while a party has time for that."""

from __future__ import annotations

import msgspec
import pytest

from colonnade import Compute, Costs, methods, simulate
from colonnade.planning import laws
from colonnade.planning.prediction import time_of
from colonnade.planning.stages import stages_of
from colonnade.planning.workload import Workload
from colonnade.policies.version import LEFT, PATIENCE, ROOM, ROUNDS, recompute
from colonnade.policies.view import Role, View
from tests.planned import Scene
from tests.sim.test_clock import clock_job, run_clock
from tests.sim.test_training import same
from tests.small import small, with_network


def trained(version: str, latency: str, active: str = "10ms", rounds: int = 40):
    """Three parties with three exchanges in flight each; passive ones take 10 + 20 ms a batch."""
    table = {"name": "fedsgd", "window": "fixed:3", "version": version}
    case = small(3, "split", False, {"name": "sgd", "lr": 0.05}, table, rounds=rounds)
    job = with_network(case.job, latency=latency)
    costs = Costs(forward="10ms", backward="20ms")
    own = {job.active: Costs(forward=active, backward=active, aggregate=active)}
    job = msgspec.structs.replace(job, compute=Compute(costs=costs, overrides=own))
    return simulate(job, case.data, case.modules)


def again(run) -> int:
    return sum(action == "again" for each in run.parties.values() for _, action, _ in each.actions)


@pytest.mark.parametrize(
    ("latency", "active", "like", "unlike"),
    [
        ("2s", "10ms", "recompute", "stash"),
        ("0ms", "60ms", "recompute", "stash"),
        ("0ms", "1ms", "stash", "recompute"),
    ],
    ids=["a long way binds", "the active party binds", "they themselves bind"],
)
def test_parties_go_forward_again_if_they_have_time_for_it(latency, active, like, unlike):
    idle, alike, other = (
        trained(version, latency, active) for version in ("recompute:idle", like, unlike)
    )
    for name in ("weights", "losses", "time_s"):
        first, second = getattr(idle, name), getattr(alike, name)
        assert same(first, second) if name == "weights" else first == second
    assert not same(idle.weights, other.weights)
    assert again(idle) == again(alike)


def test_who_is_waited_for_does_without():
    """f + b a round in place of 2f + b, and the plan knows."""
    found = {}
    for version in ("stash", "recompute", "recompute:idle"):
        table = {"name": "fedsgd", "window": "fixed:4", "version": version}
        job = clock_job(table, latency=10, rounds=400)
        costs = {"active": Costs(forward="5ms", backward="5ms", aggregate="5ms")}
        job = msgspec.structs.replace(
            job, compute=Compute(costs=job.compute.costs, overrides=costs)
        )
        run = run_clock(job)
        planned = Scene(job, 64, dict.fromkeys(job.parties, 2)).predicted()
        assert planned.total_ns / 1e9 == pytest.approx(run.time_s, rel=0.02)
        found[version] = run.time_s * 1000 / 400
    assert found["stash"] == pytest.approx(30, rel=0.02)
    assert found["recompute:idle"] == pytest.approx(30, rel=0.03)
    # Of the four that come back at once, the first is not stale.
    assert found["recompute"] == pytest.approx(37.5, rel=0.02)


def test_the_law_has_the_pass_where_it_fits():
    job = clock_job({"name": "fullpipe"}, latency=20)
    method = methods.build({"name": "fedsgd", "window": "fixed:4", "version": "recompute:idle"})
    stages = stages_of(method, Workload.of(job, 64, dict.fromkeys(job.parties, 2)))
    (party,) = stages.passives
    assert (party.busy_ns, party.spare_ns) == (30_000_000, 10_000_000)
    away_ns = 2 * 20_000_000 + 10_000_000
    assert stages.away_ns(0) == pytest.approx(away_ns, rel=1e-3)
    # One in flight is never stale; two leave no time; where another takes 60 ms, there is time.
    assert laws.round_ns(stages, 1) == pytest.approx(away_ns + party.busy_ns, rel=1e-3)
    assert laws.round_ns(stages, 2) == pytest.approx((away_ns + party.busy_ns) / 2, rel=1e-3)
    slow = stages._replace(active=stages.active._replace(step_ns=60_000_000))
    around_ns = away_ns + party.busy_ns + party.spare_ns
    assert laws.around_ns(slow, 0, slow.bottleneck_ns) == pytest.approx(around_ns, rel=1e-3)
    assert time_of(method, Workload.of(job, 64, dict.fromkeys(job.parties, 2))).window == 4


def test_it_begins_with_much_time_and_ends_with_none():
    policy, view = recompute("idle"), View(Role.PASSIVE, 10**6, 10**6, 2, sent=4, forward_ns=1000)
    view.idle_ns = int(4 * ROOM * 1000) - 1
    assert not policy.again(view), "for four in flight one wait"

    def later(idle_ns: float) -> bool:
        rounds = view.spare.until - view.fresh
        assert rounds == (ROUNDS if view.spare.again else PATIENCE * ROUNDS)
        view.fresh, view.round, view.sent = (
            count + rounds for count in (view.fresh, view.round, view.sent)
        )
        view.idle_ns += int(idle_ns * rounds * 1000)
        return policy.again(view)

    assert not later(ROOM - 0.01)
    assert later(ROOM + 0.01)
    assert later(LEFT + 0.01)
    assert not later(LEFT - 0.01)
    assert not later(LEFT + 0.01)
