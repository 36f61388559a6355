"""What crossed: by sender, receiver and kind of message, from the ledgers of a run."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from colonnade.page.reading import read_json
from colonnade.record.chain import verify
from colonnade.wire.messages import MESSAGES

CHAIN_BYTES_MAX = 2**28
_PURPOSE = {message.__name__: message.PURPOSE for message in MESSAGES.values()}


class Entry(msgspec.Struct, frozen=True):
    """A line of a ledger."""

    peer: str
    direction: str
    kind: str
    purpose: str = ""
    messages: int = 0
    bytes: int = 0


def flows_of(folder: Path, own: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Every kind of message that went from one party to another, how many and how many bytes.

    What a party received is counted only where there is no ledger of its sender.
    """
    ledgers = _ledgers(folder, own)
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name, entries in ledgers.items():
        for entry in entries:
            sent = entry.direction == "sent"
            if not sent and entry.peer in ledgers:
                continue
            ends = (name, entry.peer) if sent else (entry.peer, name)
            row = found.setdefault(
                (*ends, entry.kind),
                {"from": ends[0], "to": ends[1], "kind": entry.kind,
                 "purpose": entry.purpose or _PURPOSE.get(entry.kind, ""), "messages": 0,
                 "bytes": 0},
            )  # fmt: skip
            row["messages"] += entry.messages
            row["bytes"] += entry.bytes
    return sorted(found.values(), key=lambda row: -row["bytes"])[:2000]


def _ledgers(folder: Path, own: Mapping[str, Path]) -> dict[str, list[Entry]]:
    if folder not in own.values():
        together = read_json(folder / "ledger.json", dict[str, list[Entry]])
        if together:
            return together
    found = {}
    for name, place in own.items():
        entries = read_json(place / "ledger.json", list[Entry]) if _listed(place) else None
        found[name] = entries if entries is not None else _chain(place / "ledger.chain")
    return {name: entries for name, entries in found.items() if entries}


def _listed(place: Path) -> bool:
    return (place / "ledger.json").exists()


def _chain(path: Path) -> list[Entry]:
    """What a run that is not at its end has counted so far."""
    try:
        found = path.lstat()
    except OSError:
        return []
    if not stat.S_ISREG(found.st_mode) or found.st_size > CHAIN_BYTES_MAX:
        return []
    totals = verify(path).totals
    return [
        Entry(peer, direction, kind, _PURPOSE.get(kind, ""), messages, size)
        for (peer, direction, kind), (messages, size) in totals.items()
    ]
