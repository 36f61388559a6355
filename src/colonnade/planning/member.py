"""A party as its policies see it: the counts of its view, and the times of its actions.

Windows and local updates are asked of the method's own policies, so that none is told twice; what
is computed, encoded and sent is left out.
"""

from __future__ import annotations

from collections import deque
from math import inf

import numpy as np

from colonnade.methods.method import Method
from colonnade.planning.stages import PassiveStage, Upload
from colonnade.planning.workload import Workload
from colonnade.policies.view import Exchange, Role, View

_NO_ROWS = np.zeros(0, np.int64)


class Counted:
    """What both roles share: a view, and local updates that yield to messages or only fill time."""

    def __init__(self, role: Role, method: Method, workload: Workload) -> None:
        self.method, self._local = method, method.local
        members = 1 + len(workload.passives)
        # Where each passive party has turns of its own, a fast one may do the rounds of others.
        turns = members - 1 if method.quorum.remembers else 1
        rounds = workload.rounds * (turns if role is Role.PASSIVE else 1)
        per_round = turns if role is Role.ACTIVE else 1
        self.view = View(role, rounds, workload.per_epoch, members, per_round)
        self.free_ns = 0.0
        """When the action at hand is done."""
        self.holds, self.yields = self._local.holds(role), self._local.yields(role)
        # Updates that hold and do not yield are a part of the stage.
        self._asks = self._local.keep > 0 and (self.yields or not self.holds)
        self._keep = self._local.keep

    def fresh(self) -> None:
        """A fresh update is done."""
        view = self.view
        view.fresh += 1
        view.round = view.fresh // view.per_round
        view.locals_since_fresh, view.sent_since_fresh = 0, False
        if self._asks:
            view.kept.append(Exchange(view.round - 1, _NO_ROWS, updates=1))
            if len(view.kept) > self._keep:
                view.kept.popleft()

    def updates(self) -> bool:
        """Count one more local update, if the policy has one."""
        view = self.view
        if not (self._asks and view.kept):
            return False
        exchange = self._local.next(view)
        if exchange is None:
            return False
        exchange.sampled = view.local
        exchange.updates += 1
        view.local += 1
        view.locals_since_fresh += 1
        return True

    def skip(self, rounds: int) -> None:
        """Let so many rounds pass without following them."""
        view = self.view
        view.fresh += rounds * view.per_round
        view.round += rounds
        view.sent += rounds


class Follower(Counted):
    """A passive party: when its embeddings arrive, given when its replies leave."""

    def __init__(self, stage: PassiveStage, method: Method, workload: Workload) -> None:
        super().__init__(Role.PASSIVE, method, workload)
        self.stage = stage
        self.view.forward_ns = stage.spare_ns
        self.arrivals: list[float] = []
        """When each embedding is at the active party."""
        self.answered = 0
        """Replies that have left the active party."""
        self._held = 0
        self._replies: deque[tuple[float, int]] = deque()
        """Those not used yet: when each comes, and its signal."""
        self._updates_then: deque[int] = deque()
        """Updates done when each exchange in flight was sent."""
        self._ending = False
        self._up_free_ns = self._down_free_ns = 0.0

    def upload(self, upload: Upload) -> float:
        """Send the embeddings of all rows; when the last of them arrives."""
        self.free_ns += upload.batches * upload.forward_ns
        self._up_free_ns = upload.through_ns
        return self._up_free_ns + self.stage.delay_ns

    def answer(self, left_ns: float, signal: int) -> None:
        """A reply leaves the active party."""
        stage = self.stage
        crossing = stage.last if self._is_last(self.answered) else stage.full
        self._down_free_ns = max(self._down_free_ns, left_ns) + crossing.down_ns
        self._replies.append((self._down_free_ns + stage.delay_ns, signal))
        self.answered += 1

    def arrived(self, at_ns: float) -> int:
        """The newest of its rounds that is at the active party at an instant, counted from the
        next that is to be answered: -1 when that is not there."""
        newest = self.answered
        while newest < len(self.arrivals) and self.arrivals[newest] <= at_ns:
            newest += 1
        return newest - self.answered - 1

    def advance(self, until_ns: float, sent: float = inf) -> None:
        """Do everything that begins before an instant, or up to the sending of so many batches."""
        while len(self.arrivals) < sent and self.free_ns < until_ns and self._act():
            pass

    def end_ns(self) -> float:
        """When all updates on the replies that came are done, if no batch is sent any more."""
        self._ending = True
        while self._act():
            pass
        return self.free_ns

    def _act(self) -> bool:
        """The first action that applies; False when the party waits for what is not known yet."""
        view, stage = self.view, self.stage
        self._take_in()
        if self._held:
            self.free_ns += self._held * stage.update_ns
            self._held = 0
        elif self.holds and not view.replies and self.updates():
            self.free_ns += stage.update_ns
        elif view.replies:
            self._use()
        elif not self._ending and view.sent < view.rounds and self.method.window.may_send(view):
            self._send()
            view.sent_since_fresh = True
        elif not (self.holds or self._ending) and self.updates():
            self.free_ns += stage.update_ns
        elif self._replies:
            until_ns = max(self.free_ns, self._replies[0][0])
            view.idle_ns += int(until_ns - self.free_ns)
            self.free_ns = until_ns
        else:
            return False
        return True

    def _take_in(self) -> None:
        """A reply's signal counts from when it comes, not from when the reply is used."""
        view, replies = self.view, self._replies
        view.now_ns = int(self.free_ns)
        while view.replies < len(replies) and replies[view.replies][0] <= self.free_ns:
            signal = replies[view.replies][1]
            view.replies += 1
            self.method.window.on_signal(view, signal)

    def _use(self) -> None:
        """The fresh update, after as many batches as the window wants under way first."""
        view = self.view
        ahead = self.method.window.refill(view)
        for _ in range(0 if self._ending else min(ahead, view.rounds - view.sent)):
            self._send()
        self._replies.popleft()
        view.replies -= 1
        self.free_ns += self.stage.use_ns
        if view.updates > self._updates_then.popleft():
            again = self.method.version.again(view)
            self.free_ns += self.stage.again_ns + (self.stage.spare_ns if again else 0)
        self._held = self.stage.held
        self.fresh()

    def _send(self) -> None:
        view, stage = self.view, self.stage
        crossing = stage.last if self._is_last(len(self.arrivals)) else stage.full
        self._updates_then.append(view.updates)
        self.free_ns += stage.send_ns
        self._up_free_ns = max(self._up_free_ns, self.free_ns) + crossing.up_ns
        self.arrivals.append(self._up_free_ns + stage.delay_ns)
        view.sent += 1
        view.in_flight_max = max(view.in_flight_max, view.in_flight)

    def _is_last(self, round: int) -> bool:
        """Whether a batch is the last one of its epoch."""
        return (round + 1) % self.view.per_epoch == 0
