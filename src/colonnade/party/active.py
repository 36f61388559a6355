"""The active party's program: labels, the top model, and perhaps columns of its own.

The same loop as the passive party's: take in, choose, do. Whatever can be done while waiting
(its own forward pass) is done then, so that it costs nothing on the clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from colonnade.errors import BreachError, NotFiniteError
from colonnade.job.terms import shown
from colonnade.learn.agreement import Agreement
from colonnade.learn.learner import ActiveLearner
from colonnade.party.active_work import ActiveWork
from colonnade.party.barrier import CheckpointBarrier
from colonnade.party.calibration import Calibrations
from colonnade.party.evaluation import Evaluations
from colonnade.party.loop import Handler, not_due
from colonnade.party.masking import awaited, counted_once, hand_on
from colonnade.party.outcome import Outcome
from colonnade.party.scoring import ask_test, score
from colonnade.party.warmup import Uploads, rehearse
from colonnade.party.world import DECODE, ENCODE, LOCAL_BACKWARD, LOCAL_FORWARD, Work, World
from colonnade.policies.view import Exchange
from colonnade.protect.masks import Keys
from colonnade.record.checkpoints import Store
from colonnade.record.events import Event, Recorded, RoundDone
from colonnade.record.history import History
from colonnade.wire.fault import Fault
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import (
    Barrier,
    CipherKey,
    Echo,
    Embedding,
    EvaluationEmbedding,
    Failure,
    Finish,
    Leave,
    MaskKey,
    Message,
    Packed,
    Status,
    Upload,
)


class Active(ActiveWork):
    """The program and its state: `run` leads a job to its end."""

    history: History

    def __init__(
        self,
        world: World,
        agreement: Agreement,
        learner: ActiveLearner,
        evaluations: Evaluations,
        store: Store | None = None,
        keys: Keys | None = None,
    ) -> None:
        self.evaluations = evaluations
        super().__init__(world, agreement, store)
        self.learner, self.keys = learner, keys
        self.calibrations = Calibrations(self)
        self.history = History(agreement.plan.per_epoch)
        self.view.meet(world.peers)
        self.barrier = CheckpointBarrier(self)
        self.inbox: dict[tuple[str, int], Packed] = {}
        """Embeddings that wait, by party and round, in the order in which they came."""
        self.view.waiting = self.inbox.keys()
        self.uploads = Uploads(agreement, world.peers)
        self.ahead: Exchange | None = None
        """The next round's exchange, with the own forward pass done."""
        self.owed: Exchange | None = None
        """The exchange whose replies have not left, where they leave after the updates."""
        self.late_answer: Any = None
        """The answer of the last update on it."""
        self.times_arrivals = self.method.window.times_arrivals
        self.idle_round = -1
        self.began_ns = 0
        """When the last aggregation began."""
        self.losses: list[float] = []
        """Of the aggregations since the last whole round."""
        self.reason: str | None = None
        """Why the job ends, once it does."""
        self.fault: Fault | None = None
        self.finishing: set[str] = set()
        """Who has not said yet that nothing more comes of it."""

    async def run(self) -> Outcome:
        """Prepare, loop, end the job for everybody."""
        await self._exchange_keys()
        if self.agreement.start == 0:
            await self._prepare()
        world, view = self.world, self.view
        while not await self._act():
            while world.pending():
                self.take(await world.receive())
            view.now_ns = world.now()
            if world.stopping is not None or self.barrier.leaving:
                await self.barrier.plan()
        assert self.reason is not None
        best = self.evaluations.best
        with self.world.off_clock(in_order=True):
            for peer, last in self.view.answered.items():
                await self.world.send(peer, Finish(last, best, self.reason, self.fault))
                self.finishing.add(peer)
            # What was under way is counted here too, though nothing is made of it.
            while self.finishing:
                await self.receive()
        return await self.end(best, self.reason, self.fault)

    def state(self, ledger: Ledger) -> dict[str, Any]:
        return super().state(ledger) | {
            "idle_round": self.idle_round,
            "losses": list(self.losses),
            "evaluations": self.evaluations.state(),
            "history": self.history.state(),
        }

    def restore(self, state: Any) -> None:
        super().restore(state)
        self.idle_round, self.losses = state["idle_round"], list(state["losses"])
        self.evaluations.restore(state["evaluations"])
        self.history.restore(state["history"])
        # What had come from beyond the barrier comes again.
        self.view.arrived = dict(self.view.answered)

    async def _exchange_keys(self) -> None:
        if self.keys is None:
            return
        with counted_once(self.world, self.agreement.start), self.world.off_clock():
            await hand_on(self.world, self.keys, self.receive)

    def _take_key(self, sender: str, message: MaskKey) -> None:
        if self.keys is None:
            raise not_due(sender, message)
        self.keys.accept(sender, message, sender)

    def _take_cipher_key(self, sender: str, message: CipherKey) -> None:
        cipher = None if self.keys is None else self.keys.cipher
        if cipher is None or sender != cipher.first:
            raise not_due(sender, message)
        cipher.accept(sender, message)

    async def _prepare(self) -> None:
        """What the method wants done before the first round."""
        labels = self.learner.labels_message()
        if labels is not None:
            with self.world.off_clock():
                for peer in self.world.peers:
                    await self.world.send(peer, labels)
        tops = [Work.TOP] * self.method.rehearses + [Work.AGGREGATE] * self.method.calibrates
        own = [Work.FORWARD, Work.BACKWARD] if self.learner.has_features else []
        parts = [*tops, *own]
        await rehearse(self.world, self.agreement, self.learner, self.view, parts)
        while self.uploads.missing():
            await self.receive()

    def handlers(self) -> Mapping[type[Message], Handler]:
        return {
            Embedding: self._take_embedding,
            Status: self._take_status,
            Upload: self._take_upload,
            EvaluationEmbedding: self.evaluations.accept,
            Echo: lambda sender, message: self.calibrations.accept(sender, message),
            Leave: self._take_leave,
            MaskKey: self._take_key,
            CipherKey: self._take_cipher_key,
            Barrier: lambda sender, message: self.barrier.accept(sender),
            Finish: self._take_finish,
            Failure: self.take_failure,
        }

    def _take_embedding(self, sender: str, message: Embedding) -> None:
        view, most = self.view, self.method.window.most
        if message.round != (due := view.arrived[sender] + 1):
            fault = f"{sender} sent round {message.round + 1} when round {due + 1} was due"
            raise BreachError(sender, fault)
        if message.round - view.answered[sender] > most:
            raise BreachError(
                sender,
                f"{sender} sent round {message.round + 1}, and {view.answered[sender] + 1} have a "
                f"reply: the method lets {most} be in flight",
            )
        if message.round >= self.checkpoint_rounds.next:
            self.barrier.mark(sender, message)
        view.arrived[sender] = message.round
        if self.times_arrivals:
            view.came_ns[sender, message.round] = self.world.now()
        self.inbox[sender, message.round] = message.tensor

    def _take_status(self, sender: str, message: Status) -> None:
        if message.round >= self.checkpoint_rounds.next:
            self.barrier.mark(sender, message)
        most, due = self.method.local.updates_max, self.view.arrived[sender] + 1
        if message.updates > most or message.round != due:
            raise BreachError(
                sender,
                f"{sender} reported {message.updates} updates for round {message.round + 1}: "
                f"at most {most} fit into the method's timeout, and round {due + 1} is next",
            )
        self.view.reported[sender] = message.updates

    def _take_upload(self, sender: str, message: Upload) -> None:
        if sender not in self.uploads.missing():
            raise not_due(sender, message)
        self.uploads.accept(sender, message)
        self.learner.take_upload(sender, message)

    def _take_leave(self, sender: str, message: Leave) -> None:
        if sender in self.barrier.leaving:
            raise not_due(sender, message)
        if message.round >= self.checkpoint_rounds.next:
            self.barrier.mark(sender, message)
        self.barrier.leaving.append(sender)
        said = f"{sender} wants to stop: {shown(message.reason)}"
        self.world.tell(Recorded(self.world.me, self.world.now(), said))

    def _take_finish(self, sender: str, message: Finish) -> None:
        if sender not in self.finishing:
            raise not_due(sender, message)
        if message.round != (newest := self.view.arrived[sender]):
            fault = f"{sender} says that it sent {message.round + 1} rounds, and sent {newest + 1}"
            raise BreachError(sender, fault)
        self.finishing.remove(sender)

    def waiting_for(self) -> str:
        view = self.view
        if self.keys is not None and (keys := awaited(self.keys)) is not None:
            return keys
        if self.finishing:
            return f"{', '.join(sorted(self.finishing))}: to end the job too"
        if view.round == view.rounds or self.reason is not None:
            return f"{', '.join(self.evaluations.missing())}: evaluation embeddings"
        if late := self.calibrations.missing():
            return f"{', '.join(late)}: the answer to a probe of its line"
        if late := self.uploads.missing():
            return f"{', '.join(late)}: the embeddings of all rows"
        if self.method.quorum.remembers:
            return f"{', '.join(self.world.peers)}: an embedding of any of them"
        late = [peer for peer, newest in view.arrived.items() if newest < view.round]
        if not late and self.evaluations.open:
            return f"{', '.join(self.evaluations.missing())}: evaluation embeddings"
        if not late:
            called = self.barrier.missing() or self.world.peers
            return f"{', '.join(called)}: to reach the barrier after round {view.round}"
        return f"{', '.join(late)}: the embedding of round {view.round + 1}"

    async def _act(self) -> bool:
        """Do the first thing that applies; True when the job is over."""
        view, local, evaluations = self.view, self.method.local, self.evaluations
        exchange = local.next(view) if self.holds and view.kept else None
        if exchange is not None:
            await self._update_locally(exchange)
            return False
        if self.owed is not None:
            await self._reply_late()
            return False
        if self.closed < view.round:
            await self._close_round(view.round - 1)
        over = view.round == view.rounds or self.reason is not None
        if evaluations.open and (evaluation := evaluations.ready()) is not None:
            await score(self, evaluation)
        elif over and local.finishes and (exchange := local.next(view)) is not None:
            await self._update_locally(exchange)
        elif over and not evaluations.open:
            self.reason = self.reason or "end"
            if self.reason == "diverged" or not evaluations.untested():
                return True
            await ask_test(self)
        elif not over and view.round >= self.checkpoint_rounds.next and self.barrier.can_advance():
            await self.barrier.advance()
        elif not over and self.calibrations.due == view.round and not self.owed:
            await self.calibrations.advance()
        elif (
            self.inbox
            and not over
            and not evaluations.full
            and (turn := self.method.quorum.turn(view)) is not None
        ):
            await self._aggregate(*turn)
        elif not (self.holds or over) and view.kept and (exchange := local.next(view)) is not None:
            await self._update_locally(exchange)
        elif not over and not self.ahead and (due := self.method.quorum.expected(view)) is not None:
            self.ahead = await self.begin(due)
        else:
            if self.idle_round != view.round:
                self.idle_round = view.round
                self.method.window.on_first_idle(view)
            self.take(await self.world.receive(waiting_for=self.waiting_for))
        return False

    async def _aggregate(self, round: int, peers: tuple[str, ...]) -> None:
        """The embeddings of a turn are here: loss, replies, and the fresh update."""
        view, learner, order, local = self.view, self.learner, self.method.order, self.method.local
        exchange = self.ahead or await self.begin(round)
        assert exchange.round == round
        self.ahead = None
        self.method.window.at_aggregate(view)
        await self.calibrations.observe()
        exchange.completes = view.completing
        exchange.packed = {peer: self.inbox.pop((peer, round)) for peer in peers}
        try:
            gather = partial(learner.gather, exchange)
            exchange.others = await self.world.compute(gather, DECODE, round)
        except NotFiniteError as error:
            self.began_ns = self.world.now()
            self._note(math.nan, exchange.completes)
            self.diverge(Fault(f"{error} in round {round + 1}", sender=error.peer))
            return
        self.began_ns = self.world.now()
        wanted = order.at_once or not order.recomputes or self.method.weight.weighs
        aggregate = await self.derive(exchange, exchange.forward, wanted)
        view.aggregate_ns = self.world.now() - self.began_ns
        view.actions.append((self.world.now(), "aggregate", round))
        self._note(aggregate.loss, exchange.completes)
        if local.reports and learner.has_features:
            view.reported[self.world.me] = local.expected(view)
        view.agreed = local.agree(view)
        if aggregate.loss is not None and not math.isfinite(aggregate.loss):
            learner.forget()
            self.diverge(Fault(f"the loss of round {round + 1} is {aggregate.loss}"))
            return
        exchange.answer = aggregate.answer
        if order.at_once:
            await self._reply(exchange)
        else:
            self.owed, self.late_answer = exchange, aggregate.answer
        exchange.replied_ns = self.world.now()
        step = partial(learner.backward, exchange.forward, aggregate, round)
        await self.backward(step, round)
        now_ns = self.world.now()
        view.backward_ns = now_ns - exchange.replied_ns
        view.remember(exchange, self.keep, exchange.replied_ns, now_ns, learner.rate)

    def tell(self, event: Event) -> None:
        """Take it down for the history, which is saved with the party, and tell whoever listens."""
        self.history(event)
        self.world.tell(event)

    def diverge(self, fault: Fault) -> None:
        """What has come cannot be learnt from: no update is made of it, and the job ends."""
        self.reason, self.fault = "diverged", fault

    def _note(self, loss: float | None, completes: int | None) -> None:
        """Tell of a round when it is whole, and of a loss that ends the run."""
        if loss is not None:
            self.losses.append(loss)
        if completes is not None or (loss is not None and not math.isfinite(loss)):
            mean = sum(self.losses) / len(self.losses) if self.losses else None
            world, view = self.world, self.view
            now_ns, ledger = world.now(), world.ledger
            self.tell(
                RoundDone(
                    world.me,
                    now_ns,
                    view.round,
                    view.rounds,
                    mean,
                    in_flight=len(self.inbox),
                    local=view.local,
                    fresh=view.fresh,
                    bytes_up=ledger.training_bytes("received"),
                    bytes_down=ledger.training_bytes("sent"),
                    sent_ns=self.began_ns,
                    replied_ns=now_ns,
                )
            )
            self.losses.clear()

    async def _update_locally(self, exchange: Exchange) -> None:
        """Own embedding anew with the present weights, the others' as they came."""
        began_ns = self.world.now()
        own = await self.forward(exchange, kind=LOCAL_FORWARD)
        wanted = self.owed is exchange and not self.method.order.recomputes
        aggregate = await self.derive_again(exchange, own, wanted)
        if wanted:
            self.late_answer = aggregate.answer
        step = partial(self.learner.local_backward, own, aggregate, exchange.round)
        await self.backward(step, exchange.round, LOCAL_BACKWARD)
        # Where several aggregations make a round, the exchange may be of one that ends none.
        whole = exchange.completes
        self.updated(exchange, self.view.round if whole is None else whole, began_ns)

    async def _reply_late(self) -> None:
        """The own updates are done: reply with the last gradient, or with one taken now."""
        exchange = self.owed
        assert exchange is not None
        self.owed, exchange.answer = None, self.late_answer
        if self.method.order.recomputes:
            exchange.forward = await self.forward(exchange)
            derived = await self.derive(exchange, exchange.forward, wanted=True)
            exchange.answer = derived.answer
            self.view.actions.append((self.world.now(), "reply", exchange.round))
            self.learner.forget()
        await self._reply(exchange)

    async def _reply(self, exchange: Exchange) -> None:
        """Send everybody's gradient. Where the round is to be evaluated the question goes first,
        so that no passive party can be past the round before it hears of it."""
        world, view, done = self.world, self.view, exchange.completes
        for peer in exchange.packed:
            view.answered[peer] = exchange.round
        if done is not None and self.evaluations.due(done):
            with world.off_clock():
                for peer, question in self.evaluations.ask(done, view.answered).items():
                    await world.send(peer, question)
        for peer in exchange.packed:
            if self.method.local.reports:
                await world.send(peer, Status(exchange.round, view.agreed))
            pack = partial(self.learner.reply, exchange, peer, view.signals[peer])
            await world.send(peer, await world.compute(pack, ENCODE, exchange.round))
        if self.evaluations.open:
            self.evaluations.charge(done, world.ledger)

    async def _close_round(self, done: int) -> None:
        """The updates that hold on a round are done: the models are those of the round."""
        self.learner.end_round(done)
        if self.evaluations.due(done):
            await self.world.compute(partial(self._capture, done), Work.EVALUATE, done)
        self.closed = done + 1

    def _capture(self, done: int) -> None:
        self.learner.keep(done)
        self.evaluations.capture(done, self.learner.capture)
