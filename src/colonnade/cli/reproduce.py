"""`colonnade reproduce`: a paper's table, ours beside it."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer

from colonnade.cli import completing, screen
from colonnade.cli.options import Json, Log, Out, Quiet, check_out, read_seeds
from colonnade.errors import RequestError, nearest


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=completing.reproduction,
            help="Which table; without a name, those that there are.",
        ),
    ] = None,
    out: Out = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="Other seeds than the table's own: --seeds 0,1."),
    ] = None,
    as_json: Json = False,
    fast: Annotated[
        bool, typer.Option("--quick", help="A smaller version, to see that it works.")
    ] = False,
    quiet: Quiet = False,
    log: Log = None,
) -> None:
    """Compute a paper's table anew, and show it beside the paper's.

    Example: colonnade reproduce pasta-timing --out runs/pasta-timing
    """
    # By name: the package is imported when it is asked for, as everything here.
    known = importlib.import_module("colonnade.reproduce").known()
    if name is None:
        if as_json:
            screen.show_json(sorted(known))
        else:
            width = max(map(len, known))
            screen.show(
                "\n".join(f"{each:{width}}  {_about(known[each])}" for each in sorted(known))
            )
        return
    if name not in known:
        raise RequestError(f"there is nothing to reproduce named '{name}': {nearest(name, known)}")
    chosen = None if seeds is None else read_seeds(seeds)
    check_out(out)
    from colonnade.cli.progress import follow_study

    with follow_study(screen.stderr(), quiet) as say:
        result = known[name](out, chosen, fast, say)
    screen.show_json(result.to_dict()) if as_json else screen.show(result.table())


def _about(function: Any) -> str:
    """The first sentence of the file that the function stands in, without its full stop."""
    module = importlib.import_module(function.__module__)
    return (module.__doc__ or "").strip().partition("\n")[0].rstrip(".")
