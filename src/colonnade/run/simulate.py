"""A job in virtual time: every party in this process, the same programs as over a network."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace
from torch import nn

from colonnade.data.vertical import VerticalData
from colonnade.errors import RequestError
from colonnade.job.records import Job
from colonnade.learn.agreement import Agreement
from colonnade.learn.origin import Origin
from colonnade.learn.participant import Participant
from colonnade.learn.saved import card_of, read_saved, saved_of
from colonnade.party.outcome import Outcome
from colonnade.party.session import run_session
from colonnade.party.training import Training
from colonnade.policies.view import Effort
from colonnade.record.checkpoints import Store
from colonnade.record.events import Subscriber
from colonnade.record.history import Row
from colonnade.record.metrics import Metric
from colonnade.record.run import PartyRun, Run
from colonnade.record.sizes import Sizes
from colonnade.run.accounting import Accountant, accountant_of, spent_in
from colonnade.run.arguments import as_job, check_count, check_training
from colonnade.run.setup import Parties, active_of, prepare, recording, remarks, sizes_of, widths_of
from colonnade.sim.kernel import Interrupted, Simulator
from colonnade.sim.links import Rule
from colonnade.sim.world import SimulatedWorld
from colonnade.tracking.tracker import Track, following, trackers_of
from colonnade.wire.messages import Message

if TYPE_CHECKING:
    from colonnade.net.world import NetworkWorld

Trainings = Mapping[str, Training]
"""Every party's part in a training."""
Accounts = Mapping[str, Accountant]
"""What counts how often rows leave, of the parties whose rows leave with noise."""


def simulate(
    job: Job | str | Path,
    data: VerticalData | None = None,
    models: Mapping[str, nn.Module] | None = None,
    *,
    observers: Sequence[Subscriber] = (),
    should_stop: Callable[[], bool] | None = None,
    rules: Sequence[Rule] = (),
    threads: int = 1,
    start: Run | str | Path | None = None,
    record: int | None = None,
    track: Track = None,
) -> Run:
    """Train a job in virtual time.

    Args:
        job: the job, as a record or from `colonnade.load`; or a job file, or a built-in name.
        data: ready-made columns and labels (`colonnade.vertical`); by default what the job names.
        models: ready-made modules by party name, and `"top"`; copied, never changed.
        observers: functions that are told of every event (`colonnade.record.events`).
        should_stop: asked between events; when true the run ends with status `interrupted`.
        rules: fault rules for the links.
        threads: of torch, for the time of the run; more than one pays for big models only.
        start: an earlier run, or its folder, whose model all parties begin with: its weights,
            classes and what it has learnt of the columns. Optimizers begin afresh.
        record: of so many first rounds, every party keeps the tensors that it sends and receives,
            for `colonnade.audit`.
        track: tools that follow the run: `"mlflow"`, `"tensorboard=DIR"`, or what
            `colonnade.track` gives; one, or several.

    Example:
        >>> from colonnade.job import load
        >>> run = simulate(load("digits", ["train.epochs=1"]))
        >>> run.rounds, run.status
        (21, 'end')
    """
    check_training(data, models, observers, rules, should_stop, threads)
    job, trackers = as_job(job), trackers_of(track)
    if record is not None:
        check_count("record", record)
    parties = recording(prepare(job, data, models, origins_of(job, start)), record)
    found = remarks(parties)
    for sentence in found:
        warnings.warn(sentence, stacklevel=2)
    with following(trackers, job) as (followers, over):
        told = [*observers, *followers]
        run = simulate_prepared(
            parties, observers=told, should_stop=should_stop, rules=rules, threads=threads
        )
        over(run.summary())
    if run.status == "diverged":
        warnings.warn(diverged(run, found), stacklevel=2)
    return run


def origins_of(job: Job, start: Run | str | Path | None) -> dict[str, Origin]:
    """What each party of a job begins with of an earlier run; nothing where there is none.

    >>> from colonnade.job import load
    >>> origins_of(load("digits"), None)
    {}
    """
    if start is None:
        return {}
    given: Any = start
    if not isinstance(given, Run | str | Path):
        raise RequestError(
            f"start is of type {type(given).__name__}: give an earlier run, or its folder"
        )
    if isinstance(start, Run):
        if missing := [name for name in job.parties if name not in start.parties]:
            raise RequestError(f"the earlier run has no party {missing[0]}: give the same parties")
        return {name: saved_of(start, name).origin for name in job.parties}
    return {name: read_saved(start, name).origin for name in job.parties}


def diverged(run: Run, found: Sequence[str] = ()) -> str:
    """The sentence for a run that diverged, whose data gave rise to these remarks."""
    after = "1 round" if run.rounds == 1 else f"{run.rounds} rounds"
    cause = "standardise the data first, which is far from unit scale, or " if found else ""
    return f"the training diverged after {after}: {cause}lower the learning rates"


def simulate_prepared(
    parties: Parties,
    *,
    observers: Sequence[Subscriber] = (),
    should_stop: Callable[[], bool] | None = None,
    rules: Sequence[Rule] = (),
    threads: int = 1,
    stores: Mapping[str, Store] | None = None,
) -> Run:
    """Train a job whose data is read and whose models are built; see `simulate`. Parties with a
    store keep checkpoints there, and go on from those that they find."""
    active = active_of(parties)
    agreement = active.agreement(widths_of(parties))
    counted = {name: accountant_of(party) for name, party in parties.items()}
    accounts = {name: account for name, account in counted.items() if account is not None}
    kind = counting(accounts) if accounts else SimulatedWorld
    simulator = Simulator(active.job, rules, subscribers=observers, world=kind)
    trainings = {
        name: Training.of(party, (stores or {}).get(name)) for name, party in parties.items()
    }
    with torch_threads(threads):
        status = run_parties(simulator, trainings, should_stop)
    sizes = sizes_of(parties)
    metric = active.metrics[0]
    run = record(agreement, metric, status, simulator, trainings, sizes, parties, accounts)
    for own in trainings.values():
        own.release()
    return run


def counting(accounts: Accounts) -> type[SimulatedWorld]:
    """A simulated world in which it is counted how often rows leave."""

    class CountingWorld(SimulatedWorld):
        async def send(self, to: str, message: Message) -> None:
            if self.me in accounts:
                accounts[self.me].release(message)
            await super().send(to, message)

    return CountingWorld


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """So many threads of torch inside: two for small work on two busy cores are many times slower
    than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_parties(
    simulator: Simulator, trainings: Trainings, should_stop: Callable[[], bool] | None = None
) -> str:
    """Run everybody to the end; why they ended."""
    worlds, active = simulator.worlds, trainings[simulator.job.active]
    sessions = {name: run_session(worlds[name], [own]) for name, own in trainings.items()}
    try:
        status: str = simulator.run(sessions, should_stop)[simulator.job.active][-1].reason
    except Interrupted:
        status = "interrupted"
        # Whoever was interrupted before the handshake is as it would have been after it.
        hellos = {name: trainings[name].hello for name in simulator.job.passives}
        for name, own in trainings.items():
            if own.loop is None:
                own.begin(worlds[name], active.welcome(hellos))
    return status


def record(
    agreement: Agreement,
    metric: Metric,
    status: str,
    simulator: Simulator,
    trainings: Trainings,
    sizes: Sizes,
    ready: Parties | None = None,
    accounts: Accounts | None = None,
) -> Run:
    """What the parties have at this instant, as a run; `ready` are those that have data."""
    outcomes = {name: own.outcome(status) for name, own in trainings.items()}
    run = run_name(outcomes.values(), agreement.parent) if ready else ""
    parties = {
        name: party_run(
            outcome,
            simulator.worlds[name],
            (ready or {}).get(name),
            agreement,
            run,
            (accounts or {}).get(name),
        )
        for name, outcome in outcomes.items()
    }
    return run_of(agreement.job, agreement, metric, outcomes, parties, sizes)


def run_name(outcomes: Iterable[Outcome], parent: str = "") -> str:
    """The name of a run in one place: it follows from what everybody has learnt, and from what."""
    mixed = hashlib.sha256(parent.encode())
    for outcome in outcomes:
        for weights in (outcome.weights, outcome.best_weights or {}):
            for name, tensor in weights.items():
                mixed.update(name.encode() + tensor.numpy().tobytes())
    return mixed.hexdigest()[:32]


def party_run(
    outcome: Outcome,
    world: SimulatedWorld | NetworkWorld,
    me: Participant | None,
    agreement: Agreement,
    run: str,
    account: Accountant | None = None,
) -> PartyRun:
    """What a party has at the end of a run, and what it cost; `account` is what counts how often
    its rows leave with noise."""
    view, data = outcome.view, None if me is None else me.data
    learnt = agreement, run, outcome.best, view.round - 1, outcome.calibration, outcome.history
    return PartyRun(
        fresh=view.fresh,
        local=view.local,
        in_flight_max=view.in_flight_max,
        efforts=view.efforts,
        actions=view.actions,
        busy_s=world.timeline.busy_ns() / 1e9,
        idle_s=world.timeline.total_ns("wait") / 1e9,
        ledger=world.ledger.entries(),
        spans=world.timeline,
        weights=outcome.weights,
        best_weights=outcome.best_weights,
        preprocessing=None if data is None else data.columns.preprocessing,
        classes=() if data is None or data.labels is None else data.labels.names,
        card=None if me is None else replace(card_of(me, *learnt), spent=spent_in(me, account)),
        traffic=[] if me is None or me.recorder is None else me.recorder.pieces,
        privacy=None if account is None else account.facts(),
        exchanges=world.exchanges,
    )


def run_of(
    job: Job,
    agreement: Agreement,
    metric: Metric,
    outcomes: Mapping[str, Outcome],
    parties: dict[str, PartyRun],
    sizes: Sizes | None = None,
) -> Run:
    """A run from what those parties have whose outcomes are known, the active one among them."""
    active = outcomes[job.active]
    history = active.history
    assert history is not None
    efforts = {name: outcome.view.efforts for name, outcome in outcomes.items()}
    finished_s = [outcome.view.finished_ns / 1e9 for outcome in outcomes.values()]
    # By the clock of a machine, the last evaluation comes after the last update.
    evaluated_s = [row["time_s"] for row in history.evaluations[-1:]]
    return Run(
        job=job,
        composition=agreement.method.composition(),
        metric=metric,
        status=active.reason,
        rounds=active.view.round,
        per_epoch=agreement.plan.per_epoch,
        time_s=max(finished_s + evaluated_s),
        history=history.evaluations,
        test=history.test,
        chosen_on=agreement.schedule.chosen_on,
        losses=with_efforts(history.rounds, efforts),
        calibrations=history.calibrations,
        sizes=sizes,
        parties=parties,
    )


def with_efforts(rows: list[Row], efforts: Mapping[str, Collection[Effort]]) -> list[Row]:
    """Each round's row with every party's updates and rate, where all go through the rounds
    together."""
    if all(len(made) == len(rows) for made in efforts.values()):
        for name, made in efforts.items():
            updates, rate = f"updates_{name}", f"rate_{name}"
            for row, effort in zip(rows, made, strict=True):
                row[updates], row[rate] = effort
    return rows
