"""What a job will send and take, and how long that lasts, before the first byte is sent.

The real programs of all parties run in virtual time, with learners that learn nothing, over the
links that the job states. Their ledger is the forecast. Of a short job that is the whole of it, so
that under a lock-step method the party's own ledger will say the same at the end. A long job is
worked out from its first rounds.

A few numbers that travel are known only later, such as which round was the best: `Evaluate`,
`Finish` and, at a passive party, `Welcome` can differ by a few bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from colonnade.job.metrics import METRICS as ASKED
from colonnade.job.records import Compute, Job, Link, Train
from colonnade.job.train import UNEVALUATED
from colonnade.learn.agreement import Agreement
from colonnade.learn.null import Record
from colonnade.learn.objective import FITS, Objective, Task
from colonnade.learn.participant import Participant
from colonnade.learn.schedule import EVALUATION_ROWS
from colonnade.models.top import Agg
from colonnade.net.link import Emulation
from colonnade.protect.keys import Assumed, Credentials
from colonnade.record.metrics import METRICS
from colonnade.run.ceiling import Most, ceiling
from colonnade.run.clock import null_trainings
from colonnade.run.setup import assumed_sizes
from colonnade.run.simulate import run_parties
from colonnade.sim.kernel import Simulator
from colonnade.sim.world import SimulatedWorld
from colonnade.units import NS_PER
from colonnade.wire.ledger import Direction, Entry, entries_of
from colonnade.wire.messages import Message

MESSAGE_NS, PLAIN_NS, PACKED_NS = 50_000, 1, 20
"""Roughly what a message takes to simulate, and each component in it, plain or compressed."""
WHOLE_NS = 4 * NS_PER["s"]
"""A job that takes longer than this to simulate is worked out from its first rounds."""
EVALUATED_MAX = 8 * EVALUATION_ROWS
JUDGED_MAX = 50_000_000
"""Rows, and components, of an evaluation; one that has more is scaled up from fewer rows."""
ROUNDLY = ("Embedding", "Gradient", "Snapshot", "Status")
"""The kinds that cross in every round."""
EXACT = ("Embedding", "EvaluationEmbedding")
"""The kinds of which a passive party sends as much as it may, where all go through all rounds."""
OF_TWO = ("auc", "pr_auc", "f1")
"""Metrics that fit several classes too, but are mostly asked for where there are two."""
CLASSES = 10
"""What a passive party takes for the number of classes: nobody but the active party knows them."""


CERTIFICATE_BYTES, SIGNATURE_BYTES = 4096, 512
"""What is taken for the certificate of another party, and its signature: longer than those of
`colonnade keys`, and of most authorities. Only keys for masks carry them."""


@dataclass(frozen=True)
class Forecast:
    """What one party's ledger will say at the end of a job that nothing disturbs."""

    entries: list[Entry]
    most: Most | None
    """At a passive party: the most that can leave of each kind that carries data."""
    rounds: int
    per_epoch: int
    time_s: float | None
    """On the links and with the computing that are stated; None where no link is."""
    about: bool
    """Whether the counts are only near what will be."""
    sampled: int | None
    """The first rounds from which the rest was worked out; None where all were run."""
    widths: dict[str, int]
    """How wide every party's embedding is, or is assumed to be."""
    classes: int
    """How many classes there are, or are assumed to be."""

    def a_round(self, entry: Entry) -> tuple[float, float] | None:
        """Messages and bytes in the mean of all rounds; None for what is not part of a round."""
        if entry["kind"] not in ROUNDLY:
            return None
        return entry["messages"] / self.rounds, entry["bytes"] / self.rounds


def forecast(me: Participant, emulation: Emulation | None = None) -> Forecast:
    """Say what a party will send and take in a job, and how long that lasts.

    `emulation` is a link to be assumed in the place of the one that the job states.

    >>> from colonnade.job import load
    >>> from colonnade.run.setup import participant
    >>> found = forecast(participant(load("digits", ["train.rounds=5"]), "lab"))
    >>> [(e["kind"], e["messages"]) for e in found.entries if e["direction"] == "sent"]
    [('Embedding', 5), ('EvaluationEmbedding', 2), ('Finish', 1), ('Hello', 1)]
    """
    scene = _Scene.of(me, emulation)
    whole = scene.agreement(scene.job.train)
    sampled = scene.sample(whole)
    seen = scene.run(whole) if sampled is None else scene.extrapolate(whole, sampled)
    stated = any(link != Link() for link in links(me, emulation).values())
    most = None if me.leads else ceiling(me)
    if most is not None and me.method.quorum.in_step:
        # Nothing of this rests on the clock, so that it is exact even where the rest is not.
        seen = seen.exactly(me.job.active, most)
    return Forecast(
        entries=seen.entries(),
        most=most,
        rounds=whole.rounds,
        per_epoch=whole.plan.per_epoch,
        time_s=seen.time_s if stated else None,
        about=me.method.by_clock or sampled is not None,
        sampled=sampled,
        widths=scene.widths,
        classes=assumed_objective(me).classes,
    )


def links(me: Participant, emulation: Emulation | None = None) -> dict[str, Link]:
    """The links that a party has, as stated, by the passive party at one end of each.

    >>> from colonnade.job import load
    >>> from colonnade.run.setup import participant
    >>> links(participant(load("digits"), "lab"))["lab"].latency
    '100ms'
    """
    own = me.job.passives if me.leads else (me.me,)
    if emulation is None:
        return {name: me.job.network.of(name) for name in own}
    rate = emulation.rate_bits
    line = Link(
        latency=f"{emulation.latency_ns}ns", bandwidth=None if rate is None else f"{rate}bit"
    )
    return dict.fromkeys(own, line)


class LinkedWorld(SimulatedWorld):
    """A simulated world in which the handshake and evaluation take their time on the link too."""

    async def send(self, to: str, message: Message) -> None:
        """As over a network: nothing arrives at once."""
        depth, self._off_clock = self._off_clock, 0
        try:
            await super().send(to, message)
        finally:
            self._off_clock = depth


@dataclass(frozen=True)
class _Seen:
    """What a simulation counted at the party: messages and bytes by peer, direction and kind."""

    counts: Mapping[tuple[str, Direction, str], tuple[float, float]]
    time_s: float

    def plus(self, less: _Seen, more: _Seen, times: float, larger: float = 1) -> _Seen:
        """With so many times what `more` has beyond `less`: of a kind of which both have as many
        messages there is no more. Embeddings of an evaluation are so many times `larger`."""
        counts = dict(self.counts)
        for key, (messages, size) in more.counts.items():
            known, known_size = less.counts.get(key, (0, 0))
            if messages != known:
                factor = times * (larger if key[2] == "EvaluationEmbedding" else 1)
                before, before_size = counts.get(key, (0, 0))
                counts[key] = (
                    before + factor * (messages - known),
                    before_size + factor * (size - known_size),
                )
        return _Seen(counts, self.time_s + times * larger * (more.time_s - less.time_s))

    def exactly(self, peer: str, most: Most) -> _Seen:
        """With what is known for certain of embeddings that are sent."""
        known: dict[tuple[str, Direction, str], tuple[float, float]] = {
            (peer, "sent", kind): most[kind] for kind in most if kind in EXACT
        }
        return _Seen({**self.counts, **known}, self.time_s)

    def entries(self) -> list[Entry]:
        """As rows of a ledger."""
        return entries_of({key: (round(m), round(b)) for key, (m, b) in self.counts.items()})


@dataclass(frozen=True)
class _Scene:
    """A job with null learners, as one party can know it."""

    me: Participant
    job: Job
    widths: dict[str, int]

    @classmethod
    def of(cls, me: Participant, emulation: Emulation | None) -> _Scene:
        """On the stated links, to the end of the job, with nothing measured on this machine."""
        job, own = me.job, me.width
        costs = {}
        for name in job.parties:
            given = job.compute.of(name)
            measured = [w for w in given.__struct_fields__ if getattr(given, w) == "measured"]
            costs[name] = msgspec.structs.replace(given, **dict.fromkeys(measured, "0ms"))
        stated = msgspec.structs.replace(
            job,
            train=msgspec.structs.replace(job.train, stop="end", patience=None),
            compute=Compute(overrides=costs),
            network=msgspec.structs.replace(
                job.network, overrides=job.network.overrides | links(me, emulation)
            ),
        )
        declared = {name: party.width for name, party in job.parties.items()} | {me.me: own}
        widths = {name: own or 1 if width is None else width for name, width in declared.items()}
        return cls(me, stated, widths)

    def agreement(self, train: Train, rows_max: int | None = None) -> Agreement:
        """What the job with another `[train]`, and perhaps with fewer rows, comes to."""
        rows = self.me.data.rows
        if rows_max is not None:
            rows = {split: min(count, rows_max) for split, count in rows.items()}
            rows["train"] = min(self.me.data.train_count, max(rows_max, train.batch_size))
        job = msgspec.structs.replace(self.job, train=train)
        return Agreement.of(job, rows, self.widths, clocked=False)

    def run(self, agreement: Agreement) -> _Seen:
        """Run everybody's program, and see what this party's ledger says."""
        # Each evaluation is the best so far: its number is then as long as it can be.
        rising = [{"accuracy": float(n), "full_loss": 0.0} for n in range(len(agreement.schedule))]
        # These have no parameters, and refuse widths that may only be assumed.
        bare = self.job.top.kind in ("agg", "dot") and not self.job.top.layers
        top = Agg() if bare else None
        simulator = Simulator(agreement.job, world=LinkedWorld)
        trainings = null_trainings(
            agreement,
            assumed_sizes(agreement, assumed_objective(self.me), self.me, top),
            METRICS["accuracy"],
            Record(evaluations=rising),
            credentials=assumed_credentials(self.me),
        )
        run_parties(simulator, trainings)
        rows = simulator.worlds[self.me.me].ledger.entries()
        counts = {(r["peer"], r["direction"], r["kind"]): (r["messages"], r["bytes"]) for r in rows}
        return _Seen(counts, simulator.now_ns / NS_PER["s"])

    def sample(self, whole: Agreement) -> int | None:
        """How many rounds to work out the job from; None where it is short enough to be run."""
        passives, across = len(self.job.passives), sum(self.widths.values())
        copies = passives if whole.method.exchange.sends_snapshots else 2
        packs = any("compress" in own.composition() for own in whole.methods.values())
        component_ns = PACKED_NS if packs else PLAIN_NS
        components = copies * across * whole.plan.batch_size
        round_ns = 2 * passives * MESSAGE_NS + components * component_ns
        judged = across * max(_judged_rows(whole), whole.rows["test"])
        judgements_ns = judged * component_ns * len(whole.schedule)
        if judged <= JUDGED_MAX and whole.rounds * round_ns + judgements_ns <= WHOLE_NS:
            return None
        rounds = max(1, min(whole.rounds // 2, WHOLE_NS // 4 // round_ns))
        return rounds - rounds % whole.plan.per_epoch if rounds > whole.plan.per_epoch else rounds

    def extrapolate(self, whole: Agreement, rounds: int) -> _Seen:
        """The whole job in a straight line through two beginnings of it, and one evaluation."""

        def beginning(rounds: int, rows_max: int | None = None, **evaluated: Any) -> Agreement:
            train = msgspec.structs.replace(self.job.train, epochs=None, rounds=rounds, **evaluated)
            return self.agreement(train, rows_max)

        short, double = (self.run(beginning(rounds * times, **UNEVALUATED)) for times in (1, 2))
        seen = double.plus(short, double, whole.rounds / rounds - 2)
        if judgements := len(whole.schedule):
            rarely = beginning(2, EVALUATED_MAX, evaluate_every="2 rounds")
            few = beginning(2, EVALUATED_MAX, evaluate_every="1 round")
            once, twice = self.run(rarely), self.run(few)
            seen = seen.plus(once, twice, judgements, _judged_rows(whole) / _judged_rows(few))
            if whole.schedule.tests:
                # The test rows at the end are asked for as those of an evaluation are.
                seen = seen.plus(once, twice, 1, whole.rows["test"] / _judged_rows(few))
        return seen


def _judged_rows(agreement: Agreement) -> int:
    """How many rows an evaluation asks for."""
    return sum(agreement.rows[split] for split in agreement.schedule.splits)


def assumed_credentials(me: Participant) -> dict[str, Credentials]:
    """With what each party signs, by its length: the own certificate is known, where there is one,
    and those of the others are taken for long ones."""
    found: dict[str, Credentials] = {
        name: Assumed(CERTIFICATE_BYTES, SIGNATURE_BYTES) for name in me.job.parties
    }
    if me.credentials is not None:
        own = me.credentials()
        found[me.me] = Assumed(len(own.certificate), own.signature_bytes_max)
    return found


def assumed_objective(me: Participant) -> Objective:
    """The loss, from which all that is known of the labels follows; a passive party concludes what
    it can from the job."""
    if me.objective is not None:
        return me.objective
    train, top = me.job.train, me.job.top
    summed = top.kind == "agg" and not top.layers
    single = top.kind == "dot" or (summed and me.width == 1)
    task: Task = "binary" if single or train.metric in OF_TWO else "multiclass"
    if train.metric in ASKED and ASKED[train.metric].tasks == ("regression",):
        task = "regression"
    if train.loss != "auto" and task not in FITS[train.loss]:
        task = FITS[train.loss][0]
    many = me.width if summed else CLASSES
    classes = {"binary": 2, "regression": 1, "multiclass": many}[task]
    weights = train.class_weights
    if isinstance(weights, str):
        weights = [1.0] * classes if weights == "balanced" else []
    return Objective.told(train, task, classes, weights)
