"""The passive party's program: columns, a bottom model, no labels.

A loop of three steps: take in what has come, let the policies choose one action, do it. The
order in `_act` is the whole schedule; everything a method changes is an answer of a policy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from colonnade.errors import BreachError
from colonnade.job.terms import shown
from colonnade.learn.agreement import Agreement
from colonnade.learn.learner import PassiveLearner, Reply
from colonnade.party.loop import Handler, TrainingLoop, not_due
from colonnade.party.masking import awaited, counted_once, exchange_keys
from colonnade.party.outcome import REASONS, Outcome
from colonnade.party.probed import Follower
from colonnade.party.questions import Questions
from colonnade.party.warmup import rehearse, upload
from colonnade.party.world import (
    BACKWARD,
    DECODE,
    ENCODE,
    LOCAL_BACKWARD,
    LOCAL_FORWARD,
    Work,
    World,
)
from colonnade.policies.view import Exchange, Role
from colonnade.protect.masks import Masks
from colonnade.record.checkpoints import Store
from colonnade.record.events import RoundDone
from colonnade.wire.fault import Fault
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import (
    Barrier,
    Calibrate,
    CipherKey,
    Embedding,
    Evaluate,
    EvaluationEmbedding,
    Failure,
    Finish,
    Gradient,
    Labels,
    Leave,
    MaskKey,
    Message,
    Probe,
    Setting,
    Snapshot,
    Status,
)


class Passive(TrainingLoop):
    """The program and its state: `run` takes part in a job until the active party ends it."""

    learner: PassiveLearner

    def __init__(
        self,
        world: World,
        agreement: Agreement,
        learner: PassiveLearner,
        store: Store | None = None,
        masks: Masks | None = None,
    ) -> None:
        super().__init__(world, agreement, store)
        self.learner, self.masks = learner, masks
        self.calibration = Follower(self)
        (self.active,) = world.peers
        self.yields = self.method.local.yields(Role.PASSIVE)
        self.reports = self.method.local.reports
        self.recomputes = self.method.version.recomputes()
        self.stashes = self.method.updates_between and not self.recomputes
        self.compares = self.method.weight.weighs_fresh
        self.view.room = learner.room
        self.in_flight: dict[int, Exchange] = {}
        self.sent_ns: dict[int, int] = {}
        """When the embeddings were sent whose replies are not used yet, by round."""
        self.replies: deque[tuple[Exchange, Reply]] = deque()
        """Those that are not used yet, oldest first."""
        in_step = self.method.quorum.in_step
        self.questions = Questions(agreement.schedule, self.active, in_step)
        self.refills = False
        """After a barrier: as many batches as the window holds are sent at once."""
        self.barriers: deque[Barrier] = deque()
        """Where rounds are a party's own: the calls to come to a barrier, and then to save."""
        self.at_barrier = False
        self.finish: Finish | None = None

    async def run(self) -> Outcome:
        """Prepare, loop, and hand over what was learnt."""
        await self._exchange_keys()
        if self.agreement.start == 0:
            await upload(self.world, self.agreement, self.learner)
            parts = (Work.FORWARD, Work.BACKWARD)
            await rehearse(self.world, self.agreement, self.learner, self.view, parts)
        world, view = self.world, self.view
        while not await self._act():
            while world.pending() and not self._saves_next():
                self.take(await world.receive())
            view.now_ns = world.now()
        assert self.finish is not None
        last_word = Finish(self.view.sent - 1, self.finish.best, self.finish.reason)
        with self.world.off_clock(in_order=True):
            await self.world.send(self.active, last_word)
        return await self.end(self.finish.best, self.finish.reason, self.finish.fault)

    def handlers(self) -> Mapping[type[Message], Handler]:
        return {
            Gradient: self._take_reply,
            Snapshot: self._take_reply,
            Status: self._take_status,
            Evaluate: self._take_question,
            Calibrate: lambda sender, message: self.calibration.call(sender, message),
            Probe: lambda sender, message: self.calibration.take(sender, message),
            Setting: lambda sender, message: self.calibration.settle(sender, message),
            Labels: lambda sender, message: self.learner.learn_labels(message),
            Barrier: self._take_barrier,
            MaskKey: self._take_key,
            CipherKey: self._take_cipher_key,
            Finish: self._take_finish,
            Failure: self.take_failure,
        }

    async def _exchange_keys(self) -> None:
        """Before anything else: no embedding leaves without a mask."""
        if self.masks is None:
            return
        with counted_once(self.world, self.agreement.start), self.world.off_clock():
            await exchange_keys(self.world, self.active, self.masks, self.receive)

    def _take_key(self, sender: str, message: MaskKey) -> None:
        if self.masks is None:
            raise not_due(sender, message)
        self.masks.accept(sender, message, message.party)

    def _take_cipher_key(self, sender: str, message: CipherKey) -> None:
        masks = self.masks
        if masks is None or masks.missing() or masks.private is None or masks.private.draws:
            raise not_due(sender, message)
        masks.private.accept(sender, message)

    def _take_reply(self, sender: str, message: Reply) -> None:
        exchange = self.in_flight.pop(message.round, None)
        if exchange is None:
            raise self._breach(f"answered round {message.round + 1}, which is not open")
        exchange.replied_ns = self.world.now()
        self.replies.append((exchange, message))
        self.view.replies += 1
        self.method.window.on_signal(self.view, message.signal)

    def _take_status(self, sender: str, message: Status) -> None:
        if message.updates > (most := self.method.local.updates_max):
            raise self._breach(
                f"wants {message.updates} updates on an exchange, and at most {most} fit into "
                "the method's timeout"
            )
        self.view.agreed = message.updates

    def _take_question(self, sender: str, message: Evaluate) -> None:
        newest = self.view.sent - len(self.in_flight) - 1
        self.questions.accept(message, self.in_flight, newest)
        self.learner.prune(message.best, message.scored)

    def _take_finish(self, sender: str, message: Finish) -> None:
        if message.reason not in REASONS:
            raise not_due(sender, message)
        if not self.view.round - 1 <= message.round < self.view.sent:
            last = message.round + 1
            raise self._breach(f"ends the job after round {last}, which was not sent")
        self.questions.finish(message.best)
        self.finish = msgspec.structs.replace(message, fault=self._told(message.fault))

    def _told(self, fault: Fault | None) -> Fault | None:
        """What the active party says of the end, and of whom, fit to be shown."""
        if fault is None:
            return None
        sender = fault.sender if fault.sender in self.agreement.job.parties else ""
        return Fault(shown(fault.said), sender)

    def _take_barrier(self, sender: str, message: Barrier) -> None:
        if message.leaving and message.leaving not in self.agreement.job.parties:
            raise self._breach("calls to a barrier because of somebody who is no party")
        if message.leaving == self.world.me and not self.asked_to_leave:
            raise self._breach(f"wants {self.world.me} to leave, which did not ask for it")
        if not self.method.quorum.in_step:
            self.barriers.append(message)
        elif message.round < max(self.view.sent, self.view.round + 1):
            raise self._breach(f"wants a barrier after round {message.round}, which is past")
        else:
            self.checkpoint_rounds.add(message.round, message.leaving)

    def _breach(self, what: str) -> BreachError:
        return BreachError(self.active, f"{self.active} {what}")

    async def _act(self) -> bool:
        """Do the first thing that applies; True when the job is over."""
        view = self.view
        if self.barriers and self.at_barrier:
            await self._answer_barrier(self.barriers.popleft())
            return False
        exchange = None
        if self.holds and view.kept and not (self.yields and view.replies):
            exchange = self.method.local.next(view)
        if exchange is not None:
            await self._update_locally(exchange)
            return False
        if self.closed < view.round:
            self._close_round()
        if (waiting := self.questions.waiting) and waiting[0].after < view.round:
            await self._answer(waiting.popleft())
        elif view.replies:
            await self._use_reply()
        elif self.finish is not None and view.round > self.finish.round:
            return True
        elif view.round == self.checkpoint_rounds.next < view.rounds and self.finish is None:
            await self._save_at_barrier()
        elif self.barriers and view.in_flight == 0 and self.finish is None:
            await self._answer_barrier(self.barriers.popleft())
        elif self.calibration.due == view.round and self.finish is None:
            await self.calibration.advance()
        elif self._may_send() and self.method.window.may_send(view):
            if self.refills:
                await self._refill_window()
            await self._send_next()
            view.sent_since_fresh = True
        elif (
            self.finish is None
            and not self.holds
            and view.kept
            and (exchange := self.method.local.next(view)) is not None
        ):
            await self._update_locally(exchange)
        else:
            if self.learner.prefetches and self._may_send():
                self.learner.prefetch(self.agreement.plan.batch(view.sent))
            self.take(await self.world.receive(waiting_for=self.waiting_for))
        return False

    def _saves_next(self) -> bool:
        """Whether the party is at a barrier and was called to save: what comes behind it belongs to
        the time after it, and is not taken in before."""
        return self.at_barrier and bool(self.barriers)

    def _may_send(self) -> bool:
        view = self.view
        on = view.sent < self._limit()
        return on and self.finish is None and not (self.at_barrier or self.barriers)

    def _limit(self) -> int:
        """The batch up to which may be sent: the last one, or the next barrier."""
        return min(self.calibration.stops_at, self.checkpoint_rounds.next)

    async def _save_at_barrier(self) -> None:
        """Nothing is in flight: save, and go on with a full window."""
        round = self.checkpoint_rounds.next
        await self.save(round, self.world.ledger, self.checkpoint_rounds.advance())
        self.refills = True

    async def _answer_barrier(self, barrier: Barrier) -> None:
        """The first call is answered when nothing is in flight; at the second, all are so far."""
        self.at_barrier = not self.at_barrier
        if self.at_barrier:
            await self.world.send(self.active, Barrier(barrier.round))
        else:
            await self.save(barrier.round, self.world.ledger, barrier.leaving)

    async def _refill_window(self) -> None:
        """After a barrier: all batches but one that the window holds."""
        self.refills = False
        for _ in range(min(self.view.window.size, self._limit() - self.view.sent) - 1):
            await self._send_next()

    def _close_round(self) -> None:
        """The updates that hold on a round are done."""
        self.learner.end_round(self.view.round - 1)
        self.closed = self.view.round

    async def _send_next(self) -> None:
        world, view = self.world, self.view
        exchange = Exchange(view.sent, self.agreement.plan.batch(view.sent))
        exchange.updates_then = view.updates
        exchange.forward = await self.forward(exchange, stash=self.stashes)
        packed = await world.compute(partial(self.learner.pack, exchange), ENCODE, exchange.round)
        self.in_flight[view.sent] = exchange
        now_ns = self.sent_ns[view.sent] = world.now()
        view.actions.append((now_ns, "send", exchange.round))
        view.sent += 1
        if (in_flight := view.in_flight) > view.in_flight_max:
            view.in_flight_max = in_flight
        if world.stopping is not None and not self.asked_to_leave:
            self.asked_to_leave = True
            await world.send(self.active, Leave(exchange.round, world.stopping))
        if self.reports:
            status = Status(exchange.round, self.method.local.expected(view))
            await world.send(self.active, status)
        await world.send(self.active, Embedding(exchange.round, packed))

    async def _use_reply(self) -> None:
        """The fresh update, after as many new batches as the window wants under way first."""
        world, view, learner = self.world, self.view, self.learner
        if (ahead := self.method.window.refill(view)) > 0:
            for _ in range(min(ahead, self._limit() - view.sent)):
                await self._send_next()
        exchange, reply = self.replies.popleft()
        view.replies -= 1
        view.staleness = view.updates - exchange.updates_then
        present = None
        if view.staleness and (self.recomputes or self.compares):
            present = await self.forward(exchange, like=exchange.forward)
        await world.compute(partial(learner.unpack, exchange, reply), DECODE, exchange.round)
        began_ns = world.now()
        backward = partial(learner.backward, exchange, present, view.staleness)
        await world.compute(backward, BACKWARD, exchange.round)
        now_ns = world.now()
        view.backward_ns = now_ns - began_ns
        in_flight = view.in_flight
        view.remember(exchange, self.keep, began_ns, now_ns, learner.rate)
        self._tell_of(exchange, in_flight)

    def _tell_of(self, exchange: Exchange, in_flight: int) -> None:
        """The fresh update of a round is done, with so many in flight until then."""
        world, view = self.world, self.view
        world.tell(
            RoundDone(
                world.me,
                view.finished_ns,
                exchange.round,
                view.rounds,
                window=self.method.window.allowed(view),
                in_flight=in_flight,
                staleness=view.staleness,
                local=view.local,
                fresh=view.fresh,
                bytes_up=world.ledger.training_bytes("sent"),
                bytes_down=world.ledger.training_bytes("received"),
                sent_ns=self.sent_ns.pop(exchange.round),
                replied_ns=exchange.replied_ns,
                weights=self.learner.weighed,
            )
        )

    async def _update_locally(self, exchange: Exchange) -> None:
        """Forward anew with the present weights, then backward with the reply of then."""
        began_ns = self.world.now()
        forward = await self.forward(exchange, kind=LOCAL_FORWARD)
        backward = partial(self.learner.local_backward, forward, exchange)
        await self.world.compute(backward, LOCAL_BACKWARD, exchange.round)
        self.updated(exchange, exchange.round, began_ns)

    async def _answer(self, question: Evaluate) -> None:
        """Evaluation embeddings with the weights of the round that was asked for."""
        best = self.questions.is_test(question)
        with self.world.off_clock():
            if not best:
                keep = partial(self.learner.keep, question.round)
                await self.world.compute(keep, Work.EVALUATE, question.round)
            for split in question.splits:
                embed = partial(self.learner.evaluate, split, question.round, best)
                for start, packed in await self.world.compute(embed, Work.EVALUATE, question.round):
                    answer = EvaluationEmbedding(question.round, split, start, packed)
                    await self.world.send(self.active, answer)

    def state(self, ledger: Ledger) -> dict[str, Any]:
        return super().state(ledger) | {"questions": self.questions.state()}

    def restore(self, state: Any) -> None:
        super().restore(state)
        self.questions.restore(state["questions"])

    def waiting_for(self) -> str:
        if self.masks is not None and (keys := awaited(self.masks)) is not None:
            return keys
        if self.calibration.due == self.view.round:
            return f"{self.active}: to measure the line"
        if self.in_flight:
            return f"{self.active}: the reply to round {min(self.in_flight) + 1}"
        return f"{self.active}: to end the job"
