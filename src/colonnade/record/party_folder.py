"""One party's own folder of a run over the network: what it may need again, and what it leaves.

    lock             held by the process that runs the party; its number, for `colonnade stop`
    start.json       when the party first started, and its secret seed if it was drawn
    checkpoints/     what to go on from after a crash, and which run it belongs to
    timeline.part, exchanges.part  what the party did so far, as of its last checkpoint
    ledger.chain     everything that crossed, line by line
    party.json       the party's part in figures; there as soon as the party is done
    complete         there when the job is over for everybody
    ledger.json      the counts by peer, direction and kind
    reconciliation.json  where a peer's counts differ
    model.json       what it takes to score rows with the weights
    traffic/         what crossed in the first rounds, where that was to be recorded
    timeline.parquet, exchanges.parquet  what the party did and when, and its rounds
    last.safetensors, best.safetensors, preprocessing.json

The active party's also has `history.parquet`, `rounds.parquet`, `classes.json` and `summary.json`.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from colonnade.errors import RequestError, reason
from colonnade.formats import check, check_json, stamp
from colonnade.record.card import FILE, Spent, read_card
from colonnade.record.chain import LINE_BYTES_MAX, Line, printable
from colonnade.record.exchanges import Exchanges
from colonnade.record.lock import take_lock
from colonnade.record.pieces import Pieces
from colonnade.record.private import write_whole
from colonnade.record.run import PartyRun, save_party
from colonnade.record.timeline import Timeline
from colonnade.record.timeline_file import (
    read_exchanges,
    read_timeline,
    save_exchanges,
    save_timeline,
)

TIMELINE = "timeline.parquet"
PARTS = ("timeline.part", "exchanges.part")
"""Spans and rounds of a party that is not done; with its result they become Parquet files."""


class PartyFolder:
    """A party's folder, locked for as long as the process runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = take_lock(path)

    def close(self) -> None:
        """Let another process use the folder."""
        os.close(self._lock)

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints lie."""
        return self.path / "checkpoints"

    @property
    def chain(self) -> Path:
        """The ledger's file."""
        return self.path / "ledger.chain"

    def refuse_others(self, party: str, job: str) -> None:
        """Refuse a folder with a run of another party, or of a job of another identity."""
        with suppress(FileNotFoundError, msgspec.MsgspecError), self.chain.open("rb") as file:
            first = msgspec.json.decode(file.readline(LINE_BYTES_MAX), type=Line)
            if first.party != party:
                whose = f"of the party {printable(first.party)}"
            elif first.job != job:
                whose = "of another job, or of this one with other terms"
            else:
                return
            raise RequestError(
                f"the folder {self.path} holds a run {whose}: choose another --out, or begin anew "
                "with --restart, at all parties"
            )

    def remember(self, key: str, value: int) -> int:
        """A number that must be the same each time the party starts: the first one is kept."""
        path = self.path / "start.json"
        known = _numbers(path) if path.exists() else stamp("party")
        if key not in known:
            known[key] = value
            write_whole(path, json.dumps(known))
        return known[key]

    def timeline(self) -> Timeline:
        """What earlier processes of the party did, as far as it was written when they ended, and
        where this one goes on."""
        return Timeline(Pieces(self.path / PARTS[0]))

    def exchanges(self) -> Exchanges:
        """The same of its rounds."""
        return Exchanges(self.path / PARTS[1])

    @property
    def is_done(self) -> bool:
        """Whether the party's result is here."""
        return is_done(self.path)

    @property
    def rounds(self) -> int:
        """How many rounds the result has that is here; 0 where there is none."""
        if not self.is_done:
            return 0
        return int(_facts(self.path)["rounds"])

    @property
    def is_complete(self) -> bool:
        """Whether the job is over for everybody."""
        return is_complete(self.path)

    def complete(self) -> None:
        """The job is over for everybody."""
        write_whole(self.path / "complete", "")
        # All of it is in the files of the result.
        for part in PARTS:
            (self.path / part).unlink(missing_ok=True)

    def save(self, party: PartyRun, facts: dict[str, Any]) -> None:
        """Keep the party's result; `party.json` comes last, when all else is there."""
        save_party(self.path, party)
        self.save_timeline(facts["party"], party.spans)
        save_exchanges(self.path / "exchanges.parquet", {facts["party"]: party.exchanges})
        write_whole(self.path / "ledger.json", json.dumps(party.ledger, indent=1) + "\n")
        facts |= {
            **stamp("party"),
            "fresh": party.fresh,
            "local": party.local,
            "in_flight_max": party.in_flight_max,
            "busy_s": party.busy_s,
            "idle_s": party.idle_s,
            "efforts": list(party.efforts),
        }
        write_whole(self.path / "party.json", json.dumps(facts) + "\n")

    def save_timeline(self, party: str, spans: Timeline) -> None:
        """Keep what the party did and when."""
        save_timeline(self.path / TIMELINE, {party: spans})

    def recount(self, spent: Spent | None, privacy: dict[str, float | None]) -> None:
        """Let the result that is here say that its rows have told more, before they do."""
        # First what is added up by others; the rest is for people.
        if (self.path / FILE).exists():
            card = read_card(self.path)
            known = card.spent
            # Never less than it says: a ledger that was moved away begins anew.
            if known is not None and (spent is None or spent.mu > known.mu):
                write_whole(self.path / FILE, replace(card, spent=spent).to_json())
        facts = _facts(self.path) | {"privacy": privacy}
        write_whole(self.path / "party.json", json.dumps(facts) + "\n")

    def reconciled(self, differences: dict[str, list[str]]) -> None:
        """Keep what the peers' receipts say."""
        text = json.dumps(differences, indent=1) + "\n"
        write_whole(self.path / "reconciliation.json", text)


def set_aside(path: Path) -> Path | None:
    """Move what a party's folder holds to a folder beside it, unless a process uses it; where it
    is now, or None where there was nothing.

    >>> set_aside(Path("nowhere"))
    """
    if not path.exists():
        return None
    PartyFolder(path).close()
    number = 1
    while (aside := path.with_name(f"{path.name}.before-{number}")).exists():
        number += 1
    try:
        return path.rename(aside)
    except OSError as error:
        raise RequestError(f"{path} cannot be moved aside: {reason(error)}") from None


def drew_seed(path: Path) -> bool | None:
    """Whether the party of a folder has drawn its secret seed itself; None where it never began.

    >>> drew_seed(Path("nowhere"))
    """
    start = path / "start.json"
    return "seed" in _numbers(start) if start.exists() else None


def _numbers(path: Path) -> dict[str, int]:
    try:
        content = path.read_bytes()
        check_json("party", content, path)
        known: dict[str, int] = msgspec.json.decode(content, type=dict[str, int])
    except (OSError, msgspec.MsgspecError):
        raise RequestError(
            f"{path} is damaged, which holds the secret seed of this party and when it began: put "
            "it back, choose another --out, or delete it to have a new seed drawn"
        ) from None
    return known


def _facts(folder: Path) -> dict[str, Any]:
    """What `party.json` says."""
    path = folder / "party.json"
    facts: dict[str, Any] = json.loads(path.read_text())
    check("party", facts.get("format"), path)
    return facts


def read_party(path: Path) -> tuple[PartyRun, dict[str, Any]]:
    """A party's result from its folder, and the facts beside it."""
    from safetensors.torch import load

    facts = _facts(path)
    weights = {
        # Not by the file's name, which would leave the tensors mapped to a file that may change.
        name: load((path / f"{name}.safetensors").read_bytes())
        for name in ("last", "best")
        if (path / f"{name}.safetensors").exists()
    }
    preprocessing, classes = path / "preprocessing.json", path / "classes.json"
    party = PartyRun(
        fresh=facts["fresh"],
        local=facts["local"],
        in_flight_max=facts["in_flight_max"],
        efforts=[(updates, rate) for updates, rate in facts["efforts"]],
        actions=[],
        busy_s=facts["busy_s"],
        idle_s=facts["idle_s"],
        ledger=json.loads((path / "ledger.json").read_text()),
        spans=read_timeline(path / TIMELINE),
        weights=weights.get("last", {}),
        best_weights=weights.get("best"),
        preprocessing=preprocessing.read_text() if preprocessing.exists() else None,
        classes=tuple(json.loads(classes.read_text())) if classes.exists() else (),
        card=read_card(path) if (path / FILE).exists() else None,
        privacy=facts.get("privacy"),
        exchanges=_exchanges(path / "exchanges.parquet", facts["party"]),
    )
    return party, facts


def _exchanges(path: Path, party: str) -> Exchanges:
    """Those of a party; none in a folder of a version that did not keep them."""
    found = read_exchanges(path) if path.exists() else {}
    return found.get(party, Exchanges())


def is_done(path: Path) -> bool:
    """Whether a party's folder has its result."""
    return (path / "party.json").exists()


def is_complete(path: Path) -> bool:
    """Whether the job of a party's folder is over for everybody."""
    return (path / "complete").exists()
