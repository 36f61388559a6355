"""`colonnade join … --dry-run`: what would leave this host, and what would come, before it does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.cli import screen
from colonnade.errors import RequestError
from colonnade.job.party_file import PartyFile
from colonnade.job.policy import Policy
from colonnade.job.records import Job, Link, Steps
from colonnade.job.trust import taken_notes
from colonnade.record.table import columns_table, facts_table
from colonnade.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from colonnade.learn.participant import Participant
    from colonnade.run.forecast import Forecast

    Report = dict[str, Any]

PURPOSES = ("training", "evaluation", "control")
WAYS = {"sent": "to", "received": "from"}
ROWS = "{rows:,} for training, {validation_rows:,} for validation, {test_rows:,} for the test"
ON_TOP = "counted as in the ledger: TLS and heartbeats add about 100 bytes a message"


@dataclass(frozen=True)
class Line:
    """How the party would be connected, as far as the command says: its options of these names."""

    listen: str | None = None
    connect: str | None = None
    keys: Path | None = None
    emulate: str | None = None
    taken: Mapping[str, Any] = field(default_factory=dict)
    """What the party takes of its own from the job file."""
    start: Path | None = None
    """The folder of the run that it would go on from."""


def show_dry_run(
    job: Job, me: str, file: PartyFile, as_json: bool, line: Line | None = None
) -> None:
    """Show what would happen; what `join` would refuse is shown as well, and then refused."""
    report = look_ahead(job, me, file, line or Line())
    if as_json:
        screen.show_json(report)
    else:
        for part in (facts, traffic, sums, policy):
            screen.show(part(report))
            screen.show("")
        last = "this was a dry run: nothing was sent"
        screen.show("\n".join([report["tells"], *report["notes"], last]))
    for fault in (report["refusal"], (report["certificate"] or {}).get("fault")):
        if fault is not None:
            raise RequestError(fault)


def look_ahead(job: Job, me: str, file: PartyFile, line: Line) -> Report:
    """All that a party can know beforehand, in plain values.

    >>> from colonnade.job import load
    >>> from colonnade.job.party_file import PartyFile
    >>> look_ahead(load("digits"), "lab", PartyFile(), Line())["totals"]["sent"]["control"]
    192
    """
    from colonnade.cli.keys import certificate_report
    from colonnade.net.link import Emulation
    from colonnade.run.forecast import forecast
    from colonnade.run.telling import what_it_tells

    emulation = None if line.emulate is None else Emulation.parse(line.emulate)
    party, refusal = _ready_party(job, me, file.policy, line.start)
    party = _signing(party, file, line.keys)
    found = forecast(party, emulation)
    return {
        "party": me,
        "role": job.parties[me].role,
        "active": job.active,
        "job": job.name,
        "digest": party.hello.digest,
        "from": party.parent or None,
        "method": job.method,
        "seed": job.seed,
        "rounds": found.rounds,
        "per_epoch": found.per_epoch,
        "batch_size": job.train.batch_size,
        "rows": party.data.train_count,
        "validation_rows": party.data.validation_count,
        "test_rows": party.data.test_count,
        "width": party.width,
        "dtype": job.train.dtype,
        "listen": line.listen,
        "connect": line.connect,
        "certificate": certificate_report(job, me, file, line.keys),
        "link": _link(party, line),
        "time_s": found.time_s,
        "computing": job.compute != type(job.compute)(),
        "about": found.about,
        "traffic": _rows(found),
        "totals": _totals(found),
        "most": found.most,
        "policy": _limits(party, found, file.policy),
        "tells": what_it_tells(job, party.method),
        "refusal": refusal,
        "trusted": dict(line.taken),
        "notes": [*taken_notes(line.taken), *_notes(party, found)],
    }


def _ready_party(
    job: Job, me: str, policy: Policy, start: Path | None
) -> tuple[Participant, str | None]:
    """The party, and why its policy refuses the job; all other faults are raised."""
    from colonnade.cli.join import origin_of
    from colonnade.run.setup import participant

    origin = origin_of(start, me)
    try:
        return participant(job, me, policy, origin), None
    except RequestError as error:
        return participant(job, me, type(policy)(shares_labels=True), origin), str(error)


def _signing(party: Participant, file: PartyFile, keys: Path | None) -> Participant:
    """The party with its certificate, where it would show it and it is sound."""
    from dataclasses import replace

    from colonnade.cli.keys import certificate_files
    from colonnade.tls.identity import load_identity
    from colonnade.tls.signature import Credentials

    paths = certificate_files(file, keys)
    if party.method.protect.sum is None or paths is None:
        return party
    names = file.tls.names.get(party.me, ())
    try:
        identity, _ = load_identity(*paths, party.me, names, listens=party.leads)
    except RequestError:
        # The report has it as a fault, which is raised when all is shown.
        return party
    return replace(party, credentials=lambda: Credentials(identity))


def _batch_min(party: Participant) -> int:
    size, rows = party.job.train.batch_size, party.data.train_count
    return size if party.job.train.drop_last else rows % size or size


def _link(party: Participant, line: Line) -> str | None:
    """The stated link in words; None where none is stated."""
    from colonnade.run.forecast import links

    if line.emulate is not None:
        return f"{line.emulate} (--emulate)"
    texts = {
        name: f"{_now(link.latency)}, {_now(link.bandwidth)}"
        for name, link in links(party).items()
        if link != Link()
    }
    alike = len(set(texts.values())) == 1
    words = [text if alike else f"{name} {text}" for name, text in texts.items()]
    return f"{'; '.join(dict.fromkeys(words))} (the job's)" if texts else None


def _now(value: str | Steps | None) -> str:
    return f"{value[0][1]} at first" if isinstance(value, list) else value or "no limit"


def _rows(found: Forecast) -> list[dict[str, Any]]:
    """The ledger that is to be expected, training first, each kind with its share of a round."""
    rows = []
    for entry in found.entries:
        messages, size = found.a_round(entry) or (None, None)
        rows.append({**entry, "round_messages": messages, "round_bytes": size})
    place = {name: number for number, name in enumerate((*WAYS, *PURPOSES))}
    return sorted(rows, key=lambda r: (place[r["direction"]], r["peer"], place[r["purpose"]]))


def _totals(found: Forecast) -> dict[str, dict[str, int]]:
    totals = {way: dict.fromkeys((*PURPOSES, "all"), 0) for way in WAYS}
    for entry in found.entries:
        for purpose in (entry["purpose"], "all"):
            totals[entry["direction"]][purpose] += entry["bytes"]
    return totals


def _limits(party: Participant, found: Forecast, policy: Policy) -> dict[str, dict[str, Any]]:
    """What the policy says, and what the job would have; None is no limit."""
    from colonnade.party.training import Training
    from colonnade.run.accounting import planned_epsilon
    from colonnade.run.releases import allowance

    sends, receives = Training.of(party).kinds.names()
    kinds = sends + receives
    asked: dict[str, Any] = {
        "kinds": sends,
        "receive": receives,
        "batch_min": _batch_min(party),
        "width_max": party.width,
        "rounds_max": party.agreement().view(party.me).rounds,
        "in_flight_max": party.method.window.most,
        "peers": [name for name in party.job.parties if name != party.me],
        "shown_to": [n for n in party.job.passives if n != party.me and "Snapshot" in kinds],
        "epsilon_max": _epsilon(planned_epsilon(party)),
    }
    said = {field: getattr(policy, field) for field in asked}
    if party.leads:
        asked["shares_labels"], said["shares_labels"] = "Labels" in sends, policy.shares_labels
    else:
        allowed = allowance(party)
        asked |= {"releases_max": allowed.needed, "evaluations_max": allowed.evaluations}
        said |= {"releases_max": allowed.most, "evaluations_max": allowed.evaluations_most}
        asked["gradient_norm_max"] = "known when it comes"
        said["gradient_norm_max"] = policy.gradient_norm_max
    return {
        field: {"says": sorted(s) if isinstance(s, frozenset) else s, "job": asked[field]}
        for field, s in said.items()
    }


def _epsilon(planned: float) -> str:
    return "no noise" if planned == math.inf else f"{planned:.4g}"


def _notes(party: Participant, found: Forecast) -> list[str]:
    """What had to be assumed, and what may turn out otherwise."""
    from colonnade.compress import plain
    from colonnade.learn.agreement import own_method
    from colonnade.run.forecast import CERTIFICATE_BYTES
    from colonnade.run.releases import allowance

    job, me, shares = party.job, party.me, party.method.exchange.sends_snapshots
    compressed = own_method(party.method, job, me).compress.embedding != plain()
    plainly = job.train.evaluate_plain and compressed and not party.leads
    unknown = [name for name in job.parties if name != me and job.parties[name].width is None]
    notes = {
        f"the job does not say how wide the embedding of {' or '.join(unknown)} is: "
        f"{found.widths[me] or 1} is assumed (parties.NAME.width)": (
            unknown and (party.leads or shares)
        ),
        f"only {job.active} knows the labels, and the top model follows from them: "
        f"{found.classes} classes are assumed": shares and not party.leads,
        "about: the method goes by the clock, and other speeds give other counts": (
            party.method.by_clock
        ),
        f"about: worked out from the first {found.sampled} rounds": found.sampled,
        "the job may end earlier: train.stop is 'target'": job.train.stop == "target",
        f"the job may end earlier: train.patience is {job.train.patience}": job.train.patience,
        "evaluation embeddings are sent plain (train.evaluate_plain)": plainly,
        "the weights of the classes are told to everybody, and with them how many rows each class "
        "has (train.class_weights)": shares and job.train.class_weights == "balanced",
        "at most: what can leave of the data in one run, whatever the active party asks for": (
            not party.leads
        ),
        allowance(party).sentence(): not party.leads,
        f"a key for masks is counted with {CERTIFICATE_BYTES:,} bytes for a certificate that is "
        "not known yet": party.method.protect.sum is not None,
        ON_TOP: True,
    }
    return [note for note, holds in notes.items() if holds]


def facts(report: Report) -> Table:
    """Who takes part where, in what, and how long that lasts."""
    from colonnade.run.naming import method_text

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
        **({} if report["from"] is None else {"begins with": report["from"]}),
        "rounds": rounds.format_map(report),
        "rows": ROWS.format_map(report),
        "embedding": "{width} wide, {dtype}".format_map(report),
        "certificate": proof,
        "link": report["link"] or "the job states no link",
        "time": time,
    }
    return facts_table(rows)


def traffic(report: Report) -> Table:
    """What crosses, by peer and kind."""
    whole = "about" if report["about"] else "in all"
    heads = [f"{what}\n{of}" for of in ("a round", whole) for what in ("messages", "bytes")]
    table = columns_table(("", "kind", "purpose"), heads)
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
    table = columns_table(["in all"], [*PURPOSES, "together"])
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
    table = columns_table(("policy", "says", "this job"))
    for name, limit in report["policy"].items():
        table.add_row(name, _words(limit["says"]), _words(limit["job"]))
    return table


def _words(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "any", True: "yes", False: "no"}[value]
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int | float) else ", ".join(value) or "none"
