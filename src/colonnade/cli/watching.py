"""What a person who watches a run wants to know, kept up to date by the run's events.

It knows neither a clock nor a terminal: whoever shows it says what time it is. In a simulation
events come by the ten thousand a second, so each of them is only put down, and all that has to be
reckoned waits until somebody looks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from colonnade.record.chain import printable
from colonnade.record.events import (
    Busy,
    Connected,
    Disconnected,
    Evaluated,
    Event,
    Finished,
    LocalDone,
    PeerFailed,
    PeerLeft,
    RoundDone,
    RowsScored,
    Started,
    Tested,
    Waited,
    Waiting,
    Worked,
    is_metric,
)

SERIES_MAX = 256
"""How many points of a curve are kept; a longer one is thinned out."""
KINDS_MAX = 32
"""How many kinds of work, or peers, a party may name."""
WINDOW_S = 10.0
"""Over how many seconds a speed is taken at least."""
SAMPLES_MAX = 200
SHARES_S = 2.0
"""Over how many seconds it is said what a party does."""
TEXT_MAX = 400
"""The longest sentence that is kept of a party."""


class Series:
    """A curve of any length in bounded memory.

    >>> series = Series()
    >>> for value in range(1000):
    ...     series.add(value)
    >>> len(series.values) <= SERIES_MAX, series.values[-1]
    (True, 999.0)
    """

    def __init__(self) -> None:
        self._kept: list[float] = []
        self._last: float | None = None
        self._seen, self._every = 0, 1

    def add(self, value: float) -> None:
        """The next point; one that is no number is none."""
        if not math.isfinite(value):
            return
        self._seen += 1
        self._last = float(value)
        if self._seen % self._every:
            return
        self._kept.append(self._last)
        self._last = None
        if len(self._kept) >= SERIES_MAX:
            self._kept = self._kept[1::2]
            self._every *= 2

    @property
    def values(self) -> list[float]:
        """The points, the newest always among them."""
        last = self._last
        return [*self._kept, *([] if last is None else [last])]


@dataclass
class PartyState:
    """What is known of one party."""

    name: str
    leads: bool = False
    round: RoundDone | None = None
    rows: RowsScored | None = None
    worked: dict[str, int] = field(default_factory=dict)
    """Nanoseconds by kind, in all."""
    waited: dict[str, int] = field(default_factory=dict)
    """Nanoseconds by peer, in all."""
    now_ns: int = 0
    """The latest instant that the party has told of."""
    waiting: str | None = None
    said: str = ""
    """Its last sentence."""
    over: str | None = None
    """How its part has ended."""
    looks: deque[tuple[float, int, dict[str, int], dict[str, int]]] = field(
        default_factory=lambda: deque(maxlen=64)
    )
    """What it had done at earlier looks, for what it does now."""


@dataclass(frozen=True)
class PartyMoment:
    """What is shown of one party."""

    name: str
    leads: bool
    done: int | None
    """Rounds, or rows."""
    window: int | None
    in_flight: int
    staleness: int | None
    ratio: float | None
    """Local updates for each fresh one."""
    works: list[tuple[str, float]]
    """What it does, and for which share of its time, the largest first."""
    waits: list[tuple[str, float]]
    """For whom it waits, and for which share."""
    text: str
    """What it says of itself; empty where its shares say more."""


@dataclass(frozen=True)
class Moment:
    """What is shown at one instant; None for what is not known."""

    title: str
    unit: str
    done: int
    total: int
    elapsed_s: float
    ran_s: float
    """From the first round to the newest, without what came before and after."""
    left_s: float | None
    rate: float | None
    """Rounds a second, or rows."""
    virtual_s: float | None
    """None where time is that of the wall."""
    virtual_rate: float | None
    metric: str | None
    value: float | None
    best: tuple[float, int] | None
    """The best value, and the round of it."""
    curve: list[float]
    test: Mapping[str, float]
    loss: float | None
    bytes_up: int
    bytes_down: int
    up_rate: float | None
    down_rate: float | None
    parties: list[PartyMoment]
    over: str | None


_Sample = tuple[float, int, int, int, int]
"""When, how many are done, virtual time, bytes up and down."""


class Watch:
    """Takes the events of a run, and says what there is to see.

    >>> watch = Watch(["bank", "telco"], "bank", "credit")
    >>> watch(RoundDone("bank", 0, round=4, rounds=10, loss=0.5))
    >>> seen = watch.moment(0.0)
    >>> seen.done, seen.total, seen.loss
    (5, 10, 0.5)
    """

    def __init__(
        self,
        parties: Iterable[str],
        active: str,
        title: str = "",
        *,
        rounds: int = 0,
        virtual: bool = False,
        me: str | None = None,
    ) -> None:
        """`me` is the party whose events come, where they are not those of all."""
        self.title, self.virtual = title, virtual
        self.parties = {name: PartyState(name, name == active) for name in parties}
        self.parties.setdefault(active, PartyState(active, True))
        self.lead = self.parties[me if me is not None else active]
        for party in self.parties.values():
            party.said = "starts" if me in (None, party.name) else "not connected yet"
        self.over: str | None = None
        self._rounds = rounds
        self._loss: float | None = None
        self._losses = Series()
        self._evaluated: Evaluated | None = None
        self._metric: str | None = None
        self._curve = Series()
        self._best: tuple[float, int] | None = None
        self._test: Mapping[str, float] = {}
        self._began_s: float | None = None
        self._samples: deque[_Sample] = deque()
        self._ends: tuple[_Sample, _Sample] | None = None
        """When the first round was seen, and the newest."""
        self._takes: dict[type[Event], Callable[[PartyState, Any], None]] = {
            RoundDone: self._round,
            Worked: self._worked,
            Waited: self._waited,
            Busy: self._busy,
            Evaluated: self._measured,
            Tested: self._tested,
            RowsScored: self._scored,
            Waiting: self._waits,
            LocalDone: self._updated,
            Connected: self._connected,
            Disconnected: self._connected,
            PeerLeft: self._connected,
            PeerFailed: self._connected,
            Finished: self._finished,
            Started: self._started,
        }

    def __call__(self, event: Event) -> None:
        """Put down what has happened."""
        party = self.parties.get(event.party)
        if party is not None:
            self._takes.get(type(event), self._said)(party, event)

    def _round(self, party: PartyState, event: RoundDone) -> None:
        party.round, party.waiting, party.now_ns = event, None, event.time_ns
        if event.loss is not None:
            self._loss = event.loss

    def _worked(self, party: PartyState, event: Worked) -> None:
        worked, kind = party.worked, event.kind
        if kind in worked or len(worked) < KINDS_MAX:
            worked[kind] = worked.get(kind, 0) + event.ended_ns - event.time_ns
        party.now_ns = event.ended_ns

    def _waited(self, party: PartyState, event: Waited) -> None:
        waited, peer = party.waited, event.peer
        if peer in waited or len(waited) < KINDS_MAX:
            waited[peer] = waited.get(peer, 0) + event.ended_ns - event.time_ns
        party.now_ns = event.ended_ns

    def _busy(self, party: PartyState, event: Busy) -> None:
        party.now_ns = event.time_ns
        for kept, more in ((party.worked, event.worked), (party.waited, event.waited)):
            for name, ns in more.items():
                if name in kept or len(kept) < KINDS_MAX:
                    kept[name] = kept.get(name, 0) + ns

    def _measured(self, party: PartyState, event: Evaluated) -> None:
        self._evaluated = event
        if self._metric is None:
            shown = [name for name in event.measured if is_metric(name)]
            self._metric = next(iter(shown or event.measured), None)
        value = event.measured.get(self._metric or "")
        if value is None or not math.isfinite(value):
            return
        self._curve.add(value)
        if event.best:
            self._best = value, event.round + 1

    def _tested(self, party: PartyState, event: Tested) -> None:
        self._test = event.measured

    def _scored(self, party: PartyState, event: RowsScored) -> None:
        party.rows, party.waiting, party.now_ns = event, None, event.time_ns

    def _updated(self, party: PartyState, event: LocalDone) -> None:
        """A local update is counted with the next round."""

    def _waits(self, party: PartyState, event: Waiting) -> None:
        party.waiting = None if event.what is None else _fit(event.what)

    def _connected(self, party: PartyState, event: Any) -> None:
        self._said(party, event)
        peer = self.parties.get(event.peer)
        if peer is not None and peer.round is None:
            met = isinstance(event, Connected)
            peer.said = "connected" if met else _fit(event.sentence() or "")

    def _finished(self, party: PartyState, event: Finished) -> None:
        party.waiting, party.over = None, _fit(event.sentence())

    def _started(self, party: PartyState, event: Started) -> None:
        party.said, party.waiting = "starts", None

    def _said(self, party: PartyState, event: Event) -> None:
        if (sentence := event.sentence()) is not None:
            party.said, party.waiting = _fit(sentence), None

    def ended(self, how: str) -> None:
        """The run is over, as said by whoever ran it."""
        self.over = how

    def moment(self, now_s: float) -> Moment:
        """What there is to see now; times are seconds of any clock that only goes forward."""
        if self._began_s is None:
            self._began_s = now_s
        lead = self.lead
        done, total, unit = self._progress()
        last = lead.round
        up, down = (0, 0) if last is None else (last.bytes_up, last.bytes_down)
        if (evaluated := self._evaluated) is not None and evaluated.party == lead.name:
            up, down = max(up, evaluated.bytes_up), max(down, evaluated.bytes_down)
        self._sample((now_s, done, lead.now_ns, up, down))
        if self._loss is not None and self.over is None:
            self._losses.add(self._loss)
        curve = self._curve.values
        rate = self._rate(1)
        left_s = (total - done) / rate if rate and total > done else None
        return Moment(
            title=self.title,
            unit=unit,
            done=done,
            total=total,
            elapsed_s=now_s - self._began_s,
            ran_s=self._ran_s() or now_s - self._began_s,
            left_s=None if self.over is not None else left_s,
            rate=rate,
            virtual_s=lead.now_ns / 1e9 if self.virtual else None,
            virtual_rate=self._rate(2, 1e-9) if self.virtual else None,
            metric=self._metric,
            value=curve[-1] if curve else None,
            best=self._best,
            curve=curve if len(curve) > 1 else self._losses.values,
            test=self._test,
            loss=self._loss,
            bytes_up=up,
            bytes_down=down,
            up_rate=self._line_rate(3),
            down_rate=self._line_rate(4),
            parties=[self._party(each, now_s) for each in self.parties.values()],
            over=self.over,
        )

    def _progress(self) -> tuple[int, int, str]:
        lead = self.lead
        if lead.rows is not None:
            return lead.rows.done, lead.rows.rows, "row"
        if lead.round is not None:
            return lead.round.round + 1, lead.round.rounds, "round"
        return 0, self._rounds, "round"

    def _sample(self, sample: _Sample) -> None:
        """Keep it, and those of as long ago as a speed is taken over: longer in a long run, so that
        the time that is left does not leap about."""
        samples, now_s = self._samples, sample[0]
        if samples and sample[1] < samples[-1][1]:
            samples.clear()
            self._ends = None
        if sample[1] and (self._ends is None or sample[1] > self._ends[1][1]):
            self._ends = self._ends[0] if self._ends else sample, sample
        if sample[1] and samples and not samples[0][1]:
            # Until the first round the processes start and meet, which says nothing of the rest.
            samples.clear()
        window_s = max(WINDOW_S, (now_s - (self._began_s or 0.0)) / 5)
        if len(samples) > 1 and now_s - samples[-2][0] < window_s / SAMPLES_MAX:
            samples.pop()
        samples.append(sample)
        while len(samples) > 2 and now_s - samples[1][0] >= window_s:
            samples.popleft()

    def _rate(self, place: int, scale: float = 1.0) -> float | None:
        """How much of something there is in a second; of a run that is over, in all of it."""
        first, last = self._samples[0], self._samples[-1]
        if self._ends is not None and (self.over is not None or self._is_done()):
            first, last = self._ends
        took_s = last[0] - first[0]
        if took_s <= 0 or last[1] <= first[1]:
            return None
        return max(0.0, (last[place] - first[place]) * scale / took_s)

    def _ran_s(self) -> float:
        return 0.0 if self._ends is None else self._ends[1][0] - self._ends[0][0]

    def _is_done(self) -> bool:
        done, total, _ = self._progress()
        return 0 < total <= done

    def _line_rate(self, place: int) -> float | None:
        """Bytes in a second of the run's own time, which is that of its lines."""
        rate, passed = self._rate(place), self._rate(2, 1e-9) if self.virtual else 1.0
        return rate / passed if rate is not None and passed else None

    def _party(self, party: PartyState, now_s: float) -> PartyMoment:
        last = party.round
        done = party.rows.done if party.rows else (None if last is None else last.round + 1)
        works, waits = _shares(party, now_s)
        told = party.over or party.waiting or ("" if works or waits else party.said)
        fresh = 0 if last is None else last.fresh
        # The active party embeds nothing ahead, so that it has no window of its own.
        is_ahead = last is not None and fresh > 0 and not party.leads
        return PartyMoment(
            name=printable(party.name),
            leads=party.leads,
            done=done,
            window=last.window if last is not None and is_ahead else None,
            in_flight=0 if last is None else last.in_flight,
            staleness=last.staleness if last is not None and is_ahead else None,
            ratio=last.local / fresh if last is not None and fresh else None,
            works=works,
            waits=waits,
            text=told,
        )


def _shares(
    party: PartyState, now_s: float
) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """What a party did in the last seconds, by its own clock."""
    looks = party.looks
    now = now_s, party.now_ns, dict(party.worked), dict(party.waited)
    if len(looks) < 2 or now_s - looks[-1][0] >= SHARES_S / 8:
        looks.append(now)
    while len(looks) > 2 and now_s - looks[1][0] >= SHARES_S:
        looks.popleft()
    _, then_ns, worked, waited = looks[0]
    took_ns = now[1] - then_ns
    if took_ns <= 0:
        return [], []
    return _largest(now[2], worked, took_ns), _largest(now[3], waited, took_ns)


def _largest(now: dict[str, int], then: dict[str, int], took_ns: int) -> list[tuple[str, float]]:
    found = [
        (printable(name), min(1.0, (ns - then.get(name, 0)) / took_ns)) for name, ns in now.items()
    ]
    return sorted((each for each in found if each[1] > 0), key=lambda each: -each[1])


def _fit(sentence: str) -> str:
    return printable(" ".join(sentence[:TEXT_MAX].split()))
