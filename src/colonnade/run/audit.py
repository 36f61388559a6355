"""An audit of a run: what its recorded traffic tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import safetensors.numpy
from threadpoolctl import threadpool_limits

from colonnade.errors import RequestError, nearest
from colonnade.privacy.audit import KNOWN, OnStep
from colonnade.privacy.audit import audit as audit_recordings
from colonnade.privacy.findings import Audit
from colonnade.privacy.recorded import Recording, read_recording, recording_of
from colonnade.record.inspection import parties_of
from colonnade.record.private import write_whole
from colonnade.record.run import Run
from colonnade.run.arguments import check_count

FILE = "privacy.json"


def audit(
    run: Run | str | Path,
    *,
    party: str | None = None,
    known: int = KNOWN,
    on_step: OnStep | None = None,
) -> Audit:
    """Measure what the parties of a run can tell of each other's data, from its recorded traffic.

    Every party is audited with its own recording and its own data: the active party for what it
    sent that tells of its labels, every party for what it sent that tells of its columns. Other
    recordings, where they are at hand, have what it cannot know itself, such as sums of embeddings.

    Args:
        run: a run that was simulated with `record=`, or the folder of one that was recorded: of a
            simulation or a launch, or one party's own.
        party: audit this party only; by default all whose recordings are there.
        known: how many rows an attacker is taken to know, where an attack needs some.
        on_step: told before each attack how many are done, of how many, and which one begins.

    Example:
        >>> import colonnade as cn
        >>> job = cn.load("breast-cancer", ["train.rounds=4"])
        >>> found = audit(cn.simulate(job, record=4), known=50).findings
        >>> sorted({each.of for each in found})
        ['columns', 'labels']
    """
    check_count("known", known)
    recordings = _in_memory(run) if isinstance(run, Run) else _in_folder(run)
    if party is not None and party not in recordings:
        raise RequestError(f"there is no recording of {party}: {nearest(party, recordings)}")
    if not recordings:
        raise RequestError(
            f"{'the run' if isinstance(run, Run) else run} has no recording of what crossed: train "
            "with --record ROUNDS and --out DIR, or with record=ROUNDS in Python"
        )
    # More threads make so small models slower, and on a busy machine many times so.
    with threadpool_limits(1):
        return audit_recordings(recordings, known, None if party is None else [party], on_step)


def _in_memory(run: Run) -> dict[str, Recording]:
    return {
        name: recording_of(name, map(safetensors.numpy.load, own.traffic))
        for name, own in run.parties.items()
        if own.traffic
    }


def _in_folder(run: Any) -> dict[str, Recording]:
    if not isinstance(run, str | Path):
        raise RequestError(
            f"the run is of type {type(run).__name__}: give a run, or the folder of one"
        )
    found = {name: read_recording(name, path) for name, path in parties_of(Path(run)).items()}
    return {name: recording for name, recording in found.items() if recording is not None}


def save_audit(found: Audit, folder: Path) -> None:
    """Write `privacy.json` into the folder of a run."""
    text = msgspec.json.format(msgspec.json.encode(found), indent=1).decode()
    write_whole(folder / FILE, text + "\n")
