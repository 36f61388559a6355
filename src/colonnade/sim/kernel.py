"""The simulated world: all parties in one process, in virtual time, deterministically.

The kernel drives the party coroutines itself. A party that waits has scheduled what wakes it and
is suspended; the kernel takes the next event from a heap ordered by (time, class, sequence), and
the clock jumps there. At one instant deliveries come first, then the active party acts, then the
passives; within a class, events come in the order in which they were scheduled. There are no
threads, there is no polling, and nothing depends on the machine (unless a cost is `"measured"`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from heapq import heappop, heappush
from typing import Any, TypeVar

from colonnade.errors import DeadlockError, FailedError
from colonnade.job.records import Job
from colonnade.record.events import Subscriber
from colonnade.sim.links import NS_PER_S, Pipe, Rule
from colonnade.sim.world import SimulatedWorld
from colonnade.units import show_seconds
from colonnade.wire.messages import Message

T = TypeVar("T")

OVERFLOW = 16
"""How many times over its bound an inbox may grow while its party is blocked in a send."""


class Interrupted(Exception):  # noqa: N818 - not an error: somebody asked for it
    """The simulation stopped between two events, because it was asked to."""


class Route:
    """One direction between two parties: the pipe, and the queue at its far end."""

    def __init__(self, kernel: Simulator, sender: SimulatedWorld, to: SimulatedWorld, pipe: Pipe):
        self.kernel = kernel
        self.sender = sender
        self.to = to
        self.pipe = pipe
        self.queued = 0
        """Messages sent and not yet in the receiver's inbox."""
        self.stalled: deque[bytearray] = deque()
        """Messages that have arrived while the inbox was full."""
        self.codes: dict[type[Message], int] = {}
        """By kind of message: the words of its spans in the sender's timeline."""
        self._ruled_ns = 0
        """The latest arrival so far of the messages that fault rules decided on."""

    def put(self, frame: bytearray, kind: str) -> None:
        """Send a frame; it arrives when the link lets it."""
        pipe, kernel = self.pipe, self.kernel
        if not pipe.rules:
            self.queued += 1
            kernel.deliver_at(pipe.arrival(len(frame), kernel.now_ns), self, frame)
            return
        names = self.sender.me, self.to.me
        for arrival_ns in pipe.arrivals(*names, kind, len(frame), kernel.now_ns):
            self._ruled_ns = max(self._ruled_ns, arrival_ns)
            self.queued += 1
            kernel.deliver_at(arrival_ns, self, frame)

    def put_at_once(self, frame: bytearray, in_order: bool = False) -> None:
        """Send a frame off the clock: it arrives now, or after all frames before it."""
        least_ns = max(self.pipe.last_arrival_ns, self._ruled_ns) if in_order else 0
        self.pipe.begun_ns = self.pipe.left_ns = self.kernel.now_ns
        self.queued += 1
        self.kernel.deliver_at(max(self.kernel.now_ns, least_ns), self, frame)

    def arrived(self, frame: bytearray) -> None:
        """Put an arrived frame into the inbox, or hold it until there is room."""
        # Behind a frame that is held every later one is held too, or it would overtake.
        if self.stalled or not self.kernel.has_room(self.to):
            self.stalled.append(frame)
            self.kernel.stalled += 1
        else:
            self._hand_over(frame)

    def release(self) -> None:
        """Put held frames into the inbox, as far as there is room."""
        while self.stalled and self.kernel.has_room(self.to):
            self.kernel.stalled -= 1
            self._hand_over(self.stalled.popleft())

    def _hand_over(self, frame: bytearray) -> None:
        self.queued -= 1
        self.to.take(self.sender.me, frame)
        if self.sender.blocked:
            self.kernel.wake_at(self.kernel.now_ns, self.sender)


class Simulator:
    """The kernel: virtual time, the event heap, and the parties' worlds."""

    def __init__(
        self,
        job: Job,
        rules: Sequence[Rule] = (),
        world: type[SimulatedWorld] = SimulatedWorld,
        subscribers: Sequence[Subscriber] = (),
    ) -> None:
        self.job = job
        self.subscribers = subscribers
        self.now_ns = 0
        self.events = 0
        self.queue_max = job.limits.queue_messages
        self.stalled = 0
        self._heap: list[tuple[int, int, int, Any, Any]] = []
        """(time, class, sequence, target, item). The sequence is unique, so targets are never
        compared, and events of one time and class keep the order in which they were scheduled."""
        self._programs: dict[str, Coroutine[Any, Any, Any]] = {}
        self.worlds = {
            name: world(
                self,
                name,
                job.passives if name == job.active else (job.active,),
                rank=0 if name == job.active else 1,
            )
            for name in job.parties
        }
        self.routes: dict[tuple[str, str], Route] = {}
        for number, name in enumerate(job.passives):
            for way, (a, b) in enumerate(((name, job.active), (job.active, name))):
                pipe = Pipe.of(job.network.of(name), (job.seed, number, way), rules)
                route = Route(self, self.worlds[a], self.worlds[b], pipe)
                self.routes[a, b] = self.worlds[a].routes[b] = route

    def wake_at(self, ns: int, world: SimulatedWorld) -> None:
        """Schedule a party to act at an instant, unless it acts before.

        The event carries the party's present `wake`, which grows whenever the party acts. So an
        event that is out of date needs no cancelling: its number does not match any more.
        """
        self.events += 1
        heappush(self._heap, (ns, 1 + world.rank, self.events, world, world.wake))

    def jump(self, ns: int) -> bool:
        """Advance the clock to an instant, if no event is due up to then; whether it did.

        The running party may then go on at once: it would have been the next to be woken. This
        saves a trip through the heap, and changes no result.
        """
        if self._heap and self._heap[0][0] <= ns:
            return False
        self.now_ns = ns
        return True

    def deliver_at(self, ns: int, route: Route, frame: bytearray) -> None:
        """Schedule the arrival of a frame."""
        self.events += 1
        heappush(self._heap, (ns, 0, self.events, route, frame))

    def has_room(self, world: SimulatedWorld) -> bool:
        """Whether a party's inbox may take another frame.

        An inbox may grow over its bound, `OVERFLOW` times at most, while its party is blocked in a
        send: otherwise two parties with full queues to each other could never go on.
        """
        held = len(world.inbox)
        return held < self.queue_max or (world.blocked and held < self.queue_max * OVERFLOW)

    def admit(self, to: SimulatedWorld) -> None:
        """Deliver held frames to a party whose inbox has room again."""
        for peer in to.peers:
            self.routes[peer, to.me].release()

    def run(
        self,
        programs: dict[str, Coroutine[Any, Any, T]],
        should_stop: Callable[[], bool] | None = None,
    ) -> dict[str, T]:
        """Run the party programs to their end; return what each returned."""
        results: dict[str, T] = {}
        heap, running = self._heap, self._programs
        running |= programs
        try:
            for name in programs:
                self.wake_at(0, self.worlds[name])
            while running:
                if not heap:
                    raise DeadlockError(self._deadlock(set(running)))
                if should_stop is not None and should_stop():
                    raise Interrupted
                self.now_ns, order, _, target, item = heappop(heap)
                if order == 0:
                    target.arrived(item)
                elif target.wake == item and (program := running.get(target.me)) is not None:
                    # All other wake-ups that were scheduled for it are out of date now.
                    target.wake += 1
                    try:
                        program.send(None)
                    except StopIteration as end:
                        results[target.me] = end.value
                        del running[target.me]
                    except FailedError as error:
                        at = show_seconds(self.now_ns / NS_PER_S)
                        error.add_note(f"at party {target.me}, {at}")
                        raise
        finally:
            # After an error the other programs are suspended: closing them runs their `finally`.
            for program in running.values():
                program.close()
        return results

    def _deadlock(self, unfinished: set[str]) -> str:
        waits = []
        for name in sorted(unfinished):
            since, waiting_for = self.worlds[name].waiting or (self.now_ns, lambda: "nothing")
            waits.append(
                f"{name} has waited since {show_seconds(since / NS_PER_S)} for {waiting_for()}"
            )
        return (
            f"everybody waits and nothing is under way at "
            f"{show_seconds(self.now_ns / NS_PER_S)}: {'; '.join(waits)}"
        )
