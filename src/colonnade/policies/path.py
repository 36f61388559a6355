"""How a window follows a path: by trying other sizes, and keeping those that pay.

The active party knows how fast rounds follow each other. It begins with windows of 1 and doubles
them as long as rounds become faster (*start*). When that does not pay any more the pipe is full:
rounds come at the rate x of the slowest stage, whichever that is. With one in flight a round took
R, the longest way there and back; so R·x exchanges are just enough for that, and fewer for a party
whose embeddings waited for others even then. From then on (*cruise*) it tries now and then larger
windows for all (*up*), or a smaller one for one party (*down*), and keeps what the rate speaks for.
A party whose embeddings always wait for others gets a smaller window at once. When rounds become
slower by themselves it tries half of all windows (*drain*): if rounds are no slower with that, the
slowest stage has become slower, and the rest was a queue; if they are, the way has become longer.

Machines are noisy, and the first rounds slow. So R is the shortest of the first rounds, a trial is
held against the rates of several measurements before it, and one slow measurement is none.
"""

from __future__ import annotations

import math

from colonnade.policies.view import View

GROWTH = 0.5
"""Larger windows are kept if rounds are faster by this much of what they are larger by."""
SHRINK = 0.25
"""Smaller windows are kept if rounds are slower by no more of what they are smaller by."""
CALM_TRIPS = 6
"""Measurements between two trials."""
SLOWER = 0.8
"""Rounds that come at so much of their rate are a sign of another path."""
SLOWER_TRIPS = 2
"""How many measurements on end must be so."""
RECENT = 0.3
"""How much of the rate that others are held against is of the last measurement."""
ROUNDING = 0.05
"""A share of an exchange that is not worth another one in flight."""
ROUNDS_LEAST = 8
"""Rounds of a measurement, but for the first ones, which end as soon as they can."""
WINDOWS_MOST = 4
"""Of the largest window, how many are measured at the most."""
TOO_EARLY, EARLY = 1.5, 0.25
"""By how many rounds an embedding may come before it is needed, and by how many it should."""


def observe(view: View, most: int) -> None:
    """A round is aggregated: note who had to wait, and if the measurement ends with it, judge.

    >>> from colonnade.policies.view import Role
    >>> view = View(Role.ACTIVE, rounds=100, per_epoch=100, parties=2)
    >>> view.meet(["telco"])
    >>> windows = []
    >>> for view.round in range(60):
    ...     # The way there and back takes 10 ms, and the slowest stage 2 ms.
    ...     view.now_ns += max(10 // view.path.windows.get("telco", 1), 2) * 10**6
    ...     observe(view, most=16)
    ...     windows.append(view.path.windows["telco"])
    >>> windows[0], windows[5], max(windows), windows[-1], view.path.phase
    (1, 2, 8, 5, 'cruise')
    """
    path = view.path
    if not path.windows:
        path.windows = dict.fromkeys(view.arrived, 1)
        path.before = dict(path.windows)
    elif path.since == 0:
        taken_ns = max(view.now_ns - path.round_ns, 1)
        path.way_ns = min(taken_ns, path.way_ns or taken_ns)
    path.round_ns = view.now_ns
    for peer in view.arrived:
        waited_ns = view.now_ns - view.came_ns.pop((peer, view.round), view.now_ns)
        path.waited_least[peer] = min(waited_ns, path.waited_least.get(peer, waited_ns))
        path.waited_most[peer] = max(waited_ns, path.waited_most.get(peer, 0))
    if view.round <= path.since:
        path.began_ns = view.now_ns
        path.waited_least, path.waited_most = {}, {}
    elif view.round >= path.until:
        rate = (view.round - path.since) / max(view.now_ns - path.began_ns, 1)
        if path.since == 0:
            rate = 1 / path.way_ns
            path.ways = {peer: 1 - waited * rate for peer, waited in path.waited_least.items()}
        full = max(path.windows.values())
        _judge(view, rate, most)
        # The windows are said with the replies of this round; until then the old ones were full.
        largest = max(path.windows.values())
        path.since = view.round + max(largest, full)
        rounds = largest if path.phase == "start" else _rounds(path.windows)
        path.until = path.since + rounds


def begin(view: View, windows: dict[str, int], round: int) -> None:
    """These windows were worked out from what was measured otherwise: go on from them, when nothing
    is in flight and so many rounds are done."""
    path = view.path
    path.windows, path.before, path.phase = dict(windows), dict(windows), "cruise"
    path.rate, path.slower, path.trips = 0.0, 0, 0
    path.since = round + max(windows.values())
    path.until = path.since + _rounds(windows)
    path.waited_least, path.waited_most = {}, {}


def _rounds(windows: dict[str, int]) -> int:
    """How many rounds to measure. What is sent at once comes back at once, so that a part of a
    window misleads: whole windows of everybody where that is not too long, else of the smallest."""
    smallest, longest = min(windows.values()), WINDOWS_MOST * max(windows.values())
    common = math.lcm(*windows.values())
    if common <= longest:
        return common * -(-ROUNDS_LEAST // common)
    return smallest * -(-longest // smallest)


def _judge(view: View, rate: float, most: int) -> None:
    path = view.path
    if path.phase == "cruise":
        _go_on(view, rate, most)
        return
    changes = [now / path.before[peer] - 1 for peer, now in path.windows.items()]
    change = max(changes, key=abs)
    kept = rate >= path.rate * (1 + change * (GROWTH if change > 0 else SHRINK))
    if kept:
        path.rate = rate
        _try(view, "cruise" if path.phase == "drain" else path.phase, path.windows, most)
    else:
        _cruise(view, rate)


def _go_on(view: View, rate: float, most: int) -> None:
    path = view.path
    path.trips += 1
    path.slower = path.slower + 1 if rate < SLOWER * path.rate else 0
    if path.slower == SLOWER_TRIPS:
        path.rate, path.slower = rate, 0
        _try(view, "drain", path.windows, most)
        return
    if path.slower:
        return
    path.rate = path.rate + RECENT * (rate - path.rate) if path.rate else rate
    if path.trips % CALM_TRIPS == 0:
        _try(view, "up" if path.trips % (2 * CALM_TRIPS) else "down", path.windows, most)
    else:
        _trim(view, rate)


def _trim(view: View, rate: float) -> None:
    """Let those send later whose embeddings always wait, and those sooner for whom all wait."""
    path, largest = view.path, max(view.path.windows.values())
    early = {peer: waited_ns * rate for peer, waited_ns in path.waited_least.items()}
    for peer, size in list(path.windows.items()):
        if early[peer] >= TOO_EARLY:
            path.windows[peer] = max(1, size - int(early[peer] - EARLY))
        elif path.waited_most[peer] * rate < EARLY and max(early.values()) >= 1 and size < largest:
            path.windows[peer] = size + 1


def _try(view: View, phase: str, windows: dict[str, int], most: int) -> None:
    """Other windows than these, which is what to fall back to; or these, at the bounds."""
    path = view.path
    path.before = dict(windows)
    if phase == "down":
        # One party as long as that pays, and then the next one.
        larger = sorted(peer for peer, size in windows.items() if size > 1) or sorted(windows)
        peer = larger[path.trials % len(larger)]
        wanted = windows | {peer: _stepped(phase, windows[peer], most)}
    else:
        wanted = {peer: _stepped(phase, size, most) for peer, size in windows.items()}
    if wanted == windows:
        _cruise(view, path.rate)
    else:
        path.phase, path.windows = phase, wanted


def _stepped(phase: str, size: int, most: int) -> int:
    steps = {
        "start": 2 * size,
        "up": size + max(1, size // 4),
        "down": size - max(1, size // 4),
        "drain": size // 2,
        "cruise": size,
    }
    return max(1, min(steps[phase], most))


def _cruise(view: View, rate: float) -> None:
    """Go back to the windows before the trial; after the start, to those that fill the pipe."""
    path = view.path
    path.windows = dict(path.before)
    if path.phase == "start":
        full = max(rate, path.rate) * path.way_ns
        path.windows = {
            peer: max(1, math.ceil(full * way - ROUNDING)) for peer, way in path.ways.items()
        }
    elif path.phase == "down":
        path.trials += 1
    path.phase = "cruise"
