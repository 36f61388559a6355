"""The pace of methods that do not go in lock-step, round after round until it is steady.

Each party's times in a round follow from those of the rounds before: a party is free when its last
action is done, a message leaves when the line is free. What a party does next is decided as its
program decides (`docs/architecture.md`, the party programs); nothing is computed, encoded or sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from math import inf, lcm, sqrt

from colonnade.methods.method import Method
from colonnade.planning.member import Counted, Follower
from colonnade.planning.pace import Pace
from colonnade.planning.stages import Stages
from colonnade.planning.workload import Workload
from colonnade.policies import path
from colonnade.policies.local import WhileWaiting
from colonnade.policies.view import Role, View
from colonnade.policies.window import Annealed, BandwidthDelay, Pipelined

FOLLOWED = 96
"""Rounds that are followed at most; the rest go at the pace of the later half of them."""
_BLOCK = 12
"""Rounds after which a pace is compared with that of as many rounds before."""
_STEADY = 1e-6


class Recurrence:
    """All parties of a job, turn after turn."""

    def __init__(self, stages: Stages, method: Method, workload: Workload) -> None:
        self.stages, self.window = stages, method.window
        self.alone = method.quorum.remembers
        """Whether a turn is of one passive party."""
        self.own = Counted(Role.ACTIVE, method, workload)
        self.passives = [Follower(each, method, workload) for each in stages.passives]
        self.own.view.meet([each.stage.name for each in self.passives])
        self.own.free_ns = float(stages.rehearsal_ns.get(stages.active.name, 0))
        for each in self.passives:
            each.free_ns = float(stages.rehearsal_ns.get(each.stage.name, 0))
            if (upload := stages.uploads.get(each.stage.name)) is not None:
                arrived_ns = each.upload(upload)
                self.own.free_ns = max(self.own.free_ns, arrived_ns)
        self.per_round = len(self.passives) if self.alone else 1
        self.starts: list[float] = []
        """When each aggregation began."""

    def open(self, windows: Mapping[str, int]) -> None:
        """Begin with these windows."""
        path.begin(self.own.view, dict(windows), 0)
        for each in self.passives:
            self.window.on_signal(each.view, windows[each.stage.name])

    def skip(self, rounds: int) -> None:
        """Let so many rounds pass without following them."""
        for each in (self.own, *self.passives):
            each.skip(rounds)

    def follow(self, rounds: int, least: int) -> tuple[int, float]:
        """Follow so many rounds, or at least some until the pace is steady; how many, and the time
        of one at the end."""
        begun, starts, per_round = len(self.starts), self.starts, self.per_round
        turn = self._turn_of_one if self.alone else self._turn_of_all
        block = max(_BLOCK, least)
        for done in range(1, rounds + 1):
            for _ in range(per_round):
                turn()
            # Windows may stay for long, and then move.
            if done >= 3 * block and done % block == 0 and self.window.most == 1:
                now, before = (
                    starts[-1 - shift * block * per_round]
                    - starts[-1 - (shift + 1) * block * per_round]
                    for shift in (0, 1)
                )
                if abs(now - before) <= _STEADY * now:
                    return done, now / block
        between = (len(starts) - 1 - begun) // per_round
        counted = max(between // 2, 1)
        # What is sent at once comes back at once: a part of a window would mislead.
        burst = max(map(_window, self.passives), default=1)
        for whole in (lcm(least, burst), burst if burst > 1 else least):
            if counted >= whole:
                counted -= counted % whole
                break
        known = min(counted * per_round, len(starts) - 1)
        return rounds, (starts[-1] - starts[-1 - known]) / max(known / per_round, 1)

    def _turn_of_all(self) -> None:
        for each in self.passives:
            each.advance(inf, each.answered + 1)
        ready_ns = max(each.arrivals[each.answered] for each in self.passives)
        seen_ns, begin_ns = self._wait(ready_ns, ahead=True)
        if self.window.most > 1:
            self._signal(seen_ns, begin_ns, idles=seen_ns < ready_ns)
        self._aggregate(begin_ns, self.passives)

    def _signal(self, seen_ns: float, begin_ns: float, idles: bool) -> None:
        """Let the window judge who is late and who is ahead, by what the active party sees."""
        view = self.own.view
        view.now_ns = int(begin_ns)
        for each in self.passives:
            each.advance(seen_ns)
            view.arrived[each.stage.name] = view.round + each.arrived(seen_ns)
            if self.window.times_arrivals:
                arrived_ns = each.arrivals[each.answered]
                view.came_ns[each.stage.name, view.round] = int(min(arrived_ns, begin_ns))
        if idles:
            self.window.on_first_idle(view)
        self.window.at_aggregate(view)

    def _turn_of_one(self) -> None:
        for each in self.passives:
            each.advance(inf, each.answered + 1)
        next_one = min(self.passives, key=lambda each: each.arrivals[each.answered])
        ready_ns = next_one.arrivals[next_one.answered]
        _, begin_ns = self._wait(ready_ns, ahead=len(self.passives) == 1)
        self._aggregate(begin_ns, [next_one])

    def _wait(self, ready_ns: float, ahead: bool) -> tuple[float, float]:
        """Until a turn is there: when the active party first had nothing else to do, and when it
        begins to aggregate, its own forward pass being done."""
        now_ns, active, forward_done = self.own.free_ns, self.stages.active, False
        while now_ns < ready_ns and self.own.updates():
            now_ns += active.update_ns
        if ahead and now_ns < ready_ns:
            now_ns, forward_done = now_ns + active.begin_ns, True
        begin_ns = max(now_ns, ready_ns) + (0 if forward_done else active.begin_ns)
        return now_ns, begin_ns

    def _aggregate(self, begin_ns: float, parties: list[Follower]) -> None:
        active, signals = self.stages.active, self.own.view.signals
        self.starts.append(begin_ns)
        for place, each in enumerate(parties):
            each.answer(begin_ns + active.reply_after_ns(place), signals[each.stage.name])
        self.own.free_ns = begin_ns + active.free_after_ns
        self.own.fresh()

    def end_ns(self) -> float:
        """When the last update of any party is done, if no turn comes any more."""
        if self.own.method.local.finishes:
            while self.own.updates():
                self.own.free_ns += self.stages.active.update_ns
        return max(self.own.free_ns, *(each.end_ns() for each in self.passives))


def recurrent(
    stages: Stages, method: Method, workload: Workload, windows: Mapping[str, int] | None = None
) -> Pace:
    """The pace of any method, found round by round; with `windows` to begin with, where they were
    chosen beforehand.

    >>> from colonnade.job import load
    >>> from colonnade.methods import build
    >>> from colonnade.planning.stages import stages_of
    >>> work = Workload.of(load("digits"), 1024, {"clinic": 16, "lab": 16, "insurer": 16})
    >>> method = build({"name": "pasta", "b_max": 4})
    >>> recurrent(stages_of(method, work), method, work).windows
    {'lab': 4, 'insurer': 4}
    """
    played = Recurrence(stages, method, workload)
    if windows:
        played.open(windows)
    size, left_out_ns, weighed_ns = workload.per_epoch, 0.0, 0.0
    parties = {stages.active.name: played.own} | {each.stage.name: each for each in played.passives}
    filled = dict.fromkeys(parties, 0.0)
    least = size if size <= FOLLOWED // 4 else 1
    for rounds in _stretches(method, workload):
        before = {name: each.view.local for name, each in parties.items()}
        followed, round_ns = played.follow(min(rounds, max(_followed(method), 3 * least)), least)
        for name, each in parties.items():
            filled[name] += (each.view.local - before[name]) / followed * rounds / workload.rounds
        played.skip(rounds - followed)
        left_out_ns += (rounds - followed) * round_ns
        weighed_ns += rounds * round_ns
    turns, per_round = len(played.starts), played.per_round
    return Pace(
        round_ns=weighed_ns / workload.rounds,
        first_ns=played.starts[0],
        total_ns=played.end_ns() + left_out_ns,
        windows={each.stage.name: _window(each) for each in played.passives},
        filled=filled,
        turns={each.stage.name: each.answered * per_round / turns for each in played.passives},
    )


def _of_one_size(window: Annealed, rounds: int) -> Iterator[int]:
    """Rounds with as many in flight."""
    views = (View(Role.PASSIVE, rounds, rounds, 2, round=round) for round in range(rounds))
    for _, alike in groupby(views, window.allowed):
        yield sum(1 for _ in alike)


def _followed(method: Method) -> int:
    """A window that finds out what fills the pipe takes some of its own to do so."""
    measures = isinstance(method.window, BandwidthDelay)
    return FOLLOWED + 12 * method.window.most if measures else FOLLOWED


def _window(party: Follower) -> int:
    """How many exchanges are in flight in the end: a window that is steered says so."""
    view, steered = party.view, isinstance(party.method.window, Pipelined | BandwidthDelay)
    return view.window.size if steered else view.in_flight_max


def _stretches(method: Method, workload: Workload) -> Iterator[int]:
    """Rounds in which the policies are asked for the same: with local updates that become fewer,
    those up to the epoch in which they next do; with a window that does, those of one size."""
    local, size, left = method.local, workload.per_epoch, workload.rounds
    if isinstance(method.window, Annealed):
        yield from _of_one_size(method.window, workload.rounds)
        return
    if not (isinstance(local, WhileWaiting) and local.decay):
        yield left
        return
    epoch = 0
    while left > 0:
        budget, until = int(local.budget / sqrt(epoch + 1)), epoch + 1
        while until * size < left + epoch * size and int(local.budget / sqrt(until + 1)) == budget:
            until += 1
        rounds = min((until - epoch) * size, left)
        yield rounds
        left, epoch = left - rounds, until
