"""A tracker of a run: a subscriber of its events that keeps them where another tool looks."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from colonnade.errors import RequestError, nearest
from colonnade.job.records import Job
from colonnade.record.events import Event, Resumed, Subscriber
from colonnade.record.history import Row
from colonnade.tracking.background import Background
from colonnade.tracking.facts import Value, figures_of, parameters_of, tags_of
from colonnade.tracking.mlflow import MLflow
from colonnade.tracking.series import Point, Series, point_of
from colonnade.tracking.tensorboard import TensorBoard

NEEDS = {"tensorboard": ("tensorboard",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}
"""The modules that each kind of tracker needs; the extra has its name."""
Say = Callable[[str], None]


class Sink(Protocol):
    """Where a tracker writes."""

    def begin(
        self, name: str, parameters: Mapping[str, Value], tags: Mapping[str, str], elapsed_ns: int
    ) -> None:
        """A run begins, on whose clock so much has passed."""

    def point(self, point: Point) -> None:
        """Some values after a round."""

    def back(self, step: int) -> None:
        """The run goes on from a checkpoint."""

    def flush(self) -> None:
        """Let others see what was written."""

    def end(self, status: str, step: int, time_ns: int, figures: Mapping[str, float]) -> None:
        """The run is over."""

    def close(self) -> None:
        """Let go of what is open, whatever happened before."""


@dataclass
class Tracker:
    """One tool that follows a run. It never ends the run: what goes wrong with it is said once."""

    kind: str
    target: str | None = None
    """A folder for TensorBoard, the address of a store for MLflow."""
    kept: Path | None = None
    """The run's folder, where a run that is started again goes on."""
    say: Say = field(default=lambda text: warnings.warn(text, stacklevel=3))
    """Told of what went wrong."""

    def __post_init__(self) -> None:
        self._background: Background | None = None
        self._sink: Sink | None = None
        self._step = self._time_ns = 0
        self._has_said = False

    def begin(self, job: Job, name: str = "", within: str = "") -> None:
        """A run of a job begins; `within` is a folder of its own among those of other runs."""
        self._sink = self._make_sink(within)
        self._background = Background(self._sink.close)
        self._series = Series(job.active)
        self._step = self._time_ns = 0
        self._named = name or f"{job.name}, {job.method.get('name', 'fedsgd')}, seed {job.seed}"
        self._facts = parameters_of(job), tags_of(job)
        self._has_begun = False

    def _make_sink(self, within: str) -> Sink:
        if self.kind == "mlflow":
            return MLflow(self.target, self.kept)
        assert self.target is not None
        return TensorBoard(Path(self.target) / within)

    def __call__(self, event: Event) -> None:
        """Keep what an event says of the training."""
        assert self._background is not None and self._sink is not None, "begin comes first"
        point = self._series.point(event)
        if point is not None:
            self._add(point)
        elif isinstance(event, Resumed):
            self._begin(event.time_ns)
            step, sink = event.round + 1, self._sink
            self._background.do(lambda: sink.back(step))

    def _begin(self, elapsed_ns: int) -> None:
        """Tell the tool of the run: with the first event, which has the job's clock."""
        assert self._background is not None and self._sink is not None
        if not self._has_begun:
            self._has_begun = True
            sink, told = self._sink, (self._named, *self._facts, elapsed_ns)
            self._background.do(lambda: sink.begin(*told))

    def _add(self, point: Point) -> None:
        assert self._background is not None and self._sink is not None
        self._begin(point.time_ns)
        self._step, self._time_ns = max(self._step, point.step), point.time_ns
        sink = self._sink
        self._background.do(lambda: sink.point(point))
        if any(name.startswith("evaluation/") for name in point.values):
            self._background.do(sink.flush)
        self._tell()

    def end(self, summary: Mapping[str, Any] | None, status: str = "failed") -> None:
        """The run is over; `summary` is what it came to, where that is known."""
        if self._background is None or self._sink is None:
            return
        self._begin(self._time_ns)
        sink, background = self._sink, self._background
        figures = {} if summary is None else figures_of(summary)
        how = status if summary is None else str(summary.get("status", status))
        step, time_ns = self._step, self._time_ns
        background.do(lambda: sink.end(how, step, time_ns, figures))
        background.close()
        self._tell()
        self._background = self._sink = None

    def _tell(self) -> None:
        """Say what went wrong, once, and in the thread of whoever trains."""
        if self._background is not None and self._background.fault and not self._has_said:
            self._has_said = True
            self.say(f"{self.kind} no longer follows the run, which goes on: "
                     f"{self._background.fault}")  # fmt: skip

    def replay(self, job: Job, label: str, rows: Iterable[Row], summary: Any, status: str) -> None:
        """Keep a run that is over, by its history: one of many in a comparison or a race."""
        self.begin(job, f"{label}, seed {job.seed}", f"{_file_name(label)}/seed-{job.seed}")
        for row in rows:
            self._add(point_of(row))
        self.end(summary, status)


def _file_name(label: str) -> str:
    """A label as the name of a folder."""
    kept = "".join(letter if letter.isalnum() or letter in "-_=." else "_" for letter in label)
    return kept.strip(".")[:100] or "run"


def track(kind: str, target: str | Path | None = None) -> Tracker:
    """A tracker, for `track=` of `simulate`, `launch` and `compare`.

    Args:
        kind: `tensorboard` or `mlflow`.
        target: for TensorBoard the folder that it is to show; for MLflow the address of its store,
            by default what MLflow itself is set to (`MLFLOW_TRACKING_URI`).

    Example:
        >>> import tempfile
        >>> import colonnade as cn
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = cn.simulate(cn.load("digits", ["train.rounds=4"]),
        ...                       track=cn.track("tensorboard", folder))
        ...     len(list(Path(folder).glob("events.out.tfevents.*")))
        1
    """
    if kind not in NEEDS:
        raise RequestError(f"there is no tracker {kind!r}: {nearest(str(kind), NEEDS)}")
    if target is not None and not isinstance(target, str | Path):
        raise RequestError(
            f"the target of {kind} is of type {type(target).__name__}: give a folder or an address"
        )
    if kind == "tensorboard" and not target:
        raise RequestError("tensorboard needs a folder: cn.track('tensorboard', 'runs/first')")
    for module in NEEDS[kind]:
        if importlib.util.find_spec(module) is None:
            raise RequestError(
                f"{kind} needs the package {module}: pip install 'colonnade[{kind}]'"
            )
    return Tracker(kind, None if target is None else str(target))


Track = str | Tracker | Sequence[str | Tracker] | None
"""What `track=` takes: `"mlflow"`, `"tensorboard=DIR"`, several between commas, or trackers."""


def trackers_of(
    given: Track, folder: Path | None = None, say: Say | None = None, goes_on: bool = False
) -> list[Tracker]:
    """The trackers that are asked for; TensorBoard's folder is by default that of the run. A run
    that `goes_on` in its folder goes on in MLflow too.

    >>> [each.kind for each in trackers_of("tensorboard=a", None)]
    ['tensorboard']
    >>> trackers_of("tensorboard")
    Traceback (most recent call last):
    colonnade.errors.RequestError: tensorboard needs a folder: give a run folder (--out DIR), or \
name one, as in tensorboard=DIR
    """
    if given is None:
        return []
    if not isinstance(given, str | Tracker | Sequence):
        raise RequestError(
            f"track is of type {type(given).__name__}: give 'mlflow', 'tensorboard=DIR', or what "
            "cn.track gives"
        )
    parts = [given] if isinstance(given, str | Tracker) else list(given)
    found = [each for part in parts for each in _read(part, folder)]
    for each in found:
        each.say = each.say if say is None else say
        each.kept = folder if goes_on else each.kept
    return found


def _read(part: str | Tracker, folder: Path | None) -> list[Tracker]:
    if isinstance(part, Tracker):
        return [part]
    found = []
    for text in str(part).split(","):
        kind, _, target = text.strip().partition("=")
        if kind == "tensorboard" and not target:
            if folder is None:
                raise RequestError(
                    "tensorboard needs a folder: give a run folder (--out DIR), or name one, as in "
                    "tensorboard=DIR"
                )
            target = str(folder / "tensorboard")
        found.append(track(kind, target or None))
    return found


Followed = tuple[list[Subscriber], Callable[[Mapping[str, Any]], None]]


@contextmanager
def following(trackers: Sequence[Tracker], job: Job) -> Iterator[Followed]:
    """Inside, the trackers follow a run; what it gives is whom to tell of events, and a function
    that takes the run's summary when it is over."""
    told: list[Mapping[str, Any]] = []
    for each in trackers:
        each.begin(job)
    try:
        yield list(trackers), told.append
    finally:
        for each in trackers:
            each.end(told[0] if told else None)
