"""From the arguments of an estimator to a job; an argument that is not None goes before the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from colonnade.data.own import FileRows
from colonnade.data.splits import check_share, split_rows
from colonnade.errors import JobError, nearest
from colonnade.job.records import Job, Party
from colonnade.job.train import Train

EPOCHS = 20
VALIDATION = 0.1
VALIDATION_ROWS_MIN = 20
"""Of fewer rows a best round or a calibration would be chance."""
_BATCHES = 32
_BATCH_MIN, _BATCH_MAX = 8, 256
_OWN: dict[str, Any] = {
    "table": None,
    "table_test": None,
    "id": None,
    "aligned": None,
    "label": None,
    "label_test": None,
    "sample_weight": None,
    "positive": None,
    "columns": [],
    "view": None,
}
"""What a job says of where a party's rows come from, which are given otherwise here."""


def base_job(job: Job | None, names: Sequence[str], active: str) -> Job:
    """A job with these parties and without data; that of the user, where there is one.

    >>> base_job(None, ["bank", "telco"], "bank").passives
    ('telco',)
    """
    if job is None:
        parties = {name: Party(role="active" if name == active else "passive") for name in names}
        return Job(parties=parties, train=Train(epochs=EPOCHS))
    for name in names:
        if name not in job.parties:
            raise JobError(f"the job has no party '{name}': {nearest(name, job.parties)}")
    for name in job.parties:
        if name not in names:
            raise JobError(f"the job has a party '{name}' for which there are no columns")
    if active != job.active:
        raise JobError(f"active is '{active}', but the active party of the job is '{job.active}'")
    own = {name: replace(party, **_OWN) for name, party in job.parties.items()}
    return replace(job, parties=own, data=None, alignment=None)


def complete(
    job: Job, given: Mapping[str, Any], parts: Mapping[str, FileRows], defaults: Mapping[str, Any]
) -> Job:
    """The job that an estimator trains.

    Args:
        job: the job that it begins with.
        given: the arguments of the estimator.
        parts: the rows of every party.
        defaults: the loss and the metric of the task.
    """
    known = {name: value for name, value in given.items() if value is not None}
    rate = known.get("learning_rate")
    if rate is not None:
        job = replace(
            job,
            parties={
                name: replace(party, optimizer={**party.optimizer, "lr": rate})
                for name, party in job.parties.items()
            },
        )
    count = parts[job.active].count
    top = {name: known[name] for name in ("method", "seed") if name in known}
    return replace(job, **top, train=_train(job.train, given, known, count, defaults))


def _train(
    train: Train,
    given: Mapping[str, Any],
    known: Mapping[str, Any],
    count: int,
    defaults: Mapping[str, Any],
) -> Train:
    own = given.get("job") is not None
    share = known.get("validation", train.validation if own else automatic_share(count))
    check_share("validation", share)
    rows = len(split_rows(count, 0.0, share, 0).train)
    batch = known.get("batch_size", train.batch_size if own else automatic_batch(rows))
    settings = {name: known[name] for name in ("epochs", "patience") if name in known}
    if "epochs" in known:
        settings["rounds"] = None
    if train.loss == "auto":
        settings["loss"] = defaults["loss"]
    if train.metric == "auto":
        settings["metric"] = defaults["metric"]
    if "metric" in known:
        settings["metric"] = known["metric"]
    if not share:
        settings["evaluate_every"] = "never"
    if isinstance(batch, int):
        batch = min(batch, max(1, rows))
    return replace(train, test=0.0, validation=share, batch_size=batch, **settings)


def automatic_share(rows: int) -> float:
    """The share of the rows that is set aside to choose by.

    >>> automatic_share(1000), automatic_share(100)
    (0.1, 0.0)
    """
    return VALIDATION if rows * VALIDATION >= VALIDATION_ROWS_MIN else 0.0


def automatic_batch(rows: int) -> int:
    """A batch size with which an epoch has some 32 updates: a power of two from 8 to 256.

    >>> [automatic_batch(rows) for rows in (50, 1000, 100_000)]
    [8, 32, 256]
    """
    size = 1 << max(0, (max(1, rows // _BATCHES) - 1).bit_length())
    return min(max(size, _BATCH_MIN), _BATCH_MAX)
