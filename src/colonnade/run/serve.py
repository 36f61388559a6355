"""A party that scores rows on demand until it is stopped, over the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from colonnade.errors import RequestError, StoppedError
from colonnade.job.records import Job
from colonnade.net.detector import monotonic_ns, wall_ns
from colonnade.net.link import Emulation
from colonnade.net.runner import Address
from colonnade.party.program import Program
from colonnade.record.events import Connected, Event, Subscriber, Waiting
from colonnade.record.party_folder import PartyFolder
from colonnade.record.tally import TalliedChain
from colonnade.record.timeline import Timeline
from colonnade.run.predict import PredictParticipation
from colonnade.run.predict_party import PredictParty
from colonnade.run.surroundings import PartyWorld
from colonnade.serve.live import Live
from colonnade.tls.keyring import Keyring
from colonnade.units import NS_PER
from colonnade.wire.messages import Message

if TYPE_CHECKING:
    from colonnade.serve.listening import Listener
    from colonnade.serve.service import Service

RESTARTS = 2**62
WINDOW = 2
"""How many questions are on their way at once: while one is computed, the next is sent. With more,
fewer requests would go together."""
REMIND_NS = 10 * 60 * NS_PER["s"]
"""Between two lines that say that a party is still away."""


class _NoTimeline(Timeline):
    """Keeps nothing: a service has no end at which somebody could look at it."""

    def add(self, *span: object, **more: object) -> None:
        pass


class ServiceWorld(PartyWorld):
    """The network for a party that stays. When it is asked to stop, it first answers what it was
    asked already."""

    closing: Callable[[Callable[[], None]], None] | None = None
    """At the active party: ends the service over HTTP, then calls its argument."""
    _why: str | None = None

    def new_timeline(self) -> Timeline:
        return _NoTimeline()

    def stop(self, why: str) -> None:
        if self._why is None and self.agreed:
            self.detector.notice(f"answers what was asked, then stops: {why}")
            self._why = why
            if self.closing is not None:
                self.closing(lambda: self._leave(why))
            else:
                self.interrupt()
            return
        self._leave(why)

    def _leave(self, why: str) -> None:
        self.stopping = self.stopping or why
        self.changed.set()

    async def receive(
        self, until: int | None = None, waiting_for: Callable[[], str] | None = None
    ) -> tuple[str, Message] | None:
        # A passive party looks here for more when it has answered everything.
        if self._why is not None and not self.leads and not self.inbox:
            self._leave(self._why)
        return await super().receive(until, waiting_for)

    def _check(self, regroups: bool = True) -> None:
        if self.fault is None and self.stopping is not None:
            raise StoppedError(f"{self.me} stops serving: {self.stopping}")
        super()._check(regroups)


@dataclass(frozen=True)
class Choices:
    """What a service may be told on the command line."""

    deadline_ns: int = 200 * NS_PER["ms"]
    mean: bool = False
    batches: bool = True
    """Whether requests that wait go together."""
    token: bytes | None = None


def lasting_job(job: Job) -> Job:
    """The job as a service sees it: nobody stops because another does."""
    return replace(job, recovery=replace(job.recovery, on_stop="wait"))


class ServeParticipation(PredictParticipation):
    """One process of a party that serves, of either role."""

    chain_kind = TalliedChain
    world_kind = ServiceWorld
    keeps_time = False
    what = "serve"

    def __init__(
        self,
        party: PredictParty,
        folder: PartyFolder,
        listener: Listener | None,
        choices: Choices,
        subscribers: Sequence[Subscriber] = (),
    ) -> None:
        """The active party has a listener for HTTP."""
        party.job, party.restarts = lasting_job(party.job), RESTARTS
        self.party, self.me, self._listener, self._choices = party, party.me, listener, choices
        self.peers = party.job.passives if party.leads else (party.job.active,)
        self._service: Service | None = None
        self.live = Live(
            lambda: party.by_id,
            now=monotonic_ns,
            world_now=lambda: self.world.now(),
            may_ask=lambda: not self.away(),
            batches=choices.batches,
            on_batch=self._on_batch,
        )
        program = party.program(self.live if party.leads else None, WINDOW)
        super().__init__(party, folder, program, [Pace(subscribers), self._on_event])
        self.detector.patient = True

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Connected):
            self.live.wake()

    def _on_batch(self, requests: int, rows: int) -> None:
        if self._service is not None:
            self._service.metrics.batch(requests, rows)

    def away(self) -> tuple[str, ...]:
        """The parties that are not connected, or have to introduce themselves again."""
        world = self.world
        gone = tuple(peer for peer in self.peers if peer not in world.connections)
        if gone or world.agreed:
            return gone
        met = world.roster.peers
        return tuple(peer for peer in self.peers if met[peer].session is None) or self.peers

    def owing(self) -> tuple[str, ...]:
        """The parties that the oldest question waits for."""
        asking = self._program.asking
        return () if asking is None else asking.missing()

    def connected_since(self, peer: str) -> float | None:
        """When a party connected, in seconds of Unix time."""
        at_ns = self.detector.connected_ns(peer)
        if at_ns is None:
            return None
        return (wall_ns() - self.detector.now() + at_ns) / NS_PER["s"]

    def serve(self, address: Address, keyring: Keyring, emulation: Emulation | None = None) -> None:
        """Serve until somebody stops the party."""
        if self.party.leads:
            self._check_rows()
        elif (index := self.party.ready.index) is not None:
            _ = index.lookup  # Now, so that no request has to wait for it.
        try:
            self.take_part(address, keyring, emulation)
        except StoppedError:
            return

    def _check_rows(self) -> None:
        rows = self.party.by_id.rows
        if rows.ids is None and rows.order is None:
            raise RequestError(
                f"the rows of {self.me} have neither ids nor the order of the training: give a "
                "table with ids, or the one that was trained on"
            )

    async def _session(self, program: Program) -> str:
        if self._listener is None:
            return await super()._session(program)
        from colonnade.serve.app import application

        self._service = self._made_service()
        app = application(self._service, self._choices.token, self.detector.notice)
        world, drain_s = self.world, self._choices.deadline_ns / NS_PER["s"] + 1
        assert isinstance(world, ServiceWorld)
        async with self._listener.open(app, drain_s, world.fail) as stop:
            world.closing = stop
            self.detector.notice(f"answers at http://{self._listener.place}")
            return await super()._session(program)

    def _made_service(self) -> Service:
        from colonnade.serve.asked import IdReader
        from colonnade.serve.metrics import Metrics
        from colonnade.serve.service import Offer, Service

        party = self.party
        ready, rows = party.ready, party.by_id.rows
        assert ready.heads is not None
        own: Any = party.job.parties[self.me].id
        columns = () if rows.ids is None else (own,) if isinstance(own, str) else tuple(own or ())
        offer = Offer(
            party.job.name,
            ready.heads,
            {version: saved.preprocessor for version, saved in party.models.items()},
            IdReader(columns, party.job.ids),
            self._choices.deadline_ns,
            self._choices.mean,
        )
        runs = {version: saved.card.run for version, saved in party.models.items()}
        metrics = Metrics(self.peers, runs, self.away, lambda: self.live.waiting)
        return Service(offer, self.live, self, metrics)

    def _begun(self, start: int) -> None:
        self._has_begun = True
        if not self.detector.begun_ns:
            self.world.start_clock(self.detector.now())
        self.detector.note(f"serves with {', '.join(self.peers)}")


class Pace:
    """Tells subscribers that a party is away when that begins, and now and then."""

    def __init__(self, subscribers: Sequence[Subscriber]) -> None:
        self._subscribers = subscribers
        self._for = ""
        self._told_ns = 0

    def __call__(self, event: Event) -> None:
        """Hand an event on, unless it was told not long ago."""
        if isinstance(event, Waiting):
            awaited = (event.what or "").partition(":")[0]
            soon = event.time_ns - self._told_ns < REMIND_NS
            if event.what is None or (awaited == self._for and soon):
                return
            self._for, self._told_ns = awaited, event.time_ns
        elif isinstance(event, Connected):
            self._for = ""
        for subscriber in self._subscribers:
            subscriber(event)
