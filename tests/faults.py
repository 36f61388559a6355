"""One random job under random faults, from a seed: `python -m tests.faults 123` plays seed 123."""

from __future__ import annotations

import random
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, field

from colonnade.job.records import Job, Link, Network, Party, Train
from colonnade.learn.agreement import Agreement
from colonnade.learn.null import Record
from colonnade.party.outcome import Outcome
from colonnade.party.training import Training
from colonnade.party.world import Over
from colonnade.record.history import History
from colonnade.record.metrics import METRICS
from colonnade.record.sizes import Sizes
from colonnade.run.clock import null_trainings
from colonnade.sim.links import Deliver, Drop, Envelope, Pass, Repeat, Verdict
from colonnade.testing.lossy import LossySimulator, LossyWorld
from colonnade.testing.stores import MemoryStore
from tests.netrun import run_program

ROWS = {"train": 20, "validation": 0, "test": 4}

MS = 10**6
METHODS = (
    {"name": "fedsgd"},
    {"name": "fedbcd", "updates": 3},
    {"name": "pasta", "b_max": 3, "s_max": 4},
    {"name": "celu", "w": 3, "r": 4},
    {"name": "cvfl", "q": 2, "compressor": "scalar:4"},
    {"name": "vafl"},
    {"name": "auto", "most": 4, "share": 1.0},
    {"name": "fedbcd", "updates": 2, "protect": {"sum": "pairwise:32"}},
)


@dataclass
class Plan:
    """What goes wrong, drawn from a seed."""

    random: random.Random
    drop: float = 0.0
    repeat: float = 0.0
    late: float = 0.0
    partitions: list[tuple[str, int, int]] = field(default_factory=list)
    """A passive party whose link is dead from one instant to another."""
    crashes: list[tuple[int, str, int]] = field(default_factory=list)
    """When, who, and for how long it is down."""

    def rule(self, envelope: Envelope) -> Verdict:
        for party, start, end in self.partitions:
            if party in (envelope.sender, envelope.to) and start <= envelope.sent_ns < end:
                return Drop()
        draw = self.random.random()
        if draw < self.drop:
            return Drop()
        if draw < self.drop + self.repeat:
            return Repeat(tuple(self.random.randrange(400 * MS) for _ in range(2)))
        if draw < self.drop + self.repeat + self.late:
            return Deliver(self.random.randrange(800 * MS))
        return Pass()


def draw_plan(seed: int, parties: list[str]) -> Plan:
    """Mild or wild, from nothing at all to everything at once."""
    chance = random.Random(seed)
    plan = Plan(
        chance,
        drop=chance.choice((0, 0.02, 0.2)),
        repeat=chance.choice((0, 0.05, 0.2)),
        late=chance.choice((0, 0.1, 0.3)),
    )
    for _ in range(chance.randrange(3)):
        start = chance.randrange(8000) * MS
        length = chance.randrange(100, 3000) * MS
        plan.partitions.append((chance.choice(parties[1:]), start, start + length))
    for _ in range(chance.randrange(5)):
        crash = (chance.randrange(10_000) * MS, chance.choice(parties), chance.randrange(3000) * MS)
        plan.crashes.append(crash)
    return plan


@dataclass
class Played:
    """What a seed came to."""

    job: Job
    rounds: int
    trainings: dict[str, Training]
    simulator: LossySimulator
    history: History
    stores: dict[str, MemoryStore]

    @property
    def restarts(self) -> int:
        return sum(world.incarnation for world in self.worlds.values())

    @property
    def regroups(self) -> int:
        return sum(world.regroups for world in self.worlds.values())

    @property
    def worlds(self) -> dict[str, LossyWorld]:
        return self.simulator.worlds  # type: ignore[return-value]


def draw_job(seed: int) -> Job:
    chance = random.Random(seed + 10**9)
    passives = ["b", "c", "d"][: chance.randrange(1, 4)]
    method = dict(chance.choice(METHODS))
    shared = method["name"] == "cvfl"
    return Job(
        parties={"a": Party(role="active")} | {name: Party() for name in passives},
        seed=seed,
        method=method,
        train=Train(
            rounds=chance.randrange(5, 14),
            batch_size=4,
            checkpoint_every=chance.choice((None, 2, 3, 5)),
            evaluate_every=chance.choice(("2 rounds", "3 rounds")),
            labels="shared" if shared else "private",
        ),
        network=Network(link=Link(latency="50ms", jitter="20ms")),
    )


def play(seed: int) -> Played:
    """Run the job of a seed through its faults to its end."""
    job = draw_job(seed)
    parties = list(job.parties)
    agreement = Agreement.of(job, ROWS, dict.fromkeys(parties, 2))
    sizes = Sizes(dict.fromkeys(parties, 2), ROWS, top=((2, 2),))
    stores = {name: MemoryStore() for name in parties}
    measured = Record([0.5] * 999, [{"test_loss": 0.5, "accuracy": 0.5}] * 99)

    def trained() -> dict[str, Training]:
        return null_trainings(agreement, sizes, METRICS["accuracy"], measured, stores)

    plan = draw_plan(seed, parties)
    simulator = LossySimulator(job, [plan.rule], until_ns=300_000 * MS)
    trainings = trained()
    last: dict[str, Outcome] = {}
    settled: set[str] = set()
    for training in trainings.values():
        _keep(simulator, training, last, settled)

    def begin(name: str) -> None:
        if name in settled:
            simulator.gone(name)
            return
        trainings[name] = trained()[name]
        _keep(simulator, trainings[name], last, settled)
        simulator.restart(name, _session(simulator, trainings[name], last))

    def crash(name: str, down_ns: int) -> None:
        if simulator.crash(name):
            simulator.call_at(simulator.now_ns + down_ns, lambda: begin(name))

    for at_ns, name, down_ns in plan.crashes:
        simulator.call_at(at_ns, lambda n=name, d=down_ns: crash(n, d))
    simulator.run(
        {name: _session(simulator, training, last) for name, training in trainings.items()}
    )
    return Played(job, agreement.rounds, trainings, simulator, last[job.active].history, stores)


def _keep(
    simulator: LossySimulator, training: Training, last: dict[str, Outcome], settled: set[str]
) -> None:
    """What a party would keep in its files."""
    simulator.worlds[training.hello.party].settled = lambda: settled.add(training.hello.party)
    training.keep = lambda outcome: last.__setitem__(training.hello.party, outcome)


def _session(
    simulator: LossySimulator, training: Training, last: dict[str, Outcome]
) -> Coroutine[object, object, Outcome]:
    async def whole() -> Outcome:
        try:
            return await run_program(simulator.worlds[training.hello.party], training)
        except Over:
            return last[training.hello.party]

    return whole()


def check(played: Played) -> None:
    """Every batch once and in order at everybody, and the same counts at both ends."""
    job, active = played.job, played.job.active
    in_step = job.method["name"] != "vafl"
    for name, training in played.trainings.items():
        if training.loop is None:
            continue  # it came back after the end, and its result was kept before
        learner = training.loop.learner
        if in_step:
            assert learner.applied == list(range(played.rounds)), (name, learner.applied)
        elif name != active:
            assert learner.applied == list(range(len(learner.applied))), (name, learner.applied)
    rounds = [row["round"] for row in played.history.rounds]
    assert rounds == list(range(1, played.rounds + 1)), rounds
    if in_step:
        mine = played.worlds[active].ledger.entries()
        for peer in job.passives:
            if played.trainings[peer].loop is None:
                continue
            ours = {(e["direction"], e["kind"]): e["messages"] for e in mine if e["peer"] == peer}
            other = {"sent": "received", "received": "sent"}
            theirs = {
                (other[e["direction"]], e["kind"]): e["messages"]
                for e in played.worlds[peer].ledger.entries()
            }
            assert ours == theirs, (peer, ours, theirs)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        result = play(int(argument))
        check(result)
        print(
            f"seed {argument}: {result.job.method['name']}, {len(result.trainings)} parties, "
            f"{result.rounds} rounds, {result.restarts} restarts, {result.regroups} regroups: well"
        )
