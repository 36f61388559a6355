"""A finished training: its history, weights and costs, and the folder they are saved in."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from colonnade.data.splits import Split
from colonnade.errors import RequestError, reason
from colonnade.formats import check_metadata, metadata, stamp
from colonnade.job.files import dumps
from colonnade.job.records import Job
from colonnade.policies.view import Action, Effort
from colonnade.record.card import CLASSES, FILES, PREPROCESSING, Card
from colonnade.record.card import FILE as CARD
from colonnade.record.clocks import Clock
from colonnade.record.exchanges import Exchanges
from colonnade.record.figure import Curve, curves, data_frame
from colonnade.record.folder import check_folder
from colonnade.record.gantt import gantt
from colonnade.record.history import Row
from colonnade.record.html import run_html
from colonnade.record.metrics import Metric
from colonnade.record.private import private_file, write_whole
from colonnade.record.reading import hash_of
from colonnade.record.timeline import Timeline
from colonnade.record.timeline_file import (
    exchanges_frame,
    save_exchanges,
    save_timeline,
    timeline_frame,
)
from colonnade.record.traffic import replace_pieces
from colonnade.record.tree import Weights
from colonnade.units import show_bytes, show_time
from colonnade.wire.ledger import Entry

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from colonnade.record.sizes import Sizes


CLOCKS = "clocks.json"
ROUND_FIELDS = {"round": pa.int64(), "time_s": pa.float64(), "loss": pa.float64()}
EVALUATION_FIELDS = ROUND_FIELDS | {
    "epoch": pa.float64(),
    "bytes_up": pa.int64(),
    "bytes_down": pa.int64(),
    "validation_loss": pa.float64(),
    "test_loss": pa.float64(),
    "best": pa.bool_(),
}


@dataclass(frozen=True)
class PartyRun:
    """One party's part of a run."""

    fresh: int
    local: int
    in_flight_max: int
    efforts: Collection[Effort]
    """For each of its rounds, how many updates it did and with which learning rate."""
    actions: Collection[Action]
    """What it did, in order: (time in ns, action, round)."""
    busy_s: float
    idle_s: float
    ledger: list[Entry]
    spans: Timeline
    """What it did and when."""
    weights: Weights
    best_weights: Weights | None
    preprocessing: str | None = None
    """How the party's table became numbers, as JSON."""
    classes: tuple[str, ...] = ()
    """The class behind each code of the labels, of two the positive one last; empty at a passive
    party, and for a regression."""
    card: Card | None = None
    """What it takes to score rows with its weights; None where nothing was learnt."""
    traffic: list[bytes] = field(default_factory=list)
    """The recording of what crossed (`record.traffic`), where it is in no folder yet."""
    privacy: dict[str, float | None] | None = None
    """How often its rows left with noise, and the ε and δ of that; None where they did not."""
    exchanges: Exchanges = field(default_factory=Exchanges)
    """What became of each of its rounds."""


@dataclass(frozen=True)
class Run:
    """A training and what it cost.

    `status` says how it ended: `end` (all rounds done), `target`, `patience`, `diverged` or
    `interrupted`.
    """

    job: Job
    composition: dict[str, str]
    metric: Metric
    status: str
    rounds: int
    per_epoch: int
    time_s: float
    history: list[Row]
    """A row for each evaluation, on the rows that are chosen by."""
    test: Row
    """What the weights of the best round gave on the test rows, which were looked at once, at the
    end; empty where that was not done."""
    chosen_on: Split
    """The rows by which the best round, the target and the end were chosen: the test rows where
    the job sets no validation rows aside."""
    losses: list[Row]
    """A row for each round."""
    calibrations: list[Row]
    """What was measured of speeds and lines, and chosen, each time; empty where the method leaves
    nothing open."""
    sizes: Sizes | None = field(repr=False)
    """How many rows, and how large the tensors that crossed; None over the network, where nobody
    knows all of it."""
    parties: dict[str, PartyRun] = field(repr=False)
    clocks: dict[str, Clock] = field(default_factory=dict, repr=False)
    """Over the network: the passive parties' clocks as seen from the active party's, on which all
    times are."""

    def __repr__(self) -> str:
        final = self.history[-1].get(self.metric.name) if self.history else None
        measured = "" if final is None else f", {self.metric.name} {final:.4f}"
        return (
            f"<Run of {self.job.name}, {self.job.method.get('name', 'fedsgd')}, seed "
            f"{self.job.seed}: {self.status} after {self.rounds} rounds{measured}, "
            f"{show_time(self.time_s, self.clock)}, {show_bytes(self.bytes()['total'])}>"
        )

    @property
    def weights(self) -> dict[str, Weights]:
        """Every party's last weights, by parameter name."""
        return {name: party.weights for name, party in self.parties.items()}

    @property
    def best_weights(self) -> dict[str, Weights | None]:
        """Every party's weights of the best round."""
        return {name: party.best_weights for name, party in self.parties.items()}

    @property
    def clock(self) -> str:
        """Of what the times are: `virtual` in a simulation, `wall` over the network."""
        return "wall" if self.sizes is None else "virtual"

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes by code, of two the positive one last; none for a regression."""
        return self.parties[self.job.active].classes

    @property
    def positive(self) -> str | None:
        """Of two classes, the one that counts as positive."""
        return self.classes[1] if len(self.classes) == 2 else None

    def bytes(self, purpose: str = "training") -> dict[str, int]:
        """Bytes up and down, counted at the active party, of `training` or `evaluation`.

        Starting and ending a job counts as training."""
        if purpose not in ("training", "evaluation"):
            raise RequestError(f"there are no bytes of {purpose!r}: choose training or evaluation")
        wanted = ("evaluation",) if purpose == "evaluation" else ("training", "control")
        counts = {"up": 0, "down": 0}
        for entry in self.parties[self.job.active].ledger:
            if entry["purpose"] in wanted:
                counts["up" if entry["direction"] == "received" else "down"] += entry["bytes"]
        return counts | {"total": counts["up"] + counts["down"]}

    def reached(self) -> Row | None:
        """The first evaluation at which the target was reached."""
        target = self.job.train.target
        for row in self.history:
            value = row.get(self.metric.name)
            if target is not None and value is not None and self.metric.reaches(value, target):
                return row
        return None

    def best(self) -> float | None:
        """The metric of the best round."""
        values = [row[self.metric.name] for row in self.history if row["best"]]
        return values[-1] if values else None

    def tested(self) -> float | None:
        """The metric of the best round's weights on the test rows."""
        value = self.best() if self.chosen_on == "test" else self.test.get(self.metric.name)
        return None if value is None else float(value)

    def summary(self) -> dict[str, Any]:
        """The run in figures, as `summary.json` has it."""
        reached = self.reached()
        last = self.history[-1] if self.history else {}
        return {
            **stamp("run"),
            "job": self.job.name,
            "method": self.job.method,
            "composition": self.composition,
            "seed": self.job.seed,
            "status": self.status,
            "rounds": self.rounds,
            "epochs": self.rounds / self.per_epoch,
            "clock": self.clock,
            "time_s": self.time_s,
            "bytes": self.bytes("training"),
            "evaluation_bytes": self.bytes("evaluation")["total"],
            "metric": {
                "name": self.metric.name,
                "final": last.get(self.metric.name),
                "best": self.best(),
                "test": self.tested(),
                "chosen_on": self.chosen_on,
            },
            "classes": list(self.classes),
            "positive": self.positive,
            "test": self.test,
            "loss": last.get("loss"),
            "target": self.job.train.target,
            "time_to_target_s": reached and reached["time_s"],
            "rounds_to_target": reached and reached["round"],
            "bytes_to_target": reached and reached["bytes_up"] + reached["bytes_down"],
            "updates": {
                name: {"fresh": party.fresh, "local": party.local}
                for name, party in self.parties.items()
            },
            "busy_s": {name: party.busy_s for name, party in self.parties.items()},
            "idle_s": {name: party.idle_s for name, party in self.parties.items()},
            "max_in_flight": {
                name: self.parties[name].in_flight_max
                for name in self.job.passives
                if name in self.parties
            },
            "row_weights": {
                name: weights
                for name, party in self.parties.items()
                if (weights := party.exchanges.row_weights()) is not None
            },
            "calibrations": self.calibrations,
            "epsilon": {
                name: party.privacy for name, party in self.parties.items() if party.privacy
            },
        }

    def frame(self) -> pd.DataFrame:
        """The history as a pandas data frame."""
        return data_frame(self.history)

    @property
    def timeline(self) -> pd.DataFrame:
        """What every party did and when, a row for each span, as a pandas data frame: the columns
        of `timeline.parquet`."""
        return timeline_frame({name: party.spans for name, party in self.parties.items()})

    @property
    def exchanges(self) -> pd.DataFrame:
        """What became of every party's exchanges, a row for each round, as a pandas data frame: the
        columns of `exchanges.parquet`."""
        return exchanges_frame({name: party.exchanges for name, party in self.parties.items()})

    def plot(self, against: str = "time_s") -> go.Figure:
        """The metric against `time_s`, `round`, `epoch` or `bytes`, as a plotly figure; or the
        `timeline`: who computed, sent and waited when."""
        if against == "timeline":
            return gantt({name: own.spans for name, own in self.parties.items()}, self.clock)
        name = self.job.method.get("name", "run")
        line = Curve(f"{name}, seed {self.job.seed}", name, self.metric.name, self.history)
        return curves([line], against, more=("timeline",))

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        return run_html(repr(self).strip("<>"), self.summary(), self.history)

    def save(self, folder: str | Path) -> Path:
        """Write the run folder: job, history, timeline, ledger, summary, and each party's weights.

        What belongs to one party only (weights, preprocessing) lies in its own sub-folder. A folder
        that holds another run is refused.
        """
        out = Path(folder)
        check_folder(out, "simulate", dumps(self.job))
        try:
            for name, party in self.parties.items():
                save_party(out / "parties" / name, party)
                replace_pieces(out / "parties" / name, party.traffic)
            self.save_figures(out)
        except OSError as error:
            raise RequestError(f"the run cannot be saved in {out}: {reason(error)}") from None
        return out

    def save_figures(self, out: Path) -> None:
        """Write the run folder but for what belongs to one party only; the summary comes last."""
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / "job.toml", dumps(self.job))
        self.save_history(out)
        spans = {name: party.spans for name, party in self.parties.items()}
        save_timeline(out / "timeline.parquet", spans)
        exchanges = {name: party.exchanges for name, party in self.parties.items()}
        save_exchanges(out / "exchanges.parquet", exchanges)
        for party in self.parties.values():
            for fault in filter(None, (party.spans.fault, party.exchanges.fault)):
                warnings.warn(fault, stacklevel=2)
        if self.clock == "wall":
            clocks = {name: clock.facts() for name, clock in self.clocks.items()}
            write_whole(out / CLOCKS, json.dumps(clocks, indent=1) + "\n")
        ledgers = {name: party.ledger for name, party in self.parties.items()}
        write_whole(out / "ledger.json", json.dumps(ledgers, indent=1) + "\n")
        write_whole(out / "summary.json", json.dumps(self.summary(), indent=1) + "\n")

    def save_history(self, out: Path) -> None:
        """Write what the active party has measured."""
        history, rounds = out / "history.parquet", out / "rounds.parquet"
        write_rows(private_file(history), self.history, "history", EVALUATION_FIELDS)
        write_rows(private_file(rounds), self.losses, "rounds", ROUND_FIELDS)


def write_rows(
    path: Path, rows: list[Row], kind: str, fields: Mapping[str, pa.DataType] | None = None
) -> None:
    """Write rows as a table of a format, which has its columns even when there is no row."""
    schema = pa.schema(list((fields or {}).items()))
    table = pa.Table.from_pylist(rows) if rows else schema.empty_table()
    pq.write_table(table.replace_schema_metadata(metadata(kind)), path)


def read_rows(path: Path, kind: str, columns: Iterable[str] | None = None) -> list[Row]:
    """Read what `write_rows` wrote."""
    table = pq.read_table(path)
    check_metadata(kind, table.schema.metadata, path)
    rows: list[Row] = (table if columns is None else table.select(list(columns))).to_pylist()
    return rows


def save_party(folder: Path, party: PartyRun) -> None:
    """Write a party's weights, how its table became numbers, and what its labels' codes mean; last
    what describes them, with their hashes."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    for stale in (CARD, *FILES):
        (folder / stale).unlink(missing_ok=True)
    for name, weights in (("last", party.weights), ("best", party.best_weights)):
        if weights:
            save_file(weights, private_file(folder / f"{name}.safetensors"))
    if party.preprocessing is not None:
        write_whole(folder / PREPROCESSING, party.preprocessing)
    if party.classes:
        write_whole(folder / CLASSES, json.dumps(party.classes, ensure_ascii=False) + "\n")
    if party.card is not None:
        hashes = {name: hash_of(folder / name) for name in FILES if (folder / name).exists()}
        write_whole(folder / CARD, replace(party.card, hashes=hashes).to_json())
