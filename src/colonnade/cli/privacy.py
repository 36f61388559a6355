"""`colonnade privacy`: what the recorded traffic of a run tells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.inspect import RunPath
from colonnade.cli.options import Json, Quiet
from colonnade.errors import RequestError
from colonnade.record.table import columns_table

if TYPE_CHECKING:
    from rich.table import Table

    from colonnade.privacy.findings import Audit, Covered, Figures, Finding

WORDS = {
    "embedding": "of embeddings",
    "evaluation": "for evaluation",
    "upload": "of uploads",
    "gradient": "of gradients",
    "labels": "of labels",
    "sum": "of sums",
    "summand": "under masks, as they were before",
    "sealed": "encrypted, as they were before",
}
"""What each recorded kind of tensor is called."""
OneParty = Annotated[
    str | None,
    typer.Option("--party", metavar="NAME", help="Audit this party; by default all there are."),
]
Known = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="How many rows an attacker is taken to know, where an attack needs some.",
    ),
]


def privacy(
    run: RunPath,
    party: OneParty = None,
    known: Known = 1000,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure what others can tell of a party's data from what it sent in a recorded run.

    Each party is audited by its own recording and its own data (join, launch and simulate keep
    one with --record). The folder gets privacy.json.

    Example: colonnade privacy runs/credit
    """
    if known < 1:
        raise RequestError(f"--known is {known}: it must be 1 or more")
    from colonnade.cli.progress import follow_steps
    from colonnade.run.audit import audit, save_audit

    with follow_steps(screen.stderr(), "attack", quiet) as on_step:
        found = audit(run, party=party, known=known, on_step=on_step)
    try:
        save_audit(found, Path(run))
    finally:
        # What was found is shown even where it cannot be kept.
        _show(found, as_json)


def _show(found: Audit, as_json: bool) -> None:
    if as_json:
        screen.show_json(found.to_dict())
        return
    for each in found.covered:
        screen.show(f"{each.party}: {each.rounds:,} rounds recorded; {_kinds(each)}")
    if found.findings:
        screen.show("")
        screen.show(_table(found.findings))
    for sentence in found.verdict:
        screen.show(f"\n{sentence}")
    screen.show("\nNot tested:")
    for what in found.not_tested:
        screen.show(f"- {what}")


def _kinds(covered: Covered) -> str:
    """What was recorded: rows, each as often as it crossed."""
    ways = []
    for way, kinds in covered.kinds.items():
        rows = [f"{count:,} {WORDS[kind]}" for kind, count in kinds.items()]
        ways.append(f"rows {way}: {', '.join(rows) or 'none'}")
    return "; ".join(ways)


def _table(findings: list[Finding]) -> Table:
    from colonnade.privacy.verdict import SUPPOSED

    figures = ("one release", "all releases", "baseline", "shuffled")
    table = columns_table(["whose", "to whom", "attack", "needs"], figures)
    for each in findings:
        table.add_row(
            f"{each.party}: {each.of}" + ("" if each.split == "train" else f"\n{each.split} rows"),
            "all" if each.to == "*" else each.to,
            each.attack + ("\nfrom the sum" if each.source == "sum" else ""),
            each.needs + (f";\nif it {SUPPOSED[each.source]}" if each.supposed else ""),
            *(_cell(figures) for figures in (each.one, each.pooled, each.baseline)),
            _cell(each.control, each.control.balanced),
        )
    table.caption = (
        "Labels: the share told, and the AUC; columns: R². Baseline: what an attacker knows "
        "without the training.\nShuffled: what the attack finds where there is nothing to find "
        "(the mean share told over the classes, and the AUC)."
    )
    table.caption_justify = "left"
    return table


def _cell(figures: Figures, share: float | None = None) -> str:
    from colonnade.privacy.verdict import percent

    told = figures.accuracy if share is None else share
    if told is None:
        return "–" if figures.r2 is None else f"R² {figures.r2:.3f}"
    auc = "" if figures.auc is None else f", {figures.auc:.3f}"
    return f"{percent(told)}{auc}"
