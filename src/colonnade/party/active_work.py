"""The active party's pieces of work: what it computes, what that costs, how long it took."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from colonnade.learn.learner import ActiveLearner, Aggregate
from colonnade.party.loop import TrainingLoop
from colonnade.party.world import AGGREGATE, BACKWARD, Work
from colonnade.policies.view import Exchange


class ActiveWork(TrainingLoop):
    """What the active party's program does with its models; the program says when."""

    learner: ActiveLearner

    async def begin(self, round: int) -> Exchange:
        """The own forward pass of a round."""
        exchange = Exchange(round, self.agreement.plan.batch(round))
        exchange.forward = await self.forward(exchange)
        return exchange

    def derive(self, exchange: Exchange, own: Any, wanted: bool) -> Awaitable[Aggregate]:
        """Loss and derivatives of an aggregation."""
        derive = partial(self.learner.aggregate, exchange, own, wanted)
        return self.world.compute(derive, AGGREGATE, exchange.round)

    async def derive_again(self, exchange: Exchange, own: Any, wanted: bool) -> Aggregate:
        """Loss and derivatives of a local update."""
        derive = partial(self.learner.aggregate, exchange, own, wanted, stale=True)
        began_ns = self.world.now()
        aggregate = await self.world.compute(derive, Work.TOP, exchange.round)
        self.view.top_ns = self.world.now() - began_ns
        return aggregate

    def backward(
        self, step: Callable[[], None], round: int, kind: Work = BACKWARD
    ) -> Awaitable[None]:
        """A party without columns has no backward pass of its own to pay for."""
        if self.learner.has_features:
            return self.world.compute(step, kind, round)
        return self._off_clock(step, round, kind)

    async def _off_clock(self, step: Callable[[], None], round: int, kind: Work) -> None:
        with self.world.off_clock():
            await self.world.compute(step, kind, round)
