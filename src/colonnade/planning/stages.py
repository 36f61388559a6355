"""What each party and link does in a round of a method, and for how long: the stages of a round.

Holding updates are on the way of a round, filling ones are not: a party does them while it would
wait, but a message that comes meanwhile waits until the one at hand is done.
"""

from __future__ import annotations

from typing import NamedTuple

from colonnade.methods.method import Method
from colonnade.planning.frames import Frames, frames
from colonnade.planning.workload import NS_PER_S, Member, Workload
from colonnade.policies.local import (
    Agreed,
    Deadline,
    LocalPolicy,
    Repeat,
    Timing,
    Until,
    Workset,
)
from colonnade.policies.view import PROBE_BYTES_MAX, Role


class Crossing(NamedTuple):
    """How long a round's messages are on the wire, apart from the latency."""

    up_ns: float
    down_ns: float


class PassiveStage(NamedTuple):
    """A passive party's part of a round."""

    name: str
    use_ns: int
    """From a reply at hand to the end of the fresh update."""
    again_ns: int
    """A forward pass more, for a reply that updates of its own have made stale."""
    spare_ns: int
    """The same where it is left out as long as the next reply is waiting."""
    held: int
    """Local updates before the next batch is sent."""
    update_ns: int
    """One local update."""
    send_ns: int
    """Forward and encoding of the next batch."""
    delay_ns: float
    """One-way latency, with the mean jitter."""
    jitter_ns: int
    full: Crossing
    """Of a whole batch."""
    last: Crossing
    """Of the last batch of an epoch."""

    @property
    def busy_ns(self) -> int:
        """What the party has to compute in a round."""
        return self.fresh_ns + self.again_ns

    @property
    def fresh_ns(self) -> int:
        """The same where nothing is stale."""
        return self.use_ns + self.held * self.update_ns + self.send_ns


class ActiveStage(NamedTuple):
    """The active party's part of a turn."""

    name: str
    begin_ns: int
    """Its own forward pass."""
    derive_ns: int
    """From the embeddings at hand to the derivatives."""
    reply_ns: int
    """Encoding of one reply."""
    step_ns: int
    """Its own backward pass."""
    held: int
    """Local updates before the next turn."""
    update_ns: int
    late_ns: int
    """Where replies leave after the updates: what is computed for them anew."""
    at_once: bool
    """Whether replies leave before its own updates."""
    replies: int
    """In a turn."""
    tried_ns: int = 0
    """In the first round only: an update that does not fit, which shows when it was tried."""

    @property
    def hold_ns(self) -> int:
        """The updates that hold."""
        return self.held * self.update_ns

    def reply_after_ns(self, place: int) -> int:
        """From the begin of an aggregation until the reply to the party at a place leaves."""
        late = 0 if self.at_once else self.step_ns + self.hold_ns + self.late_ns
        return self.derive_ns + late + (place + 1) * self.reply_ns

    @property
    def free_after_ns(self) -> int:
        """From the begin of an aggregation until nothing of the turn is left to do."""
        own = self.step_ns + self.hold_ns + (0 if self.at_once else self.late_ns)
        return self.derive_ns + self.replies * self.reply_ns + own

    @property
    def busy_ns(self) -> int:
        """What the party has to compute in a turn."""
        return self.begin_ns + self.free_after_ns


class Upload(NamedTuple):
    """The embeddings of all rows, a batch at a time."""

    batches: int
    forward_ns: int
    wire_ns: float

    @property
    def through_ns(self) -> float:
        """Until the last of them has left."""
        longer = max(self.forward_ns, self.wire_ns)
        return self.forward_ns + self.wire_ns + (self.batches - 1) * longer


class Stages(NamedTuple):
    """A round of a method, stage by stage."""

    active: ActiveStage
    passives: tuple[PassiveStage, ...]
    rehearsal_ns: dict[str, int]
    """By party, what it does before the first round to learn how fast it is."""
    uploads: dict[str, Upload] = {}  # noqa: RUF012 - nobody changes it
    """By passive party, how it sends the embeddings of all rows before the first round."""

    def loop_ns(self, place: int) -> float:
        """From an embedding's forward pass to the end of its fresh update: once around."""
        passive = self.passives[place]
        return passive.busy_ns + passive.spare_ns + self.away_ns(place)

    def away_ns(self, place: int) -> float:
        """How much of that an exchange is away from the party."""
        passive = self.passives[place]
        lines = 2 * passive.delay_ns + passive.full.up_ns + passive.full.down_ns
        return self.active.reply_after_ns(place) + lines

    @property
    def bottleneck_ns(self) -> float:
        """The longest stage: no window makes rounds shorter."""
        lines = [ns for each in self.passives for ns in each.full]
        return max(self.active.busy_ns, *(each.busy_ns for each in self.passives), *lines)


def stages_of(method: Method, workload: Workload) -> Stages:
    """The stages of a method.

    >>> from colonnade.job import load
    >>> from colonnade.methods import build
    >>> widths = {"clinic": 16, "lab": 16, "insurer": 16}
    >>> work = Workload.of(load("digits"), rows=1000, widths=widths)
    >>> stages_of(build({"name": "fedbcd", "updates": 3}), work).passives[0].held
    2
    """
    sizes = frames(method, workload)
    timings = _timings(workload)
    agreed = _agreed(method.local, workload)
    passives = []
    for each in workload.passives:
        speeds = each.speeds
        version = method.version
        always = version.recomputes() and not version.spares
        again = always or (method.weight.weighs_fresh and not version.spares)
        use_ns = speeds.codec_ns + speeds.backward_ns
        update_ns = speeds.forward_ns + speeds.backward_ns
        passives.append(
            PassiveStage(
                name=each.name,
                use_ns=use_ns,
                again_ns=speeds.forward_ns if again else 0,
                spare_ns=speeds.forward_ns if version.spares and not again else 0,
                held=_held(
                    method.local, Role.PASSIVE, each.name, use_ns, update_ns, agreed, timings
                ),
                update_ns=update_ns,
                send_ns=speeds.forward_ns + speeds.codec_ns,
                delay_ns=each.line.delay_ns,
                jitter_ns=each.line.jitter_ns,
                full=_crossing(sizes[each.name].full, each, workload),
                last=_crossing(sizes[each.name].last, each, workload),
            )
        )
    active = _active(method, workload, agreed, timings)
    rehearsal = _rehearsal(workload) if method.rehearses else {}
    if method.calibrates:
        rehearsal = _calibration(workload)
    uploads = _uploads(workload) if method.quorum.uploads else {}
    return Stages(active, tuple(passives), rehearsal, uploads)


def _active(
    method: Method, workload: Workload, agreed: int, timings: dict[str, Timing]
) -> ActiveStage:
    me, order = workload.active, method.order
    speeds, columns = me.speeds, me.width > 0
    forward_ns, backward_ns = (speeds.forward_ns * columns, speeds.backward_ns * columns)
    update_ns = forward_ns + speeds.top_ns + backward_ns
    late_ns = 0 if order.at_once or not order.recomputes else forward_ns + speeds.aggregate_ns
    held = _held(method.local, Role.ACTIVE, me.name, backward_ns, update_ns, agreed, timings)
    # How long the top model takes shows in the first local update, unless it was rehearsed.
    tried = (
        isinstance(method.local, Until)
        and not (held or method.rehearses)
        and forward_ns + 2 * backward_ns <= method.local.timeout_ns
    )
    return ActiveStage(
        name=me.name,
        begin_ns=forward_ns,
        derive_ns=speeds.codec_ns + speeds.aggregate_ns,
        reply_ns=speeds.codec_ns,
        step_ns=backward_ns,
        held=held,
        update_ns=update_ns,
        late_ns=late_ns,
        at_once=order.at_once,
        replies=1 if method.quorum.remembers else len(workload.passives),
        tried_ns=update_ns if tried else 0,
    )


def _held(
    local: LocalPolicy,
    role: Role,
    name: str,
    fresh_ns: int,
    update_ns: int,
    agreed: int,
    timings: dict[str, Timing],
) -> int:
    """How many local updates hold up a round at a party; those that yield to a reply do not."""
    if not local.holds(role) or local.yields(role):
        return 0
    match local:
        case Repeat() | Workset():
            return local.updates - 1
        case Until():
            left_ns = local.timeout_ns - fresh_ns
            if update_ns == 0:
                return 1
            return max(0, left_ns // update_ns)
        case Agreed():
            return agreed - 1
        case Deadline():
            return local.at_start(name, timings) - 1
    return 0


def _agreed(local: LocalPolicy, workload: Workload) -> int:
    """How many updates the parties agree on, where they do."""
    if not isinstance(local, Agreed):
        return 1
    fitting = []
    for name, timing in _timings(workload).items():
        if name in workload.widths:
            fits = max(1, local.timeout_ns // timing.update_ns) if timing.update_ns else 1
            fitting.append(min(fits, local.updates_max))
    return {"min": min, "max": max}[local.choice](fitting)


def _timings(workload: Workload) -> dict[str, Timing]:
    found = {}
    for each in (workload.active, *workload.passives):
        if each.width:
            speeds, leads = each.speeds, each is workload.active
            own_ns = speeds.forward_ns + speeds.backward_ns + speeds.top_ns * leads
            found[each.name] = Timing(own_ns, 0 if leads else each.line.latency_ns)
    return found


def _rehearsal(workload: Workload) -> dict[str, int]:
    active, own = workload.active, _timings(workload)
    only_top = {active.name: active.speeds.top_ns}
    return only_top | {name: timing.update_ns for name, timing in own.items()}


def _calibration(workload: Workload) -> dict[str, int]:
    """Until a party knows what was chosen: two rehearsals, three short ways there and back, long
    messages three times each way, and the word."""
    speeds = workload.active.speeds
    own_ns = speeds.aggregate_ns + (speeds.forward_ns + speeds.backward_ns) * bool(
        workload.active.width
    )
    ready_ns = {
        each.name: 2 * (each.speeds.forward_ns + each.speeds.backward_ns)
        for each in workload.passives
    }
    ready_ns[workload.active.name] = 2 * own_ns
    ways = []
    for each in workload.passives:
        item = {"float32": 4, "float64": 8}[workload.dtype]
        size = min(workload.batch_size * each.width * item, PROBE_BYTES_MAX)
        long_ns = 3 * (wire_ns(size, each.line.up_bits) + wire_ns(size, each.line.down_bits))
        ways.append(6 * each.line.delay_ns + long_ns)
    known_ns = max(ready_ns.values()) + max(ways, default=0)
    told = {each.name: int(known_ns + each.line.delay_ns) for each in workload.passives}
    return told | {workload.active.name: int(known_ns)}


def _uploads(workload: Workload) -> dict[str, Upload]:
    sizes, batches = frames(Method(), workload), -(-workload.rows // workload.batch_size)
    return {
        each.name: Upload(
            batches,
            each.speeds.forward_ns,
            wire_ns(sizes[each.name].full.up, each.line.up_bits),
        )
        for each in workload.passives
    }


def _crossing(size: Frames, member: Member, workload: Workload) -> Crossing:
    line = member.line
    codec_ns = workload.active.speeds.codec_ns
    # A status leaves before the reply is encoded, and may be through when that is done.
    status_ns = max(wire_ns(size.status, line.down_bits) - codec_ns, 0)
    up_ns = wire_ns(size.status, line.up_bits) + wire_ns(size.up, line.up_bits)
    return Crossing(up_ns, status_ns + wire_ns(size.down, line.down_bits))


def wire_ns(size: float, bits: int | None) -> float:
    """How long so many bytes take on a line.

    >>> wire_ns(1000, 8_000_000)
    1000000.0
    """
    return 0.0 if bits is None else size * 8 * NS_PER_S / bits
