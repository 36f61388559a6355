"""How a job measures its lines while it runs, and chooses what the method leaves open.

Nothing is in flight: before the first round, or at a barrier that the active party calls for when
rounds have become much slower or faster. It sends every passive party a few messages that only take
their time, and gets them back:

    0        a short one, which is answered when the party has nothing else to do
    1, 2     more of them, one after the other: the way there and back, and the jitter
    3, 4, 5  long ones (8 kB, or a batch of embeddings), one right after the other: how far apart
             they come is how long the line takes for one, in each direction

With the answers come the parties' speeds, as they were in the last round or a rehearsal. Then the
model of `colonnade plan` says what is best (`planning/choice.py`), every passive party is told its
part and holds it against the bounds of the job, and all go on.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from colonnade.compress import Buffer, Packed, chooses
from colonnade.errors import BreachError
from colonnade.learn.agreement import Agreement
from colonnade.learn.participant import DTYPES
from colonnade.party.loop import not_due
from colonnade.party.world import Work
from colonnade.planning.choice import Choice, choose
from colonnade.planning.workload import Line, Member, Speeds, Workload
from colonnade.policies import path
from colonnade.policies.view import PROBE_BYTES_MAX
from colonnade.policies.window import BandwidthDelay
from colonnade.record.events import Calibrated, Measured
from colonnade.wire.messages import Calibrate, Echo, Probe, Setting

if TYPE_CHECKING:
    from colonnade.party.active import Active
    from colonnade.party.passive import Passive

READY, SHORT, LONG = 0, (1, 2), (3, 4, 5)
"""The numbers of the probes."""
CALIBRATIONS_MAX = 20
"""How often a job may measure, the first time included."""
CHANGE = 1.25
"""Rounds that are slower or faster by this factor are a sign that lines or speeds have changed."""
BLOCK = 4
"""How many rounds are judged together at the least; whole windows, since what is sent at once comes
back at once."""
CALM = 20
"""The fewest rounds between two measurements; after one that finds nothing new, twice as many."""
FRAME_BYTES = 64
"""About what a probe has beside its zeros."""
NS_PER_S = 10**9


def long_bytes(agreement: Agreement, passive: str) -> int:
    """How long the long probes of a party are: as a plain batch of embeddings, up to a bound."""
    train = agreement.job.train
    rows = min(train.batch_size, agreement.rows["train"])
    return min(rows * agreement.widths[passive] * DTYPES[train.dtype].itemsize, PROBE_BYTES_MAX)


def zeros(count: int) -> Packed:
    """So many bytes that say nothing."""
    return Packed("plain", "uint8", (count,), Buffer(memoryview(bytes(count))))


def is_zeros(packed: Packed, count: int) -> bool:
    """Whether they are."""
    return (packed.codec, packed.dtype, packed.shape, packed.details) == (
        "plain",
        "uint8",
        (count,),
        b"",
    ) and not any(packed.data.view)


class Calibrations:
    """The active party's side."""

    def __init__(self, program: Active) -> None:
        self._program = program
        agreement = program.agreement
        begins = program.method.calibrates and agreement.start == 0
        self.due: int | None = 0 if begins else None
        """After how many rounds to measure next; None where nothing calls for it."""
        self.done = 0
        self._echoes: dict[str, dict[int, tuple[int, Echo]]] = {}
        """By party and number, when an answer came, and the answer."""
        self._expected: dict[str, list[int]] = {}
        self._measured: dict[str, Member] = {}
        self._watch: Watch | None = None
        self._reach = 0
        """No party can have sent a batch of this round or a later one."""

    def accept(self, sender: str, message: Echo) -> None:
        """An answer has come; refuses what does not answer the next probe."""
        due = self._expected.get(sender)
        if not due or message.number != due[0]:
            raise not_due(sender, message)
        size = long_bytes(self._program.agreement, sender) if message.number in LONG else 0
        if not is_zeros(message.tensor, size):
            raise BreachError(sender, f"{sender} answered a probe with something else than zeros")
        del due[0]
        self._echoes[sender][message.number] = self._program.world.now(), message

    def missing(self) -> list[str]:
        """Who has not answered all probes."""
        return [peer for peer, due in self._expected.items() if due]

    async def advance(self) -> None:
        """Measure, choose, tell everybody; all wait for it."""
        program = self._program
        if program.evaluations.open:
            await program.receive()
            return
        measured = await self._measure()
        workload = Workload.among(program.agreement.job, program.agreement.rows["train"], measured)
        made = await program.world.compute(partial(choose, program.method, workload), Work.SAVE)
        for peer in program.world.peers:
            if peer in made.down:
                program.learner.choose(peer, made.down[peer])
            setting = Setting(made.windows.get(peer, 0), made.up.get(peer, 0))
            await program.world.send(peer, setting)
        if made.windows:
            path.begin(program.view, dict(made.windows), program.view.round)
        self._tell(measured, made)
        calm = CALM
        if self._watch is not None and self._measured and alike(self._measured, measured):
            # It was noise: the next try may wait longer.
            calm = 2 * self._watch.calm
        self._watch = Watch(program.view.round, max(made.windows.values(), default=1), calm)
        self._measured, self.due = measured, None
        self.done += 1

    async def _measure(self) -> dict[str, Member]:
        program = self._program
        world, agreement, view = program.world, program.agreement, program.view
        self._echoes = {peer: {} for peer in world.peers}
        sent: dict[tuple[str, int], int] = {}
        for numbers in ((READY,), SHORT[:1], (*SHORT[1:], *LONG)):
            self._expected = {peer: list(numbers) for peer in world.peers}
            for number in numbers:
                for peer in world.peers:
                    size = long_bytes(agreement, peer) if number in LONG else 0
                    sent[peer, number] = world.now()
                    await world.send(peer, Probe(number, zeros(size)))
            while self.missing():
                await program.receive()
        members = {
            peer: Member(
                peer,
                agreement.widths[peer],
                Speeds(echoes[READY][1].forward_ns, echoes[READY][1].backward_ns),
                line_of(
                    [echoes[number][0] - sent[peer, number] for number in SHORT],
                    [echoes[number] for number in LONG],
                    long_bytes(agreement, peer),
                ),
            )
            for peer, echoes in self._echoes.items()
        }
        own = Speeds(view.forward_ns, view.backward_ns, view.aggregate_ns, view.top_ns)
        return members | {world.me: Member(world.me, agreement.widths[world.me], own)}

    def _tell(self, measured: Mapping[str, Member], made: Choice) -> None:
        program = self._program
        lines = []
        for name, member in measured.items():
            speeds, line, leads = member.speeds, member.line, name == program.world.me
            lines.append(
                Measured(
                    party=name,
                    forward_ns=speeds.forward_ns,
                    backward_ns=speeds.backward_ns,
                    aggregate_ns=speeds.aggregate_ns if leads else None,
                    latency_ns=None if leads else line.latency_ns,
                    jitter_ns=None if leads else line.jitter_ns,
                    up_bits=line.up_bits,
                    down_bits=line.down_bits,
                    window=made.windows.get(name),
                    embedding_bits=made.up.get(name),
                    gradient_bits=made.down.get(name),
                )
            )
        world, view = program.world, program.view
        expected = int(made.round_ns), int(made.bytes_up), int(made.bytes_down)
        program.tell(Calibrated(world.me, world.now(), view.round, tuple(lines), *expected))

    async def observe(self) -> None:
        """A round is aggregated: call for a measurement when rounds have changed their pace."""
        program = self._program
        view, method = program.view, program.method
        if not method.calibrates:
            return
        steered = isinstance(method.window, BandwidthDelay)
        window = max(view.path.windows.values()) if steered else method.window.most
        self._reach = max(self._reach, view.round + 1 + window)
        if self._watch is None:
            # The parties go on from a checkpoint, with what was chosen before it.
            self._watch = Watch(view.round, window)
        if steered and view.path.phase != "cruise":
            # Rounds do not come as they would by themselves: another window is being tried.
            self._watch.pause()
        elif (
            self.due is None
            and self._watch.changed(view.round, program.world.now())
            and self.done < CALIBRATIONS_MAX
            and method.quorum.in_step
            and self._reach + CALM < view.rounds
        ):
            self.due = self._reach
            for peer in program.world.peers:
                await program.world.send(peer, Calibrate(self.due))


class Watch:
    """Sees when rounds change their pace.

    >>> watch = Watch(0, window=1)
    >>> next(r for r in range(60) if watch.changed(r, 10 * r if r < 40 else 20 * r))
    40
    """

    def __init__(self, round: int, window: int, calm: int = CALM) -> None:
        """The rounds from this one on are watched, with so many in flight; the first of them only
        fill windows, and the next so many say what is usual."""
        self.calm = calm
        self._from = round + 2 * window
        self._quiet = self._from + calm
        self._least, self._most = inf, 0.0
        """Of what so many rounds took while nothing had changed."""
        self._times: deque[int] = deque(maxlen=window * -(-BLOCK // window) + 1)

    def pause(self) -> None:
        """The rounds from here on say nothing, until somebody asks again."""
        self._times.clear()

    def changed(self, round: int, now_ns: int) -> bool:
        """Whether the last rounds up to this one were slower or faster than usual."""
        times = self._times
        if round < self._from:
            return False
        times.append(now_ns)
        if len(times) < (times.maxlen or 0):
            return False
        took_ns = times[-1] - times[0]
        if round < self._quiet or not self._most:
            self._least, self._most = min(took_ns, self._least), max(took_ns, self._most)
            return False
        return not self._least / CHANGE <= took_ns <= self._most * CHANGE


def _alike(one: float | None, other: float | None) -> bool:
    """Whether two quantities differ by less than a change that is worth a measurement."""
    if not one or not other:
        return bool(one) == bool(other)
    return 1 / CHANGE <= one / other <= CHANGE


def alike(one: Mapping[str, Member], other: Mapping[str, Member]) -> bool:
    """Whether two measurements show the same lines and speeds."""
    return all(
        _alike(a, b)
        for name in one
        for a, b in zip(_figures(one[name]), _figures(other[name]), strict=True)
    )


def _figures(member: Member) -> tuple[float | None, ...]:
    speeds, line = member.speeds, member.line
    busy_ns = speeds.forward_ns + speeds.backward_ns + speeds.aggregate_ns
    return busy_ns, line.latency_ns, line.up_bits, line.down_bits


def line_of(trips_ns: list[int], answers: list[tuple[int, Echo]], size: int) -> Line:
    """A line, by how long short messages took there and back, and by how far apart long ones came
    at either end.

    >>> echo = Echo(3, 2_000_000, 0, 0, zeros(0))
    >>> line_of([100_000_000, 102_000_000], [(0, echo), (1_000_000, echo)], size=1000)
    Line(latency_ns=50000000, up_bits=8512000, down_bits=4256000, jitter_ns=2000000)
    """
    crossing = 8 * (size + FRAME_BYTES)
    came = [when for when, _ in answers]
    up_ns = min(later - before for before, later in itertools.pairwise(came))
    down_ns = min(echo.apart_ns for _, echo in answers[1:])
    return Line(
        latency_ns=min(trips_ns) // 2,
        up_bits=crossing * NS_PER_S // up_ns if up_ns > 0 else None,
        down_bits=crossing * NS_PER_S // down_ns if down_ns > 0 else None,
        jitter_ns=max(trips_ns) - min(trips_ns),
    )


class Follower:
    """A passive party's side: answers probes and takes what was chosen, within the bounds."""

    MOST = CALIBRATIONS_MAX

    def __init__(self, program: Passive) -> None:
        self._program = program
        agreement = program.agreement
        self.due: int | None = 0 if program.method.calibrates and agreement.start == 0 else None
        """After how many rounds all stop to measure; None where nobody called for it."""
        self._times = 0 if self.due is None else 1
        self._next = 0
        self._came: deque[int] = deque()
        self._answers: deque[Echo] = deque()

    @property
    def stops_at(self) -> int:
        """The batch up to which may be sent before that."""
        return self._program.view.rounds if self.due is None else self.due

    @property
    def _called(self) -> bool:
        """Whether everything before that is answered, if not used yet."""
        program = self._program
        return self.due is not None and program.view.sent >= self.due and not program.in_flight

    def call(self, sender: str, message: Calibrate) -> None:
        """All are to stop after a round."""
        view = self._program.view
        if self.due is not None or not self._program.method.quorum.in_step:
            raise not_due(sender, message)
        if not max(view.sent, view.round + 1) <= message.round < view.rounds:
            raise BreachError(
                sender, f"{sender} wants to measure after round {message.round}, which is past"
            )
        self._times += 1
        if self._times > self.MOST:
            raise BreachError(
                sender,
                f"{sender} wants to measure the line for the {self._times}th time: "
                f"{self.MOST} times are agreed on",
            )
        self.due, self._next = message.round, 0

    def take(self, sender: str, message: Probe) -> None:
        """A probe has come; the long ones are answered together."""
        program = self._program
        size = long_bytes(program.agreement, program.world.me) if message.number in LONG else 0
        if not self._called or message.number != self._next or self._next > LONG[-1]:
            raise not_due(sender, message)
        if not is_zeros(message.tensor, size):
            raise BreachError(sender, f"{sender} sent a probe that is not of {size} zeros")
        now_ns, view = program.world.now(), program.view
        apart_ns = now_ns - self._came[-1] if message.number in LONG[1:] else 0
        self._came.append(now_ns)
        self._next += 1
        self._answers.append(
            Echo(message.number, apart_ns, view.forward_ns, view.backward_ns, zeros(size))
        )

    async def advance(self) -> None:
        """Answer what can be answered, or wait."""
        program = self._program
        long_ones = self._answers and self._answers[0].number in LONG
        if self._answers and not (long_ones and len(self._answers) < len(LONG)):
            for _ in range(len(self._answers) if long_ones else 1):
                await program.world.send(program.active, self._answers.popleft())
        else:
            await program.receive()

    def settle(self, sender: str, message: Setting) -> None:
        """Go on with what was chosen, unless the job does not allow it."""
        program, view = self._program, self._program.view
        if not self._called or self._next != LONG[-1] + 1 or self._answers:
            raise not_due(sender, message)
        own = program.agreement.methods[program.world.me]
        part, window = chooses(own.compress.embedding), own.window
        allowed = (0,) if part is None else part.choices
        steered = isinstance(window, BandwidthDelay)
        if message.bits not in allowed or not (1 if steered else 0) <= message.window <= (
            window.most if steered else 0
        ):
            raise BreachError(
                sender,
                f"{sender} chose a window of {message.window} and {message.bits} bits, which the "
                "job does not allow",
            )
        if steered:
            window.on_signal(view, message.window)
        if message.bits:
            program.learner.choose(message.bits)
        self.due, self._next = None, 0
        self._came.clear()
