"""Predictions in the simulator, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import colonnade as cn
from colonnade.align.workers import Threads
from colonnade.job.policy import Policy
from colonnade.job.records import Job
from colonnade.party.session import run_session
from colonnade.predict.batch import Batch, Piece, pieces_at
from colonnade.predict.request import Scored
from colonnade.run.predict_party import PredictParty, read_models
from colonnade.sim.kernel import Simulator
from tests.aligning import drawn

ROWS = 400
PASSIVES = ("telco", "shop")


def tables(
    folder: Path, passives: Sequence[str] = PASSIVES, rows: int = ROWS, seed: int = 0
) -> Job:
    """A job whose parties have tables of the same customers, each in an order of its own."""
    random = np.random.default_rng(seed)
    ids = np.array([f"c{number:05d}" for number in range(rows)])
    seen, parties = np.zeros(rows), {}
    for name in ("bank", *passives):
        x = random.normal(size=(rows, 2))
        seen += x[:, 0]
        order = random.permutation(rows)
        table = {"id": ids[order], f"{name}_a": x[order, 0], f"{name}_b": x[order, 1]}
        if name == "bank":
            parties[name] = {"role": "active", "label": "good", "columns": ["bank_*"]}
        else:
            parties[name] = {}
        parties[name] |= {"table": str(folder / f"{name}.parquet"), "id": "id", "order": order}
        parties[name]["data"] = table
    good = np.where(seen > 0, "yes", "no")
    for name, party in parties.items():
        order, table = party.pop("order"), party.pop("data")
        if name == "bank":
            table["good"] = good[order]
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    return cn.Job(
        name="small",
        parties={name: cn.Party(**party) for name, party in parties.items()},
        train=cn.Train(epochs=2, batch_size=32),
    )


def with_table(job: Job, name: str, table: str | Path) -> Job:
    own = msgspec.structs.replace(job.parties[name], table=str(table))
    return msgspec.structs.replace(job, parties=job.parties | {name: own})


def parties_of(
    job: Job, run: Path, folder: Path, policies: Mapping[str, Policy] | None = None
) -> dict[str, PredictParty]:
    return {
        name: PredictParty(
            job,
            name,
            read_models([run], name),
            folder / name,
            (policies or {}).get(name, Policy()),
            workers=Threads(1),
            randomness=drawn(name),
        )
        for name in job.parties
    }


def piece_of(ids: Sequence[str]) -> Piece:
    return Piece(pa.table({"id": list(ids)}), texts=list(ids))


def batch_of(
    party: PredictParty, pieces: Sequence[Piece], mean: bool = False
) -> tuple[Batch, list[Scored]]:
    """The requests, and where their results come, in order."""
    found: list[Scored] = []
    version = next(iter(party.models))
    keep = lambda piece, scored: found.append(scored)  # noqa: E731
    return Batch(iter(pieces), lambda: party.by_id, version, keep, mean), found


def at_places(places) -> list[Piece]:
    return list(pieces_at(np.asarray(places)))


def simulated(parties, source, changed=None, window=None) -> Simulator:
    """Run everybody; `changed` replaces programs by others, given by name."""
    active = next(party for party in parties.values() if party.leads)
    simulator = Simulator(active.job)
    programs = {
        name: party.program(source if party.leads else None, window)
        for name, party in parties.items()
    }
    programs |= changed or {}
    simulator.run(
        {name: run_session(simulator.worlds[name], [own]) for name, own in programs.items()}
    )
    return simulator
