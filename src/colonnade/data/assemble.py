"""From a job to the numbers that every party trains on, all in one place.

A job names a data set, whose columns or image parts the parties share out among themselves; or
each party brings its own file. Every party's part is read as that party alone would read it
(`colonnade.data.party`); here they are checked against each other as well.
"""

from __future__ import annotations

from colonnade.data.named import load
from colonnade.data.own import check_aligned
from colonnade.data.party import PartyData, check_counts, from_files, from_named, read_files
from colonnade.data.vertical import VerticalData
from colonnade.errors import DataError
from colonnade.job.records import Job


def assemble(job: Job) -> VerticalData:
    """Read everything a job trains on, and check that it fits together.

    >>> from colonnade.job.files import load as load_job
    >>> data = assemble(load_job("digits"))
    >>> data.train_count, data.validation_count, data.test_count
    (1294, 144, 359)
    """
    parts = _from_files(job) if job.data is None else _from_named(job, job.data)
    active = parts[job.active]
    assert active.labels is not None and active.task is not None and active.classes is not None
    check_counts(job, active.train_count, active.validation_count + active.test_count)
    return VerticalData(
        features={name: part.columns for name, part in parts.items()},
        labels=active.labels,
        task=active.task,
        classes=active.classes,
        fingerprint=active.fingerprint,
    )


def _from_named(job: Job, name: str) -> dict[str, PartyData]:
    dataset = load(name)
    return {party: from_named(job, party, dataset) for party in job.parties}


def _from_files(job: Job) -> dict[str, PartyData]:
    _check_test_files(job)
    files = {name: read_files(job, name) for name in job.parties}
    check_aligned([own.train for own in files.values()])
    check_aligned([own.test for own in files.values() if own.test is not None])
    return {name: from_files(job, name, own) for name, own in files.items()}


def _check_test_files(job: Job) -> None:
    """All parties have a file of test rows, or none has."""
    has = {
        name: party.table_test is not None or party.label_test is not None
        for name, party in job.parties.items()
    }
    for name, party in job.parties.items() if any(has.values()) else ():
        needs_table = party.table is not None and party.table_test is None
        if needs_table or not has[name]:
            field = "table_test" if party.table is not None else "label_test"
            raise DataError(
                f"{next(n for n in has if has[n])} has a file of test rows but {name} has no "
                f"{field}: give test rows to every party, or to none"
            )
