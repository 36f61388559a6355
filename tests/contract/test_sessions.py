"""A job is a sequence of programs over one connection: the session is the same for each of them."""

from __future__ import annotations

import pytest
import torch

from colonnade import simulate
from colonnade.compress import plain
from colonnade.errors import BreachError
from colonnade.party.kinds import Kinds
from colonnade.party.session import run_session
from colonnade.party.training import Training
from colonnade.run.setup import prepare
from colonnade.sim.kernel import Simulator
from colonnade.testing.lossy import LossySimulator
from colonnade.wire.messages import (
    Barrier,
    Embedding,
    Evaluate,
    EvaluationEmbedding,
    Finish,
    Gradient,
    Hello,
    Labels,
    Snapshot,
    Status,
    Upload,
    Welcome,
)
from tests.netrun import run_programs
from tests.small import small, with_network

WORDS = {"program": "count"}


class Count:
    """A program before the training: each passive party sends a number, and the active one adds
    them up. It knows nothing of rows, and asks for none."""

    store = None
    start = 0
    restarts = 3

    def __init__(self, me: str, active: str, number: float) -> None:
        self.me, self.leads, self.number = me, me == active, number
        self.kinds = Kinds((), (Upload,)) if self.leads else Kinds((Upload,), ())
        self.terms = WORDS
        self.begun = 0
        self.kept: float | None = None

    @property
    def hello(self) -> Hello:
        return Hello(self.me, "count", rows=0, test_rows=0, width=0)

    def refuse(self, peer, hello):
        return None

    def welcome(self, heard) -> Welcome:
        return Welcome(self.me, "count", 0, {})

    def begin(self, world, welcome) -> None:
        self.begun += 1

    async def run(self, world) -> float:
        if not self.leads:
            (active,) = world.peers
            number = torch.tensor([self.number], dtype=torch.float64)
            await world.send(active, Upload(0, plain().encode(number)))
            return self.number
        total = self.number
        for _ in world.peers:
            sender, message = await world.receive()
            if not isinstance(message, self.kinds.accepts):
                raise BreachError(sender, f"{sender} sent a {type(message).__name__}")
            total += float(
                torch.frombuffer(bytearray(message.tensor.data.view), dtype=torch.float64)
            )
        return total

    def state(self):
        return {}

    def restore(self, state) -> None:
        pass

    def keep(self, outcome: float) -> None:
        self.kept = outcome


def sequences(case):
    """For each party: to count first, then to train."""
    active = case.job.active
    parties = prepare(case.job, case.data, case.modules)
    return {
        name: [Count(name, active, 1.5 + number), Training.of(party)]
        for number, (name, party) in enumerate(parties.items())
    }


def in_simulator(case, sequences):
    simulator = Simulator(case.job)
    started = {name: run_session(simulator.worlds[name], own) for name, own in sequences.items()}
    return simulator.run(started), simulator.worlds


def over_mtls(case, sequences):
    programs = {name: (lambda world, own=own: run_session(world, own)) for name, own in
                sequences.items()}  # fmt: skip
    return run_programs(case.job, programs)


@pytest.mark.parametrize("world", [in_simulator, over_mtls])
def test_programs_run_one_after_the_other_over_one_connection(world):
    case = small(3, rounds=6, evaluate_every="3 rounds")
    told = sequences(case)
    outcomes, worlds = world(case, told)
    alone = simulate(case.job, case.data, case.modules)
    assert outcomes["p1"][0] == pytest.approx(1.5 + 2.5 + 3.5)
    for name, (count, training) in told.items():
        counted, trained = outcomes[name]
        assert count.kept == counted and count.begun == 1
        assert trained.reason == "end" and training.loop.view.round == 6
        for key, weight in alone.weights[name].items():
            assert torch.equal(weight, trained.weights[key]), (name, key)
    for name, found in worlds.items():
        before = {(e["peer"], e["direction"], e["kind"]): e for e in alone.parties[name].ledger}
        for entry in found.ledger.entries():
            expected = before.get((entry["peer"], entry["direction"], entry["kind"]))
            counted = {"Upload": 1, "Hello": 2, "Welcome": 2, "Barrier": 1}
            kind = entry["kind"]
            due = counted.get(kind, 0) if expected is None else expected["messages"]
            assert entry["messages"] == counted.get(kind, due), (name, entry)


def test_a_party_reads_its_data_when_the_program_asks_for_it():
    case = small(3, rounds=2)
    parties = prepare(case.job, case.data, case.modules)
    read = []

    def ready(name):
        read.append(name)
        return parties[name]

    party = parties["p0"]
    training = Training(party.job, "p0", party.method, lambda: ready("p0"))
    assert training.kinds.names()[0] and training.terms and not read
    assert training.hello == party.hello and read == ["p0"]
    assert training.hello == party.hello and training.party is party and read == ["p0"]


def test_who_has_another_program_is_told_so():
    case = small(2, rounds=2)
    told = sequences(case)
    told["p0"] = told["p0"][1:]
    with pytest.raises(Exception, match="has another job"):
        in_simulator(case, told)


def test_an_active_party_cannot_lead_on_before_the_parties_are_done():
    case = small(2, rounds=2)
    told = sequences(case)
    simulator = Simulator(case.job)
    active = simulator.worlds["p1"]
    send = active.send

    async def hasty(to, message):
        await send(to, Finish(0, -1, "end") if isinstance(message, Barrier) else message)

    active.send = hasty
    started = {name: run_session(simulator.worlds[name], own) for name, own in told.items()}
    with pytest.raises(BreachError, match="p1 went on before the parties were done"):
        simulator.run(started)


KINDS = {
    Gradient: lambda: Gradient(0, PACKED, 0),
    Snapshot: lambda: Snapshot(0, (), (), (), 0),
    Labels: lambda: Labels(PACKED, ()),
    Embedding: lambda: Embedding(0, PACKED),
    Upload: lambda: Upload(0, PACKED),
    Status: lambda: Status(0, 1),
    Evaluate: lambda: Evaluate(0, 0, ("validation",), -1, -1),
    EvaluationEmbedding: lambda: EvaluationEmbedding(0, "validation", 0, PACKED),
}
PACKED = plain().encode(torch.zeros(1, 1))


@pytest.mark.parametrize("method", ["fedsgd", "cvfl", "vafl", "sync_min"])
@pytest.mark.parametrize("me", ["p0", "p1"])
def test_a_kind_that_a_program_does_not_name_is_a_breach(method, me):
    """Whatever a deviating party sends, of either role: what was not agreed on is not looked at."""
    case = small(2, rounds=2, method={"name": method}, labels="shared", evaluate_every="never")
    parties = prepare(case.job, case.data, case.modules)
    trainings = {name: Training.of(party) for name, party in parties.items()}
    welcome = trainings["p1"].welcome({"p0": trainings["p0"].hello})
    training, world = trainings[me], Simulator(case.job).worlds[me]
    training.begin(world, welcome)
    (peer,) = world.peers
    others = KINDS.keys() - set(training.kinds.accepts)
    assert others and Evaluate in others and EvaluationEmbedding in others
    for kind in others:
        with pytest.raises(BreachError, match=f"{peer} sent a message that is not due, of kind"):
            training.loop.take((peer, KINDS[kind]()))


def test_who_crashes_in_a_later_program_takes_nobody_back_to_an_earlier_one():
    """A process that starts again is given the programs whose outcome it has not kept."""
    case = small(3, rounds=20)
    case.job = with_network(case.job, latency="5ms")
    told = sequences(case)
    simulator = LossySimulator(case.job, until_ns=10**13)
    training = Training.of(prepare(case.job, case.data, case.modules)["p0"])

    def crash():
        assert told["p0"][1].loop is not None and told["p0"][1].loop.view.round > 2
        assert simulator.crash("p0")
        again = run_session(simulator.worlds["p0"], [training])
        simulator.call_at(simulator.now_ns + 10_000_000, lambda: simulator.restart("p0", again))

    simulator.call_at(250_000_000, crash)
    started = {name: run_session(simulator.worlds[name], own) for name, own in told.items()}
    outcomes = simulator.run(started)
    alone = simulate(case.job, case.data, case.modules)
    assert simulator.worlds["p1"].regroups
    for name, (count, _) in told.items():
        assert count.begun == 1, name
        for key, weight in alone.weights[name].items():
            assert torch.equal(weight, outcomes[name][-1].weights[key]), (name, key)
