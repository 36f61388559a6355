"""A job's clock without its learning: what a method costs in time and bytes on a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from colonnade.data.splits import Split
from colonnade.errors import JobError
from colonnade.job.records import Job
from colonnade.job.train import UNEVALUATED
from colonnade.learn.agreement import Agreement
from colonnade.learn.null import NullActive, NullPassive, Record
from colonnade.learn.participant import Participant, secret_seed
from colonnade.party.active import Active
from colonnade.party.evaluation import Evaluations
from colonnade.party.masking import keys_of, masks_of
from colonnade.party.passive import Passive
from colonnade.party.training import Training
from colonnade.party.world import World
from colonnade.protect.keys import Credentials, Unsigned
from colonnade.protect.secret import Derived
from colonnade.record.checkpoints import Store
from colonnade.record.metrics import METRICS, Metric
from colonnade.record.run import EVALUATION_FIELDS, Run
from colonnade.record.sizes import Sizes
from colonnade.run.arguments import as_job, check_count, check_widths
from colonnade.run.naming import method_name
from colonnade.run.setup import bare_sizes
from colonnade.run.simulate import record, run_parties
from colonnade.sim.kernel import Simulator
from colonnade.sim.links import Rule
from colonnade.wire.messages import Hello, Welcome


def simulate_clock(
    job: Job | str | Path,
    rows: int,
    widths: Mapping[str, int],
    *,
    outputs: int = 1,
    rules: Sequence[Rule] = (),
) -> Run:
    """Run a job's messages and clock with null learners: nothing is computed or evaluated.

    `rows` is the number of training rows. `widths` gives every party's embedding width; a width
    of 0 makes the active party label-only. `outputs` is the width of the prediction,
    which snapshots of the top model depend on.

    >>> from colonnade.job import load
    >>> job = load("digits", ["train.rounds=3"])
    >>> run = simulate_clock(job, rows=1000, widths={"clinic": 16, "lab": 16, "insurer": 16})
    >>> run.rounds, run.status
    (3, 'end')
    """
    job = as_job(job)
    check_count("rows", rows)
    check_widths(job, widths)
    train = msgspec.structs.replace(job.train, **UNEVALUATED)
    counts: dict[Split, int] = {"train": rows, "validation": 0, "test": 0}
    agreement = Agreement.of(msgspec.structs.replace(job, train=train), counts, widths)
    sizes = bare_sizes(agreement, outputs, whole_labels=outputs > 1)
    return _clocked(agreement, sizes, METRICS["accuracy"], Record(), rules)


def reclock(run: Run, job: Job | str | Path, *, rules: Sequence[Rule] = ()) -> Run:
    """The same training on another network, or at other speeds, without training it again.

    `job` may differ from the run's own in `network`, `compute` and `limits`. What was learnt and
    measured is taken from the run; time, idle shares and traffic are found out anew, message by
    message. Only for methods whose weights do not depend on the clock, such as `fedsgd`, `fedbcd`
    and `cvfl`, and for those where it decides nothing but the number of updates in a round, such as
    `flexvfl`, where that stays the same.

    >>> from colonnade.job import load, with_sets
    >>> from colonnade.run.simulate import simulate
    >>> job = load("digits", ["train.epochs=1"])
    >>> far = with_sets(job, "network.latency=1s")
    >>> reclock(simulate(job), far).time_s == simulate(far).time_s
    True
    """
    given: Any = run
    if not isinstance(given, Run):
        kind = type(given).__name__
        raise JobError(f"the run is of type {kind}: give what cn.simulate returned, then the job")
    job = as_job(job)
    clocked = clocked_again(run, job, rules)
    if clocked is None:
        raise JobError(
            f"what {method_name(job)} learns depends on how long things take: simulate the job "
            "instead"
        )
    return clocked


def clocked_again(run: Run, job: Job, rules: Sequence[Rule] = ()) -> Run | None:
    """As `reclock`; None where something else would have been learnt there."""
    own = msgspec.structs.replace(
        run.job, network=job.network, compute=job.compute, limits=job.limits
    )
    if own != job:
        raise JobError(
            "a run can be clocked again only for its own job with another network, other speeds "
            "or limits: simulate the other job"
        )
    if run.status == "interrupted":
        raise JobError("a run that was interrupted has no end to clock: simulate the job instead")
    if run.sizes is None:
        raise JobError("a run over the network has its own clock: simulate the job instead")
    widths = {name: run.sizes.widths.get(name, 0) for name in job.parties}
    rows = run.sizes.rows
    agreement = Agreement.of(job, rows, widths)
    if agreement.method.by_clock and not agreement.method.by_counts:
        return None
    figures = [
        {name: value for name, value in row.items() if name not in EVALUATION_FIELDS.keys() - KEPT}
        for row in run.history
    ]
    losses = [row["loss"] for row in run.losses]
    clocked = _clocked(agreement, run.sizes, run.metric, Record(losses, figures, run.test), rules)
    if agreement.method.by_clock and _counts(clocked) != _counts(run):
        return None
    parties = {
        name: replace(
            party,
            weights=run.parties[name].weights,
            best_weights=run.parties[name].best_weights,
            preprocessing=run.parties[name].preprocessing,
            classes=run.parties[name].classes,
            efforts=run.parties[name].efforts,
            privacy=run.parties[name].privacy,
            exchanges=party.exchanges.weighed_as(run.parties[name].exchanges),
        )
        for name, party in clocked.parties.items()
    }
    both = zip(run.losses, clocked.losses, strict=True)
    retimed = [known | {"time_s": new["time_s"]} for known, new in both]
    return replace(clocked, losses=retimed, parties=parties)


def _counts(run: Run) -> dict[str, list[int]]:
    """How many updates each party did in each round."""
    return {name: [count for count, _ in party.efforts] for name, party in run.parties.items()}


KEPT = {"validation_loss", "test_loss"}
"""What an evaluation measures beside metrics; the rest of its row is about time and traffic."""


def _clocked(
    agreement: Agreement, sizes: Sizes, metric: Metric, measured: Record, rules: Sequence[Rule]
) -> Run:
    job = agreement.job
    simulator = Simulator(job, rules)
    trainings = null_trainings(agreement, sizes, metric, measured)
    status = run_parties(simulator, trainings)
    return record(agreement, metric, status, simulator, trainings, sizes)


def null_trainings(
    agreement: Agreement,
    sizes: Sizes,
    metric: Metric,
    measured: Record,
    stores: Mapping[str, Store] | None = None,
    credentials: Mapping[str, Credentials] | None = None,
) -> dict[str, Training]:
    """Everybody's training, with learners that learn nothing; what is signed, is signed with
    `credentials`."""
    signing = dict.fromkeys(agreement.job.parties, Unsigned()) | dict(credentials or {})
    common = sizes, metric, measured
    return {
        name: NullTraining(agreement, name, *common, (stores or {}).get(name), signing[name])
        for name in agreement.job.parties
    }


class NullTraining(Training):
    """A training of a party without data, whose learner learns nothing."""

    def __init__(
        self,
        agreement: Agreement,
        me: str,
        sizes: Sizes,
        metric: Metric,
        measured: Record,
        store: Store | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__(agreement.job, me, agreement.method, _no_data, store)
        self.me, self.agreement, self.sizes = me, agreement, sizes
        self.metric, self.measured = metric, measured
        self.credentials = credentials or Unsigned()
        self.hello = agreement.hello(me, sizes.known.fingerprint)
        self.width_max = agreement.width_max

    def welcome(self, heard: Mapping[str, Hello]) -> Welcome:
        return self.sizes.known.welcome(self.hello, self.agreement.widths)

    def build(self, world: World, welcome: Welcome) -> Active | Passive:
        begun, own = self.agreement, self.agreement.methods
        if welcome.start != begun.start:
            begun = replace(begun, start=welcome.start)
        job, common = begun.job, (begun.method, welcome, self.credentials)
        if not self.leads:
            learner = NullPassive(self.me, own[self.me], self.sizes)
            masks = masks_of(job, self.me, *common, Derived(secret_seed(job, self.me)))
            return Passive(world, begun, learner, self.store, masks)
        active = NullActive(self.me, own, self.sizes, self.measured)
        evaluations = Evaluations(job.train, self.metric, job.passives, begun.schedule)
        return Active(world, begun, active, evaluations, self.store, keys_of(job, *common))


def _no_data() -> Participant:
    raise AssertionError("nothing of this job is read")
