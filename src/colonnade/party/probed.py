"""How a passive party lets its line be measured, and takes what was chosen, within the bounds of
the job (`calibration.py` has the active party's side)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from colonnade.compress import chooses
from colonnade.errors import BreachError
from colonnade.party.loop import not_due
from colonnade.party.probes import CALIBRATIONS_MAX, LONG, is_zeros, long_bytes, zeros
from colonnade.wire.messages import Calibrate, Echo, Probe, Setting

if TYPE_CHECKING:
    from colonnade.party.passive import Passive


class Follower:
    """A passive party's side: answers probes and takes what was chosen, within the bounds."""

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
                sender,
                f"{sender} wants to measure after round {message.round}, which is past or too late",
            )
        self._times += 1
        if self._times > CALIBRATIONS_MAX:
            raise BreachError(
                sender,
                f"{sender} wants to measure the line for the {self._times}th time: "
                f"{CALIBRATIONS_MAX} times are agreed on",
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
        steered = window.takes_choice
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
