"""`colonnade join` and `stop`: one party's part in a job over the network."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from colonnade.cli import screen
from colonnade.cli.keys import certificate_files
from colonnade.cli.options import Allow, JobName, Json, MethodName, Quiet, Sets, check_threads
from colonnade.errors import ColonnadeError, FailedError, JobError, RequestError, StoppedError
from colonnade.job.files import changed, read_source, with_sets
from colonnade.job.party_file import (
    PartyFile,
    draw_seed,
    exposure,
    find_own,
    find_party,
    load_party,
    own_job,
)
from colonnade.job.records import Job
from colonnade.job.terms import identity, terms
from colonnade.job.trust import check_taken, taken_from_job
from colonnade.record.table import run_table
from colonnade.wire.fault import Fault

if TYPE_CHECKING:
    from colonnade.cli.reporter import Reporter
    from colonnade.learn.participant import Participant
    from colonnade.net.runner import Address
    from colonnade.record.party_folder import PartyFolder
    from colonnade.run.join import Joined
    from colonnade.run.workers import PartyProcess
    from colonnade.tls.identity import Identity
    from colonnade.tls.keyring import Keyring

Me = Annotated[
    str, typer.Option("--me", metavar="PARTY", help="Which party of the job this host is.")
]
PartyPath = Annotated[
    Path | None,
    typer.Option(
        "--party",
        metavar="FILE",
        help="This party's own file; by default PARTY.toml, then party.toml, beside the job file "
        "or in this folder.",
    ),
]
TrustJob = Annotated[
    bool,
    typer.Option(
        "--trust-job",
        help="Let the job file decide what is this party's own business (data, columns, model, "
        "optimizer, device), where its party file does not.",
    ),
]

RunFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="This party's run folder; by default runs/JOB-PARTY. A crashed party that is "
        "started again with the same folder goes on.",
    ),
]
Restart = Annotated[
    bool,
    typer.Option(
        "--restart",
        help="Begin anew, from nothing: what the run folder holds is moved aside. All parties "
        "must do so.",
    ),
]


CommonSeed = Annotated[int | None, typer.Option(help="The job's seed; the same at all parties.")]


Listen = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Active party: listen here, as in :7443.")
]
Connect = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Passive party: dial the active one here.")
]
Keys = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="A folder with cert.pem, key.pem and ca.pem, instead of the file's."
    ),
]
Emulate = Annotated[
    str | None,
    typer.Option(metavar="LINE", help="Make the line slower: --emulate latency=50ms,rate=300mbit."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Say what would leave this host, to whom, and stop there."),
]


def join(
    job: JobName,
    me: Me,
    listen: Listen = None,
    connect: Connect = None,
    party: PartyPath = None,
    keys: Keys = None,
    out: RunFolder = None,
    restart: Restart = False,
    method: MethodName = None,
    seed: CommonSeed = None,
    sets: Sets = None,
    emulate: Emulate = None,
    threads: Annotated[int, typer.Option(metavar="N", help="Threads of torch.")] = 1,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
    allow: Allow = None,
    trust_job: TrustJob = False,
    launched: Annotated[bool, typer.Option("--launched", hidden=True)] = False,
) -> None:
    """Take part in a job as one party, from this host.

    The active party listens, the others dial out. Every party runs the same job file.

    Example: colonnade join job.toml --me telco --connect bank.example:7443
    """
    settle_in(threads, launched)
    check_address("--listen", listen)
    check_address("--connect", connect)
    own, file, taken = read_own(job, me, party, sets or [], method, seed, allow or [], trust_job)
    if dry_run:
        from colonnade.cli.dry_run import Line, show_dry_run

        show_dry_run(own, me, file, as_json, Line(listen, connect, keys, emulate, taken))
        return
    check_ends(own, me, listen, connect)
    result = _take_part(
        own,
        me,
        file,
        out or Path("runs") / f"{own.name}-{me}",
        address=address_of(listen, connect, file),
        keyring=keyring_of(own, me, file, party or find_party(job, me), keys),
        emulate=emulate,
        threads=threads,
        restart=restart,
        reporter=partial(reporter_of, quiet, launched),
    )
    if result is not None:
        show(result, as_json, quiet or launched)


def reporter_of(quiet: bool, launched: bool, folder: PartyFolder) -> Reporter:
    """What tells a person, and the log of the folder, what happens."""
    from colonnade.cli.reporter import Reporter

    return Reporter(screen.stderr(), folder.path / "log.txt", quiet, launched)


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
    reporter: Callable[[PartyFolder], Reporter],
) -> Joined | None:
    """Take part, telling what happens; None in a process that only computed for another."""
    import torch

    # The first optimizer would import this, which takes a second, when the others wait already.
    import torch._dynamo

    from colonnade.net.link import Emulation
    from colonnade.record.party_folder import PartyFolder, set_aside
    from colonnade.run.join import Joined, TrainingParticipation
    from colonnade.run.workers import start_group

    torch.set_num_threads(threads)
    line = None if emulate is None else Emulation.parse(emulate)
    with start_group(job, me) as process:
        if process.is_worker:
            process.work()
            return None
        if restart and (aside := set_aside(out)) is not None:
            screen.stderr().print(f"begins anew; what {out} held is in {aside}")
        with closing(PartyFolder(out)) as folder:
            party = _ready(process, file, folder)
            if party is None:
                screen.stderr().print(f"this job is complete; its result is in {folder.path}")
                return Joined("complete", folder.path, folder.rounds)
            with _told(party, reporter(folder)) as told:
                return TrainingParticipation(party, folder, [told]).run(address, keyring, line)


def _ready(process: PartyProcess, file: PartyFile, folder: PartyFolder) -> Participant | None:
    """The party with its data; None if its part is done."""
    from colonnade.run.naming import check_names
    from colonnade.run.setup import participant

    job, me = process.job, process.me
    composition = check_names(job, [me]).composition()
    folder.refuse_others(me, identity(terms(job, composition)))
    if folder.is_complete:
        return None
    return process.distribute(participant(_seeded(job, me, folder), me, file.policy))


@contextmanager
def _told(party: Participant, reporter: Reporter) -> Iterator[Reporter]:
    """Tells what is odd about the data first."""
    from colonnade.data.scale import remarks
    from colonnade.record.events import Notice

    said = remarks({party.me: party.data.columns}, party.data.labels)
    if (aligned := party.job.parties[party.me].aligned) is not None:
        said.append(f"trains on the rows that were aligned, in {aligned}")
    for remark in said:
        reporter(Notice(party.me, 0, remark))
    with telling(reporter):
        yield reporter


@contextmanager
def telling(reporter: Reporter) -> Iterator[Reporter]:
    """Tells last why the party ended before the job did."""
    try:
        yield reporter
    except StoppedError as stop:
        reporter.ended(str(stop))
        raise StoppedError(f"{stop}; the same command goes on from there") from None
    except ColonnadeError as error:
        reporter.ended(str(error))
        raise
    finally:
        reporter.close()


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


def read_own(
    source: str,
    me: str,
    path: Path | None,
    sets: list[str],
    method: str | None,
    seed: int | None,
    allow: list[str],
    trusts: bool,
) -> tuple[Job, PartyFile, dict[str, Any]]:
    """The job as this party sees it, and what it takes of its own from the job file; what the
    command line sets goes before its files."""
    read = read_source(source)
    found = path or find_own(source, me)
    file = PartyFile() if found is None else load_party(found)
    taken = {} if read.is_ours else taken_from_job(read.tables, me, file, sets)
    named = [me] if f"parties.{me}.model" in taken else []
    public = changed(read, sets, method, seed, allow=allow, parties=named)
    if me not in public.parties:
        raise JobError(f"the job has no party '{me}': its parties are {', '.join(public.parties)}")
    check_taken(taken, me, trusts)
    if found is not None and (warning := exposure(found, file)) is not None:
        screen.stderr().print(warning)
    own = own_job(public, me, file)
    mine = [text for text in sets if text.startswith((f"parties.{me}.", "parties.*."))]
    return with_alignment(with_sets(own, *mine), me), file, taken


def with_alignment(job: Job, me: str) -> Job:
    """A job whose party trains on its aligned rows: those that its file names, or else those that
    colonnade align has left in this folder."""
    from colonnade.data.aligned import default_folder, has_alignment

    own, place = job.parties[me], default_folder(job.name, me)
    if own.aligned is not None or own.table is None or job.alignment == "sorted":
        return job
    if not has_alignment(place):
        if job.alignment == "private":
            raise RequestError(
                f"the job wants its rows aligned (alignment = 'private'), and {place} holds no "
                f"alignment: run colonnade align first, or name its folder in the party file "
                "(aligned)"
            )
        return job
    own = msgspec.structs.replace(own, aligned=str(place))
    return msgspec.structs.replace(job, parties=job.parties | {me: own})


_PORT_MAX = 65_535
_PLACE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]*):(?P<port>[0-9]{1,5})")


def check_address(option: str, text: str | None) -> None:
    """Refuse what is no host and port: gRPC would take another port than the one that was meant."""
    if text is None:
        return
    found, listens = _PLACE.fullmatch(text), option == "--listen"
    if found is None or int(found["port"]) > _PORT_MAX or not (found["host"] or listens):
        example = ":7443" if listens else "bank.example:7443"
        raise RequestError(
            f"{option} {text} is no address: write a host and a port of up to {_PORT_MAX}, as in "
            f"{option} {example}"
        )


def check_ends(job: Job, me: str, listen: str | None, connect: str | None) -> None:
    """Refuse to listen or to dial where the other is meant."""
    leads = me == job.active
    if leads and (listen is None or connect is not None):
        raise RequestError(f"{me} is the active party and listens: give --listen :7443")
    if not leads and (connect is None or listen is not None):
        raise RequestError(
            f"{me} is passive and dials the active party, {job.active}: give --connect HOST:PORT"
        )


def address_of(listen: str | None, connect: str | None, file: PartyFile) -> Address:
    """Where to listen, or to connect to."""
    from colonnade.net.runner import Address

    return Address(listen, connect, file.tls.server_name, file.tls.names)


def keyring_of(
    job: Job, me: str, file: PartyFile, found: Path | None, keys: Path | None
) -> Keyring:
    """The party's certificate and whom it trusts; read again when one of its files changes."""
    from colonnade.tls.denial import read_denied
    from colonnade.tls.identity import load_identity
    from colonnade.tls.keyring import Keyring

    paths = certificate_files(file, keys)
    if paths is None:
        raise RequestError(
            f"{me} has no certificate: give --keys DIR with cert.pem, key.pem and ca.pem (see "
            "colonnade keys), or a [tls] table in its party file"
        )
    names = file.tls.names.get(me, ())

    def read() -> tuple[Identity, list[str]]:
        tls = (file if found is None else load_party(found)).tls
        denied = read_denied(tls.deny, None if tls.deny_file is None else Path(tls.deny_file))
        return load_identity(*paths, me, names, listens=me == job.active, denied=denied)

    identity, warnings = read()
    for warning in warnings:
        screen.stderr().print(warning)
    more = [found, None if file.tls.deny_file is None else Path(file.tls.deny_file)]
    return Keyring(identity, read, [*paths, *(path for path in more if path is not None)])


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
