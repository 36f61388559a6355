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

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from colonnade.errors import BreachError
from colonnade.party.loop import not_due
from colonnade.party.probes import (
    CALIBRATIONS_MAX,
    LONG,
    READY,
    SHORT,
    is_zeros,
    line_of,
    long_bytes,
    zeros,
)
from colonnade.party.watch import CALM, Watch, alike
from colonnade.party.world import Work
from colonnade.planning.choice import Choice, choose
from colonnade.planning.workload import Member, Speeds, Workload
from colonnade.policies import path
from colonnade.record.events import Calibrated, Measured
from colonnade.wire.messages import Calibrate, Echo, Probe, Setting

if TYPE_CHECKING:
    from colonnade.party.active import Active


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
        steered = method.window.takes_choice
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
