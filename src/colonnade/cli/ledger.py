"""`colonnade ledger`: what left a party and what entered it, shown and verified."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from colonnade.cli import screen
from colonnade.cli.options import Json
from colonnade.errors import FailedError, RequestError
from colonnade.formats import check_json
from colonnade.record.chain import Line, Totals, Verified, printable, reconcile, verify
from colonnade.record.table import columns_table
from colonnade.wire.ledger import Entry, entries_of

if TYPE_CHECKING:
    from rich.table import Table

    Reconciled = Mapping[str, Sequence[str]]

T = TypeVar("T")
CHAIN = "ledger.chain"
AT_NS_MAX = 2**62


def ledger(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or a file named ledger.chain.")
    ],
    as_json: Json = False,
    messages: Annotated[
        bool,
        typer.Option("--messages", help="Print every entry too; with --json one on each line."),
    ] = False,
) -> None:
    """Show what left each party and what entered it, and verify the chain that says so.

    Example: colonnade ledger runs/telco
    """
    files = _chain_files(run)
    if not files:
        _show_counts(run, as_json, messages)
        return
    parties: dict[str, Verified] = {}
    for path in files:
        found = _verified(path, _printer(as_json) if messages else None)
        if found.party in parties:
            other = parties[found.party].path
            raise FailedError(f"{path} and {other} are both of {printable(found.party)}")
        parties[found.party] = found
    if as_json and messages:
        return
    reconciled = _reconcile(parties) if len(parties) > 1 else _stored(files[0].parent)
    if as_json:
        shown = {name: _plain(found) for name, found in parties.items()}
        screen.show_json({"parties": shown, "reconciled": reconciled})
    else:
        _show(parties, reconciled)
    _judge(reconciled)


def _chain_files(run: Path) -> list[Path]:
    """The chains of a run: one of a party, or one for each party that was launched."""
    if not run.exists():
        raise RequestError(f"there is no {run}: name a run folder, or a file {CHAIN}")
    if run.is_file():
        return [run]
    own = run / CHAIN
    return [own] if own.is_file() else sorted(run.glob(f"parties/*/{CHAIN}"))


def _verified(path: Path, each: Callable[[Line], None] | None) -> Verified:
    found = verify(path, each)
    if found.fault:
        raise FailedError(f"the ledger {path} is broken, {found.fault}")
    if not found.entries:
        raise RequestError(f"the ledger {path} is empty: the party ended before its first entry")
    return found


def _read_json(path: Path, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=wanted)
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RequestError(f"{path} is not what a run writes: {error}") from None


def _stored(folder: Path) -> Reconciled:
    """What a party's own reconciliation said when its job ended, by peer."""
    path = folder / "reconciliation.json"
    return _read_json(path, dict[str, list[str]]) if path.exists() else {}


def _reconcile(parties: Mapping[str, Verified]) -> Reconciled:
    """The ends of every link against each other, without what was undone and repeated."""
    said: dict[str, list[str]] = {}
    for (me, mine), (peer, theirs) in combinations(parties.items(), 2):
        if mine.job != theirs.job:
            said[f"{me} and {peer}"] = [f"{me} and {peer} have chains of different jobs"]
        elif peer in _peers([mine]) or me in _peers([theirs]):
            said[f"{me} and {peer}"] = reconcile(_counted(mine), me, _counted(theirs), peer)
    return said


def _counted(found: Verified) -> list[Entry]:
    """What a party counted at the end, or its chain where the job has not ended: a chain may have
    the mark of a checkpoint after what belongs behind it."""
    path = found.path.with_name("ledger.json")
    return _read_json(path, list[Entry]) if path.exists() else entries_of(found.standing)


def _peers(parties: Iterable[Verified]) -> set[str]:
    return {peer for found in parties for peer, _, _ in found.totals}


def _judge(reconciled: Reconciled) -> None:
    """Ends that differ are an exit code."""
    count = sum(len(sentences) for sentences in reconciled.values())
    if count:
        noun = "count" if count == 1 else "counts"
        raise FailedError(
            f"two ends of a link differ in {count} {noun}: compare their chains with --messages"
        )


def _sum(totals: Totals) -> tuple[int, int]:
    return sum(m for m, _ in totals.values()), sum(size for _, size in totals.values())


def _repeated(found: Verified) -> tuple[int, int]:
    (messages, size), (stood, stood_bytes) = _sum(found.totals), _sum(found.standing)
    return messages - stood, size - stood_bytes


def _left_out(found: Verified) -> int:
    return found.entries - 1 - _sum(found.totals)[0] - len(found.notes)


def _plain(found: Verified) -> dict[str, Any]:
    messages, size = _repeated(found)
    return {
        "file": str(found.path),
        "job": found.job,
        "entries": found.entries,
        "head": found.head,
        "torn_bytes": len(found.torn),
        "ledger": entries_of(found.totals),
        "standing": entries_of(found.standing),
        "repeated": {"messages": messages, "bytes": size},
        "notes": msgspec.to_builtins(list(found.notes)),
        "notes_left_out": _left_out(found),
    }


def _show(parties: Mapping[str, Verified], reconciled: Reconciled) -> None:
    for name, found in parties.items():
        screen.show(f"{printable(name)}, job {printable(found.job)[:12]}\n")
        screen.show(_table(entries_of(found.totals)))
        screen.show("\n".join(["", *_remarks(found), ""]))
    for peer in sorted(_peers(parties.values()) - parties.keys() - reconciled.keys()):
        screen.show(f"not reconciled with {printable(peer)}, which left no chain here")
    for peer, sentences in reconciled.items():
        said = printable("; ".join(sentences)) or "no difference"
        screen.show(f"reconciliation, {printable(peer)}: {said}")
    for name, found in parties.items():
        whose = f"{printable(name)} " if len(parties) > 1 else ""
        screen.show(f"{whose}verified: {found.entries:,} entries, head {found.head}")


def _remarks(found: Verified) -> Iterable[str]:
    if _left_out(found):
        yield f"{_left_out(found):,} earlier notes are in {found.path}"
    for line in found.notes:
        yield f"{_when(line.at)}  {printable(line.note or '')}"
    messages, size = _repeated(found)
    if messages:
        yield (
            f"undone by a return to a checkpoint, and repeated: {messages:,} of these messages, "
            f"{size:,} bytes"
        )
    if found.torn:
        yield f"the last line was never finished: {len(found.torn):,} bytes of it do not count"


def _table(entries: Sequence[Entry]) -> Table:
    table = columns_table(("peer", "direction", "kind", "purpose"), ("messages", "bytes"))
    for entry in entries:
        names = (entry["peer"], entry["direction"], entry["kind"], entry["purpose"])
        counts = (entry["messages"], entry["bytes"])
        table.add_row(*map(printable, names), *(f"{count:,}" for count in counts))
    for way in ("sent", "received"):
        rows = [entry for entry in entries if entry["direction"] == way]
        messages, size = (sum(row["messages"] for row in rows), sum(row["bytes"] for row in rows))
        table.add_row("all", way, "", "", f"{messages:,}", f"{size:,}", style="bold")
    return table


def _show_counts(folder: Path, as_json: bool, messages: bool) -> None:
    """A simulation: everything happened in one process, so that there is nothing to prove."""
    path = folder / "ledger.json"
    if not path.exists():
        raise RequestError(f"{folder} has neither {CHAIN} nor ledger.json: is it a run folder?")
    if messages:
        raise RequestError(f"{folder} has counts only: a simulation keeps no chain of messages")
    if (summary := folder / "summary.json").is_file():
        check_json("run", summary.read_bytes(), summary)
    parties = _read_json(path, dict[str, list[Entry]])
    if as_json:
        shown = {name: {"ledger": entries} for name, entries in parties.items()}
        screen.show_json({"parties": shown, "reconciled": {}})
        return
    for name, entries in parties.items():
        screen.show(f"{printable(name)}\n")
        screen.show(_table(entries))
        screen.show("")
    screen.show("counts of a simulation, which keeps no chain: nothing to verify")


def _when(at_ns: int) -> str:
    import numpy as np

    return str(np.datetime64(max(0, min(at_ns, AT_NS_MAX)), "ns").astype("datetime64[ms]"))


def _printer(as_json: bool) -> Callable[[Line], None]:
    """Prints entries as they are read; each says whose it is, for there may be several chains."""
    party = ""

    def show(line: Line) -> None:
        nonlocal party
        party = line.party if line.n == 0 else party
        if as_json:
            print(json.dumps(msgspec.to_builtins(line) | {"party": party}))
            return
        text = line.note if line.note is not None else f"chain of job {line.job}"
        if line.way is not None:
            round = "" if line.round in (None, -1) else f" round {line.round}"
            many = "" if line.messages == 1 else f" {line.messages:,} messages,"
            text = f"{line.way} {line.peer} {line.kind}{round}{many} {line.bytes:,} bytes"
        print(f"{printable(party)} {line.n} {_when(line.at)} {printable(text)}")

    return show
