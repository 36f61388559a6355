"""Training, as a program of one party."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from math import inf
from typing import Any

from colonnade.errors import RequestError
from colonnade.job.bounds import WIDTH_MAX
from colonnade.job.records import Job
from colonnade.job.terms import terms as terms_of
from colonnade.learn.build import build_active, build_passive
from colonnade.learn.encrypted import check_encrypted
from colonnade.learn.objective import TASKS, Objective
from colonnade.learn.participant import Participant
from colonnade.methods.method import Method
from colonnade.party.active import Active
from colonnade.party.evaluation import Evaluations
from colonnade.party.kinds import training_kinds
from colonnade.party.masking import keys_of, masks_of
from colonnade.party.outcome import Outcome
from colonnade.party.passive import Passive
from colonnade.party.world import World
from colonnade.policies.view import Role
from colonnade.record.checkpoints import Store
from colonnade.record.tree import Tree
from colonnade.wire.messages import Hello, Welcome


class Training:
    """From a party's columns, and at the active party its labels, to the weights it learns.

    `ready` gives the party with its data; it is called when that is first needed.
    """

    start = 0

    def __init__(
        self,
        job: Job,
        me: str,
        method: Method,
        ready: Callable[[], Participant],
        store: Store | None = None,
        keep: Callable[[Outcome], None] = lambda outcome: None,
        parent: str = "",
    ) -> None:
        self.leads = me == job.active
        role = Role.ACTIVE if self.leads else Role.PASSIVE
        self.kinds = training_kinds(method, job.train, role)
        self.terms = terms_of(job, method.composition(), parent)
        self.store = store
        self.restarts = job.recovery.restarts
        self.loop: Active | Passive | None = None
        """The training loop since the parties last began; None before that."""
        self.keep = keep
        self._ready = ready
        self._parent = parent

    @classmethod
    def of(
        cls,
        party: Participant,
        store: Store | None = None,
        keep: Callable[[Outcome], None] = lambda outcome: None,
    ) -> Training:
        """Of a party that is ready.

        >>> from colonnade.job import load
        >>> from colonnade.run.setup import prepare
        >>> Training.of(prepare(load("digits"))["lab"]).kinds.names()
        (['Embedding', 'EvaluationEmbedding'], ['Gradient', 'Evaluate'])
        """
        return cls(party.job, party.me, party.method, lambda: party, store, keep, party.parent)

    @cached_property
    def party(self) -> Participant:
        """The party with its data, which is read now if it was not before."""
        return self._ready()

    @cached_property
    def hello(self) -> Hello:
        return self.party.hello

    @cached_property
    def width_max(self) -> int:
        """The widest embedding that another party may announce; it decides how much is
        allocated."""
        return self.party.agreement().width_max

    def refuse(self, peer: str, hello: Hello) -> str | None:
        mine = self.hello
        if _rows(hello) != _rows(mine):
            theirs, own = _rows(hello), _rows(mine)
            return f"{peer} has {theirs}, {mine.party} has {own}: run colonnade align first"
        if hello.fingerprint != mine.fingerprint:
            return (
                f"{peer} and {mine.party} have as many rows, but other ids or another order: "
                "run colonnade align first"
            )
        declared = self.terms.get(f"parties.{peer}.width")
        if declared is not None and declared != str(hello.width):
            return (
                f"the embedding of {peer} is {hello.width} wide, and may be {declared}: change its "
                f"model, or parties.{peer}.width in the job"
            )
        if declared is None and not 1 <= hello.width <= self.width_max:
            return (
                f"the embedding of {peer} is {hello.width} wide, and {mine.party} takes 1 to "
                f"{self.width_max} (limits.message_bytes, limits.table_bytes): change its model, "
                f"or raise the limits at {mine.party}"
            )
        return self._other_widths({peer: hello.width})

    def welcome(self, heard: Mapping[str, Hello]) -> Welcome:
        party = self.party
        assert party.objective is not None
        others = {name: hello.width for name, hello in heard.items()}
        shares = party.method.exchange.sends_snapshots
        known = party.objective.known(party.data.fingerprint, shares)
        return known.welcome(self.hello, party.agreement(others).widths)

    def begin(self, world: World, welcome: Welcome) -> None:
        self.loop, self.start = self.build(world, welcome), welcome.start

    def build(self, world: World, welcome: Welcome) -> Active | Passive:
        """The training loop before its first round."""
        party = self.party
        self._check(welcome)
        agreement = party.agreement(welcome.widths, welcome.start)
        agreement.check_memory()
        job, masks, keys = party.job, None, None
        if party.method.protect.sum is not None:
            assert party.credentials is not None, "nobody could tell whose keys they are"
            common = party.method, welcome, party.credentials()
            masks = masks_of(job, party.me, *common, party.randomness)
            keys = keys_of(job, *common)
        objective = party.objective if party.leads else self._objective(welcome)
        assert objective is not None
        if party.method.protect.cipher is not None:
            check_encrypted(objective, welcome.widths[job.active])
        if not party.leads:
            learner = build_passive(party, agreement, objective, masks)
            return Passive(world, agreement, learner, self.store, masks)
        evaluations = Evaluations(job.train, party.metrics[0], job.passives, agreement.schedule)
        learning = build_active(party, agreement, keys)
        return Active(world, agreement, learning, evaluations, self.store, keys)

    def _check(self, welcome: Welcome) -> None:
        """Widths come from the wire and decide how much is allocated."""
        known = set(welcome.widths) == set(self.party.job.parties)
        most = max(self.party.width, self.width_max)
        if not known or not all(0 <= width <= most for width in welcome.widths.values()):
            raise RequestError(
                f"{self.party.job.active} names other parties than the job has, or an embedding "
                f"wider than {most} (limits.message_bytes)"
            )
        if (fault := self._other_widths(welcome.widths)) is not None:
            raise RequestError(fault)

    def _other_widths(self, widths: Mapping[str, int]) -> str | None:
        """Why these are not the widths of the model that all go on from; None where they are, or
        there is no such model."""
        origin = self.party.origin if self._parent else None
        return None if origin is None else origin.check_widths(widths)

    def _objective(self, welcome: Welcome) -> Objective:
        """The loss, as it follows from what the active party says of its labels."""
        weights, sound = welcome.class_weights, [w for w in welcome.class_weights if 0 <= w < inf]
        active = self.party.job.active
        if weights and (len(weights) != welcome.classes or len(sound) != len(weights)):
            raise RequestError(f"{active} has weights of classes that are not one for each class")
        for task in TASKS:
            if welcome.task == task and 1 <= welcome.classes <= WIDTH_MAX:
                return Objective.told(self.party.job.train, task, welcome.classes, weights)
        raise RequestError(f"{active} has labels of an unknown kind")

    def _begun(self) -> Active | Passive:
        assert self.loop is not None, "the parties have not begun"
        return self.loop

    def outcome(self, reason: str) -> Outcome:
        """What the party has at this instant."""
        return self._begun().outcome(reason)

    def run(self, world: World) -> Coroutine[Any, Any, Outcome]:
        return self._begun().run()

    def release(self) -> None:
        """The outcome is known: what the party has in memory may be freed."""
        self._begun().release()

    def state(self) -> Tree:
        loop = self._begun()
        return loop.state(loop.world.ledger)

    def restore(self, state: Tree) -> None:
        self._begun().restore(state)


def _rows(hello: Hello) -> str:
    counts = f"{hello.rows} training, {hello.validation_rows} validation"
    return f"{counts} and {hello.test_rows} test rows"
