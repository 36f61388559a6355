"""A run as MLflow keeps it: in whatever store its own settings name, a server or a file."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.record.private import write_whole
from colonnade.tracking.facts import Value
from colonnade.tracking.series import Point

if TYPE_CHECKING:
    from mlflow.entities import Metric
    from mlflow.tracking import MlflowClient

KEPT = "mlflow.run"
"""The file of a run folder that says under which name MLflow knows the run, so that a party that
is started again goes on with it."""
FLUSH_AT = 500
"""So many figures go to the store at once; it takes no more than a thousand."""
_PARAMETERS_AT_ONCE = 100
_ID = re.compile(r"[0-9a-f]{32}")
_ENDS = {"end": "FINISHED", "target": "FINISHED", "patience": "FINISHED", "interrupted": "KILLED"}
_DEFAULTS = {
    # It would tell its makers that it is used, and from where.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # A server that is gone is given up within seconds, not within minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
OPEN_TRIES, OPEN_AGAIN_S = 4, 1.0
"""How often a new store is tried, and how long after one another."""


class MLflow:
    """Writes one run; steps are rounds, and the time is that of the job's clock."""

    def __init__(self, uri: str | None, folder: Path | None = None) -> None:
        """`uri` is where the store is; None where MLflow itself knows (`MLFLOW_TRACKING_URI`)."""
        self._uri = uri
        self._kept = None if folder is None else folder / KEPT
        self._client: MlflowClient | None = None
        self._run = ""
        self._began_ms = 0
        self._waiting: list[Metric] = []
        self._flushed_ns = 0

    def begin(
        self, name: str, parameters: Mapping[str, Value], tags: Mapping[str, str], elapsed_ns: int
    ) -> None:
        """A run begins, on whose clock so much has passed."""
        for key, value in _DEFAULTS.items():
            os.environ.setdefault(key, value)
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        # After the import, which sets them up: what they have to say is said by us, once.
        for library in ("mlflow", "alembic"):
            logging.getLogger(library).setLevel(logging.ERROR)

        self._client = client = self._opened(MlflowClient)
        self._began_ms = round(time.time() * 1e3 - elapsed_ns / 1e6)
        if self._goes_on(client):
            return
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME") or tags["job"]
        known = client.get_experiment_by_name(experiment)
        place = client.create_experiment(experiment) if known is None else known.experiment_id
        named = {f"colonnade.{key}": value for key, value in tags.items()}
        self._run = client.create_run(place, run_name=name, tags=named).info.run_id
        if self._kept is not None:
            self._kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self._kept, self._run)
        params = [Param(key, str(value)) for key, value in parameters.items()]
        for start in range(0, len(params), _PARAMETERS_AT_ONCE):
            client.log_batch(self._run, params=params[start : start + _PARAMETERS_AT_ONCE])

    def _opened(self, kind: type[MlflowClient]) -> MlflowClient:
        """The store. Parties on one host may make the same one at the same time, and then all but
        the first of them fail: they find it a moment later."""
        for _ in range(OPEN_TRIES - 1):
            try:
                client = kind(tracking_uri=self._uri)
                client.search_experiments(max_results=1)
                return client
            except Exception:  # noqa: BLE001 - of whatever database it is; the last try tells
                time.sleep(OPEN_AGAIN_S)
        return kind(tracking_uri=self._uri)

    def _goes_on(self, client: MlflowClient) -> bool:
        """Whether the store has the run that this folder began."""
        from mlflow.exceptions import MlflowException

        if self._kept is None or not self._kept.is_file():
            return False
        name = self._kept.read_text(errors="replace").strip()
        if not _ID.fullmatch(name):
            return False
        try:
            client.update_run(name, status="RUNNING")
        except MlflowException:
            return False
        self._run = name
        return True

    def point(self, point: Point) -> None:
        """Some values after a round; they wait until there are many, or seconds have passed."""
        from mlflow.entities import Metric

        at = self._began_ms + point.time_ns // 10**6
        self._waiting += [Metric(key, value, at, point.step) for key, value in point.values.items()]
        if len(self._waiting) >= FLUSH_AT or point.time_ns - self._flushed_ns > 5 * 10**9:
            self._flushed_ns = point.time_ns
            self.flush()

    def back(self, step: int) -> None:
        """The run goes on from a checkpoint; MLflow keeps what came after it, and shows both."""

    def flush(self) -> None:
        """Send what waits."""
        waiting, self._waiting = self._waiting, []
        if self._client is not None:
            for start in range(0, len(waiting), FLUSH_AT):
                self._client.log_batch(self._run, metrics=waiting[start : start + FLUSH_AT])

    def end(self, status: str, step: int, time_ns: int, figures: Mapping[str, float]) -> None:
        """The run is over."""
        if self._client is None:
            return
        self.point(Point(step, time_ns, figures))
        self.flush()
        self._client.set_tag(self._run, "colonnade.status", status)
        self._client.set_terminated(self._run, _ENDS.get(status, "FAILED"))

    def close(self) -> None:
        """Nothing stays open."""
