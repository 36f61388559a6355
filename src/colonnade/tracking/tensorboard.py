"""A run as TensorBoard reads it: one file of events, for its owner only.

The file is written by us and not by TensorBoard's own writer, which puts the name of the host into
the file's and writes in a thread of its own, where nobody hears that the disk is full.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.record.private import append_to_private
from colonnade.tracking.facts import Value
from colonnade.tracking.series import Point

if TYPE_CHECKING:
    from tensorboard.summary.writer.record_writer import RecordWriter

_HPARAMS = "hparams"
_DONE = {"end": 1, "target": 1, "patience": 1, "diverged": 2, "failed": 2}
"""How a session ended, as TensorBoard counts it: well, or with a failure."""


class TensorBoard:
    """Writes one run into a folder; steps are rounds, and the time is that of the job's clock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._began_s = 0.0
        self._records: RecordWriter | None = None

    def begin(
        self, name: str, parameters: Mapping[str, Value], tags: Mapping[str, str], elapsed_ns: int
    ) -> None:
        """A run begins, on whose clock so much has passed."""
        import os

        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.plugins.hparams.plugin_data_pb2 import SessionStartInfo
        from tensorboard.summary.writer.record_writer import RecordWriter

        now = time.time()
        self._began_s = now - elapsed_ns / 1e9
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"events.out.tfevents.{time.time_ns()}.colonnade"
        self._records = RecordWriter(os.fdopen(append_to_private(path), "wb"))
        self._write(Event(wall_time=now, file_version="brain.Event:2"))
        info = SessionStartInfo(group_name=name, start_time_secs=now)
        for key, value in {**tags, **parameters}.items():
            _put(info.hparams[key], value)
        self._write(self._event(0, 0, [_hparams("session_start_info", info)]))
        self.flush()

    def point(self, point: Point) -> None:
        """Some values after a round."""
        self._write(self._event(point.step, point.time_ns, _scalars(point.values)))

    def back(self, step: int) -> None:
        """The run goes on from a checkpoint: what came after it does not count."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        again = SessionLog(status=SessionLog.START)
        self._write(Event(wall_time=time.time(), step=step, session_log=again))

    def flush(self) -> None:
        """Let others see what was written."""
        if self._records is not None:
            self._records.flush()

    def end(self, status: str, step: int, time_ns: int, figures: Mapping[str, float]) -> None:
        """The run is over."""
        from tensorboard.plugins.hparams.plugin_data_pb2 import SessionEndInfo

        if self._records is None:
            return
        over = SessionEndInfo(status=_DONE.get(status, 0), end_time_secs=time.time())
        values = [*_scalars(figures), _hparams("session_end_info", over)]
        self._write(self._event(step, time_ns, values))

    def close(self) -> None:
        """Close the file."""
        records, self._records = self._records, None
        if records is not None:
            records.close()

    def _event(self, step: int, time_ns: int, values: list[Any]) -> Any:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        return Event(
            wall_time=self._began_s + time_ns / 1e9, step=step, summary=Summary(value=values)
        )

    def _write(self, event: Any) -> None:
        assert self._records is not None
        self._records.write(event.SerializeToString())


def _scalars(values: Mapping[str, float]) -> list[Any]:
    from tensorboard.compat.proto.summary_pb2 import Summary

    return [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]


def _hparams(name: str, info: Any) -> Any:
    """A record of the hyper-parameters' own page."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    content = HParamsPluginData(version=0, **{name: info}).SerializeToString()
    plugin = SummaryMetadata.PluginData(plugin_name=_HPARAMS, content=content)
    return Summary.Value(tag=f"_hparams_/{name}", metadata=SummaryMetadata(plugin_data=plugin))


def _put(field: Any, value: Value) -> None:
    if isinstance(value, bool):
        field.bool_value = value
    elif isinstance(value, str):
        field.string_value = value
    else:
        field.number_value = value
