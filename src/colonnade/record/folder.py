"""What a folder holds already: two runs must never share one, nor a run and a comparison."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from colonnade.errors import RequestError
from colonnade.record.prediction import FILE as PREDICTION
from colonnade.record.prediction import read_prediction
from colonnade.record.reading import read_regular

Contents = Literal[
    "alignment",
    "prediction",
    "service",
    "comparison",
    "sweep",
    "race",
    "reproduction",
    "unfinished",
]
"""What is no training, and no run of one; `unfinished` is a sweep or a race before its end."""
_SIGNS: Mapping[str, Contents] = {
    "alignment.json": "alignment",
    "work/secrets.json": "alignment",
    PREDICTION: "prediction",
    "comparison.json": "comparison",
    "sweep.json": "sweep",
    "race.json": "race",
    "claims.json": "reproduction",
    "points": "unfinished",
}
"""By the file that only a folder of that kind has; the first one decides."""
_PARTY_BYTES_MAX = 2**22
Kind = Literal["simulate", "launch", "compare", "sweep", "race"]
_LAUNCHED = ("party.json", "lock", "start.json", "ledger.chain")
"""Files of a party that took part over the network."""
_WAITING = ("timeouts", "recovery")
_ANEW: Mapping[str, tuple[str, ...]] = {"launch": (*_WAITING, "limits"), "simulate": _WAITING}
"""The tables of a job that may be others when it is started again; in the simulator a limit may
decide how long something takes."""


def kind_of(folder: Path) -> Contents | None:
    """What a folder holds that is no training; None for a training, and for anything else.

    >>> kind_of(Path("nowhere"))
    """
    found = next((kind for sign, kind in _SIGNS.items() if (folder / sign).exists()), None)
    if found == "prediction":
        return "service" if read_prediction(folder).program == "serve" else "prediction"
    if found is None and _aligned(folder / "party.json"):
        return "alignment"
    return found


def _aligned(path: Path) -> bool:
    """Whether the party of a folder aligned: an update of an alignment has a folder of its own."""
    if not path.exists():
        return False
    try:
        return bool(msgspec.json.decode(read_regular(path, _PARTY_BYTES_MAX)).get("program"))
    except (RequestError, msgspec.MsgspecError, UnicodeError, RecursionError, AttributeError):
        return False  # Whoever reads the folder says what is wrong with the file.


def check_folder(folder: Path, kind: Kind, job: str = "") -> None:
    """Refuse a folder that holds something else than what is about to be written there.

    `job` is the TOML of the job that is to be simulated or launched.

    >>> check_folder(Path("runs/none-such"), "simulate", "")
    """
    found = _other(folder, kind, job)
    if found is not None:
        raise RequestError(f"{folder} holds {found}")


def _other(folder: Path, kind: Kind, job: str) -> str | None:
    another = "choose another folder"
    if kind != "compare" and (folder / "comparison.json").exists():
        return f"a comparison: {another}"
    if kind != "sweep" and (folder / "sweep.json").exists():
        return f"a sweep: {another}"
    if kind != "race" and (folder / "race.json").exists():
        return f"a race: {another}"
    path = folder / "job.toml"
    if not path.exists():
        return None
    if kind in ("compare", "sweep", "race"):
        return f"a run: {another}"
    if not _same(path.read_text(errors="replace"), job, kind):
        return f"a run of another job: {another}, or {kind} {path}"
    parties = list((folder / "parties").glob("*"))
    launched = any((party / file).exists() for party in parties for file in _LAUNCHED)
    if kind == "simulate" and launched:
        return f"this job as it was launched: {another}"
    if kind == "launch" and not launched and (folder / "summary.json").exists():
        return f"this job as it was simulated: {another}"
    return None


def _same(found: str, job: str, kind: Kind) -> bool:
    """Whether two jobs are one run, apart from what may change between two starts of it."""
    if found == job:
        return True
    try:
        one, other = tomllib.loads(found), tomllib.loads(job)
    except tomllib.TOMLDecodeError:
        return False
    for table in _ANEW[kind]:
        one.pop(table, None)
        other.pop(table, None)
    return one == other
