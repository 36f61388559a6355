"""What a party says while it takes part over the network, and what it shows afterwards."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.text import Text

from colonnade.cli import screen
from colonnade.cli.narrator import Narrator
from colonnade.errors import ColonnadeError, FailedError, StoppedError
from colonnade.job.party_file import PartyFile, draw_seed
from colonnade.job.records import Job
from colonnade.job.terms import identity, terms
from colonnade.record.chain import printable
from colonnade.record.events import Event, Notice, RoundDone, Waiting
from colonnade.record.private import append_to_private
from colonnade.record.table import run_table
from colonnade.wire.fault import Fault

if TYPE_CHECKING:
    from rich.console import Console

    from colonnade.net.link import Emulation
    from colonnade.net.runner import Address
    from colonnade.record.party_folder import PartyFolder
    from colonnade.run.join import Joined
    from colonnade.run.workers import PartyProcess
    from colonnade.tls.keyring import Keyring


class Reporter:
    """Tells a person, and the party's log, what happens; or `colonnade launch`, which tells the
    person: a line of JSON for every event."""

    def __init__(self, console: Console, log: Path, quiet: bool, launched: bool = False) -> None:
        self._console = console
        self._log = os.fdopen(append_to_private(log), "a", buffering=1, encoding="utf-8")
        self._log_name = log
        self._quiet = quiet or launched
        self._launched = launched
        self._status = console.status("") if console.is_terminal and not self._quiet else None
        self._narrator = Narrator()
        if self._status is not None:
            self._status.start()

    def __call__(self, event: Event) -> None:
        """Write what happened into the log, and show it."""
        line = self._narrator.line(event)
        if line is None:
            return
        if line.logged:
            self._write(line.text)
        if self._launched:
            print(msgspec.json.encode(event).decode(), flush=True)
        if self._status is not None and line.shown:
            self._status.update(Text(line.text))  # Not a string: that could be markup.
        # On a terminal the status line says what would be repeated.
        lasting = not isinstance(event, RoundDone | Waiting)
        if line.printed and not self._quiet and (lasting or self._status is None):
            self._console.print(line.text)

    def ended(self, sentence: str) -> None:
        """The party ended before the job did: its log says why, as the terminal will."""
        self._write(printable(sentence))

    def _write(self, text: str) -> None:
        """Into the log; where that cannot be, it is said once, and the party goes on without."""
        from colonnade.net.detector import stamp

        if self._log.closed:
            return
        try:
            self._log.write(f"{stamp()} {text}\n")
        except OSError as error:
            with suppress(OSError):
                self._log.close()
            self._console.print(f"{self._log_name} cannot be written: {error.strerror}")

    def close(self) -> None:
        """The party has ended."""
        if self._status is not None:
            self._status.stop()
        with suppress(OSError):
            self._log.close()


@dataclass(frozen=True)
class Host:
    """Where a party takes part from, as the command line says."""

    address: Address
    keyring: Keyring
    out: Path
    emulate: str | None = None
    threads: int = 1
    quiet: bool = False
    launched: bool = False
    restart: bool = False
    """Whether to move aside what the folder holds, and begin from nothing."""


def run(job: Job, me: str, file: PartyFile, host: Host) -> Joined | None:
    """Take part, telling what happens; None in a process that only computed for another."""
    import torch

    # The first optimizer would import this, which takes a second, when the others wait already.
    import torch._dynamo

    from colonnade.net.link import Emulation
    from colonnade.record.party_folder import PartyFolder, set_aside
    from colonnade.run.workers import start_group

    torch.set_num_threads(host.threads)
    line = None if host.emulate is None else Emulation.parse(host.emulate)
    with start_group(job, me) as process:
        if process.is_worker:
            process.work()
            return None
        if host.restart and (aside := set_aside(host.out)) is not None:
            screen.stderr().print(f"begins anew; what {host.out} held is in {aside}")
        folder = PartyFolder(host.out)
        try:
            return _speak(process, file, host, folder, line)
        finally:
            folder.close()


def _speak(
    process: PartyProcess, file: PartyFile, host: Host, folder: PartyFolder, line: Emulation | None
) -> Joined:
    from colonnade.data.scale import remarks
    from colonnade.run.join import Joined, take_part
    from colonnade.run.naming import check_names
    from colonnade.run.setup import participant

    composition = check_names(process.job, [process.me]).composition()
    folder.refuse_others(process.me, identity(terms(process.job, composition)))
    if folder.is_complete:
        screen.stderr().print(f"this job is complete; its result is in {folder.path}")
        return Joined("complete", folder.path, folder.rounds)
    own = _seeded(process.job, process.me, folder)
    party = process.distribute(participant(own, process.me, file.policy))
    reporter = Reporter(screen.stderr(), folder.path / "log.txt", host.quiet, host.launched)
    for remark in remarks({process.me: party.data.columns}, party.data.labels):
        reporter(Notice(process.me, 0, remark))
    try:
        return take_part(party, host.address, host.keyring, folder, line, [reporter])
    except StoppedError as stop:
        reporter.ended(str(stop))
        raise StoppedError(f"{stop}; the same command goes on from there") from None
    except ColonnadeError as error:
        reporter.ended(str(error))
        raise
    finally:
        reporter.close()


def _seeded(job: Job, me: str, folder: Any) -> Job:
    """A party without a secret seed draws one, once."""
    own = job.parties[me]
    if own.seed is None:
        own = msgspec.structs.replace(own, seed=folder.remember("seed", draw_seed()))
    return msgspec.structs.replace(job, parties=job.parties | {me: own})


def show(result: Joined, as_json: bool, quiet: bool) -> None:
    """The result, for people or for programs; what did not end well is said last."""
    if as_json:
        summary = result.run.summary() if result.run is not None else {}
        screen.show_json(
            {
                "status": result.status,
                "rounds": result.rounds,
                "folder": str(result.folder),
                "differences": result.differences,
                **summary,
            }
        )
    elif not quiet:
        if result.run is not None:
            screen.show(run_table(result.run.summary()))
        screen.show(
            f"{result.status} after {result.rounds} rounds; the run folder is {result.folder}"
        )
    for sentences in result.differences.values():
        for sentence in sentences:
            screen.stderr().print(sentence)
    if result.status == "diverged":
        fault = result.fault or Fault("")
        why = f" ({fault})" if fault.said else ""
        cure = "see to what that party sends" if fault.sender else "lower the learning rates"
        raise FailedError(f"the training diverged{why}: {cure}")
    if any(result.differences.values()):
        raise FailedError("the ledgers of both ends differ: see reconciliation.json")
