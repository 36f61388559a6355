"""From a job to parties that are ready to run, whichever world they run in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from colonnade import methods
from colonnade.data.assemble import assemble
from colonnade.data.batches import BatchPlan
from colonnade.data.scale import remarks
from colonnade.data.splits import Split
from colonnade.data.vertical import VerticalData
from colonnade.errors import DataError, JobError, nearest
from colonnade.job.records import Job, first_step
from colonnade.job.terms import digest
from colonnade.job.terms import terms as terms_of
from colonnade.learn.build import DTYPES, Bottom, Ground, build_active, build_bottom, build_passive
from colonnade.learn.objective import Objective
from colonnade.methods.method import Method
from colonnade.party.active import Active
from colonnade.party.evaluation import Evaluations
from colonnade.party.passive import Passive
from colonnade.party.schedule import Schedule
from colonnade.party.session import Seat
from colonnade.party.setup import Setup
from colonnade.party.world import World
from colonnade.policies.local import Timing
from colonnade.record.checkpoints import Store
from colonnade.record.metrics import Metric
from colonnade.record.sizes import Known, Sizes
from colonnade.run.extents import widest
from colonnade.run.measuring import metrics_of
from colonnade.run.naming import check_names, method_name, own_method
from colonnade.wire.messages import Hello

Program = Active | Passive

EPOCHS = 10
"""How long a job trains that says neither epochs nor rounds."""


@dataclass(frozen=True)
class Contract:
    """What all parties of a job agree on, worked out: the method, the batches, the widths."""

    job: Job
    method: Method
    plan: BatchPlan
    rounds: int
    widths: Mapping[str, int]
    """How wide every party's embedding is; 0 for a label-only active party."""
    test_count: int
    clocked: bool = True
    """Whether the parties are as fast as the job says; over the network they are measured."""
    validation_count: int = 0

    @classmethod
    def of(
        cls,
        job: Job,
        train_count: int,
        test_count: int,
        widths: Mapping[str, int],
        validation_count: int = 0,
    ) -> Contract:
        """The contract of a job over so many rows."""
        train, held = job.train, (test_count, True, validation_count)
        plan = BatchPlan(train_count, train.batch_size, job.seed, train.shuffle, train.drop_last)
        rounds = train.rounds or (train.epochs or EPOCHS) * plan.per_epoch
        return cls(job, methods.build(job.method), plan, rounds, widths, *held)

    @property
    def rows(self) -> dict[Split, int]:
        """How many rows each split has."""
        return {
            "train": self.plan.rows,
            "validation": self.validation_count,
            "test": self.test_count,
        }

    @property
    def schedule(self) -> Schedule:
        """Which evaluations there are."""
        per_epoch, most = self.plan.per_epoch, self.method.window.most
        return Schedule.of(self.job.train, self.rounds, per_epoch, self.rows, most)

    def setup(self, name: str, start: int = 0, store: Store | None = None) -> Setup:
        """What a party's program starts from."""
        return Setup(
            self.method,
            self.plan,
            self.rounds,
            len(self.job.parties),
            self.schedule,
            agreed=self.method.local.at_start(name, self.timings()),
            checkpoint_every=self.job.train.checkpoint_every,
            store=store,
            start=start,
            stops_together=self.job.recovery.on_stop == "stop",
            logs=self.clocked,
        )

    def seat(
        self,
        name: str,
        build: Callable[[World, Setup], Program],
        store: Store | None = None,
        known: Known | None = None,
    ) -> Seat:
        """A party's place, where everything is known of everybody beforehand."""
        terms, rows = self.terms(), self.rows
        known = known or Known()
        hello = Hello(
            party=name,
            digest=digest(terms),
            rows=rows["train"],
            test_rows=rows["test"],
            width=self.widths[name],
            fingerprint=known.fingerprint,
            validation_rows=rows["validation"],
        )
        welcome = known.welcome(hello, self.widths)
        return Seat(
            hello=hello,
            terms=terms,
            build=lambda world, answer: build(world, self.setup(name, answer.start, store)),
            answer=(lambda heard: welcome) if name == self.job.active else None,
            store=store,
            width_max=widest(self.job, self.method, self.plan.rows, self.test_count),
        )

    def terms(self) -> dict[str, str]:
        """What all parties must agree on."""
        return terms_of(self.job, self.method.composition())

    def methods(self) -> dict[str, Method]:
        """The method with what each party has of its own."""
        return {name: own_method(self.method, self.job, name) for name in self.job.parties}

    def timings(self) -> dict[str, Timing] | None:
        """What the job says beforehand of the parties' speeds; None where they are measured."""
        found: dict[str, Timing] = {}
        if not self.clocked:
            return None
        for name in (party for party, width in self.widths.items() if width):
            costs, link = self.job.compute.of(name), self.job.network.of(name)
            leads = name == self.job.active
            parts = [costs.forward, costs.backward] + [costs.top] * leads
            if "measured" in parts:
                return None
            update_ns = sum(first_step(part) for part in parts)
            latency_ns = 0 if leads else first_step(link.latency)
            found[name] = Timing(update_ns, latency_ns)
        return found

    def evaluations(self, metric: Metric) -> Evaluations:
        """The active party's book of evaluations."""
        return Evaluations(self.job.train, metric, self.job.passives, self.schedule)


@dataclass(frozen=True)
class Prepared:
    """A job with its data read and its models built."""

    contract: Contract
    data: VerticalData
    bottoms: Mapping[str, Bottom]
    top: nn.Module | None
    objective: Objective
    metrics: list[Metric]

    def ground(self) -> Ground:
        """What every learner is built on."""
        contract = self.contract
        present = {party: width for party, width in contract.widths.items() if width}
        return Ground(
            contract.job, contract.methods(), contract.plan, present, self.objective, self.top
        )

    def sizes(self) -> Sizes:
        """How large the tensors are that cross."""
        contract, ground = self.contract, self.ground()
        dtype = DTYPES[contract.job.train.dtype]
        top = ground.build_top(self.bottoms[contract.job.active])
        return Sizes(
            widths=ground.widths,
            rows=contract.rows,
            evaluates_plain=contract.job.train.evaluate_plain,
            dtype=dtype,
            top=[tuple(parameter.shape) for parameter in top.parameters()],
            labels=torch.int64 if self.objective.name == "cross_entropy" else dtype,
            weighted=self.data.labels.weights is not None,
            known=self._known(),
        )

    def seat(
        self,
        name: str,
        store: Store | None = None,
    ) -> Seat:
        """A party's place."""

        def active(world: World, setup: Setup) -> Active:
            learner = build_active(
                self.ground(), self.bottoms[name], self.data.labels, self.metrics
            )
            evaluations = self.contract.evaluations(self.metrics[0])
            return Active(world, setup, learner, evaluations)

        def passive(world: World, setup: Setup) -> Passive:
            return Passive(world, setup, build_passive(self.ground(), name, self.bottoms[name]))

        build = active if name == self.contract.job.active else passive
        return self.contract.seat(name, build, store, self._known())

    def _known(self) -> Known:
        return self.objective.known(self.data.fingerprint)

    def remarks(self) -> list[str]:
        """What a person should know of the data before it is trained on."""
        return remarks(self.data.features, self.data.labels, self.contract.job.parties)

    def preprocessing(self, name: str) -> str | None:
        """How a party's table became numbers, as JSON; None when it has no table."""
        preprocessor = self.data.features[name].preprocessor
        return None if preprocessor is None else preprocessor.to_json()


def prepare(
    job: Job,
    data: VerticalData | None = None,
    models: Mapping[str, nn.Module] | None = None,
) -> Prepared:
    """Read the data, build or copy the models, and check that everything fits together."""
    modules = dict(models or {})
    method = check_names(job, ready=modules)
    if data is None and not names_data(job):
        raise DataError(
            "the job names no data: give each party a table, or set data to a data set; in Python, "
            "hand data to cn.simulate(job, cn.vertical(…))"
        )
    data = assemble(job) if data is None else data
    _check(job, data, modules, method)
    bottoms = {
        name: build_bottom(job, name, data.features[name], modules.get(name))
        for name in job.parties
    }
    widths = {name: bottom.width for name, bottom in bottoms.items()}
    labels = torch.as_tensor(data.labels.train)
    objective = Objective(job.train, data.task, data.classes, labels)
    counts = data.train_count, data.test_count, widths, data.validation_count
    contract = Contract.of(job, *counts)
    metrics = metrics_of(job.train, objective, data.labels, contract.schedule)
    return Prepared(contract, data, bottoms, modules.get("top"), objective, metrics)


def names_data(job: Job) -> bool:
    """Whether a job says where any of its rows come from."""
    return job.data is not None or any(
        party.table is not None or party.label is not None for party in job.parties.values()
    )


def _check(job: Job, data: VerticalData, modules: Mapping[str, nn.Module], method: Method) -> None:
    """What only shows when job, data, models and method are seen together."""
    for name in job.parties:
        if name not in data.features:
            hint = nearest(name, data.features)
            raise JobError(f"the job has a party '{name}' for which there are no columns: {hint}")
    positive = job.parties[job.active].positive
    if positive is not None and str(positive) not in data.labels.names[1:2]:
        raise JobError(
            f"parties.{job.active}.positive is {positive!r}, but in the data that is given the "
            f"classes are {', '.join(data.labels.names) or 'not named'}: give positive to "
            "cn.vertical instead"
        )
    for name in modules:
        if name != "top" and name not in job.parties:
            raise JobError(f"a model is given for '{name}', which is no party of the job")
    for name in job.passives:
        if data.features[name].train is None:
            raise JobError(f"{name} is passive and has no columns: give it some, or leave it out")
    if method.exchange.shares_labels and job.train.labels == "private":
        raise JobError(
            f"{method_name(job)} shows the labels to passive parties and train.labels is "
            "'private': choose exchange=gradients, or set train.labels = 'shared'"
        )
