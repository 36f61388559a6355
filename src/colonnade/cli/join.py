"""`colonnade join` and `stop`: one party's part in a job over the network."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from colonnade.cli import screen
from colonnade.cli.metrics import Metrics, check_metrics, shown_at
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
from colonnade.cli.options import (
    Allow,
    From,
    JobName,
    Json,
    Log,
    MethodName,
    Quiet,
    Record,
    Sets,
    Track,
    check_apart,
    check_record,
    check_threads,
)
from colonnade.errors import FailedError
from colonnade.job.party_file import (
    PartyFile,
    draw_seed,
    find_party,
)
from colonnade.job.records import Job
from colonnade.job.terms import identity, terms
from colonnade.record.table import run_table
from colonnade.wire.fault import Fault

if TYPE_CHECKING:
    from colonnade.cli.reporter import Reporter
    from colonnade.learn.origin import Origin
    from colonnade.learn.participant import Participant
    from colonnade.net.runner import Address
    from colonnade.record.events import Subscriber
    from colonnade.record.party_folder import PartyFolder
    from colonnade.run.join import Joined
    from colonnade.run.workers import PartyProcess
    from colonnade.tls.keyring import Keyring
    from colonnade.tls.signature import Credentials
    from colonnade.tracking.tracker import Tracker


RunFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="This party's run folder; by default runs/JOB-PARTY. A crashed party that is "
        "started again with the same folder goes on.",
    ),
]


CommonSeed = Annotated[int | None, typer.Option(help="The job's seed; the same at all parties.")]


def join(
    job: JobName,
    me: Me,
    listen: Listen = None,
    connect: Connect = None,
    party: PartyPath = None,
    keys: Keys = None,
    out: RunFolder = None,
    restart: Restart = False,
    start: From = None,
    record: Record = None,
    method: MethodName = None,
    seed: CommonSeed = None,
    sets: Sets = None,
    emulate: Emulate = None,
    threads: Annotated[int, typer.Option(metavar="N", help="Threads for torch.")] = 1,
    track: Track = None,
    metrics: Metrics = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
    log: Log = None,
    allow: Allow = None,
    trust_job: TrustJob = False,
    launched: Annotated[bool, typer.Option("--launched", hidden=True)] = False,
) -> None:
    """Take part in a job as one party, from this host.

    The active party listens, the others dial out. Every party runs the same job file.

    Example: colonnade join job.toml --me telco --connect bank.example:7443
    """
    from colonnade.tracking.tracker import trackers_of

    settle_in(threads, launched)
    check_address("--listen", listen)
    check_address("--connect", connect)
    own, file, taken = read_own(job, me, party, sets or [], method, seed, allow or [], trust_job)
    if dry_run:
        from colonnade.cli.dry_run import Line, show_dry_run

        show_dry_run(own, me, file, as_json, Line(listen, connect, keys, emulate, taken, start))
        return
    check_ends(own, me, listen, connect)
    from colonnade.run.naming import method_text

    check_metrics(metrics)
    folder = out or Path("runs") / f"{own.name}-{me}"
    check_apart(start, folder)
    check_record(record, folder)
    result = _take_part(
        own,
        me,
        file,
        folder,
        address=address_of(listen, connect, file),
        keyring=keyring_of(own, me, file, party or find_party(job, me), keys),
        emulate=emulate,
        threads=threads,
        restart=restart,
        start=start,
        label_key=_label_key(file, None if launched else party or find_party(job, me), folder),
        record=record,
        metrics=metrics,
        trackers=trackers_of(track, folder, screen.say, goes_on=True),
        reporter=partial(reporter_of, quiet, launched, watch_of(own, me, method_text(own.method))),
        warns=not launched,
    )
    if result is not None:
        show(result, as_json, quiet or launched)


def _take_part(
    job: Job,
    me: str,
    file: PartyFile,
    out: Path,
    *,
    address: Address,
    keyring: Keyring,
    emulate: str | None,
    threads: int,
    restart: bool,
    start: Path | None,
    label_key: Path,
    record: int | None,
    metrics: str | None,
    trackers: Sequence[Tracker],
    reporter: Callable[[PartyFolder], Reporter],
    warns: bool,
) -> Joined | None:
    """Take part, telling what happens; None in a process that only computed for another. `warns`
    says first what the method tells others, which `launch` says once for all."""
    import torch

    # The first optimizer would import this, which takes a second, when the others wait already.
    import torch._dynamo

    from colonnade.net.link import Emulation
    from colonnade.record.events import Notice
    from colonnade.record.party_folder import PartyFolder, set_aside
    from colonnade.run.following import followed
    from colonnade.run.join import Joined, TrainingParticipation
    from colonnade.run.workers import start_group
    from colonnade.tracking.tracker import following

    torch.set_num_threads(threads)
    line = None if emulate is None else Emulation.parse(emulate)
    with start_group(job, me) as process:
        if process.is_worker:
            process.work()
            return None
        origin = origin_of(start, me)
        if restart and (aside := set_aside(out)) is not None:
            screen.stderr().print(f"begins anew; what {out} held is in {aside}")
        with closing(PartyFolder(out)) as folder:
            party = _ready(process, file, folder, origin, keyring, label_key)
            if party is None:
                screen.stderr().print(f"this job is complete; its result is in {folder.path}")
                return Joined("complete", folder.path, folder.rounds)
            if record is not None:
                party = party.recording(record, folder.path)
            # What `launch` starts tells it everything, and it writes for all.
            place, say = (out if warns else None), screen.say
            with (
                followed(place, job, clock="wall", tell=say) as others,
                _told(party, file, reporter(folder), warns) as told,
                following(trackers, party.job) as (followers, over),
                shown_at(metrics, job, me) as figures,
            ):
                for each in trackers:
                    # In the party's log too, which says what became of everything.
                    each.say = lambda text: told(Notice(me, 0, text))
                subscribers: list[Subscriber] = [told, *others, *followers, *figures]
                taking_part = TrainingParticipation(party, folder, subscribers)
                for own in figures:
                    own.counted = taking_part.crossed
                joined = taking_part.run(address, keyring, line)
                over({"status": joined.status} if joined.run is None else joined.run.summary())
                return joined


def origin_of(start: Path | None, me: str) -> Origin | None:
    """What a party begins with of an earlier run; None where it begins from nothing."""
    from colonnade.learn.saved import read_saved

    return None if start is None else read_saved(start, me).origin


def _label_key(file: PartyFile, path: Path | None, folder: Path) -> Path:
    """Where the key lies by which labels are drawn: as the party file says or beside it, so that it
    is the same in all jobs; without one, in the run folder."""
    if file.label_key is not None:
        return Path(file.label_key)
    return folder / "labels.key" if path is None else path.with_suffix(".labels.key")


def _ready(
    process: PartyProcess,
    file: PartyFile,
    folder: PartyFolder,
    origin: Origin | None,
    keyring: Keyring,
    label_key: Path,
) -> Participant | None:
    """The party with its data; None if its part is done."""
    from colonnade.record.private import own_key
    from colonnade.run.naming import check_names
    from colonnade.run.setup import participant

    job, me = process.job, process.me
    composition = check_names(job, [me]).composition()
    parent = "" if origin is None else origin.version
    folder.refuse_others(me, identity(terms(job, composition, parent)))
    if folder.is_complete:
        return None
    own = _seeded(job, me, folder)
    made = participant(own, me, file.policy, origin, partial(own_key, label_key))
    # Of the certificate that it has then: files are read anew where they change.
    signs = partial(_credentials, keyring, file)
    return process.distribute(replace(made, credentials=signs))


def _credentials(keyring: Keyring, file: PartyFile) -> Credentials:
    from colonnade.tls.signature import Credentials

    return Credentials(keyring.identity, file.tls.names, file.tls.pins)


@contextmanager
def _told(
    party: Participant, file: PartyFile, reporter: Reporter, warns: bool
) -> Iterator[Reporter]:
    """Tells first what the method tells others, and what is odd about the data."""
    from colonnade.data.scale import remarks
    from colonnade.record.events import Notice
    from colonnade.run.telling import what_it_tells

    said = [what_it_tells(party.job, party.method)] if warns else []
    said += remarks({party.me: party.data.columns}, party.data.labels)
    if party.parent:
        said.append(f"goes on from the model {party.parent}")
    if (aligned := party.job.parties[party.me].aligned) is not None:
        said.append(f"trains on the rows that were aligned, in {aligned}")
    others = [name for name in party.job.passives if name not in (party.me, *file.tls.pins)]
    if party.method.protect.sum is not None and not party.leads and others:
        said.append(
            f"whoever holds the certificate authority could pose as {' or '.join(others)}, and see "
            "through the masks: pin its key (tls.pins, from colonnade keys show)"
        )
    for remark in said:
        reporter(Notice(party.me, 0, remark))
    with telling(reporter):
        yield reporter


def _seeded(job: Job, me: str, folder: Any) -> Job:
    """A party without a secret seed draws one, once."""
    own = job.parties[me]
    if own.seed is None:
        own = msgspec.structs.replace(own, seed=folder.remember("seed", draw_seed()))
    return msgspec.structs.replace(job, parties=job.parties | {me: own})


def show(result: Joined, as_json: bool, quiet: bool) -> None:
    """The result, for people or for programs; what did not end well is said last."""
    if as_json:
        summary = result.run.summary() if result.run is not None else {}
        screen.show_json(
            {
                "status": result.status,
                "rounds": result.rounds,
                "folder": str(result.folder),
                "differences": result.differences,
                **summary,
            }
        )
    elif not quiet:
        if result.run is not None:
            screen.show(run_table(result.run.summary()))
        screen.show(
            f"{result.status} after {result.rounds} rounds; the run folder is {result.folder}"
        )
    for sentences in result.differences.values():
        for sentence in sentences:
            screen.stderr().print(sentence)
    if result.status == "diverged":
        fault = result.fault or Fault("")
        why = f" ({fault})" if fault.said else ""
        cure = "see to what that party sends" if fault.sender else "lower the learning rates"
        raise FailedError(f"the training diverged{why}: {cure}")
    if any(result.differences.values()):
        raise FailedError("the ledgers of both ends differ: see reconciliation.json")


def settle_in(threads: int, launched: bool) -> None:
    """What a process of a party needs before it loads torch."""
    check_threads(threads)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    if launched:
        from colonnade.run.processes import end_with_input

        end_with_input()


def stop(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder of a party.")],
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait for the next checkpoint: end at once.")
    ] = False,
) -> None:
    """Ask a party that runs on this host to stop as planned: it saves, tells the others, and ends.

    Example: colonnade stop runs/credit-telco
    """
    from colonnade.record.lock import running

    process = running(run)
    if process is None:
        raise FailedError(f"no party runs in {run}: see whether the folder is right")
    os.kill(process, signal.SIGKILL if now else signal.SIGTERM)
    screen.show("ended" if now else "asked to stop; it ends when its state is saved")
