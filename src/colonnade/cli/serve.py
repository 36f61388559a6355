"""`colonnade serve`: rows scored on demand, over HTTP at the active party."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.cli.one_party import (
    Connect,
    Emulate,
    Keys,
    Listen,
    Me,
    PartyPath,
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
from colonnade.cli.options import Allow, JobName, Log, Quiet, Sets
from colonnade.cli.predict import (
    LISTEN,
    Missing,
    Out,
    OwnTable,
    Threads,
    own_party,
    set_threads,
    with_table,
)
from colonnade.errors import RequestError
from colonnade.job.party_file import find_party
from colonnade.units import NS_PER, duration_ns

if TYPE_CHECKING:
    from colonnade.run.serve import Choices

Runs = Annotated[
    list[Path],
    typer.Option(
        "--run",
        metavar="DIR",
        help="This party's folder of a run that has ended. Repeat for another version of the "
        "model; the first is the one that is used where a request names none.",
    ),
]
Http = Annotated[
    str,
    typer.Option(metavar="HOST:PORT", help="Active party: answer HTTP requests here."),
]
Deadline = Annotated[
    str,
    typer.Option(metavar="TIME", help="How long a request may take; it may ask for less."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Whoever asks must send the token in this file, as Bearer."),
]
DEADLINE_MAX_NS = 60 * NS_PER["s"]


def serve(
    job: JobName,
    me: Me,
    run: Runs,
    http: Http = "127.0.0.1:8080",
    listen: Listen = None,
    connect: Connect = None,
    party: PartyPath = None,
    keys: Keys = None,
    table: OwnTable = None,
    out: Out = None,
    deadline: Deadline = "200ms",
    missing: Missing = "null",
    token_file: TokenFile = None,
    no_batch: Annotated[
        bool, typer.Option("--no-batch", help="Ask for every request by itself.")
    ] = False,
    threads: Threads = 1,
    sets: Sets = None,
    emulate: Emulate = None,
    quiet: Quiet = False,
    log: Log = None,
    allow: Allow = None,
    trust_job: TrustJob = False,
) -> None:
    """Score rows with the other parties on demand, until stopped.

    The active party answers HTTP requests, and listens for the others, which dial out. Ctrl-C or
    colonnade stop ends it in order.

    Example: colonnade serve job.toml --me bank --run runs/credit-bank --http 127.0.0.1:8080
    """
    check_address("--listen", listen)
    check_address("--connect", connect)
    own, file, _ = read_own(
        job, me, party, sets or [], None, None, allow or [], trust_job, trains=False
    )
    own = with_table(own, me, table)
    leads = me == own.active
    listen = LISTEN if leads and listen is None else listen
    check_ends(own, me, listen, connect)
    choices = _choices(deadline, missing, token_file, no_batch)
    require_extra()
    set_threads(threads)
    from colonnade.net.link import Emulation
    from colonnade.record.party_folder import PartyFolder
    from colonnade.run.serve import ServeParticipation

    line = None if emulate is None else Emulation.parse(emulate)
    keyring = keyring_of(own, me, file, party or find_party(job, me), keys)
    address = address_of(listen, connect, file)
    place = out or Path("predictions") / f"{own.name}-{me}"
    taking = own_party(own, me, file, run, place, allow)
    with (
        _listener(http, choices) if leads else nullcontext() as listener,
        closing(PartyFolder(place)) as folder,
        telling(reporter_of(quiet, False, watch_of(own, me, "serving"), folder)) as told,
    ):
        ServeParticipation(taking, folder, listener, choices, [told]).serve(address, keyring, line)


def require_extra() -> None:
    """Refuse where the packages for a service are not installed."""
    from importlib.util import find_spec

    needed = ("starlette", "uvicorn", "httptools", "prometheus_client")
    if any(find_spec(name) is None for name in needed):
        raise RequestError(
            "colonnade serve needs packages that are not installed: pip install 'colonnade[serve]'"
        )


def _choices(deadline: str, missing: str, token_file: Path | None, no_batch: bool) -> Choices:
    from colonnade.run.serve import Choices
    from colonnade.serve.token import read_token

    limit_ns = duration_ns(deadline)
    if not NS_PER["ms"] <= limit_ns <= DEADLINE_MAX_NS:
        raise RequestError(f"--deadline {deadline} is not from 1ms to 1min")
    token = None if token_file is None else read_token(token_file)
    return Choices(limit_ns, missing == "mean", not no_batch, token)


def _listener(http: str, choices: Choices) -> Any:
    """The port for HTTP, which is closed at the end whatever happens."""
    from colonnade.serve.listening import Listener

    check_address("--http", http)
    host, _, port = http.rpartition(":")
    made = Listener(host.strip("[]"), int(port))
    if not made.is_local and choices.token is None:
        screen.stderr().print(
            f"whoever reaches {made.place} can ask for scores: HTTP has no authentication here; "
            "give --token-file, or bind to 127.0.0.1 with a proxy in front that authenticates"
        )
    elif not made.is_local:
        screen.stderr().print(
            f"{made.place} speaks HTTP without encryption, and the token crosses in the clear: put "
            "a proxy with TLS in front"
        )
    return closing(made)
