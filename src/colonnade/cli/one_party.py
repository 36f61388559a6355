"""What every command needs that takes part in a job as one party: its files, its keys, where it
listens or connects to, and who tells a person what happens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from colonnade.cli import completing, screen
from colonnade.cli.keys import certificate_files
from colonnade.errors import ColonnadeError, JobError, RequestError, StoppedError
from colonnade.job.files import changed, read_source, with_sets
from colonnade.job.party_file import (
    PartyFile,
    exposure,
    find_own,
    load_party,
    own_job,
)
from colonnade.job.records import Job
from colonnade.job.trust import check_taken, taken_from_job

if TYPE_CHECKING:
    from colonnade.cli.reporter import Reporter
    from colonnade.cli.watching import Watch
    from colonnade.net.runner import Address
    from colonnade.record.party_folder import PartyFolder
    from colonnade.tls.identity import Identity
    from colonnade.tls.keyring import Keyring

Me = Annotated[
    str,
    typer.Option(
        "--me",
        metavar="PARTY",
        autocompletion=completing.party,
        help="Which party of the job this host is.",
    ),
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
        help="Let the job file decide what is normally this party's own choice (data, columns, "
        "model, optimizer, device), where the party file does not.",
    ),
]

Restart = Annotated[
    bool,
    typer.Option(
        "--restart",
        help="Start from scratch: what the run folder holds is moved aside. All parties must "
        "do so.",
    ),
]

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
    typer.Option(metavar="LINK", help="Slow the link down: --emulate latency=50ms,rate=300mbit."),
]

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show what would leave this host, and to whom, and stop."),
]


def reporter_of(quiet: bool, launched: bool, watch: Watch, folder: PartyFolder) -> Reporter:
    """What tells a person, and the log of the folder, what happens."""
    from colonnade.cli.reporter import Reporter

    return Reporter(screen.stderr(), folder.path / "log.txt", quiet, launched, watch)


def watch_of(job: Job, me: str, what: str) -> Watch:
    """What a person sees of a party's part: itself, and whom it is connected with."""
    from colonnade.cli.watching import Watch

    seen = job.parties if me == job.active else (job.active, me)
    return Watch(seen, job.active, f"{job.name}, {what}, as {me}", me=me)


@contextmanager
def telling(reporter: Reporter) -> Iterator[Reporter]:
    """Tells last why the party ended before the job did."""
    try:
        yield reporter
    except StoppedError as stop:
        reporter.ended(str(stop), "stopped")
        raise StoppedError(f"{stop}; the same command goes on from there") from None
    except ColonnadeError as error:
        reporter.ended(str(error), "failed")
        raise
    finally:
        reporter.close()


def read_own(
    source: str,
    me: str,
    path: Path | None,
    sets: list[str],
    method: str | None,
    seed: int | None,
    allow: list[str],
    trusts: bool,
    *,
    trains: bool = True,
) -> tuple[Job, PartyFile, dict[str, Any]]:
    """The job as this party sees it, and what it takes of its own from the job file; what the
    command line sets goes before its files. Who `trains` needs aligned rows where the job says
    so."""
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
    return with_alignment(with_sets(own, *mine), me, trains), file, taken


def with_alignment(job: Job, me: str, needed: bool = True) -> Job:
    """A job whose party has its rows as they were aligned: those that its file names, or else those
    that colonnade align has left in this folder."""
    from colonnade.data.aligned import default_folder, has_alignment

    own, place = job.parties[me], default_folder(job.name, me)
    if own.aligned is not None or own.table is None or job.alignment == "sorted":
        return job
    if not has_alignment(place):
        if job.alignment == "private" and needed:
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
