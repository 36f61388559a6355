"""One party's part of a job, where each party knows only its own: what `colonnade join` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from colonnade.data.one_party import Part, assemble_party
from colonnade.errors import JobError, RequestError
from colonnade.job.bounds import WIDTH_MAX
from colonnade.job.kinds import kinds
from colonnade.job.policy import Policy
from colonnade.job.records import Job
from colonnade.job.terms import digest, terms
from colonnade.learn.build import Bottom, Ground, build_active, build_bottom, build_passive
from colonnade.learn.objective import Objective, Task
from colonnade.methods.method import Method
from colonnade.party.active import Active
from colonnade.party.passive import Passive
from colonnade.party.session import Seat
from colonnade.party.setup import Setup
from colonnade.party.world import World
from colonnade.policies.view import Role
from colonnade.record.checkpoints import Store
from colonnade.record.metrics import Metric
from colonnade.run.extents import widest
from colonnade.run.measuring import metrics_of
from colonnade.run.naming import check_names, method_name
from colonnade.run.releases import Allowance, allowance
from colonnade.run.setup import Contract
from colonnade.wire.messages import Hello, Welcome

SpreadOut = Callable[[str, nn.Module], nn.Module]


@dataclass(frozen=True)
class Participant:
    """A party with its data read and its model built, before it has met the others."""

    job: Job
    me: str
    part: Part
    method: Method
    bottom: Bottom
    policy: Policy
    terms: Mapping[str, str] = field(repr=False)
    objective: Objective | None
    """Of the active party; a passive one hears of it, where it needs to know."""
    metrics: tuple[Metric, ...]
    spread: SpreadOut = lambda name, module: module
    """Spreads a model over several processes, where the party has them."""

    @property
    def leads(self) -> bool:
        """Whether this is the active party."""
        return self.me == self.job.active

    @property
    def hello(self) -> Hello:
        """How the party introduces itself."""
        return Hello(
            party=self.me,
            digest=digest(self.terms),
            rows=self.part.train_count,
            test_rows=self.part.test_count,
            validation_rows=self.part.validation_count,
            width=self.bottom.width,
            fingerprint=self.part.fingerprint,
        )

    def contract(self, widths: Mapping[str, int]) -> Contract:
        """The contract, once everybody's width is known."""
        ordered = self._ordered(widths)
        part = self.part
        counts = part.train_count, part.test_count, ordered, part.validation_count
        return replace(Contract.of(self.job, *counts), clocked=False)

    def allowance(self) -> Allowance:
        """How much a passive party lets go of its embeddings."""
        setup = self.contract(dict.fromkeys(self.job.parties, 1)).setup(self.me)
        return allowance(setup, self.policy)

    def seat(self, store: Store | None = None) -> Seat:
        """The party's place in the job."""

        def build(world: World, welcome: Welcome) -> Active | Passive:
            self._check(welcome)
            contract = self.contract(welcome.widths)
            setup = contract.setup(self.me, welcome.start, store)
            ground = self._ground(contract, welcome)
            if not self.leads:
                return self._passive(world, setup, ground)
            return self._active(world, setup, ground, contract)

        return Seat(
            hello=self.hello,
            terms=self.terms,
            build=build,
            answer=self._answer if self.leads else None,
            store=store,
            restarts=self.job.recovery.restarts,
            width_max=self._width_max(),
        )

    def _answer(self, heard: Mapping[str, Hello]) -> Welcome:
        others = {name: hello.width for name, hello in heard.items()}
        assert self.objective is not None
        known = self.objective.known(self.part.fingerprint)
        return known.welcome(self.hello, self._ordered(others))

    def _ordered(self, widths: Mapping[str, int]) -> dict[str, int]:
        known = {**widths, self.me: self.bottom.width}
        return {name: known[name] for name in self.job.parties}

    def _check(self, welcome: Welcome) -> None:
        """Widths come from the wire and decide how much is allocated."""
        known = set(welcome.widths) == set(self.job.parties)
        widest = max(self.bottom.width, self._width_max())
        if not known or not all(0 <= width <= widest for width in welcome.widths.values()):
            raise RequestError(
                f"{welcome.party} names other parties than the job has, or an embedding wider than "
                f"{widest} (limits.message_bytes)"
            )

    def _width_max(self) -> int:
        return widest(self.job, self.method, self.part.train_count, self.part.test_count)

    def _ground(self, contract: Contract, welcome: Welcome) -> Ground:
        objective = self.objective or Objective.told(
            self.job.train, _task(welcome), welcome.classes, welcome.class_weights
        )
        present = {name: width for name, width in contract.widths.items() if width}
        return Ground(
            self.job, contract.methods(), contract.plan, present, objective, None, self.spread
        )

    def _active(
        self,
        world: World,
        setup: Setup,
        ground: Ground,
        contract: Contract,
    ) -> Active:
        assert self.part.labels is not None
        learner = build_active(ground, self.bottom, self.part.labels, list(self.metrics))
        evaluations = contract.evaluations(self.metrics[0])
        return Active(world, setup, learner, evaluations)

    def _passive(self, world: World, setup: Setup, ground: Ground) -> Passive:
        return Passive(world, setup, build_passive(ground, self.me, self.bottom))


def _task(welcome: Welcome) -> Task:
    for task in ("binary", "multiclass", "regression"):
        if welcome.task == task and 1 <= welcome.classes <= WIDTH_MAX:
            return task
    raise RequestError(f"{welcome.party} has labels of an unknown kind")


def participant(job: Job, me: str, policy: Policy | None = None) -> Participant:
    """Read a party's data, build its model, and check all that it alone can check.

    >>> from colonnade.job import load
    >>> participant(load("digits"), "lab").hello.width
    16
    """
    policy = policy or Policy()
    method = check_names(job, [me])
    if method.exchange.shares_labels and job.train.labels == "private":
        raise JobError(
            f"{method_name(job)} shows the labels to passive parties and train.labels is "
            "'private': choose exchange=gradients, or set train.labels = 'shared'"
        )
    part = assemble_party(job, me)
    bottom = build_bottom(job, me, part.columns, None)
    if me != job.active and bottom.build is None:
        raise JobError(f"{me} is passive and has no columns: give it some in its party file")
    objective = None
    if part.labels is not None:
        assert part.task is not None and part.classes is not None
        labels = torch.as_tensor(part.labels.train)
        objective = Objective(job.train, part.task, part.classes, labels)
    made = Participant(
        job, me, part, method, bottom, policy, terms(job, method.composition()), objective, ()
    )
    sends, receives = kinds(method, job.train).of(job.parties[me].role)
    role = Role.ACTIVE if made.leads else Role.PASSIVE
    contract = made.contract(dict.fromkeys(job.parties, 1))
    if objective is not None and part.labels is not None:
        metrics = metrics_of(job.train, objective, part.labels, contract.schedule)
        made = replace(made, metrics=tuple(metrics))
    refusal = policy.refuse_job(
        job,
        me,
        rows=part.train_count,
        rounds=contract.setup(me).view(role).rounds,
        width=bottom.width,
        releases=0 if made.leads else made.allowance().needed,
        sends=sends,
        receives=receives,
    )
    if refusal is not None:
        raise RequestError(refusal)
    return made
