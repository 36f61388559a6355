"""The training as a program of two parties, with encryption.

In every round both send their components under their own keys. In every update each computes its
gradients under the other's key, sends them under a mask, decrypts what the other has sent, and
takes its mask off what comes back. So local updates save the components, which are most of the
bytes, and neither the decryption nor the round trips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from colonnade.cipher.paillier import (
    InvalidCipher,
    PublicKey,
    Randomness,
    generate,
    public_key,
)
from colonnade.cipher.slots import Whole
from colonnade.cipher.tensor import Encrypted, opened, read_opened, received
from colonnade.errors import BreachError
from colonnade.party.kinds import Kinds
from colonnade.party.world import Work, World
from colonnade.record.checkpoints import Store
from colonnade.record.tree import Tree
from colonnade.transfer.rows import Rows
from colonnade.transfer.sealed import (
    GuestArithmetic,
    HostArithmetic,
    masked,
    seal,
    unmasked,
)
from colonnade.transfer.setting import KEY_BITS, Bounds, Setting
from colonnade.transfer.sides import Guest, Host, Wholes
from colonnade.transfer.training import Trained, auc_of
from colonnade.wire.messages import (
    Buffer,
    Components,
    EvaluationEmbedding,
    Finish,
    Hello,
    Masked,
    Message,
    Opened,
    Packed,
    TransferKey,
    Welcome,
)

T = TypeVar("T")
M = TypeVar("M", bound=Message)
BOTH_WAYS = (TransferKey, Components, Masked, Opened)
_NAME = "federated transfer learning"


@dataclass
class Measured(Trained):
    """What a party knows at the end of an encrypted training."""

    at_ns: list[int] = field(default_factory=list)
    """When each round ended, since the job began."""
    busy_ns: list[int] = field(default_factory=list)
    """How long this party has computed, up to the end of each round."""
    cpu_s: float = 0.0
    """What the process has used of the processor, where it is one of its own."""
    ledger: list[Any] = field(default_factory=list)
    decrypted: list[tuple[Wholes, ...]] = field(default_factory=list)
    """Of the updates on the last exchange: its own numbers, and the gradients as it got them, by
    which `leak` goes."""
    components: tuple[Wholes, ...] = ()
    """What it encrypted in the last exchange; to compare what `leak` finds."""


class Transfer:
    """One party's part in it."""

    store: Store | None = None
    start = 0
    restarts = 0

    def __init__(
        self,
        me: str,
        leads: bool,
        setting: Setting,
        rows: Rows,
        random: Randomness,
        tell: Callable[[int, float], None] = lambda round, auc: None,
    ) -> None:
        self.me, self.leads, self.setting, self.rows = me, leads, setting, rows.of(leads)
        self.random, self.tell = random, tell
        sends, accepts = (*BOTH_WAYS,), (*BOTH_WAYS,)
        tells: tuple[type[Message], ...] = (EvaluationEmbedding,)
        self.kinds = Kinds(sends, (*accepts, *tells)) if leads else Kinds((*sends, *tells), accepts)

    @property
    def terms(self) -> Mapping[str, str]:
        """What both must mean."""
        return {"program": _NAME, "setting": repr(self.setting)}

    @property
    def hello(self) -> Hello:
        """How the party introduces itself."""
        return Hello(self.me, repr(self.setting), self.rows.overlap, 0, self.setting.width)

    def refuse(self, peer: str, hello: Hello) -> str | None:
        """Why the other cannot take part."""
        return None if hello.rows == self.rows.overlap else "it has another number of common rows"

    def welcome(self, heard: Mapping[str, Hello]) -> Welcome:
        """What the guest tells the host."""
        return Welcome(self.me, repr(self.setting), 0, {})

    def begin(self, world: World, welcome: Welcome) -> None:
        """A new key, and the initial weights."""
        self.key = generate(KEY_BITS, self.random)
        self.found = Measured([], [])
        self.busy_ns = 0
        side = Guest if self.leads else Host
        self.side: Guest | Host = side(self.setting, self.rows)
        self.bounds = Bounds(self.setting, self.rows)

    def state(self) -> Tree:
        """It has no checkpoints."""
        return {}

    def restore(self, state: Tree) -> None:
        """Never called."""

    def keep(self, outcome: Measured) -> None:
        """What came out is handed on by whoever runs this."""

    async def run(self, world: World) -> Measured:
        """All rounds."""
        (peer,) = world.peers
        await world.send(peer, TransferKey(self.key.public.to_bytes()))
        said = await self._next(world, TransferKey)
        self.theirs = self._checked(peer, lambda: public_key(said.key, KEY_BITS))
        for round in range(self.setting.rounds):
            arithmetic = await self._exchange(world, round)
            for update in range(self.setting.updates):
                await self._update(world, arithmetic, round, update)
            done = await self._evaluate(world, round)
            self.found.digests.append(self.side.bottom.digest())
            self.found.at_ns.append(world.now())
            self.found.busy_ns.append(self.busy_ns)
            if done:
                break
        self.found.ledger = list(world.ledger.entries())
        return self.found

    async def _exchange(self, world: World, round: int) -> GuestArithmetic | HostArithmetic:
        """Both send their components; what can be computed with the other's."""
        (peer,) = world.peers
        tensors = await self._compute(world, self._sealed, Work.ENCODE)
        await world.send(peer, Components(round, tensors))
        said = await self._next(world, Components, round)
        return await self._compute(world, partial(self._take, peer, said))

    def _sealed(self) -> tuple[Buffer, ...]:
        bounds = self.bounds.guest if self.leads else self.bounds.host
        own = self.side.components()
        self.found.components, self.found.decrypted = own, []
        return tuple(
            _buffer(seal(part, bound, self.setting, self.key, self.random).to_bytes())
            for part, bound in zip(own, bounds, strict=True)
        )

    def _take(self, peer: str, said: Components) -> GuestArithmetic | HostArithmetic:
        bounds = self.bounds.host if self.leads else self.bounds.guest
        shapes = [(self.setting.width, self.setting.padded)]
        shapes += 2 * [(self.rows.overlap, self.setting.padded)]
        theirs = self._tensors(peer, said.tensors, shapes, self.theirs, bounds)
        if isinstance(self.side, Guest):
            return GuestArithmetic(theirs, self.side.signs, self.bounds)
        return HostArithmetic(theirs)

    async def _update(
        self, world: World, arithmetic: GuestArithmetic | HostArithmetic, round: int, update: int
    ) -> None:
        (peer,) = world.peers
        mine = await self._compute(world, partial(self._masked, arithmetic), Work.ENCODE)
        buffers = tuple(_buffer(tensor.to_bytes()) for tensor, _ in mine)
        await world.send(peer, Masked(round, update, buffers))
        asked = await self._next(world, Masked, round, update)
        plain = await self._compute(world, partial(self._open, peer, asked))
        await world.send(peer, Opened(round, update, plain))
        said = await self._next(world, Opened, round, update)
        await self._compute(world, partial(self._learn, peer, said, mine, round))

    def _masked(
        self, arithmetic: GuestArithmetic | HostArithmetic
    ) -> list[tuple[Encrypted, Whole]]:
        """This party's gradients under the other's key, with the masks."""
        if isinstance(arithmetic, GuestArithmetic):
            both = arithmetic.gradients(self.side.factors)
            bounds = self.bounds.constant, self.bounds.guest_gradient
            return [masked(*pair, self.random) for pair in zip(both, bounds, strict=True)]
        own = arithmetic.gradients(self.side.factors)
        return [masked(own, self.bounds.host_gradient, self.random)]

    def _open(self, peer: str, asked: Masked) -> tuple[Buffer, ...]:
        """What the other has sent, decrypted."""
        wide = self.setting.padded
        rows = (self.rows.overlap, wide)
        shapes: list[tuple[int, ...]] = [rows] if self.leads else [(wide,), rows]
        most = self.setting.slots.limit - 1
        tensors = self._tensors(peer, asked.tensors, shapes, self.key.public, len(shapes) * [most])
        return tuple(_buffer(opened(tensor, self.key)) for tensor in tensors)

    def _learn(
        self, peer: str, said: Opened, mine: list[tuple[Encrypted, Whole]], round: int
    ) -> None:
        if len(said.tensors) != len(mine):
            raise BreachError(peer, f"{peer} decrypted {len(said.tensors)} tensors of {len(mine)}")
        gradients = tuple(
            unmasked(self._checked(peer, partial(read_opened, b.view, tensor)), mask, self.setting)
            for b, (tensor, mask) in zip(said.tensors, mine, strict=True)
        )
        self.found.decrypted.append((self.side.factors, *gradients))
        self.side.learn(gradients, round)

    async def _evaluate(self, world: World, round: int) -> bool:
        """AUC on the rows that only the host has, off the clock; whether the round was the last."""
        (peer,) = world.peers
        last = round + 1 == self.setting.rounds
        with world.off_clock(in_order=True):
            if isinstance(self.side, Host):
                shown = self.side.tested()
                packed = Packed("plain", "float64", shown.shape, _buffer(shown.tobytes()))
                await world.send(peer, EvaluationEmbedding(round, "test", 0, packed))
                done = await self._next(world, Finish)
                return done.reason != "round"
            said = await self._next(world, EvaluationEmbedding, round)
            auc = await world.compute(partial(self._auc, peer, said), Work.EVALUATE)
            self.found.auc.append(auc)
            self.tell(round, auc)
            target = self.setting.target
            reached = target is not None and auc >= target
            reason = "target" if reached else "end" if last else "round"
            await world.send(peer, Finish(round, -1, reason))
            return reached or last

    def _auc(self, peer: str, said: EvaluationEmbedding) -> float:
        shape = (len(self.rows.test_labels), self.setting.width)
        if said.tensor.shape != shape or said.tensor.dtype != "float64":
            raise BreachError(peer, f"{peer} sent embeddings of shape {said.tensor.shape}")
        shown = np.frombuffer(said.tensor.data.view, np.float64).reshape(shape)
        assert isinstance(self.side, Guest)
        return auc_of(self.rows.test_labels, self.side.scores(shown))

    def _tensors(
        self,
        peer: str,
        buffers: tuple[Buffer, ...],
        shapes: Sequence[tuple[int, ...]],
        key: PublicKey,
        bounds: Sequence[int],
    ) -> tuple[Encrypted, ...]:
        """What a partner has sent, if it is what is due."""
        if len(buffers) != len(shapes):
            raise BreachError(
                peer, f"{peer} sent {len(buffers)} tensors where {len(shapes)} are due"
            )
        slots = self.setting.slots
        return tuple(
            self._checked(peer, partial(received, buffer.view, shape, key, slots, bound))
            for buffer, shape, bound in zip(buffers, shapes, bounds, strict=True)
        )

    def _checked(self, peer: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except InvalidCipher as error:
            raise BreachError(peer, f"{peer} sent what is no encryption: {error}") from None

    async def _compute(self, world: World, work: Callable[[], T], kind: Work = Work.DECODE) -> T:
        began = world.now()
        result = await world.compute(work, kind)
        self.busy_ns += world.now() - began
        return result

    async def _next(self, world: World, kind: type[M], *place: int) -> M:
        """The next message, which must be of this kind and for this place."""
        got = await world.receive(waiting_for=lambda: f"the other's {kind.__name__}")
        assert got is not None
        peer, message = got
        if not isinstance(message, kind):
            raise BreachError(peer, f"{peer} sent a {type(message).__name__} that is not due")
        said = tuple(getattr(message, name) for name in ("round", "update")[: len(place)])
        if said != place:
            raise BreachError(peer, f"{peer} sent a {kind.__name__} of {said}, due is {place}")
        return message


def _buffer(content: bytes) -> Buffer:
    return Buffer(memoryview(content))
