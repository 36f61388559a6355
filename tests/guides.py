"""A guide of the documentation, followed word for word: its files are written, its commands typed,
and what it says that one will see is compared with what one sees."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from colonnade.data.named import load
from colonnade.errors import DataError
from colonnade.run.processes import free_port
from tests.warm import python

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
BLOCK = re.compile(
    r"^## (?P<heading>[^\n]+)$|^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
STAYS = re.compile(r"colonnade (align|join|predict|serve) ")
"""Commands in which several parties take part, so that each goes on while others are typed."""
PATIENCE_S = 250
STOPPED = 130
WIDTH = "120"
"""Of a terminal, in characters: what guides show was shown in one as wide."""


@dataclass(frozen=True)
class Block:
    """A piece of a guide between two fences, and the section it is in."""

    section: str
    language: str
    text: str

    @property
    def title(self) -> str:
        """What the comment in its first line says: a file, or whose terminal it is."""
        first = self.text.partition("\n")[0]
        return first.removeprefix("# ") if first.startswith("# ") else ""

    @property
    def stays(self) -> bool:
        return STAYS.search(self.text) is not None and "--dry-run" not in self.text

    @property
    def beside(self) -> bool:
        """Whether it is typed while the others run."""
        return "second terminal" in self.title


def blocks(guide: Path) -> list[Block]:
    found, section = [], ""
    for match in BLOCK.finditer(guide.read_text()):
        section = match["heading"] or section
        if match["language"]:
            found.append(Block(section, match["language"], match["text"]))
    return found


@dataclass
class Reader:
    """Somebody who follows a guide, on one machine, with several terminals."""

    guide: Path
    folder: Path
    places_for: Mapping[str, str]
    """By pattern, what is used here in the place of what the guide says."""
    plain: Callable[[str], str]
    """A line without the figures that are others each time."""
    places: dict[str, Path] = field(default_factory=dict)
    """The folder in which each terminal is."""
    said: dict[str, list[Path]] = field(default_factory=dict)
    """What each terminal showed, block by block."""
    parties: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """The parties that run, by terminal."""
    stopped: set[str] = field(default_factory=set)
    """The terminals whose training was stopped before its end."""

    def read(self, sections: str) -> None:
        for block in blocks(self.guide):
            wanted = block.section[0] in sections
            if block.language == "sh":
                self.type_in(block, wanted)
            elif wanted and block.language == "text":
                self.compare(block)
            elif block.language in ("toml", "python"):
                (self.place("") / block.title).write_text(block.text)
        self.wait()

    def place(self, terminal: str) -> Path:
        return self.places.get(terminal, self.places.get("", self.folder))

    def here(self, text: str) -> str:
        for pattern, address in self.places_for.items():
            text = re.sub(pattern, address, text)
        return text

    def type_in(self, block: Block, wanted: bool) -> None:
        """Type the commands; a party's command goes on while others are typed."""
        terminal = block.title
        if wanted and block.stays:
            self.wait([terminal])
        elif wanted and block.beside:
            self.await_checkpoint(block)
        elif wanted:
            self.wait()
        # Installing needs the network, and was done before there was anything to test.
        if wanted and "pip install" not in block.text:
            self.parties[terminal] = self.start(block)
            if not block.stays:
                self.wait([terminal])
        for name in re.findall(r"^cd (.+)$", block.text, re.M):
            self.places[terminal] = self.place(terminal) / name

    def start(self, block: Block) -> subprocess.Popen[bytes]:
        shown = self.folder / f"shown-{sum(map(len, self.said.values()))}.txt"
        self.said.setdefault(block.title, []).append(shown)
        # The command begins with its libraries loaded: some guides start it thirty times.
        path = f"{Path(python()).parent}{os.pathsep}{os.environ['PATH']}"
        with shown.open("w") as out:
            return subprocess.Popen(
                ["sh", "-ec", self.here(block.text)],
                cwd=self.place(block.title),
                # Many processes side by side: threads of torch would only be in each other's way.
                env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": WIDTH},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, terminals: list[str] | None = None) -> None:
        """Wait for what runs there; it must end well, or as it was stopped."""
        for terminal in list(self.parties) if terminals is None else terminals:
            if terminal in self.parties:
                code = self.parties.pop(terminal).wait(PATIENCE_S)
                expected = STOPPED if terminal in self.stopped else 0
                self.stopped.discard(terminal)
                assert code == expected, f"{terminal}: {self.said[terminal][-1].read_text()}"

    def await_checkpoint(self, block: Block) -> None:
        """A guide stops a training after its first checkpoint."""
        whose = block.title.replace("second ", "")
        for run in re.findall(r"colonnade stop (runs/\S+)", block.text):
            log, until = self.place(whose) / run / "log.txt", time.monotonic() + PATIENCE_S
            while "saved the checkpoint" not in (log.read_text() if log.exists() else ""):
                assert time.monotonic() < until and self.parties[whose].poll() is None
                time.sleep(0.05)
            self.stopped.add(whose)

    def compare(self, block: Block) -> None:
        """Each line that the guide shows is shown, in some terminal, by now or in a while."""
        claimed = self.here(block.text).splitlines()
        until = time.monotonic() + PATIENCE_S
        while True:
            runs = any(process.poll() is None for process in self.parties.values())
            shown = {self.plain(line) for line in self.shown().splitlines()}
            missing = [line for line in claimed if line != "…" and self.plain(line) not in shown]
            if not missing:
                return
            # Who fails is not waited for, as the others may.
            self.wait([name for name, party in self.parties.items() if party.poll() in (1, 2)])
            assert runs and time.monotonic() < until, f"not seen: {missing} in {self.shown()}"
            time.sleep(0.1)

    def shown(self) -> str:
        return "\n".join(path.read_text() for paths in self.said.values() for path in paths)


def plainly(varies: re.Pattern[str], figure: re.Pattern[str]) -> Callable[[str], str]:
    """Makes a line comparable: all spaces are alike, and in lines that vary so are figures."""

    def plain(line: str) -> str:
        line = re.sub("─+", "─", " ".join(line.split()))
        return figure.sub("#", line) if varies.search(line) else line

    return plain


def needs(data: str) -> None:
    """Skip a test of a guide whose data set is not on this computer."""
    try:
        load(data)
    except DataError as error:
        pytest.skip(str(error))


@contextmanager
def following(
    name: str,
    folder: Path,
    addresses: tuple[str, ...],
    plain: Callable[[str], str],
    instead: Mapping[str, str] | None = None,
) -> Iterator[Reader]:
    """A reader of a guide, whose addresses are free ports of this host; nothing runs afterwards."""
    here = {pattern: f"127.0.0.1:{free_port()}" for pattern in addresses}
    reader = Reader(GUIDES / name, folder, here | dict(instead or {}), plain)
    try:
        yield reader
    finally:
        for process in reader.parties.values():
            if process.poll() is None:
                # The shell, and what it started.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
