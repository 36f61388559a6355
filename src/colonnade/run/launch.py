"""All parties of a job as processes of their own on this computer, over mTLS on loopback."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Union

import msgspec
from safetensors import SafetensorError

from colonnade import methods
from colonnade.data.aligned import has_alignment
from colonnade.errors import FailedError, RequestError, StoppedError
from colonnade.formats import check_json
from colonnade.job.files import dumps
from colonnade.job.party_file import PartyFile, own_job
from colonnade.job.records import Job
from colonnade.learn.saved import read_saved
from colonnade.net.link import Emulation
from colonnade.record.card import FILE, read_card
from colonnade.record.clocks import align, exchanges_on_my_clock, on_my_clock
from colonnade.record.events import EVENTS, Event, Notice, Subscriber
from colonnade.record.folder import check_folder
from colonnade.record.metrics import METRICS
from colonnade.record.party_folder import drew_seed, is_complete, is_done, read_party
from colonnade.record.private import write_whole
from colonnade.record.run import ROUND_FIELDS, Run, read_rows
from colonnade.run.arguments import as_job, check_count
from colonnade.run.naming import check_names
from colonnade.run.processes import Children, Said
from colonnade.run.provision import all_files, check_keys, new_keys, provide
from colonnade.run.simulate import with_efforts
from colonnade.tracking.tracker import Track, following, trackers_of

# With -P: else whatever lies in the current folder would take the place of a library.
COMMAND = (sys.executable, "-P", "-m", "colonnade")
LISTEN_S = 0.2
"""How often we look whether somebody wants us to stop."""
GRACE_S = 3.0
"""How long the others may take to end by themselves when one party has failed. Where one has
stopped they save what they have, and may take as long as for a goodbye (`timeouts.finish`)."""


def launch(
    job: Job | str | Path,
    *,
    out: str | Path | None = None,
    files: Mapping[str, PartyFile] | None = None,
    keys: str | Path | None = None,
    emulate: str | None = None,
    threads: int = 1,
    observers: Sequence[Subscriber] = (),
    should_stop: Callable[[], bool] | None = None,
    start: str | Path | None = None,
    record: int | None = None,
    secret_seeds: bool = False,
    track: Track = None,
) -> Run:
    """Train a job with every party in a process of its own, connected over mTLS on loopback.

    Every party runs `colonnade join`, and before it `colonnade align` where the job wants its rows
    aligned (`alignment = "private"`) and they are not. By default secret seeds are derived from the
    job's, as in a simulation, so a method in which all go in step learns the same, to the bit;
    times are those of the wall clock.

    Args:
        job: the job, as a record or from `colonnade.load`; or a job file, or a built-in name.
        out: the run folder, with every party's own below `parties`. A run there that was
            interrupted goes on; one that is complete is read.
        files: the files of those parties that have one.
        keys: a folder of certificates made by `colonnade keys`; by default they are made for this
            run only.
        emulate: a slower line than this computer's, as in `"latency=50ms,rate=300mbit"`.
        threads: of torch, for each party.
        observers: functions that are told every event of every party, as in `simulate`.
        should_stop: asked now and then; when true, all parties save what they have and end.
        start: the folder of an earlier run, launched or simulated, whose model all parties begin
            with, as in `simulate`.
        record: of so many first rounds, every party keeps the tensors that it sends and receives in
            its own folder, for `colonnade.audit`; needs `out`.
        secret_seeds: parties that have no seed draw one from the operating system, which nobody
            else knows; then the run is not that of `simulate`.
        track: tools that follow the run, as in `simulate`; they see a party's rounds about once a
            second. With `out`, TensorBoard needs no folder, and a run that goes on goes on in
            MLflow too.

    Example:
        >>> from colonnade.job import load
        >>> launch(load("digits"), keys="nowhere")
        Traceback (most recent call last):
        colonnade.errors.RequestError: there is no certificate of clinic in nowhere: make one \
with colonnade keys issue nowhere --party clinic
    """
    job = as_job(job)
    trackers = trackers_of(track, None if out is None else Path(out), goes_on=True)
    check_count("threads", threads)
    if record is not None:
        check_count("record", record)
        if out is None:
            raise RequestError("record keeps what crosses in the run folder: give out too")
    _check_parties(job, files or {})
    if emulate is not None:
        Emulation.parse(emulate)
    with TemporaryDirectory(prefix="colonnade-") as name:
        private = Path(name)
        folder = private / "run" if out is None else Path(out)
        claim(folder, job)
        _check_start(folder, job, start)
        _check_seeds(folder, job, files or {}, secret_seeds)
        is_over = finished(folder, job)
        with following([] if is_over else trackers, job) as (followers, over):
            if not is_over:
                alliance = new_keys(job, private) if keys is None else check_keys(job, Path(keys))
                told = [*observers, *followers]
                launched = _Launch(
                    job, folder, private, alliance, emulate, told, should_stop, secret_seeds
                )
                more = [] if start is None else ["--from", str(start)]
                more += [] if record is None else ["--record", str(record)]
                launched.run(files or {}, threads, more)
            run = _read_back(folder, job)
            over(run.summary())
        if out is not None:
            run.save_figures(folder)
        _check_ledgers(folder, job)
    return run


def _check_parties(job: Job, files: Mapping[str, PartyFile]) -> None:
    """Refuse what a party could not be started with."""
    for name in job.parties:
        own = own_job(job, name, files[name]) if name in files else job
        check_names(own, [name], thorough=False)


def _read_back(folder: Path, job: Job) -> Run:
    try:
        return combine(folder, job)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise FailedError(f"the run in {folder} is damaged and cannot be read: {error}") from None


def claim(folder: Path, job: Job) -> None:
    """Make a run folder, unless a run of another job is in it."""
    text = dumps(job)
    check_folder(folder, "launch", text)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "job.toml", text)


def _check_start(folder: Path, job: Job, start: str | Path | None) -> None:
    """Refuse an earlier run that lacks a party, and a folder with a run that began otherwise."""
    versions = {name: read_saved(start, name).version for name in job.parties if start is not None}
    for name in job.parties:
        own = own_folder(folder, name)
        if (own / FILE).is_file() and read_card(own).parent != versions.get(name, ""):
            raise RequestError(
                f"the run in {folder} began with another model, or with none: choose another --out"
            )


def _check_seeds(
    folder: Path, job: Job, files: Mapping[str, PartyFile], secret_seeds: bool
) -> None:
    """Refuse to go on with other seeds than those with which a run began."""
    for name, party in job.parties.items():
        given = party.seed is not None or (name in files and files[name].seed is not None)
        drew = drew_seed(own_folder(folder, name))
        if drew is not None and drew != secret_seeds and not given:
            cure = "give --secret-seeds" if drew else "leave --secret-seeds out"
            how = "drawn" if drew else "derived from the job's"
            raise RequestError(
                f"the run in {folder} began with seeds that were {how}: {cure}, or choose another "
                "--out"
            )


def finished(folder: Path, job: Job) -> bool:
    """Whether the run in a folder is over for all parties."""
    return _are_over({name: own_folder(folder, name) for name in job.parties}, job)


def _are_over(folders: Mapping[str, Path], job: Job) -> bool:
    return all(map(is_done, folders.values())) and is_complete(folders[job.active])


def own_folder(folder: Path, name: str) -> Path:
    """A party's own folder within that of a run.

    >>> own_folder(Path("runs/first"), "lab").as_posix()
    'runs/first/parties/lab'
    """
    return folder / "parties" / name


@dataclass(frozen=True)
class _Launch:
    """What all parties are started with, and where."""

    job: Job
    folder: Path
    private: Path
    keys: Path
    emulate: str | None
    observers: Sequence[Subscriber]
    should_stop: Callable[[], bool] | None
    secret_seeds: bool = False

    def run(self, files: Mapping[str, PartyFile], threads: int, more: Sequence[str] = ()) -> None:
        """Align, where the job wants it, and train, with `more` options of `colonnade join`."""
        job = self.job
        own = all_files(job, files)
        wants = job.alignment == "private" and job.data is None
        if wants and not all(file.aligned for file in own.values()):
            own = self._align(own)
        folders = {name: own_folder(self.folder, name) for name in job.parties}
        options = ["--threads", str(threads), *more]
        self._start("join", own, folders, options, threads)

    def _align(self, files: Mapping[str, PartyFile]) -> dict[str, PartyFile]:
        """The files of the parties with what their alignment has left."""
        folders = {name: self.folder / "aligned" / name for name in self.job.parties}
        if not _are_over(folders, self.job):
            self._start("align", files, folders, [])
        if not all(map(has_alignment, folders.values())):
            raise RequestError(
                "no id is common to all parties: see that the id columns hold the same kind of "
                "ids, written the same way (the job's [ids] table says what counts)"
            )
        return {
            name: msgspec.structs.replace(file, aligned=str(folders[name]))
            for name, file in files.items()
        }

    def _start(
        self,
        command: str,
        files: Mapping[str, PartyFile],
        folders: Mapping[str, Path],
        options: list[str],
        threads: int = 1,
    ) -> None:
        where = self.private / command
        given = provide(self.job, files, where, self.keys, self.secret_seeds)
        options += ["--launched"]
        options += [] if self.emulate is None else ["--emulate", self.emulate]
        commands = {
            name: [*COMMAND, command, *words, *options, "--out", str(folders[name])]
            for name, words in given.items()
        }
        _Launched(self.job, folders, self.observers, self.should_stop).run(commands, threads)


@dataclass
class _Launched:
    """The parties' processes from their start to their end."""

    job: Job
    folders: Mapping[str, Path]
    observers: Sequence[Subscriber]
    should_stop: Callable[[], bool] | None
    last_words: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    """In the order in which they ended."""
    asked: set[str] = field(default_factory=set)
    """Who was asked to stop."""

    def run(self, commands: Mapping[str, list[str]], threads: int) -> None:
        """Start everybody, and return when all have done their part."""
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        with Children() as children:
            for name, command in commands.items():
                children.start(name, command, environment)
            while before := children.running:
                for said in children.listen(LISTEN_S):
                    self._hear(said)
                ended = [name for name in before if name not in children.running]
                self.failed += [name for name in ended if not is_complete(self.folders[name])]
                if self.should_stop is not None and self.should_stop():
                    self._stop(children)
                if any(self._is_over(name, children) for name in self.failed):
                    break
            if self.failed and not _are_over(self.folders, self.job):
                self._judge(children)

    def _hear(self, said: Said) -> None:
        if said.is_error:
            self.last_words[said.name] = said.text
        event = read_event(said)
        for observer in self.observers:
            observer(event)

    def _stop(self, children: Children) -> None:
        """The active party brings everybody to a barrier, and who is left then has not begun."""
        active, running = self.job.active, children.running
        for name in {active} & set(running) or running:
            if name not in self.asked:
                self.asked.add(name)
                children.interrupt(name)

    def _is_over(self, name: str, children: Children) -> bool:
        """Whether the others have had their time to end, since this party has."""
        stopped = children.code(name) == StoppedError.exit_code
        grace_s = self.job.timeouts.ns("finish") / 1e9 if stopped else GRACE_S
        return children.ended_for_s(name) > grace_s

    def _judge(self, children: Children) -> None:
        """Say what went wrong, where it began."""
        if self.asked:
            raise StoppedError("interrupted")
        codes = {name: children.code(name) for name in self.failed}
        sentences = {name: self._sentence(name, code) for name, code in codes.items()}
        name = min(self.failed, key=lambda name: self._blames(sentences[name]))
        kind = {2: RequestError, 130: StoppedError}.get(codes[name], FailedError)
        raise kind(f"{name}: {sentences[name]}")

    def _sentence(self, name: str, code: int) -> str:
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return self.last_words.get(name, "it ended without a word").removeprefix("colonnade: ")

    def _blames(self, sentence: str) -> bool:
        """Whether a party only tells what became of another."""
        return any(sentence.startswith(f"{name} ") for name in self.job.parties)


_EVENTS = msgspec.json.Decoder(Union[EVENTS])  # noqa: UP007 - it is made of a list


def read_event(said: Said) -> Event:
    """What a party's process has said: an event where it is one, else whatever it printed.

    >>> line = '{"type":"Connected","party":"lab","time_ns":7,"peer":"bank"}'
    >>> read_event(Said("lab", line, False))
    Connected(party='lab', time_ns=7, peer='bank', more='')
    >>> read_event(Said("insurer", line, False)).party
    'insurer'
    """
    if not said.is_error:
        # A model of a party's own may print what it likes.
        with suppress(msgspec.MsgspecError):
            event: Event = _EVENTS.decode(said.text)
            if event.party == said.name:
                return event
    return Notice(said.name, 0, said.text)


def combine(folder: Path, job: Job) -> Run:
    """The run that the parties' folders hold together."""
    read = {name: read_party(own_folder(folder, name)) for name in job.parties}
    parties = {name: party for name, (party, _) in read.items()}
    clocks = align({name: party.spans for name, party in parties.items()}, job.active)
    for name, clock in clocks.items():
        own = parties[name]
        spans = on_my_clock(own.spans, clock)
        exchanges = exchanges_on_my_clock(own.exchanges, clock)
        parties[name] = replace(own, spans=spans, exchanges=exchanges)
    active, facts = own_folder(folder, job.active), read[job.active][1]
    content = (active / "summary.json").read_bytes()
    check_json("run", content, active / "summary.json")
    summary = json.loads(content)
    efforts = {name: party.efforts for name, (party, _) in read.items()}
    return Run(
        job=job,
        composition=methods.build(job.method).composition(),
        metric=METRICS[summary["metric"]["name"]],
        status=facts["status"],
        rounds=facts["rounds"],
        per_epoch=facts["per_epoch"],
        time_s=max(summary["time_s"], *(own["time_s"] for _, own in read.values())),
        history=read_rows(active / "history.parquet", "history"),
        test=summary["test"],
        chosen_on=summary["metric"]["chosen_on"],
        losses=with_efforts(read_rows(active / "rounds.parquet", "rounds", ROUND_FIELDS), efforts),
        calibrations=summary.get("calibrations", []),
        sizes=None,
        parties=parties,
        clocks=clocks,
    )


def _check_ledgers(folder: Path, job: Job) -> None:
    """What one end of a link has sent the other must have received."""
    for name in job.parties:
        path = own_folder(folder, name) / "reconciliation.json"
        # It is missing where the process was killed after its last word.
        found: dict[str, list[str]] = json.loads(path.read_text()) if path.exists() else {}
        sentences = [sentence for peer in found.values() for sentence in peer]
        if sentences:
            raise FailedError(f"the ledgers of both ends differ: {sentences[0]}")
