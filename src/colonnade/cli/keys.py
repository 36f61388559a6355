"""`colonnade keys`: certificates for the parties of a job."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.cli.options import Json
from colonnade.errors import FailedError, RequestError
from colonnade.job.party_file import PartyFile
from colonnade.job.records import Job
from colonnade.record.table import facts_table

if TYPE_CHECKING:
    from rich.table import Table

    from colonnade.tls.certificate import Shown

keys = typer.Typer()

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The authority's folder: alliance/.")
]


@keys.callback(invoke_without_command=True)
def _keys(context: typer.Context) -> None:
    """Make and look at the certificates of a job's parties.

    Example: colonnade keys init alliance/
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@keys.command()
def init(
    folder: Folder,
    days: Annotated[int, typer.Option(metavar="N", help="Valid for this many days.")] = 3650,
    name: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The authority's name, as people see it.")
    ] = None,
) -> None:
    """Begin a small certificate authority for the parties of a job.

    Example: colonnade keys init alliance/
    """
    from colonnade.tls.authority import create_authority

    create_authority(folder, days, name)
    screen.show(
        f"{folder / 'ca.pem'}  the authority's certificate\n"
        f"{folder / 'ca.key'}  its key: keep it secret, and give it to nobody"
    )


@keys.command()
def issue(
    folder: Folder,
    party: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A party, as the job names it. Repeat for more."),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=HOST,…",
            help="Hosts of a party, to be named in its certificate; not needed by colonnade "
            "itself: --host bank=bank.example,10.0.0.5.",
        ),
    ] = None,
    days: Annotated[int, typer.Option(metavar="N", help="Valid for this many days.")] = 365,
    renew: Annotated[
        bool, typer.Option("--renew", help="Replace certificates; the keys stay as they are.")
    ] = False,
) -> None:
    """Issue a certificate to each party, in a folder to hand over as it is.

    Example: colonnade keys issue alliance/ --party bank --party telco
    """
    from colonnade.tls.authority import issue

    for own, new_key in issue(folder, party or [], _read_hosts(host or []), days, renew):
        what = "give this folder, in a safe way, to" if new_key else "give its new cert.pem to"
        screen.show(f"{own}  {what} {own.name}")


def _read_hosts(texts: list[str]) -> dict[str, list[str]]:
    hosts: dict[str, list[str]] = {}
    for text in texts:
        party, _, listed = text.partition("=")
        named = [host.strip() for host in listed.split(",") if host.strip()]
        if not party or not named:
            raise RequestError(f"'{text}' names no host: write --host bank=bank.example,10.0.0.5")
        hosts.setdefault(party, []).extend(named)
    return hosts


@keys.command()
def show(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A certificate, or a folder with certificates.")
    ],
    as_json: Json = False,
) -> None:
    """Show what certificates say; the exit code is 1 where one has expired.

    Example: colonnade keys show alliance/bank
    """
    from colonnade.tls.certificate import show

    found = show(path)
    if as_json:
        screen.show_json([asdict(each) for each in found])
    else:
        for each in found:
            screen.show(_table(each))
    expired = [each for each in found if each.expired]
    if expired:
        which = ", ".join(f"{each.file} on {each.valid_until}" for each in expired)
        raise FailedError(f"expired: {which}; renew with colonnade keys issue … --renew")


def _table(shown: Shown) -> Table:
    left = "expired" if shown.expired else f"{shown.days_left} days left"
    facts = {
        "file": shown.file,
        "party" if shown.party else "name": shown.party or shown.subject,
        "issuer": shown.issuer,
        "hosts": ", ".join(shown.hosts),
        "valid from": shown.valid_from,
        "valid until": f"{shown.valid_until}, {left}",
        "serial": shown.serial,
        "fingerprint": shown.fingerprint,
        "key (tls.pins)": shown.key,
    }
    table = facts_table({name: fact or "–" for name, fact in facts.items()})
    table.add_row("")
    return table


def certificate_files(file: PartyFile, keys: Path | None) -> tuple[Path, Path, Path] | None:
    """A party's certificate, its key and its authority; None where they are not named."""
    if keys is not None:
        return keys / "cert.pem", keys / "key.pem", keys / "ca.pem"
    tls = file.tls
    if not (tls.certificate and tls.key and tls.authority):
        return None
    return Path(tls.certificate), Path(tls.key), Path(tls.authority)


def certificate_report(
    job: Job, me: str, file: PartyFile, keys: Path | None
) -> dict[str, Any] | None:
    """What the party's certificate says, or what is wrong with it; None where there is none."""
    from colonnade.tls.certificate import show
    from colonnade.tls.identity import load_identity

    paths = certificate_files(file, keys)
    if paths is None:
        return None
    try:
        names, listens = file.tls.names.get(me, ()), me == job.active
        load_identity(*paths, me, names, listens=listens)
        return asdict(show(paths[0])[0]) | {"fault": None}
    except RequestError as error:
        return {"fault": str(error)}
