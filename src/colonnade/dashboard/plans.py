"""What a job would cost with every method, and the command that starts it. Nothing is trained, no
code that a job file names is run, and no data that it names is read."""

from __future__ import annotations

import shlex
from typing import Any

from colonnade.dashboard.finding import Place, still_there
from colonnade.errors import ColonnadeError, JobError, RequestError, nearest
from colonnade.job.files import Source, builtin_names, builtin_text, changed, load
from colonnade.job.reading import parse_toml
from colonnade.job.records import Job
from colonnade.page.reading import clean, clean_text
from colonnade.record.reading import read_regular
from colonnade.run.naming import method_text
from colonnade.units import show_bytes, show_seconds

JOB_BYTES_MAX = 2**20
ROWS_DEFAULT, ROWS_MAX = 10_000, 10**9
ROUNDS_MAX, PARTIES_MAX = 10**8, 100
NAME_MAX = 80
OWN = "builtin:"
"""How the id of a job begins that comes with the package."""


def jobs(places: dict[str, Place]) -> list[dict[str, Any]]:
    """The jobs to choose from: those that come with the package, then the files that are jobs.

    >>> jobs({})[0]["id"].startswith("builtin:")
    True
    """
    found = [
        {"id": f"{OWN}{name}", "name": name, "about": _first_comment(builtin_text(name))}
        for name in builtin_names()
    ]
    for place in places.values():
        try:
            about = f"job {_job(place).name!r}, in this folder"
        except ColonnadeError:
            # Party files end the same way, and so does much else.
            continue
        found.append({"id": place.id, "name": place.name, "about": clean_text(about, 200)})
    return found


def planned(id_: str, places: dict[str, Place], rows: int | None) -> dict[str, Any]:
    """What a job would cost with each method, as a table of texts; `rows` of training. Those of a
    job that comes with the package are known from its data, if that is here."""
    from colonnade.run.plan import plan

    if id_.startswith(OWN):
        job, source, path = load(_own(id_)), _own(id_), None
    elif id_ in places:
        job, path = _job(places[id_]), places[id_].path
        source = str(path)
        rows = ROWS_DEFAULT if rows is None else rows
    else:
        raise RequestError("there is no such job: it may have been moved or deleted")
    _check_length(job, rows or 0)
    found = plan(job, rows=rows)
    lines = [
        {
            "method": row["method"],
            "epoch": show_seconds(row["epoch_s"]),
            "epoch_s": row["epoch_s"],
            "rounds_per_s": f"{row['rounds_per_s']:.3g}",
            "up": show_bytes(sum(row["bytes_up"].values())),
            "bytes_up": sum(row["bytes_up"].values()),
            "down": show_bytes(sum(row["bytes_down"].values())),
            "bytes_down": sum(row["bytes_down"].values()),
            "busiest": f"{row['busiest']['party']} {row['busiest']['share']:.0%}",
            "why": row["why"],
            "advice": row["advice"],
            "command": command(source, row["method"], job.name),
        }
        for row in found.rows()
    ]
    told = {
        "job": job.name,
        "source": source,
        "own": method_text(job.method),
        "rows": found.workload.rows,
        "notes": list(found.notes),
        "methods": lines,
        "plan": shlex.join(_plan_words(source, rows)),
    }
    plain: dict[str, Any] = clean(told)
    return plain


def command(source: str, method: str, name: str) -> str:
    """What one types to train a job with a method, and have it appear in the list.

    >>> command("digits", "fedbcd:updates=5", "digits")
    'colonnade simulate digits --method fedbcd:updates=5 --out runs/digits-fedbcd'
    """
    out = f"runs/{folder_name(name, method)}"
    return shlex.join(["colonnade", "simulate", source, "--method", method, "--out", out])


def folder_name(job: str, method: str) -> str:
    """What the folder of a run may be called, whatever the job is.

    >>> folder_name("../credit", "fedbcd:updates=5")
    '---credit-fedbcd'
    """
    whole = f"{job}-{method.partition(':')[0]}"
    safe = (letter if letter.isalnum() or letter in "-_" else "-" for letter in whole)
    return "".join(safe)[:NAME_MAX]


def _plan_words(source: str, rows: int | None) -> list[str]:
    return ["colonnade", "plan", source, *([] if rows is None else ["--rows", str(rows)])]


def read_rows(text: str | None) -> int | None:
    """How many rows somebody asks for; None for none.

    >>> read_rows("1000"), read_rows("")
    (1000, None)
    """
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 12 and 0 < int(text) <= ROWS_MAX):
        raise RequestError(f"rows must be a whole number from 1 to {ROWS_MAX:,}")
    return int(text)


def _check_length(job: Job, rows: int) -> None:
    """Refuse what would keep everybody else waiting."""
    per_epoch = -(-rows // job.train.batch_size)
    rounds = job.train.rounds or (job.train.epochs or 1) * per_epoch
    if max(rounds, per_epoch) > ROUNDS_MAX or len(job.parties) > PARTIES_MAX:
        raise JobError(
            f"a job of more than {ROUNDS_MAX:,} rounds or {PARTIES_MAX} parties takes too long to "
            "plan here: use colonnade plan in a terminal"
        )


def _own(id_: str) -> str:
    name = id_.removeprefix(OWN)
    if name not in builtin_names():
        raise JobError(f"there is no built-in job '{name}': {nearest(name, builtin_names())}")
    return name


def _job(place: Place) -> Job:
    """A job from a file that may be anybody's: code that it names is not allowed."""
    if not still_there(place):
        raise RequestError(f"{place.name} has gone, or has become a link")
    content = read_regular(place.path, JOB_BYTES_MAX)
    try:
        text = content.decode()
    except UnicodeError:
        raise JobError(f"{place.name} is no text") from None
    tables = parse_toml(text, f"the job file {place.name}")
    if "parties" not in tables:
        raise JobError(f"{place.name} is no job: it has no parties")
    return changed(Source(tables, is_ours=False))


def _first_comment(text: str) -> str:
    return next((line[1:].strip() for line in text.splitlines() if line.startswith("#")), "")
