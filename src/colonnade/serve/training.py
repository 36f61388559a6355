"""Figures of a party that trains, as Prometheus reads them: a subscriber of its events.

Labels are names of the job's parties, kinds of messages and names of metrics: none of them grows
with the training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Info
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from colonnade.job.records import Job
from colonnade.record.events import (
    Connected,
    Disconnected,
    Evaluated,
    Event,
    Finished,
    PeerEnded,
    Refused,
    Resumed,
    RoundDone,
    Saved,
    Started,
    Tested,
    Waiting,
)

CONTENT_TYPE = CONTENT_TYPE_LATEST
MEASURED_MAX = 32
"""The most metrics that are shown by name."""
Counted = Callable[[], Sequence[Mapping[str, Any]]]
"""Messages and bytes so far, by peer, direction and kind, as a ledger has them."""


class TrainingMetrics:
    """What a party's events say, in figures.

    >>> from colonnade.job import load
    >>> metrics = TrainingMetrics(load("digits"), "clinic")
    >>> metrics(RoundDone("clinic", 0, round=4, rounds=9, loss=0.5))
    >>> b"colonnade_round 5.0" in metrics.text()
    True
    """

    def __init__(self, job: Job, me: str) -> None:
        self.counted: Counted = list
        """Where the counts of messages come from."""
        self._me = me
        self._peers = [name for name in job.parties if name != me]
        self._registry = registry = CollectorRegistry()
        self._gauges: dict[str, Gauge] = {
            name: Gauge(f"colonnade_{name}", help, registry=registry)
            for name, help in _GAUGES.items()
        }
        self._counters: dict[str, Counter] = {
            name: Counter(f"colonnade_{name}", help, registry=registry)
            for name, help in _COUNTERS.items()
        }
        self._metric = Gauge(
            "colonnade_metric", "The last value of a metric, on the rows it was measured on",
            ["metric", "rows"], registry=registry,
        )  # fmt: skip
        self._names: set[str] = set()
        self._connected = Gauge(
            "colonnade_party_connected", "Whether there is a connection with a party", ["party"],
            registry=registry,
        )  # fmt: skip
        self._waits: dict[str, float] = {}
        waits = Gauge(
            "colonnade_waiting_seconds", "For how long the party has waited for another",
            ["party"], registry=registry,
        )  # fmt: skip
        for peer in self._peers:
            self._connected.labels(peer).set(0)
            waits.labels(peer).set_function(partial(self._waited, peer))
        about = {"job": job.name, "party": me, "role": job.parties[me].role}
        method = str(job.method.get("name", "fedsgd"))
        Info("colonnade_party", "Who this is", registry=registry).info(about | {"method": method})
        self._finished = Gauge(
            "colonnade_finished", "Whether the job is over for this party", registry=registry
        )
        registry.register(_Crossed(self))

    def _waited(self, peer: str) -> float:
        since_s = self._waits.get(peer)
        return 0.0 if since_s is None else max(0.0, time.monotonic() - since_s)

    def __call__(self, event: Event) -> None:
        """Take in what happened."""
        # Every round comes here: tests of the type are quicker than patterns.
        if isinstance(event, RoundDone):
            if event.party == self._me:
                self._round(event)
        elif isinstance(event, Evaluated):
            self._measured(event.measured, "evaluation")
            self._gauges["bytes_up"].set(event.bytes_up)
            self._gauges["bytes_down"].set(event.bytes_down)
        elif isinstance(event, Tested):
            self._measured(event.measured, "test")
        elif isinstance(event, Waiting):
            self._waiting(event)
        else:
            self._seldom(event)

    def _seldom(self, event: Event) -> None:
        match event:
            case Connected(peer=peer) if peer in self._peers:
                self._connected.labels(peer).set(1)
            case Disconnected(peer=peer) | PeerEnded(peer=peer) if peer in self._peers:
                self._connected.labels(peer).set(0)
            case Saved(round=round):
                self._counters["checkpoints"].inc()
                self._gauges["checkpoint_round"].set(round)
            case Started(again=True):
                self._counters["restarts"].inc()
            case Resumed(round=round):
                self._counters["resumes"].inc()
                self._gauges["round"].set(round)
            case Refused():
                self._counters["refusals"].inc()
            case Finished():
                self._finished.set(1)

    def _round(self, event: RoundDone) -> None:
        self._counters["rounds_done"].inc()
        gauges = self._gauges
        gauges["round"].set(event.round + 1)
        gauges["rounds"].set(event.rounds)
        gauges["job_seconds"].set(event.time_ns / 1e9)
        for name in ("window", "in_flight", "staleness", "bytes_up", "bytes_down"):
            gauges[name].set(getattr(event, name))
        gauges["updates_fresh"].set(event.fresh)
        gauges["updates_local"].set(event.local)
        if event.loss is not None:
            gauges["loss"].set(event.loss)

    def _measured(self, measured: Mapping[str, float], rows: str) -> None:
        for name, value in measured.items():
            if len(self._names) < MEASURED_MAX:
                self._names.add(name)
            if name in self._names:
                self._metric.labels(name, rows).set(value)

    def _waiting(self, event: Waiting) -> None:
        self._waits = {}
        if event.what is not None and event.peer in self._peers:
            self._waits = {event.peer: time.monotonic() - event.waited_ns / 1e9}

    def text(self) -> bytes:
        """All of it, in the text format of Prometheus."""
        return generate_latest(self._registry)


_GAUGES = {
    "round": "The last round that is done, counted from 1",
    "rounds": "Of how many, where nothing ends the job before",
    "loss": "The loss of the last round; known to the active party",
    "job_seconds": "Since the job began",
    "window": "How many exchanges the party may have in flight",
    "in_flight": "How many it has in flight",
    "staleness": "Own updates between the last embedding and the use of its reply",
    "updates_fresh": "Updates on replies that had just come",
    "updates_local": "Updates on replies that had been used before",
    "bytes_up": "Bytes of training to the active party, as far as this party sees them",
    "bytes_down": "Bytes of training from the active party, as far as this party sees them",
    "checkpoint_round": "The round of the last checkpoint",
}
_COUNTERS = {
    "rounds_done": "Rounds, those that were repeated after a restart among them",
    "checkpoints": "Checkpoints that were saved",
    "restarts": "Starts of this process that go on with an earlier one's work",
    "resumes": "How often the parties went on from a checkpoint",
    "refusals": "Peers, or who claimed to be one, that were refused",
}


class _Crossed(Collector):
    """Counts of a ledger, which are looked at only when somebody asks."""

    def __init__(self, metrics: TrainingMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Messages and bytes by party, kind and direction."""
        labels = ["party", "direction", "kind"]
        families = {
            name: CounterMetricFamily(f"colonnade_{name}", help, labels=labels)
            for name, help in (("bytes", "Bytes that crossed"), ("messages", "Messages"))
        }
        for entry in self._metrics.counted():
            place = [entry["peer"], entry["direction"], entry["kind"]]
            for name, family in families.items():
                family.add_metric(place, entry[name])
        yield from families.values()
