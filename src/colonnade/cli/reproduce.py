"""`colonnade reproduce`: the experiments of the papers, ours beside theirs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.cli import completing, screen
from colonnade.cli.options import (
    Json,
    Log,
    Out,
    Quiet,
    Workers,
    check_out,
    read_seeds,
)
from colonnade.cli.race import Cluster
from colonnade.errors import DataError, FailedError, RequestError, nearest

ALL = "all"
MEASURED = "measured.md"
"""A page with the times that the clock of this machine has measured."""
Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        autocompletion=completing.reproduction,
        help="Which experiment, or all; without a name, those that there are.",
    ),
]
Seeds = Annotated[
    str | None, typer.Option(metavar="N,N", help="Other seeds than the table's own: --seeds 0,1.")
]
Quick = Annotated[
    bool,
    typer.Option("--quick/--full", help="A smaller version, to see that it works; or all of it."),
]
Device = Annotated[
    str | None, typer.Option(metavar="DEVICE", help="Where parties compute: --device cuda.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SETTING",
        help="Leave out the settings of a study whose names begin otherwise; repeat for more.",
    ),
]
ByRule = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="RULE",
        help="Only by this rule of a study, as in --rule paper; repeat for more.",
    ),
]


def reproduce(
    name: Name = None,
    out: Out = None,
    seeds: Seeds = None,
    as_json: Json = False,
    fast: Quick = False,
    only: Only = None,
    by_rule: ByRule = None,
    device: Device = None,
    workers: Workers = None,
    on: Cluster = None,
    quiet: Quiet = False,
    log: Log = None,
) -> None:
    """Compute a paper's table anew, and show it beside the paper's.

    What was trained before is not trained again, so a study that was stopped goes on.

    Example: colonnade reproduce pasta-timing --quick
    """
    # By name: the package is imported when it is asked for, as everything here.
    known = importlib.import_module("colonnade.reproduce").known()
    if name is None:
        if as_json:
            screen.show_json(sorted(known))
        else:
            width = max(map(len, known))
            lines = [f"{each:{width}}  {known[each].about}" for each in sorted(known)]
            screen.show("\n".join(lines))
        return
    if name != ALL and name not in known:
        raise RequestError(
            f"there is nothing to reproduce named '{name}': {nearest(name, (*known, ALL))}"
        )
    if name == ALL and (only or by_rule):
        option = "--only" if only else "--rule"
        raise RequestError(f"{option} is for one experiment: name it in place of 'all'")
    check_out(out)
    options: dict[str, Any] = {
        "quick": fast,
        "seeds": None if seeds is None else read_seeds(seeds),
        "only": only or None,
        "rules": by_rule or None,
        "device": device,
        "workers": workers,
        "on": on,
    }
    chosen = sorted(known) if name == ALL else [name]
    base = out if name == ALL and out is not None else Path("runs") / "reproduce"
    # Experiments have runs in common: those of one folder are kept together.
    options["runs"] = None if name != ALL and out is not None else base / "points"
    shown, failed = [], []
    for each in chosen:
        own = f"{each}-quick" if fast else each
        folder = out if name != ALL and out is not None else base / own
        try:
            if name != ALL:
                _check_options(known[each], options)
            shown.append(_one(known[each], folder, options, quiet, as_json))
        except (DataError, FailedError) as fault:
            if name != ALL:
                raise
            left_out = isinstance(fault, DataError)
            screen.stderr().print(f"{each} {'is left out' if left_out else 'failed'}: {fault}")
            failed += [] if left_out else [each]
    if as_json:
        screen.show_json(shown if name == ALL else shown[0])
    if failed:
        raise FailedError(f"{len(failed)} of {len(chosen)} failed: {', '.join(failed)}")


def _check_options(known: Any, options: dict[str, Any]) -> None:
    """Refuse what only the engine for studies understands."""
    if known.study is None:
        for option in ("only", "rules", "device", "workers", "on"):
            if options[option] is not None:
                given = "rule" if option == "rules" else option
                raise RequestError(f"{known.name} has no --{given}: leave it out")


def _one(known: Any, folder: Path, options: dict[str, Any], quiet: bool, as_json: bool) -> Any:
    """Conduct one experiment, and show it."""
    if known.study is None:
        return _by_function(known, folder, options, quiet, as_json)
    from colonnade.cli.progress import follow_runs
    from colonnade.study.page import remarks, sheets
    from colonnade.study.running import run_study, told_of

    kept = f"; the finished runs are in {folder}, and the same command goes on from there"
    with (
        screen.ended_by_signal(kept),
        follow_runs(screen.stderr(), None, quiet, known.name) as following,
    ):
        findings = run_study(
            known.study,
            folder,
            **options,
            on_plan=following.on_plan,
            on_done=following.on_done,
            beacons=following.beacons,
        )
    if not as_json:
        for sheet in sheets(findings):
            screen.show(sheet.rich())
        for remark in remarks(findings):
            screen.show(remark)
        screen.show(f"the page and all figures are in {folder}")
    return told_of(findings)


def _by_function(
    known: Any, folder: Path, options: dict[str, Any], quiet: bool, as_json: bool
) -> Any:
    """An experiment that is no comparison of methods."""
    from colonnade.cli.progress import follow_study
    from colonnade.record.private import write_whole
    from colonnade.study.running import write_told

    with follow_study(screen.stderr(), quiet) as say:
        result = known.function(folder, options["seeds"], options["quick"], say)
    folder.mkdir(parents=True, exist_ok=True)
    write_told(result.told(known.about), result.markdown(), folder)
    if result.measured:
        write_whole(folder / MEASURED, result.markdown(measured=True))
    if not as_json:
        screen.show(result.table())
        screen.show(f"the page and all figures are in {folder}")
    return result.to_dict()
