"""`colonnade predict`: rows scored with a trained model, by all parties together."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from colonnade.cli import screen
from colonnade.cli.join import settle_in
from colonnade.cli.one_party import (
    Connect,
    DryRun,
    Emulate,
    Keys,
    Listen,
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
from colonnade.cli.options import Allow, JobName, Json, Log, Quiet, Sets, read_job
from colonnade.cli.parties import PartyFolder as PartyFiles
from colonnade.cli.parties import party_files
from colonnade.errors import FailedError, RequestError
from colonnade.job.party_file import PartyFile, find_party, with_files
from colonnade.job.records import Job

if TYPE_CHECKING:
    from colonnade.run.predict import Predicted
    from colonnade.run.predict_party import PredictParty
    from colonnade.run.scores import Scores

LISTEN = ":7443"
RunFolder = Annotated[
    Path,
    typer.Option(
        "--run",
        metavar="DIR",
        help="The folder of the run whose model is used: this party's own, or that of a "
        "simulation.",
    ),
]
WhoAmI = Annotated[
    str | None,
    typer.Option(
        "--me",
        metavar="PARTY",
        help="Which party of the job this host is. Without it all parties are scored with in this "
        "process, from the run folder of a simulation.",
    ),
]
IdFile = Annotated[
    Path | None,
    typer.Option(
        "--ids",
        metavar="FILE",
        help="Active party: a table with the ids to score, in columns named as in its own table.",
    ),
]
SplitName = Annotated[
    str | None,
    typer.Option(
        "--rows",
        metavar="SPLIT",
        help="Active party: score the rows of the training instead: test, validation, train, all.",
    ),
]
To = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Active party: the scores, as .parquet or .csv."),
]
OwnTable = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="FILE", help="This party's table of today, instead of its file's."
    ),
]
Missing = Annotated[
    Literal["null", "mean"],
    typer.Option(
        help="What becomes of a row that a party lacks: no score, or one with that party's mean "
        "embedding in its place; the result says which rows those are."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Where this party keeps its ledger of predictions, and a passive one its key; by "
        "default predictions/JOB-PARTY.",
    ),
]
Raw = Annotated[
    bool, typer.Option("--raw", help="Write what the top model says, too, before calibration.")
]


Threads = Annotated[int, typer.Option(metavar="N", help="Threads for torch.")]


def predict(
    job: JobName,
    run: RunFolder,
    me: WhoAmI = None,
    ids: IdFile = None,
    rows: SplitName = None,
    to: To = None,
    table: OwnTable = None,
    missing: Missing = "null",
    raw: Raw = False,
    listen: Listen = None,
    connect: Connect = None,
    party: PartyPath = None,
    parties: PartyFiles = None,
    keys: Keys = None,
    out: Out = None,
    sets: Sets = None,
    emulate: Emulate = None,
    threads: Threads = 1,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
    log: Log = None,
    trust_job: TrustJob = False,
    allow: Allow = None,
) -> None:
    """Score rows with a trained model, together with the other parties.

    The active party names the rows, and listens; the others dial out and answer. A row that a party
    lacks gets no score, and the name of that party. docs/prediction.md says who learns what.

    Example: colonnade predict job.toml --me bank --run runs/credit-bank --ids new.csv --to out.csv
    """
    set_threads(threads)
    if me is None:
        _in_one_place(job, run, ids, rows, to, missing, raw, parties, sets, allow, as_json, quiet)
        return
    check_address("--listen", listen)
    check_address("--connect", connect)
    own, file, _ = read_own(
        job, me, party, sets or [], None, None, allow or [], trust_job, trains=False
    )
    own = with_table(own, me, table)
    place = out or Path("predictions") / f"{own.name}-{me}"
    taking = own_party(own, me, file, [run], place, allow)
    if dry_run:
        _show_dry_run(taking, ids, rows, as_json)
        return
    leads = me == own.active
    check_ends(own, me, listen or (LISTEN if leads and connect is None else None), connect)
    _check_asked(leads, ids, rows, to)
    from colonnade.net.link import Emulation
    from colonnade.record.party_folder import PartyFolder
    from colonnade.run.predict import predict as take_part

    line = None if emulate is None else Emulation.parse(emulate)
    address = address_of((listen or LISTEN) if leads else None, connect, file)
    keyring = keyring_of(own, me, file, party or find_party(job, me), keys)
    scores, batch = (
        _scores(taking, to, ids, rows, missing == "mean", raw) if leads else (None, None)
    )
    with closing(PartyFolder(place)) as folder:
        try:
            with telling(
                reporter_of(quiet, False, watch_of(own, me, "prediction"), folder)
            ) as told:
                result = take_part(taking, address, keyring, folder, batch, line, [told])
            if scores is not None:
                scores.close()
        finally:
            if scores is not None:
                scores.discard()
    _show(result, scores, as_json, quiet)


def set_threads(threads: int) -> None:
    """Compute with as many threads as a training does, unless somebody wants otherwise: more of
    them add up numbers in another order, and take the cores from the other parties of a host."""
    settle_in(threads, False)
    import torch

    torch.set_num_threads(threads)


def with_table(job: Job, me: str, table: str | None) -> Job:
    """A job whose party has another table."""
    if table is None:
        return job
    own = msgspec.structs.replace(job.parties[me], table=table)
    return msgspec.structs.replace(job, parties=job.parties | {me: own}, data=None)


def _check_asked(leads: bool, ids: Path | None, rows: str | None, to: Path | None) -> None:
    if leads and to is None:
        raise RequestError("say where the scores go: --to scores.parquet, or --to scores.csv")
    if not leads and (ids is not None or rows is not None or to is not None):
        raise RequestError(
            "only the active party names rows and gets scores: leave out --ids, --rows and --to"
        )


def own_party(
    job: Job, me: str, file: PartyFile, runs: list[Path], place: Path, allow: list[str] | None
) -> PredictParty:
    """A party with its part of the models of some runs."""
    from colonnade.run.predict_party import PredictParty, check_models, read_models

    models = read_models(runs, me)
    check_models(job, me, models)
    return PredictParty(job, me, models, place, file.policy, allow or ())


def _scores(
    taking: PredictParty, to: Path | None, ids: Path | None, rows: str | None, mean: bool, raw: bool
) -> tuple[Scores, Any]:
    from colonnade.run.scores import Scores, asked

    assert to is not None
    scores = Scores(taking, to, mean, raw)
    return scores, scores.batch(asked(taking.job, ids, rows))


def _in_one_place(
    job: str,
    run: Path,
    ids: Path | None,
    rows: str | None,
    to: Path | None,
    missing: str,
    raw: bool,
    parties: Path | None,
    sets: list[str] | None,
    allow: list[str] | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Score with all parties in this process."""
    import tempfile

    from colonnade.run.predict import Predicted, predict_simulated

    _check_asked(True, ids, rows, to)
    record = read_job(job, sets, None, None, allow)
    asked_files = parties is not None or Path(job).is_file()
    files = party_files(job, record, sets or [], parties) if asked_files else {}
    record = with_files(record, files)
    with tempfile.TemporaryDirectory() as folder:
        all_parties = {
            name: own_party(record, name, PartyFile(), [run], Path(folder) / name, allow)
            for name in record.parties
        }
        scores, batch = _scores(all_parties[record.active], to, ids, rows, missing == "mean", raw)
        try:
            predict_simulated(all_parties, batch)
            scores.close()
        finally:
            scores.discard()
    _show(Predicted("end", run, scores.rows), scores, as_json, quiet)


def _show(result: Predicted, scores: Scores | None, as_json: bool, quiet: bool) -> None:
    rows, without = (result.rows, 0) if scores is None else (scores.rows, scores.without)
    declined = {} if scores is None else scores.declined
    if as_json:
        said: dict[str, Any] = {
            "status": result.status,
            "rows": rows,
            "folder": str(result.folder),
            "differences": result.differences,
        }
        if result.privacy is not None:
            said["epsilon"] = result.privacy
        if scores is not None:
            said |= {
                "to": str(scores.path),
                "model": scores.version,
                "incomplete": without,
                "missing": scores.missing,
                "declined": declined,
            }
        screen.show_json(said)
    elif not quiet and scores is not None:
        scored = rows if scores.imputes else rows - without
        which = f"all {rows:,} rows" if scored == rows else f"{scored:,} of {rows:,} rows"
        screen.show(f"the model {scores.version} scored {which}, in {scores.path}")
        for name, count in scores.missing.items():
            screen.show(f"{name} does not know {count:,} of them: {scores.treatment}")
    elif not quiet:
        screen.show(f"answered for {rows:,} rows; the ledger is in {result.folder}")
    if declined:
        name, why = next(iter(declined.items()))
        raise FailedError(f"{name} did not answer for some rows, which have no score: {why}")
    if any(result.differences.values()):
        for sentences in result.differences.values():
            for sentence in sentences:
                screen.stderr().print(sentence)
        raise FailedError("the ledgers of both ends differ: see reconciliation.json")


def _show_dry_run(taking: PredictParty, ids: Path | None, rows: str | None, as_json: bool) -> None:
    from colonnade.run.predict import forecast

    said = forecast(taking, ids, rows)
    if as_json:
        screen.show_json(said)
        return
    for sentence in said["says"]:
        screen.show(f"- {sentence}")
