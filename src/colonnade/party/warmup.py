"""What may come before the first round: finding out how fast one is, filling a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from colonnade.errors import BreachError
from colonnade.learn.agreement import Agreement
from colonnade.learn.learner import Learner, PassiveLearner
from colonnade.party.world import Work, World
from colonnade.policies.view import View
from colonnade.wire.messages import Upload

FORWARD_SHARE = 1 / 3
"""Where speeds are measured, all of an update shows as its forward pass, and a third of it is."""


async def rehearse(
    world: World, agreement: Agreement, learner: Learner, view: View, parts: Sequence[Work]
) -> None:
    """One update that changes nothing: the first round's number of updates follows from it, or what
    is chosen by how fast the parties are."""
    method = agreement.method
    if not (method.rehearses or method.calibrates):
        return
    took = await _update(world, agreement, learner, parts)
    if method.calibrates:
        # The first time is no measure: much is set up in it that all later ones find ready.
        took = await _update(world, agreement, learner, parts)
        view.forward_ns, view.backward_ns = took.get(Work.FORWARD, 0), took.get(Work.BACKWARD, 0)
        if agreement.timings() is None:
            whole_ns = view.forward_ns
            view.forward_ns = int(whole_ns * FORWARD_SHARE)
            view.backward_ns = whole_ns - view.forward_ns
        view.aggregate_ns = took.get(Work.AGGREGATE, 0)
    if method.rehearses:
        view.update_ns = sum(
            took_ns for part, took_ns in took.items() if part is not Work.AGGREGATE
        )
        view.top_ns = took.get(Work.TOP, 0)
        learner.expect(method.local.expected(view))


async def _update(
    world: World, agreement: Agreement, learner: Learner, parts: Sequence[Work]
) -> dict[Work, int]:
    """How long each part of an update takes."""
    took, rows = {}, agreement.plan.batch(0)
    for part in parts:
        began_ns = world.now()
        # Going backward is rehearsed with going forward, and only takes its time here.
        module = {Work.FORWARD: "bottom", Work.TOP: "top", Work.AGGREGATE: "top"}.get(part)
        work = partial(learner.rehearse, rows, module) if module else _nothing
        await world.compute(work, part)
        took[part] = world.now() - began_ns
    return took


def _nothing() -> None:
    pass


async def upload(world: World, agreement: Agreement, learner: PassiveLearner) -> None:
    """Send the embeddings of all training rows, a batch at a time."""
    if not agreement.method.quorum.uploads:
        return
    (active,) = world.peers
    for start in range(0, agreement.plan.rows, agreement.plan.batch_size):
        embed = partial(learner.upload, start, agreement.plan.batch_size)
        await world.send(active, Upload(start, await world.compute(embed, Work.FORWARD)))


class Uploads:
    """At the active party: whose embeddings of all rows have not come yet. A party sends every row
    once, in the order of the rows, a batch at a time."""

    def __init__(self, agreement: Agreement, peers: Sequence[str]) -> None:
        self._wanted = agreement.plan.rows if agreement.method.quorum.uploads else 0
        self._batch = agreement.plan.batch_size
        self._taken = dict.fromkeys(peers, 0)
        """How many rows of each party have come: all before that one, each once."""

    def accept(self, sender: str, message: Upload) -> None:
        """The next rows have come; refuses any others."""
        start, rows = self._taken[sender], math.prod(message.tensor.shape[:1])
        due = min(self._batch, self._wanted - start)
        if (message.start, rows) != (start, due):
            raise BreachError(
                sender,
                f"{sender} uploaded {rows} rows from {message.start} on, where {due} from {start} "
                "on are due: every row once, in order",
            )
        self._taken[sender] += rows

    def missing(self) -> list[str]:
        """The parties that have not sent all."""
        return [peer for peer, rows in self._taken.items() if rows < self._wanted]
