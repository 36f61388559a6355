"""What a dry run found out, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colonnade.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from rich.table import Table

    Report = dict[str, Any]

PURPOSES = ("training", "evaluation", "control")
WAYS = {"sent": "to", "received": "from"}
ROWS = "{rows:,} for training, {validation_rows:,} for validation, {test_rows:,} for the test"


def facts(report: Report) -> Table:
    """Who takes part where, in what, and how long that lasts."""
    from rich.table import Table
    from rich.text import Text

    from colonnade.run.compare import method_text

    certificate, proof = report["certificate"], "none yet (colonnade keys)"
    if certificate is not None:
        told = "{subject}, until {valid_until}, {days_left} days left"
        proof = certificate["fault"] or told.format_map(certificate)
    place = f"passive; dials {report['active']} at {report['connect'] or '--connect HOST:PORT'}"
    if report["role"] == "active":
        place = f"active; listens at {report['listen'] or '--listen :7443'}"
    time = "--emulate latency=50ms,rate=100mbit shows how long it takes on such a link"
    if report["time_s"] is not None:
        computing = "with [compute]" if report["computing"] else "without computing"
        time = f"about {show_seconds(report['time_s'])} on this link, {computing}"
    method = method_text(report["method"])
    rounds = "{rounds:,}, {per_epoch:,} an epoch, batches of {batch_size:,} rows"
    rows = {
        report["party"]: place,
        "job": f"{report['job']} {report['digest'][:12]}, {method}, seed {report['seed']}",
        "rounds": rounds.format_map(report),
        "rows": ROWS.format_map(report),
        "embedding": "{width} wide, {dtype}".format_map(report),
        "certificate": proof,
        "link": report["link"] or "the job states no link",
        "time": time,
    }
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, style="bold"), value)
    return table


def _table(*headings: str, right: int) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for number, heading in enumerate(headings):
        numbers = number >= len(headings) - right
        table.add_column(heading, justify="right" if numbers else "left", no_wrap=numbers)
    return table


def traffic(report: Report) -> Table:
    """What crosses, by peer and kind."""
    whole = "about" if report["about"] else "in all"
    heads = [f"{what}\n{of}" for of in ("a round", whole) for what in ("messages", "bytes")]
    table = _table("", "kind", "purpose", *heads, right=4)
    before = ""
    for row in report["traffic"]:
        where = f"{WAYS[row['direction']]} {row['peer']}"
        numbers = [row[f] for f in ("round_messages", "round_bytes", "messages", "bytes")]
        cells = ["" if number is None else f"{number:,.0f}" for number in numbers]
        table.add_row("" if where == before else where, row["kind"], row["purpose"], *cells)
        before = where
    return table


def sums(report: Report) -> Table:
    """What leaves and comes in all, and the most that can leave."""
    table = _table("in all", *PURPOSES, "together", right=4)
    for way, name in (("sent", "leaves"), ("received", "comes")):
        about = "about " if report["about"] else ""
        table.add_row(name, *(about + show_bytes(b) for b in report["totals"][way].values()))
    if report["most"] is not None:
        evaluation = report["most"].get("EvaluationEmbedding", (0, 0))[1]
        training = sum(size for _, size in report["most"].values()) - evaluation
        table.add_row("at most", show_bytes(training), show_bytes(evaluation), "", "")
    return table


def policy(report: Report) -> Table:
    """What the policy says beside what the job would have."""
    table = _table("policy", "says", "this job", right=0)
    for name, limit in report["policy"].items():
        table.add_row(name, _words(limit["says"]), _words(limit["job"]))
    return table


def _words(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "any", True: "yes", False: "no"}[value]
    return f"{value:,}" if isinstance(value, int) else ", ".join(value) or "none"
