"""`colonnade dashboard`: all runs of a folder in a browser, live."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.cli.one_party import check_address
from colonnade.errors import RequestError

if TYPE_CHECKING:
    from colonnade.serve.listening import Listener


def dashboard(
    runs: Annotated[
        Path, typer.Argument(metavar="RUNS", help="The folder that holds the runs, at any depth.")
    ] = Path("runs"),
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Answer browsers here.")
    ] = "127.0.0.1:8090",
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Whoever looks must know the token in this file; required where other machines "
            "can reach the address.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name by which browsers may call it, as behind a proxy; repeat for more.",
        ),
    ] = None,
    start: Annotated[
        bool,
        typer.Option(
            "--start",
            help="Let whoever knows the token start simulations of the jobs that can be planned, "
            "two at once; they run as you, and end with the dashboard. Needs --token-file.",
        ),
    ] = False,
    open_: Annotated[
        bool, typer.Option("--open", help="Open it in this machine's browser.")
    ] = False,
) -> None:
    """Show all runs of a folder in a browser: list, compare, follow those that go on.

    It reads run folders and changes nothing; with --start it also starts runs. The address is this
    machine's own unless --http says otherwise. Ctrl-C ends it.

    Example: colonnade dashboard runs/
    """
    require_extra()
    from colonnade.dashboard.finding import check_root
    from colonnade.dashboard.server import serve
    from colonnade.serve.listening import Listener
    from colonnade.serve.token import read_token

    root = check_root(runs)
    token = None if token_file is None else read_token(token_file)
    if start and token is None:
        raise RequestError(
            "--start needs --token-file: without it, whoever else uses this machine could start "
            "runs as you"
        )
    check_address("--http", http)
    host, _, port = http.rpartition(":")
    say = screen.stderr().print
    with closing(Listener(host.strip("[]"), int(port))) as listener:
        if not listener.is_local:
            _check_open(listener, token, say)
        address = f"http://{listener.place}/"

        def ready() -> None:
            say(f"{address} shows the runs in {runs}; Ctrl-C ends it")
            if token is not None:
                say(f"{address}#token=TOKEN opens it at once, with the token of {token_file}")
            if open_:
                typer.launch(address)

        names = allow_host or ()
        serve(root, listener, token=token, names=names, starts=start, tell=say, ready=ready)


def require_extra() -> None:
    """Refuse where the packages for a dashboard are not installed."""
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "httptools")):
        raise RequestError(
            "colonnade dashboard needs packages that are not installed: pip install "
            "'colonnade[dashboard]'"
        )


def _check_open(listener: Listener, token: bytes | None, say: Any) -> None:
    """Refuse an address that others can reach where nothing keeps them out."""
    if token is None:
        raise RequestError(
            f"whoever reaches {listener.place} could see all runs: give --token-file, or bind to "
            "127.0.0.1"
        )
    say(
        f"{listener.place} speaks HTTP without encryption, and the token crosses in the clear: put "
        "a proxy with TLS in front, or use an SSH tunnel to 127.0.0.1"
    )
