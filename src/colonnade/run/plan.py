"""What a job will cost with every method on its links and at its speeds, before it is trained."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from colonnade import methods as all_methods
from colonnade import models
from colonnade.data.views import NO_VIEW
from colonnade.errors import DataError, JobError
from colonnade.job.records import Costs, Job, Link
from colonnade.job.texts import parse_method
from colonnade.planning.advice import advice
from colonnade.planning.prediction import Prediction, named, time_of
from colonnade.planning.workload import Workload
from colonnade.record.table import columns_table, plain
from colonnade.run.arguments import as_job, as_methods, check_count, check_widths
from colonnade.run.clock import simulate_clock
from colonnade.run.naming import method_text
from colonnade.run.setup import prepare
from colonnade.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, repr=False)
class Plan:
    """What a job costs, by method.

    >>> planned = plan("digits", ["fedsgd", "pasta"], rows=1000)
    >>> planned
    <Plan of digits: fedsgd 3.85 s, pasta 1.33 s an epoch>
    >>> planned.predictions["fedsgd"].binds.kind
    'latency'
    """

    job: Job
    workload: Workload
    predictions: Mapping[str, Prediction]
    """By method, as a command line names it."""
    advice: Mapping[str, str]
    """What to change, by method."""
    simulated: Mapping[str, float]
    """By method, the seconds of an epoch in the simulator; empty unless that was asked for."""
    notes: tuple[str, ...] = ()
    """What is assumed."""

    def __repr__(self) -> str:
        costs = (f"{name} {show_seconds(p.epoch_s)}" for name, p in self.predictions.items())
        return f"<Plan of {self.job.name}: {', '.join(costs)} an epoch>"

    def rows(self) -> list[dict[str, Any]]:
        """A row for each method."""
        found = []
        for name, predicted in self.predictions.items():
            row: dict[str, Any] = {
                "method": name,
                "epoch_s": predicted.epoch_s,
                "round_s": predicted.round_ns / 1e9,
                "first_round_s": predicted.first_ns / 1e9,
                "total_s": predicted.total_ns / 1e9,
                "rounds_per_s": predicted.rounds_per_s,
                "bytes_up": dict(predicted.up),
                "bytes_down": dict(predicted.down),
                "binds": predicted.binds._asdict(),
                "why": predicted.why,
                "usage": [use._asdict() for use in predicted.usage],
                "busiest": predicted.busiest._asdict(),
                "window": predicted.window,
                "window_to_fill": predicted.window_to_fill,
                "exact": predicted.exact,
                "advice": self.advice[name],
            }
            if name in self.simulated:
                row["simulated_epoch_s"] = self.simulated[name]
                row["ratio"] = _ratio(predicted.epoch_s, self.simulated[name])
            found.append(row)
        return found

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, as JSON can hold them."""
        work = self.workload
        common = {"job": self.job.name, "rows": work.rows, "rounds_per_epoch": work.per_epoch}
        return {**common, "notes": list(self.notes), "methods": plain(self.rows())}

    def table(self) -> Table:
        """The plan, to print with rich; what to change is said below it, once for all methods for
        which it is the same."""
        figures = [
            "time an\nepoch",
            "rounds\na second",
            "bytes up\nan epoch",
            "bytes down\nan epoch",
        ]
        figures += ["÷ simu-\nlator"] * bool(self.simulated)
        table = columns_table(["method"], figures)
        table.add_column("busiest\nparty", no_wrap=True)
        table.add_column("binds", overflow="fold")
        for row in self.rows():
            predicted = self.predictions[row["method"]]
            cells = [row["method"], show_seconds(row["epoch_s"]), f"{row['rounds_per_s']:.3g}"]
            cells += [show_bytes(sum(row[way].values())) for way in ("bytes_up", "bytes_down")]
            if self.simulated:
                cells.append(f"{row['ratio']:.3f}")
            busiest = predicted.busiest
            cells.append(f"{busiest.party} {busiest.share:.0%}")
            table.add_row(*cells, named(predicted.binds) if predicted.round_ns else "nothing")
        table.caption = "\n".join([*self._changes(), *self.notes])
        table.caption_justify = "left"
        return table

    def _changes(self) -> list[str]:
        methods: dict[str, list[str]] = {}
        for name, change in self.advice.items():
            methods.setdefault(change, []).append(name)
        return [f"{', '.join(names)}: {change}." for change, names in methods.items()]


def plan(
    job: Job | str | Path,
    methods: Iterable[str | Mapping[str, Any]] | None = None,
    *,
    rows: int | None = None,
    widths: Mapping[str, int] | None = None,
    check: bool = False,
) -> Plan:
    """Work out what a job costs with each method, on its links and at its speeds, without training.

    Args:
        job: a job, a job file, or the name of a built-in job.
        methods: the methods, each with its options; by default the job's own and all others.
        rows: training rows. Without it the data is read, and the models are built.
        widths: every party's embedding width, with `rows`; by default as the job's models say.
        check: run each method's clock in the simulator too, and show both.

    Example:
        >>> plan("digits", ["fedsgd"], rows=1000).advice["fedsgd"]
        'latency binds: a window of 7 would fill the pipe (640 ms)'
    """
    job = as_job(job)
    named_methods = _methods(job, methods)
    outputs = 1
    if rows is None:
        if widths is not None:
            raise JobError("widths are given without rows: give both, or neither")
        rows, widths, outputs = _read(job)
    check_count("rows", rows)
    widths = _declared(job) if widths is None else widths
    check_widths(job, widths)
    workload = Workload.of(job, rows, widths, outputs)
    found, changes, simulated = {}, {}, {}
    for name, table in named_methods.items():
        method = all_methods.build(table)
        found[name] = time_of(method, workload)
        changes[name] = advice(method, workload, found[name])
        if check:
            train = msgspec.structs.replace(job.train, labels="shared")
            shares = method.exchange.sends_snapshots
            clocked = msgspec.structs.replace(
                job, method=table, train=train if shares else job.train
            )
            run = simulate_clock(clocked, rows, widths, outputs=outputs)
            simulated[name] = run.time_s * workload.per_epoch / workload.rounds
    return Plan(job, workload, found, changes, simulated, tuple(_notes(job, named_methods)))


def _methods(job: Job, methods: Any) -> dict[str, dict[str, Any]]:
    """The methods as tables, by their texts."""
    if methods is not None:
        wanted = as_methods(methods)
        if not wanted:
            raise JobError("there are no methods to plan for: name some, as in fedsgd,pasta")
    else:
        own = str(job.method.get("name", "fedsgd"))
        wanted = [dict(job.method), *(name for name in all_methods.known() if name != own)]
    tables = [parse_method(each) if isinstance(each, str) else each for each in wanted]
    return {method_text(table): table for table in tables}


def _read(job: Job) -> tuple[int, dict[str, int], int]:
    """Training rows, widths and the width of the prediction, from the data and the models."""
    try:
        parties = prepare(job)
    except DataError as error:
        raise DataError(
            f"{error}; or plan without the data: give the training rows (--rows N)"
        ) from None
    active = parties[job.active]
    assert active.objective is not None
    widths = {name: party.width for name, party in parties.items()}
    return active.data.train_count, widths, active.objective.outputs


def _declared(job: Job) -> dict[str, int]:
    """The widths as the job and its models say them."""
    found = {}
    for name, party in job.parties.items():
        if party.width is not None:
            found[name] = party.width
            continue
        empty = not (party.columns or party.view or party.table)
        if name == job.active and (party.view == NO_VIEW or empty):
            found[name] = 0
            continue
        function, options = models.find(party.model, f"parties.{name}.model")
        parameter = inspect.signature(function).parameters.get("embedding")
        width = options.get("embedding", None if parameter is None else parameter.default)
        if not isinstance(width, int):
            raise JobError(
                f"how wide the embedding of {name} is depends on its data: say it, as in "
                f"--set parties.{name}.width=64, or leave out --rows to read the data"
            )
        found[name] = width
    return found


def _notes(job: Job, tables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What is assumed, where the job does not say it."""
    found = []
    links = [job.network.of(name) for name in job.passives]
    if all(link == Link() for link in links):
        found.append(
            "The job says nothing of its links: they are taken to cost no time. Set "
            "network.latency and network.bandwidth."
        )
    if all(job.compute.of(name) == Costs() for name in job.parties):
        found.append(
            "The job says nothing of its parties' speeds: computing is taken to cost no time. Set "
            "compute.forward, compute.backward and compute.aggregate."
        )
    quantities = [value for link in links for value in (link.latency, link.bandwidth)]
    for name in job.parties:
        costs = job.compute.of(name)
        quantities += [getattr(costs, field) for field in costs.__struct_fields__]
    if any(isinstance(value, list) for value in quantities):
        found.append("What changes over time is taken as it is when the job begins.")
    if job.train.labels == "private":
        shared = [
            name
            for name, table in tables.items()
            if all_methods.build(table).exchange.sends_snapshots
        ]
        if shared:
            found.append(f"Needed for {', '.join(shared)}: train.labels = shared.")
    return found


def _ratio(predicted: float, simulated: float) -> float:
    return predicted / simulated if simulated else 1.0
