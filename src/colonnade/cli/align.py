"""`colonnade align`: which rows all parties have, found without showing anybody an id."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.cli.one_party import (
    Connect,
    DryRun,
    Emulate,
    Keys,
    Listen,
    Me,
    PartyPath,
    Restart,
    TrustJob,
    address_of,
    check_address,
    check_ends,
    keyring_of,
    read_own,
    reporter_of,
    telling,
    watch_of,
)
from colonnade.cli.options import Allow, JobName, Json, Log, Quiet, Sets
from colonnade.data.aligned import default_folder
from colonnade.errors import FailedError, RequestError
from colonnade.job.party_file import PartyFile, find_party
from colonnade.job.records import Job

if TYPE_CHECKING:
    from colonnade.cli.reporter import Reporter
    from colonnade.net.runner import Address
    from colonnade.record.party_folder import PartyFolder
    from colonnade.run.align import Aligned, OwnIds
    from colonnade.tls.keyring import Keyring

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="The folder of this party's alignment; by default aligned/JOB-PARTY, where "
        "colonnade join looks for it.",
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        metavar="N|ray|ray://…",
        help="On how many threads to compute, or on which Ray cluster of this party's own; by "
        "default a thread on each core.",
    ),
]


Update = Annotated[
    bool,
    typer.Option(
        "--update",
        help="Align again after ids were added to the tables, for the cost of the new ones: keys "
        "are used once more, and the others learn how many were added. All parties must do so.",
    ),
]


def align(
    job: JobName,
    me: Me,
    listen: Listen = None,
    connect: Connect = None,
    party: PartyPath = None,
    keys: Keys = None,
    out: Out = None,
    restart: Restart = False,
    update: Update = False,
    workers: Workers = None,
    sets: Sets = None,
    emulate: Emulate = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
    log: Log = None,
    allow: Allow = None,
    trust_job: TrustJob = False,
    launched: Annotated[bool, typer.Option("--launched", hidden=True)] = False,
) -> None:
    """Find the rows that all parties have, without showing anybody an id.

    The active party listens, the others dial out. Each names its table and its id column in its
    party file; docs/alignment.md says who learns what.

    Example: colonnade align job.toml --me telco --connect bank.example:7443
    """
    if launched:
        from colonnade.run.processes import end_with_input

        end_with_input()
    check_address("--listen", listen)
    check_address("--connect", connect)
    given = (job, me, party, sets or [], None, None, allow or [], trust_job)
    own, file, _ = read_own(*given, trains=False)
    if update and restart:
        raise RequestError("--update adds to an alignment, --restart begins anew: give one of them")
    if dry_run:
        _show_dry_run(own, me, file, as_json, update)
        return
    check_ends(own, me, listen, connect)
    place = out or default_folder(own.name, me)
    if restart:
        from colonnade.record.party_folder import set_aside

        if (aside := set_aside(place)) is not None:
            screen.stderr().print(f"begins anew; what {place} held is in {aside}")
    result = _take_part(
        own,
        me,
        file,
        place,
        address=address_of(listen, connect, file),
        keyring=keyring_of(own, me, file, party or find_party(job, me), keys),
        workers=workers,
        emulate=emulate,
        update=update,
        launched=launched,
        reporter=partial(reporter_of, quiet, launched, watch_of(own, me, "alignment")),
    )
    _show(result, as_json, quiet or launched)


def _take_part(
    job: Job,
    me: str,
    file: PartyFile,
    place: Path,
    *,
    address: Address,
    keyring: Keyring,
    workers: str | None,
    emulate: str | None,
    update: bool,
    launched: bool,
    reporter: Callable[[PartyFolder], Reporter],
) -> Aligned:
    """Take part, telling what happens, unless it is over already."""
    from colonnade.align.workers import workers as start_workers
    from colonnade.net.link import Emulation
    from colonnade.record.party_folder import PartyFolder
    from colonnade.run.align import Aligned, finished, next_step
    from colonnade.run.align import align as take_part
    from colonnade.tls.signature import Credentials

    with closing(PartyFolder(place)) as folder, closing(start_workers(workers)) as hands:
        step = next_step(job, me, folder, update)
        if (facts := finished(job, me, folder, step)) is not None:
            screen.stderr().print(f"this alignment is complete; its result is in {folder.path}")
            return Aligned(folder.path, "complete", facts)
        with telling(reporter(folder)) as told:
            return take_part(
                job,
                me,
                file.policy,
                address=address,
                credentials=Credentials(keyring.identity, file.tls.names, file.tls.pins),
                keyring=keyring,
                folder=folder,
                workers=hands,
                emulation=None if emulate is None else Emulation.parse(emulate),
                subscribers=[told],
                step=step,
                sorts=launched,
            )


def _show(result: Aligned, as_json: bool, quiet: bool) -> None:
    facts = result.facts
    if as_json:
        screen.show_json(
            {
                "status": result.status,
                "folder": str(result.folder),
                "common": facts.count,
                "sizes": dict(facts.sizes),
                "differences": result.differences,
                "hints": result.hints,
            }
        )
    elif not quiet and facts.count:
        share = facts.count / facts.sizes[facts.party]
        screen.show(
            f"{facts.count:,} rows are common to all parties, {share:.1%} of those of "
            f"{facts.party}; the alignment is in {result.folder}"
        )
    for text in result.hints:
        screen.stderr().print(f"few ids match: {text}")
    if not facts.count:
        raise RequestError(
            "no id is common to all parties: see that the id columns hold the same kind of ids, "
            "written the same way (the job's [ids] table says what counts), then align again, with "
            "--restart at all parties"
        )
    if any(result.differences.values()):
        for sentences in result.differences.values():
            for sentence in sentences:
                screen.stderr().print(sentence)
        raise FailedError("the ledgers of both ends differ: see reconciliation.json")


def _show_dry_run(job: Job, me: str, file: PartyFile, as_json: bool, update: bool) -> None:
    """What would leave this host: it follows from the sizes of the sets alone."""
    from colonnade.run.align import read_ids

    own = read_ids(job, me)
    said = _forecast(job, me, file, own)
    if update:
        said["learns"].append(
            f"in an update the others learn how many ids {me} has added since the last one, and of "
            "the common ones among them that they were added now"
        )
    if as_json:
        screen.show_json(said)
        return
    screen.show(f"{me} would bring {own.count:,} ids, of the column {' + '.join(own.columns)}")
    spaces = "do not count" if job.ids.trim else "count"
    letters = "do not count" if job.ids.case == "lower" else "count"
    screen.show(f"spaces at both ends {spaces}, capitals {letters} ([ids] in the job)")
    for sentence in said["learns"]:
        screen.show(f"- {sentence}")
    limits = {name: limit for name, limit in said["policy"].items() if limit}
    if limits:
        screen.show(f"policy: {', '.join(f'{name} = {n}' for name, n in limits.items())}")
    screen.show("this was a dry run: nothing was sent")


def _forecast(job: Job, me: str, file: PartyFile, own: OwnIds) -> dict[str, Any]:
    from colonnade.align.plan import Plan

    others = [name for name in job.parties if name != me]
    several = len(others) > 1
    plan = Plan(dict.fromkeys(job.parties, own.count))
    lead_bytes = len(others) * own.count * 32
    table_bytes = plan.shape(plan.followers[0]).buckets * plan.shape(plan.followers[0]).table_bytes
    policy = file.policy
    limits = {
        name: getattr(policy, name)
        for name in (
            *("peer_ids_min", "peer_ids_max", "peer_ids_ratio", "oprf_evaluations_max"),
            "shares_id_shape",
        )
    }
    unpinned = [name for name in others if name not in file.tls.pins]
    learns = [
        f"{'each of ' * several}{', '.join(others)} learns how many ids {me} has, and which of its "
        "own ids all have",
        f"if {me} has the fewest ids it leads, and sends {lead_bytes:,} bytes of blinded points, "
        f"and then 16 bytes{' to each party' * several} for each common id",
        f"else it sends {table_bytes:,} bytes of tables, and 32 bytes for each id of the leading "
        "party; they say nothing of ids that are not common",
    ]
    if several:
        learns.append("the active party hands on letters between the others, and cannot read them")
    if unpinned:
        learns.append(
            f"whoever holds the certificate authority could pose as {' or '.join(unpinned)}, read "
            "what is meant for it, and try ids of its choice: pin its key (tls.pins, from "
            "colonnade keys show)"
        )
    if policy.shares_id_shape:
        learns.append("the others learn what the ids look like: lengths, digits, zeros in front")
    return {
        "party": me,
        "ids": own.count,
        "columns": list(own.columns),
        "rule": job.ids.text(),
        "sends": [kind.__name__ for kind in _kinds()],
        "lead_bytes": lead_bytes,
        "table_bytes": table_bytes,
        "unpinned": unpinned,
        "policy": limits,
        "learns": learns,
    }


def _kinds() -> tuple[Any, ...]:
    from colonnade.align.program import Align

    return Align.kinds.sends
