"""What the folders of one run, alignment or prediction say together of what happened when: one
folder of all parties, or the own folders of some of them. They may have come from anybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from colonnade.errors import RequestError
from colonnade.record.chain import printable
from colonnade.record.clocks import Clock, align, exchanges_on_my_clock, on_my_clock
from colonnade.record.exchanges import Exchanges
from colonnade.record.timeline import Timeline
from colonnade.record.timeline_file import read_exchanges, read_timelines


@dataclass(frozen=True)
class Together:
    """Timelines and exchanges by party, on one clock."""

    timelines: dict[str, Timeline]
    exchanges: dict[str, Exchanges]
    clocks: dict[str, Clock] = field(default_factory=dict)
    """Those that were aligned here, as seen from the party on whose clock all is."""


def read_together(folders: Sequence[Path]) -> Together:
    """The timelines of a run; of several folders, on the clock of the party that has exchanged
    messages with all others.

    >>> read_together([Path("nowhere")])
    Traceback (most recent call last):
    colonnade.errors.RequestError: nowhere has no timeline.parquet: give the folder of a run, an \
alignment or a prediction that has ended, as --out named it
    """
    timelines: dict[str, Timeline] = {}
    exchanges: dict[str, Exchanges] = {}
    for folder in folders:
        found, rounds = _read(folder)
        if double := sorted(found.keys() & timelines.keys()):
            raise RequestError(
                f"{printable(double[0])} is in several of the folders: give those of different "
                "parties of one run"
            )
        timelines |= found
        exchanges |= rounds
    if len(folders) == 1:
        return Together(timelines, exchanges)
    return _aligned(timelines, exchanges)


def _read(folder: Path) -> tuple[dict[str, Timeline], dict[str, Exchanges]]:
    path, rounds = folder / "timeline.parquet", folder / "exchanges.parquet"
    if not path.exists():
        raise RequestError(
            f"{folder} has no timeline.parquet: give the folder of a run, an alignment or a "
            "prediction that has ended, as --out named it"
        )
    return read_timelines(path), read_exchanges(rounds) if rounds.exists() else {}


def _aligned(timelines: dict[str, Timeline], exchanges: dict[str, Exchanges]) -> Together:
    for reference in timelines:
        clocks = align(timelines, reference)
        if len(clocks) == len(timelines) - 1:
            break
    else:
        raise RequestError(
            "these parties did not all exchange messages with one of them: give the folder of the "
            "active party too, and only folders of one run"
        )
    for name, clock in clocks.items():
        timelines[name] = on_my_clock(timelines[name], clock)
        if name in exchanges:
            exchanges[name] = exchanges_on_my_clock(exchanges[name], clock)
    return Together(timelines, exchanges, clocks)
