"""Alignment as a program of one party.

All parties introduce themselves to each other, each with a signed key. The one with the fewest ids
leads (`lead.py`), the others follow (`follower.py`). Passive parties are connected with the active
one only; it hands on their letters, which it cannot read.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property, partial
from typing import Any

import msgspec

from colonnade.align.desk import Desk, Randomness, Secrets
from colonnade.align.evaluations import Evaluations
from colonnade.align.follower import Follower
from colonnade.align.lead import Lead
from colonnade.align.plan import Plan
from colonnade.align.roles import Found, Place, Role
from colonnade.align.sealing import NONCE_BYTES, Channel, check_introduction, introduce
from colonnade.align.workers import Workers
from colonnade.errors import BreachError, PartyError, RequestError, StoppedError
from colonnade.job.policy import Policy
from colonnade.job.records import Job
from colonnade.job.terms import digest
from colonnade.party.kinds import Kinds
from colonnade.party.world import Work, World
from colonnade.protect.keys import Credentials, Occasion
from colonnade.record.checkpoints import ANEW, Store
from colonnade.record.events import RoundDone
from colonnade.record.tree import Tree
from colonnade.wire.messages import ALIGNMENT, Finish, Hello, Introduction, Message, Sealed, Welcome


class Align:
    """From the ids of a party's table to the rows that all parties have, in one order.

    `ids` puts the party's ids on its desk, and says what others may know of how they look; it is
    called when they are first needed.
    """

    start = 0
    kinds = Kinds(ALIGNMENT, ALIGNMENT)

    def __init__(
        self,
        job: Job,
        me: str,
        ids: Callable[[], str],
        desk: Desk,
        workers: Workers,
        credentials: Credentials,
        randomness: Randomness,
        policy: Policy | None = None,
        store: Store | None = None,
        keep: Callable[[Found], None] = lambda found: None,
        step: int = 0,
    ) -> None:
        """`step` counts the updates; 0 is the alignment of all ids."""
        self.me = me
        self.leads = me == job.active
        self.terms = align_terms(job, step)
        self.store = store
        self.restarts = job.recovery.restarts
        self.step = step
        self._keep = keep
        self.role: Role | None = None
        """Its part, once all have introduced themselves."""
        self.introductions: dict[str, Introduction] = {}
        self.parties = tuple(job.parties)
        self._policy = policy or Policy()
        self._prepare, self._desk, self._workers = ids, desk, workers
        self._credentials, self._randomness = credentials, randomness

    @cached_property
    def hello(self) -> Hello:
        self._shape = self._prepare()
        if missing := self._desk.divide(self.step):
            raise RequestError(
                f"{missing:,} ids of {self.me} that were aligned before are not in its table any "
                "more, and an update can only add some: put them back, or align all anew, with "
                "--restart at all parties"
            )
        return Hello(self.me, digest(self.terms), len(self._desk.ids), test_rows=0, width=0)

    def refuse(self, peer: str, hello: Hello) -> str | None:
        return self._policy.refuse_ids(peer, hello.rows, self.hello.rows)

    def welcome(self, heard: Mapping[str, Hello]) -> Welcome:
        return Welcome(self.me, digest(self.terms), 0, {})

    def begin(self, world: World, welcome: Welcome) -> None:
        self.start = welcome.start
        self._occasion = Occasion(digest(self.terms), welcome.run, welcome.attempt)
        self._secrets = self._desk.secrets(welcome.run, self._randomness, self.step)
        self._mine = introduce(
            self.me,
            self.hello.rows,
            self._secrets.letters,
            self._randomness(NONCE_BYTES),
            self._occasion,
            self._credentials,
            self._shape,
        )

    def state(self) -> Tree:
        return {}

    def restore(self, state: Tree) -> None:
        pass

    def run(self, world: World) -> Coroutine[Any, Any, Found]:
        return _Party(self, world).run()

    def meet(self, said: Mapping[str, Introduction]) -> Role:
        """All have introduced themselves: who leads, and what this party has to do."""
        self._check_sizes(said)
        secrets = self._same_peers(said)
        channels = {
            name: Channel(secrets.letters, self._mine, said[name])
            for name in self.parties
            if name != self.me
        }
        plan = self._plan(secrets)
        evaluations = Evaluations(self._desk.folder, self._policy.oprf_evaluations_max)
        place = Place(
            self.me,
            plan,
            self._desk.ids,
            self._desk.generations(self.step),
            secrets.of_step(),
            channels,
            self._desk,
            self._workers,
            evaluations,
        )
        self.introductions = dict(said)
        self.role = (Lead if plan.lead == self.me else Follower)(place, self.start)
        return self.role

    def _plan(self, secrets: Secrets) -> Plan:
        """What is to be done in this step."""
        now = secrets.sizes[self.step]
        if not self.step:
            return Plan(now)
        before = secrets.sizes[self.step - 1]
        return Plan(now, {name: now[name] - before[name] for name in now}, secrets.lead)

    def keep(self, found: Found) -> None:
        """Keep what came out, and what an update begins with."""
        self._desk.keep_common(self.step, found.ids)
        self._keep(found)

    def check(self, party: str, said: Introduction, through: str) -> None:
        """Refuse words that a party did not sign; `through` is who handed them on."""
        try:
            check_introduction(said, party, self._occasion, self._credentials)
        except ValueError as fault:
            whom = party if party == through else f"{party}, through {through},"
            raise BreachError(through, f"{whom} introduces itself wrongly: {fault}") from None

    def _check_sizes(self, said: Mapping[str, Introduction]) -> None:
        for name, other in said.items():
            if name == self.me:
                continue
            refusal = self._policy.refuse_ids(name, other.size, self.hello.rows)
            if refusal is not None:
                raise RequestError(refusal)

    def _same_peers(self, said: Mapping[str, Introduction]) -> Secrets:
        """What two parties share comes from their keys, and is in tables that were sent: who has
        lost its key cannot go on with the others. Nor can who comes back with more ids."""
        now = {name: (other.key, other.size) for name, other in said.items() if name != self.me}
        known = self._secrets.peers
        for name, told in now.items():
            if name in known and known[name] != told:
                raise PartyError(
                    f"{name} has lost its key of this alignment, or has other ids than before: "
                    f"{ANEW}"
                )
        if dict(known) != now:
            sizes = {name: said[name].size for name in self.parties}
            self._check_growth(sizes)
            self._secrets = msgspec.structs.replace(
                self._secrets,
                peers=now,
                sizes=(*self._secrets.sizes[: self.step], sizes),
                lead=self._secrets.lead or Plan(sizes).lead,
            )
            self._desk.keep(self._secrets)
        return self._secrets

    def _check_growth(self, sizes: Mapping[str, int]) -> None:
        """The evaluations of all steps together are as many as the leading party has ids, since
        nobody has fewer than before."""
        if not self.step:
            return
        for name, before in self._secrets.sizes[self.step - 1].items():
            if sizes[name] < before:
                raise PartyError(
                    f"{name} has {sizes[name]:,} ids and had {before:,} before, and an update can "
                    f"only add some: {ANEW}"
                )

    @property
    def mine(self) -> Introduction:
        """How this party introduces itself to all the others."""
        return self._mine


def align_terms(job: Job, step: int = 0) -> dict[str, str]:
    """What parties must agree on before they align: who takes part, and how ids are compared.

    >>> from colonnade.job import load
    >>> align_terms(load("breast-cancer"))["ids"]
    '"nfc trim"'
    """
    roles = {f"parties.{name}.role": party.role for name, party in job.parties.items()}
    said: dict[str, Any] = {"program": "align", "parties": list(job.parties), **roles}
    said |= {"ids": job.ids.text()} | ({"update": step} if step else {})
    return {path: msgspec.json.encode(value).decode() for path, value in said.items()}


class _Party:
    """One attempt at an alignment: introductions, then letters until all are done."""

    def __init__(self, program: Align, world: World) -> None:
        self.program, self.world = program, world
        self.me = program.me
        self.finished: set[str] = set()
        self.saved = program.start

    async def run(self) -> Found:
        role = self.program.meet(await self._introductions())
        world = self.world
        while role.found is None:
            if world.pending():
                await self._receive(role)
            elif (work := role.work()) is not None:
                for letter in await world.compute(work, Work.ALIGN):
                    await self._send(letter)
                await self._save(role)
            else:
                await self._receive(role)
        await self._finish(role)
        return role.found

    async def _introductions(self) -> dict[str, Introduction]:
        world, program = self.world, self.program
        said = {self.me: program.mine}
        if not program.leads:
            (active,) = world.peers
            await world.send(active, program.mine)
        while len(said) < len(program.parties):
            sender, message = await self._next(
                lambda: f"{', '.join(self._silent(said))}: to introduce itself"
            )
            if not isinstance(message, Introduction) or message.party in said:
                raise self._odd(sender, message)
            party = sender if program.leads else message.party
            if party not in program.parties:
                raise self._odd(sender, message)
            program.check(party, message, sender)
            said[party] = message
        if program.leads:
            for peer in world.peers:
                for name, introduction in said.items():
                    if name != peer:
                        await world.send(peer, introduction)
        return said

    def _silent(self, said: Mapping[str, Introduction]) -> list[str]:
        return [name for name in self.program.parties if name not in said]

    async def _next(self, waiting_for: Callable[[], str]) -> tuple[str, Message]:
        if self.world.stopping is not None:
            raise StoppedError(
                f"stopped as planned after round {self.saved}: {self.world.stopping}"
            )
        received = await self.world.receive(waiting_for=waiting_for)
        assert received is not None
        return received

    async def _receive(self, role: Role) -> None:
        sender, message = await self._next(role.waits_for)
        if isinstance(message, Finish) and self.program.leads:
            self._ends(sender, message)
            return
        if not isinstance(message, Sealed):
            raise self._odd(sender, message)
        if self.program.leads and (message.sender != sender or message.to == sender):
            raise self._odd(sender, message)
        if message.to != self.me:
            await self._hand_on(sender, message)
            return
        channel = self._channel(sender, message)
        content = await self.world.compute(partial(channel.open, message), Work.ALIGN)
        await self.world.compute(partial(role.take, message, content), Work.ALIGN)

    def _channel(self, sender: str, message: Sealed) -> Channel:
        role = self.program.role
        assert role is not None
        channel = role.place.channels.get(message.sender)
        if channel is None:
            raise self._odd(sender, message)
        return channel

    async def _hand_on(self, sender: str, message: Sealed) -> None:
        if not self.program.leads or message.to not in self.world.peers:
            raise self._odd(sender, message)
        await self.world.send(message.to, message)

    async def _send(self, letter: Sealed) -> None:
        to = letter.to if self.program.leads else self.world.peers[0]
        await self.world.send(to, letter)

    async def _save(self, role: Role) -> None:
        """Each round is saved, so that no more than those in flight are repeated."""
        if role.done == self.saved:
            return
        self.saved = role.done
        if self.program.store is not None:
            save = partial(self.program.store.save, self.saved, self.program.state())
            await self.world.compute(save, Work.SAVE)
        world, rounds = self.world, role.place.plan.rounds
        sent, received = world.ledger.all_bytes("sent"), world.ledger.all_bytes("received")
        up, down = (received, sent) if self.program.leads else (sent, received)
        done = self.me, world.now(), self.saved - 1, rounds
        world.tell(RoundDone(*done, bytes_up=up, bytes_down=down))

    async def _finish(self, role: Role) -> None:
        """The active party hands letters on until everybody has the result."""
        last = Finish(role.place.plan.rounds, -1, "end")
        if not self.program.leads:
            await self.world.send(self.world.peers[0], last)
            return
        while len(self.finished) < len(self.world.peers):
            await self._receive(role)

    def _ends(self, sender: str, message: Finish) -> None:
        if sender in self.finished:
            raise self._odd(sender, message)
        self.finished.add(sender)

    def _odd(self, sender: str, message: Message) -> BreachError:
        what = type(message).__name__
        return BreachError(sender, f"{sender} sent a message that is not due, of kind {what}")
