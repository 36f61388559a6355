"""Figures of a service, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from colonnade.predict.request import ROWS_MAX, Scored

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 4.0)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 256, 1024, ROWS_MAX)


def _present(peer: str, away: Callable[[], Collection[str]]) -> float:
    return float(peer not in away())


class Metrics:
    """What is counted and measured.

    >>> metrics = Metrics(["telco"], {"v1": "run"}, lambda: ("telco",), lambda: 3)
    >>> metrics.request(200, 0.003)
    >>> b'colonnade_party_connected{party="telco"} 0.0' in metrics.text()
    True
    """

    def __init__(
        self,
        peers: Collection[str],
        models: Mapping[str, str],
        away: Callable[[], Collection[str]],
        waiting: Callable[[], int],
    ) -> None:
        """`models` are the runs by version."""
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "colonnade_requests", "Predictions asked for, by the status of the answer", ["status"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "colonnade_request_seconds", "From a whole request to its answer", buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self._rows = Counter("colonnade_rows", "Rows that were answered for", registry=registry)
        self._lacking = Counter(
            "colonnade_rows_lacking", "Rows that a party lacked", ["party"], registry=registry
        )
        self._late = Counter(
            "colonnade_late", "Requests for which a party was late or away", ["party"],
            registry=registry,
        )  # fmt: skip
        self._batch = Histogram(
            "colonnade_batch_requests", "How many requests went together", buckets=_COUNTS,
            registry=registry,
        )  # fmt: skip
        self._batch_rows = Histogram(
            "colonnade_batch_rows", "How many rows went together", buckets=_COUNTS,
            registry=registry,
        )  # fmt: skip
        waits = Gauge("colonnade_waiting_requests", "Requests in the queue", registry=registry)
        waits.set_function(waiting)
        connected = Gauge(
            "colonnade_party_connected", "Whether a party is connected", ["party"],
            registry=registry,
        )  # fmt: skip
        for peer in peers:
            connected.labels(peer).set_function(partial(_present, peer, away))
        model = Info("colonnade_model", "A loaded model", ["version"], registry=registry)
        for version, run in models.items():
            model.labels(version).info({"run": run})
        self._by_status: dict[int, Counter] = {}

    def request(self, status: int, seconds: float) -> None:
        """A prediction was asked for and answered."""
        if (counter := self._by_status.get(status)) is None:
            counter = self._by_status[status] = self._requests.labels(str(status))
        counter.inc()
        self._seconds.observe(seconds)

    def scored(self, rows: int, scored: Scored) -> None:
        """Rows were answered for."""
        self._rows.inc(rows)
        for party, lacks in scored.lacking.items():
            self._lacking.labels(party).inc(int(lacks.sum()))

    def late(self, parties: Collection[str]) -> None:
        """The time was up before these parties had answered."""
        for party in parties:
            self._late.labels(party).inc()

    def batch(self, requests: int, rows: int) -> None:
        """So many went together."""
        self._batch.observe(requests)
        self._batch_rows.observe(rows)

    def text(self) -> bytes:
        """All of it, in the text format of Prometheus."""
        return generate_latest(self._registry)
