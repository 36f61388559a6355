"""`colonnade inspect`: the model card of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.cli.options import Json
from colonnade.job.terms import shown
from colonnade.record.table import facts_table, toml_text
from colonnade.units import show_bytes, show_time

if TYPE_CHECKING:
    from rich.table import Table

    Report = dict[str, Any]

RunPath = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="The folder of a run: of a simulation, or a party's own."),
]
OneParty = Annotated[
    str | None,
    typer.Option("--party", metavar="NAME", help="This party's model; by default all there are."),
]
_SHOWN = 80
_CLASSES_SHOWN = 8


def inspect(run: RunPath, party: OneParty = None, as_json: Json = False) -> None:
    """Show what a run has learnt: whose model it is, what it reads, how good it is, what it cost.

    Files are checked against the hashes that were written with them. Nothing of the folder runs.

    Example: colonnade inspect runs/credit-telco
    """
    from colonnade.record.inspection import inspect as look_into

    report = look_into(run, party)
    if as_json:
        screen.show_json(report)
        return
    for number, each in enumerate(report["parties"]):
        if number:
            screen.show("")
        _show(each)
    for problem in report["problems"]:
        screen.show(f"\n{problem}")


def _show(found: Report) -> None:
    model = found["model"]
    name = found["party"] if model is None else model["party"]
    role = "" if model is None else ", active" if model["active"] == name else ", passive"
    screen.show(f"{name}{role}: {found['state']}\n")
    facts = {} if model is None else _facts(model)
    facts |= _costs(found)
    facts |= {"problems": "; ".join(found["problems"])} if found["problems"] else {}
    screen.show(facts_table({key: shown(text, 400) for key, text in facts.items()}))
    if model is not None and any(each.get("becomes") for each in model["columns"]):
        screen.show("")
        screen.show(_columns(model["columns"]))


def _facts(model: Report) -> dict[str, str]:
    """What a model is, line by line; lines without anything to say are left out."""
    widths = ", ".join(f"{name} {width}" for name, width in model["widths"].items())
    rows = model["rows"]
    counted = ", ".join(f"{count:,} {split}" for split, count in rows.items())
    chosen = "the best round" if model["weights"] == "best" else "the last round, none was scored"
    aligned = model["alignment"]
    facts = {
        "model": f"{model['version']}, of the job {model['job']}, run {model['run']}",
        "goes on from": model["parent"],
        "weights": f"of round {model['round'] + 1}, {chosen}",
        "method": _method(model),
        "bottom model": _bottom(model),
        "top model": _top(model),
        "widths": f"{widths}; {model['dtype']}",
        "rows": counted,
        "ids": ", ".join(model["id"]) + (f" ({model['rule']})" if model["rule"] else ""),
        "aligned": "" if aligned is None else f"{aligned['count']:,} rows",
        "classes": _classes(model["classes"]),
        "measured": _measured(model),
        "calibration": _calibration(model["calibration"]),
        "recorded": _recorded(model["recorded"]),
        "rows told": _spent(model["spent"]),
        "trained with": ", ".join(f"{name} {v}" for name, v in model["environment"].items()),
        "files": _files(model["integrity"]),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _method(model: Report) -> str:
    options = [
        f"{key} = {toml_text(value)}" for key, value in model["method"].items() if key != "name"
    ]
    name = str(model["method"].get("name", ""))
    return ", ".join([name, *options, f"seed {model['seed']}"]) if name else ""


def _bottom(model: Report) -> str:
    if not model["widths"].get(model["party"]):
        return "none: it has no columns"
    table = "a module of one's own" if model["model"] is None else toml_text(model["model"])
    reads = " × ".join(f"{size:,}" for size in model["row_shape"])
    count = model["parameters"].get("bottom", 0)
    return f"{table}, {count:,} parameters; reads rows of {reads} numbers"


def _top(model: Report) -> str:
    if model["task"] is None:
        return ""
    top = model["top"]
    table = "a module of one's own"
    if top is not None:
        table = top["kind"] + ("" if top["hidden"] is None else f", hidden = {top['hidden']}")
    count, outputs = model["parameters"].get("top", 0), model["outputs"]
    plural = "" if outputs == 1 else "s"
    return f"{table}, {count:,} parameters; {model['task']}, {outputs:,} output{plural}"


def _classes(classes: list[str]) -> str:
    more = f" and {len(classes) - _CLASSES_SHOWN} more" if len(classes) > _CLASSES_SHOWN else ""
    positive = f"; positive is {shown(classes[1], _SHOWN)}" if len(classes) == 2 else ""
    return ", ".join(shown(each, _SHOWN) for each in classes[:_CLASSES_SHOWN]) + more + positive


def _measured(model: Report) -> str:
    """The metric of the choice first."""
    texts = []
    for split, figures in model["measured"].items():
        ordered = sorted(figures, key=lambda name: name != model["metric"])
        told = ", ".join(f"{name} {figures[name]:.4f}" for name in ordered)
        texts.append(f"on {split} rows {told}")
    return "; ".join(texts)


def _calibration(fitted: Report | None) -> str:
    if fitted is None:
        return ""
    if not fitted["rows"]:
        return "none: the scores are taken as they are"
    scale, shift = fitted["scale"], fitted["shift"]
    return f"scale {scale:.4g}, shift {shift:.4g}, on {fitted['rows']:,} {fitted['split']} rows"


def _recorded(kept: Report | None) -> str:
    if kept is None:
        return ""
    more = "" if kept["whole"] else "; there was more than may be kept"
    return (
        f"{kept['tensors']:,} tensors of at most {kept['rounds']:,} rounds, "
        f"{show_bytes(kept['bytes'])}, in traffic{more}"
    )


def _spent(told: Report | None) -> str:
    if told is None or not told["mu"]:
        return ""
    from colonnade.protect.accountant import DELTA, epsilon_of

    epsilon = f"ε = {epsilon_of(told['mu']):.4g} at δ = {DELTA:g}"
    times = f"left up to {told['releases']:,} times with noise"
    return f"{times}: {epsilon}, with the runs that it went on from"


def _files(integrity: dict[str, str]) -> str:
    if not integrity:
        return "no hashes are recorded"
    wrong = [f"{name} {how}" for name, how in integrity.items() if how != "verified"]
    return "; ".join(wrong) or f"{len(integrity)} verified by their hashes"


def _costs(found: Report) -> dict[str, str]:
    if not found["status"]:
        return {}
    sent, received = (show_bytes(found["bytes"][way]) for way in ("sent", "received"))
    took = show_time(found["time_s"], found["clock"])
    return {
        "cost": f"{found['status']} after {found['rounds']:,} rounds; {took}; sent {sent}, "
        f"received {received}"
    }


def _columns(columns: list[Report]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("column", "stored as", "becomes"):
        table.add_column(title, overflow="fold")
    table.add_column("inputs", justify="right")
    table.add_column("note", overflow="fold", style="yellow")
    for each in columns:
        table.add_row(
            Text(shown(each["name"], _SHOWN)),
            shown(each["type"] or "", _SHOWN),
            each["becomes"],
            f"{each['inputs']:,}" if each["inputs"] else "",
            Text(shown(each["why"], _SHOWN)),
        )
    return table
