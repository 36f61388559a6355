"""The training of an estimator, in virtual time or as processes, from rows that are in memory."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from colonnade.data.own import FileRows
from colonnade.data.party import Files, from_files, together
from colonnade.errors import FailedError
from colonnade.job.records import Job, Party
from colonnade.record.private import private_file
from colonnade.record.run import Run
from colonnade.run.launch import launch
from colonnade.run.simulate import diverged, simulate

Backend = Literal["simulate", "launch"]


def train(job: Job, parts: Mapping[str, FileRows], backend: Backend, threads: int) -> Run:
    """Train a job on these rows; one that has nothing to show for it is an error."""
    if backend == "launch":
        run = _launched(job, parts, threads)
    else:
        data = together(
            job, {name: from_files(job, name, Files(own, None)) for name, own in parts.items()}
        )
        run = simulate(job, data, threads=threads)
    if run.status == "diverged" and run.best_weights[job.active] is None:
        raise FailedError(diverged(run))
    if run.status == "diverged" and backend == "launch":
        warnings.warn(diverged(run), stacklevel=4)
    return run


def _launched(job: Job, parts: Mapping[str, FileRows], threads: int) -> Run:
    """Every party in a process of its own, which reads its rows from a file that only this user
    can read, and that is deleted at the end."""
    with TemporaryDirectory(prefix="colonnade-") as folder:
        parties = {
            name: _with_table(job.parties[name], own, Path(folder) / f"{name}.parquet")
            for name, own in parts.items()
        }
        run = launch(msgspec.structs.replace(job, parties=parties), threads=threads)
    return dataclasses.replace(run, job=job)


def _with_table(party: Party, own: FileRows, path: Path) -> Party:
    """A party whose rows are in a file."""
    columns = {} if own.features is None else dict(_columns(own.features))
    names = list(columns)
    said: dict[str, str] = {}
    for field, values in (("id", own.ids), ("label", own.labels), ("sample_weight", own.weights)):
        if values is not None:
            said[field] = _fresh(field, columns)
            columns[said[field]] = values if isinstance(values, pa.Array) else _array(values)
    pq.write_table(pa.table(columns), private_file(path))
    return msgspec.structs.replace(party, table=str(path), columns=names, **said)


def _columns(table: pa.Table) -> zip[tuple[str, pa.ChunkedArray]]:
    return zip(table.column_names, table.columns, strict=True)


def _array(values: NDArray[Any]) -> pa.Array:
    return pa.array(values.tolist() if values.dtype.kind in "UT" else values)


def _fresh(word: str, taken: Mapping[str, object]) -> str:
    while word in taken:
        word += "_"
    return word
