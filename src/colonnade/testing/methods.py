"""What every method must pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from colonnade import methods
from colonnade.errors import RequestError
from colonnade.job.files import dumps, loads, modules
from colonnade.job.texts import parse_method
from colonnade.party.training import Training
from colonnade.record.chain import reconcile
from colonnade.record.checkpoints import FileStore
from colonnade.record.run import Run
from colonnade.run.ceiling import ceiling
from colonnade.run.setup import prepare
from colonnade.run.simulate import simulate, simulate_prepared
from colonnade.testing.expect import Given, expect, expect_same
from colonnade.testing.expect import as_table as table_of
from colonnade.testing.policies import check_policy
from colonnade.testing.small import Small, small, with_network
from colonnade.wire.messages import CONTROL

TopKind = Literal["split", "agg"]
Setting = tuple[int, TopKind, bool]
SETTINGS: tuple[Setting, ...] = (
    (2, "split", False), (2, "split", True), (3, "agg", True), (3, "agg", False),
    (5, "split", False),
)  # fmt: skip
"""How many parties, which top model, and whether the active party has labels only."""
ROUNDS = 20
FAR = "700ms"
RARE = {"Calibrate"}
"""Kinds that cross only where the network changes."""
EARLY = {"metric": "accuracy", "target": 0.1, "stop": "target"}


def check_method(
    method: Given,
    *,
    equals: Iterable[tuple[Mapping[str, Any], Given]] = (),
    settings: Iterable[Setting] = SETTINGS,
    lr: float = 0.2,
) -> None:
    """Check a method in small trainings; an `AssertionError` says what does not hold.

    Args:
        method: as text, as a table, or the function, which a job must be able to name.
        equals: degenerate cases: options, and the simpler method that they make of this one.
        settings: in which it must learn: number of parties, top, whether the active party has
            labels only.
        lr: the rate at which it must learn; many local updates want a lower one.

    Example:
        >>> check_method("fedbcd:updates=2", equals=[({"updates": 1}, "fedsgd")])
    """
    table = as_table(method)
    _check_value(table)
    trial = _Trial(table)
    for check in (
        _repeats, _uses_every_batch_once, _counts_alike_at_both_ends, _sends_what_it_announces,
        _goes_by_the_clock_only_if_it_says_so, _goes_on_from_checkpoints,
    ):  # fmt: skip
        check(trial)
    for setting in settings:
        check_training(table, *setting, lr=lr)
    for options, simpler in equals:
        _is_the_same_training(table | dict(options), as_table(simpler))


def as_table(method: Given) -> dict[str, Any]:
    """A method as the `[method]` table of a job.

    >>> as_table("fedbcd:updates=3"), as_table(methods.known()["fedsgd"])
    ({'name': 'fedbcd', 'updates': 3}, {'name': 'fedsgd'})
    """
    return table_of(method, methods.known(), parse_method)


def check_training(
    method: Given,
    parties: int = 2,
    top: TopKind = "split",
    label_only: bool = False,
    lr: float = 0.2,
) -> None:
    """Check that a method learns, with so many parties and such a top model.

    >>> check_training("fedsgd", parties=3, top="agg")
    """
    optimizer = {"name": "sgd", "lr": lr}
    case = small(parties, top, label_only, method=as_table(method), rounds=60, optimizer=optimizer,
                 evaluate_every="20 rounds", full_loss=True, labels="shared")  # fmt: skip
    run = simulate(case.job, case.data, case.modules)
    where = f"{as_table(method)} with {parties} parties, top '{top}' and a rate of {lr}"
    expect(run.status == "end", f"{where} ends with '{run.status}' and not after all its rounds")
    first, last = run.history[0]["full_loss"], run.history[-1]["full_loss"]
    expect(last < first, f"{where} does not learn: its loss goes from {first:.4f} to {last:.4f}")


class _Trial:
    """One method's small trainings with three parties; each is run once."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.table = table
        self.method = methods.build(table)
        self.name = ":".join(str(value) for value in table.values())
        self._runs: dict[str, Run] = {}

    def case(self, latency: str = "5ms", **train: Any) -> Small:
        usual: dict[str, Any] = {"evaluate_every": "5 rounds", "labels": "shared"}
        case = small(3, method=self.table, rounds=ROUNDS, validation=0.2, **usual | train)
        case.job = with_network(case.job, latency=latency)
        return case

    def run(self, latency: str = "5ms", **train: Any) -> Run:
        key = f"{latency} {train}"
        if key not in self._runs:
            case = self.case(latency, **train)
            self._runs[key] = simulate(case.job, case.data, case.modules)
        return self._runs[key]


def _check_value(table: dict[str, Any]) -> None:
    made, again = methods.build(table), methods.build(table)
    expect(made == again, f"{table} is built twice, and the two are not equal: is it frozen?")
    for axis in fields(made):
        check_policy(axis.name, getattr(made, axis.name))
    job = small(2, method=table, labels="shared").job
    text, named = dumps(job), modules(job)
    read = methods.build(loads(text, allow=named).method)
    expect(read == made, f"{table}, written into a job file and read again, is {read}")
    expect(read.composition() == made.composition(), f"{table} is described in two ways")
    if named:
        try:
            loads(text)
        except RequestError:
            return
        expect(False, f"{table} is code from outside, and a job file may name it without leave")


def _expect_same_run(one: Run, other: Run, sentence: str, timed: bool = False) -> None:
    """Hold two trainings against each other, to the last bit; their times only if `timed`."""
    expect_same(one.weights, other.weights, sentence)
    best = [{name: own or {} for name, own in run.best_weights.items()} for run in (one, other)]
    expect_same(best[0], best[1], f"{sentence}, in the best round")
    without = () if timed else ("time_s",)
    for what in ("history", "losses"):
        rows = [
            [{key: row[key] for key in row if key not in without} for row in getattr(run, what)]
            for run in (one, other)
        ]
        expect(rows[0] == rows[1], f"{sentence}: its {what} differ")
    for name, party in one.parties.items():
        expect(party.ledger == other.parties[name].ledger, f"{sentence}: the ledger of {name}")


def _repeats(trial: _Trial) -> None:
    case = trial.case()
    again = simulate(case.job, case.data, case.modules)
    sentence = f"two runs of {trial.name} from one seed differ"
    _expect_same_run(trial.run(), again, sentence, timed=True)


def _uses_every_batch_once(trial: _Trial) -> None:
    run, name = trial.run(), trial.name
    rounds = [row["round"] for row in run.losses]
    expect(rounds == list(range(1, ROUNDS + 1)), f"{name} went through the rounds {rounds}")
    fresh = {party: run.parties[party].fresh for party in run.parties}
    if trial.method.quorum.remembers:
        good = fresh["p1"] == fresh["p0"] + fresh["p2"] == 2 * ROUNDS
    else:
        good = set(fresh.values()) == {ROUNDS}
    expect(good, f"{name}: fresh updates in {ROUNDS} rounds are {fresh}")
    for party in ("p0", "p2"):
        used = [round for _, action, round in run.parties[party].actions if action == "fresh"]
        expect(used == list(range(fresh[party])), f"{name}: {party} used the replies {used}")
        most, allowed = run.parties[party].in_flight_max, trial.method.window.most
        expect(most <= allowed, f"{name}: {most} in flight at {party}, and {allowed} are allowed")
    times = [row["time_s"] for row in run.losses]
    expect(times == sorted(times), f"{name}: the times of its rounds go back")


def _counts_alike_at_both_ends(trial: _Trial) -> None:
    """Also what is in flight when the active party ends the job: nothing is made of it."""
    for train, status in (({}, "end"), (EARLY, "target")):
        run = trial.run(FAR, **train)
        expect(run.status == status, f"{trial.name} ends with '{run.status}', not '{status}'")
        expect(status == "end" or run.rounds < ROUNDS, f"{trial.name} does not stop early")
        for passive in run.job.passives:
            active = run.job.active
            ends = run.parties[passive].ledger, passive, run.parties[active].ledger, active
            found = reconcile(*ends)
            expect(not found, f"{trial.name}: the two ends of a link count differently: {found}")


def _sends_what_it_announces(trial: _Trial) -> None:
    """What crosses, control messages apart, and of a passive party how much at the most."""
    case = trial.case()
    for name, party in prepare(case.job, case.data, case.modules).items():
        announced = dict(zip(("sent", "received"), Training.of(party).kinds.names(), strict=True))
        most = {} if party.leads else ceiling(party)
        for early in (False, True):
            run = trial.run(FAR, **EARLY) if early else trial.run()
            entries = [e for e in run.parties[name].ledger if e["kind"] not in CONTROL]
            for way, kinds in announced.items():
                found = {e["kind"] for e in entries if e["direction"] == way}
                good = found <= set(kinds) and (early or found >= set(kinds) - RARE)
                sentence = f"{trial.name}: {sorted(found)} were {way} by {name}"
                expect(good, f"{sentence}, and it announces {sorted(kinds)}")
            for kind, (messages, size) in most.items():
                sent = [e for e in entries if (e["direction"], e["kind"]) == ("sent", kind)]
                count, total = sum(e["messages"] for e in sent), sum(e["bytes"] for e in sent)
                exactly = (count, total) == (messages, size) or early or trial.method.by_clock
                expect(
                    count <= messages and total <= size and exactly,
                    f"{trial.name}: {name} sent {count} of {kind} with {total} bytes, and it "
                    f"announces {messages} with {size} bytes",
                )


def _goes_by_the_clock_only_if_it_says_so(trial: _Trial) -> None:
    if not trial.method.by_clock:
        sentence = f"{trial.name} says that it does not go by the clock, and on a slow network"
        expect_same(trial.run("0ms").weights, trial.run(FAR).weights, f"{sentence} weights")


def _goes_on_from_checkpoints(trial: _Trial) -> None:
    if trial.method.by_clock:
        return
    case, usual = trial.case(checkpoint_every=7), trial.run(checkpoint_every=7)
    with TemporaryDirectory() as folder:
        for when in ("with checkpoints", "after a restart"):
            stores = {name: FileStore(Path(folder) / name, name, "") for name in case.job.parties}
            run = simulate_prepared(prepare(case.job, case.data, case.modules), stores=stores)
            _expect_same_run(usual, run, f"{trial.name} is another training {when}")


def _is_the_same_training(table: dict[str, Any], simpler: dict[str, Any]) -> None:
    one, other = (_Trial(each).run() for each in (table, simpler))
    sentence = f"{table} does not learn the same as {simpler}"
    expect_same(one.weights, other.weights, sentence)
    expect(one.history == other.history, f"{sentence}: the evaluations differ")
    counted = [run.summary()["updates"] for run in (one, other)]
    expect(counted[0] == counted[1], f"{sentence}: updates are {counted[0]} and {counted[1]}")
