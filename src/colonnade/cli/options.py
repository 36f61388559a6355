"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.cli import completing, screen
from colonnade.errors import JobError, RequestError, reason
from colonnade.job.files import load
from colonnade.job.records import Job
from colonnade.job.texts import parse_value

JobName = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        autocompletion=completing.job,
        help="A job file, or the name of a built-in job (see colonnade jobs).",
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a field of the job; * is every party. Repeat for more: "
        "--set train.epochs=5 --set 'parties.*.optimizer.lr=0.01'.",
    ),
]
MethodName = Annotated[
    str | None,
    typer.Option(
        metavar="METHOD",
        autocompletion=completing.method,
        help="Train with this method instead of the job's: fedsgd, fedbcd:updates=5, "
        "package.module:function.",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="MODULE",
        help="Let the job file name code of this module or package, which is then run; repeat for "
        "more. What you name on the command line needs no permission.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Save everything in this folder: --out runs/first."),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Continue from the model of an earlier run, in this folder, with new rows: its "
        "weights, classes and preprocessing. All parties must do so, from the same version.",
    ),
]
Record = Annotated[
    int | None,
    typer.Option(
        "--record",
        metavar="ROUNDS",
        help="Keep the tensors of the first ROUNDS rounds, at each party what it sends and "
        "receives, in its own folder: for colonnade privacy.",
    ),
]
Track = Annotated[
    str | None,
    typer.Option(
        "--track",
        metavar="A,B",
        help="Follow what is trained with tensorboard, mlflow or both: --track tensorboard,mlflow. "
        "TensorBoard's files go into the run folder, or to tensorboard=DIR; MLflow's store is the "
        "one that MLFLOW_TRACKING_URI names, or mlflow=URI.",
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print JSON, and nothing else, on standard output."),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Show no progress, only the result, warnings and errors."),
]
Log = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="json[:FILE]",
        callback=screen.open_log,
        help="Write what happens as one JSON object per line: --log json to standard error, in "
        "place of progress; --log json:FILE to the end of a file, beside it.",
    ),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="The job's seed: --seed 1.")]
Seeds = Annotated[
    str, typer.Option(metavar="N,N,N", help="Train with each of these seeds: --seeds 0,1,2.")
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", help="How many runs at a time; by default one per core."),
]


def split_commas(text: str) -> list[str]:
    """Pieces between commas, but for commas within brackets, braces and quotes.

    >>> split_commas("0.1,[64, 32],a")
    ['0.1', '[64, 32]', 'a']
    """
    pieces, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and depth == 0 and not quote:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces if piece.strip()]


def read_seeds(text: str) -> list[int]:
    """The seeds of `0,1,2`.

    >>> read_seeds("0,1,2")
    [0, 1, 2]
    """
    pieces = split_commas(text)
    if not pieces or not all(piece.isdecimal() for piece in pieces):
        raise RequestError(f"'{text}' is not a list of seeds: write whole numbers, as in 0,1,2")
    return [int(piece) for piece in pieces]


def read_grid(
    texts: list[str], example: str = "--grid train.batch_size=32,64"
) -> dict[str, list[Any]]:
    """The fields and values of `--grid field=v1,v2`, or of an option like it.

    >>> read_grid(["train.batch_size=32,64"])
    {'train.batch_size': [32, 64]}
    """
    grid: dict[str, list[Any]] = {}
    for text in texts:
        field, equals, values = text.partition("=")
        pieces = split_commas(values)
        if not equals or not field.strip() or not pieces:
            raise JobError(f"'{text}' is not a grid: write {example}")
        grid[field.strip()] = [parse_value(piece) for piece in pieces]
    return grid


def read_job(
    name: str,
    sets: list[str] | None = None,
    method: str | None = None,
    seed: int | None = None,
    allow: list[str] | None = None,
) -> Job:
    """The job of a command line; a method given there drops the options of the job's own."""
    return load(name, sets or [], method, seed, allow=allow or ())


def check_sets(sets: list[str] | None) -> None:
    """Refuse options of a method where several methods are named."""
    for text in sets or []:
        if text.startswith("method."):
            raise JobError(
                f"--set {text} reaches no method: write it into --methods, as name:key=value"
            )


def check_threads(threads: int) -> None:
    """Refuse what is no number of threads."""
    if threads < 1:
        raise RequestError(f"--threads is {threads}: it must be 1 or more")


def check_record(record: int | None, out: Path | None) -> None:
    """Refuse what is no number of rounds, and a recording that would be kept nowhere."""
    if record is not None and record < 1:
        raise RequestError(f"--record is {record}: it must be 1 or more")
    if record is not None and out is None:
        raise RequestError(
            "--record keeps what crosses in the run folder: give one, as in --out DIR"
        )


def check_apart(start: Path | None, out: Path | None) -> None:
    """Refuse to write a run over the one that it goes on from."""
    if start is not None and out is not None and start.resolve() == out.resolve():
        raise RequestError(f"--from and --out are the same folder, {out}: choose another --out")


def check_out(out: Path | None) -> None:
    """Refuse a folder that cannot be written, before anything is trained; leaves no trace."""
    if out is None:
        return
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    probe = out / ".colonnade-probe"
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe.write_text("")
        probe.unlink()
        for folder in made:
            folder.rmdir()
    except OSError as error:
        why = "it is a file" if out.is_file() else reason(error)
        raise RequestError(f"--out {out} cannot be written: {why}") from None
