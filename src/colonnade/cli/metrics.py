"""`--metrics`: a party's figures for Prometheus, at a port of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.one_party import check_address
from colonnade.errors import RequestError
from colonnade.job.records import Job

if TYPE_CHECKING:
    from colonnade.serve.training import TrainingMetrics

Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Show this party's figures to Prometheus, at http://HOST:PORT/metrics; without a host "
        "on this computer only. Whoever reaches the port reads them.",
    ),
]
_NEEDED = ("uvicorn", "httptools", "starlette", "prometheus_client")


def check_metrics(asked: str | None) -> None:
    """Refuse what is no port, and a computer without the packages, before anything begins."""
    from importlib.util import find_spec

    if asked is None:
        return
    place_of(asked)
    if any(find_spec(name) is None for name in _NEEDED):
        raise RequestError(
            "--metrics needs packages that are not installed: pip install 'colonnade[serve]'"
        )


def place_of(asked: str) -> tuple[str, int]:
    """Host and port.

    >>> place_of("9100"), place_of("[::1]:9100")
    (('127.0.0.1', 9100), ('::1', 9100))
    """
    full = f"127.0.0.1:{asked}" if asked.isascii() and asked.isdecimal() else asked
    try:
        check_address("--metrics", full)
    except RequestError:
        raise RequestError(
            f"--metrics {asked} is no port: write one of up to 65535, as in --metrics 9100, or a "
            "host and a port, as in --metrics 0.0.0.0:9100"
        ) from None
    host, _, port = full.rpartition(":")
    return host.strip("[]"), int(port)


@contextmanager
def shown_at(asked: str | None, job: Job, me: str) -> Iterator[list[TrainingMetrics]]:
    """Inside, the figures are shown; what it gives is whom to tell of events, if anybody."""
    if asked is None:
        yield []
        return
    from colonnade.serve.exposed import PATH, exposed
    from colonnade.serve.listening import Listener
    from colonnade.serve.training import TrainingMetrics

    listener, metrics = Listener(*place_of(asked), option="--metrics"), TrainingMetrics(job, me)
    reach = "" if listener.is_local else ", which whoever reaches that port can read"
    screen.stderr().print(f"figures are at http://{listener.place}{PATH}{reach}")
    with exposed(listener, metrics.text, screen.say):
        yield [metrics]
