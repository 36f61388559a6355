"""`docs/guides/three-hosts.md`, followed word for word.

Files and commands are taken from the guide, and nothing of them is repeated here. What it says that
one will see is compared with what one sees.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from colonnade.cli.dry_run import Line, look_ahead
from colonnade.job import load
from colonnade.job.party_file import load_party, own_job

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "three-hosts.md"
PARTIES = ("bank", "telco", "insurer")
BLOCK = re.compile(
    r"^## (?P<heading>[^\n]+)$|^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
ADDRESS = re.compile(r"(bank\.example)?:7443")
PATIENCE_S = 250
VARIES = re.compile(
    r"^certificate|auc|^in all|%$|^\d{4}-|verified|\b[0-9a-f]{12}\b|Evaluate |Finish|^all "
    r"|after round|the end of round|on the test rows"
)
"""Lines with figures that are others each time: dates, scores, what depends on the best round."""
FIGURE = re.compile(r"(auc|head) .*|\b[0-9a-f]{12}\b|[\d.,:-]*\d( (us|ms|s|min|kB|MB)\b)?")
LATER = ("Evaluate", "Finish")
"""Kinds that carry the number of the best round, which is known only later."""


@dataclass(frozen=True)
class Block:
    """A piece of the guide between two fences, and the section it is in."""

    section: str
    language: str
    text: str

    @property
    def title(self):
        """What the comment in its first line says: a file, or whose terminal it is."""
        first = self.text.partition("\n")[0]
        return first.removeprefix("# ") if first.startswith("# ") else ""

    @property
    def joins(self):
        return "colonnade join" in self.text and "--dry-run" not in self.text


def blocks():
    found, section = [], ""
    for match in BLOCK.finditer(GUIDE.read_text()):
        section = match["heading"] or section
        if match["language"]:
            found.append(Block(section, match["language"], match["text"]))
    return found


@dataclass
class Reader:
    """Somebody who follows the guide, on one machine, with several terminals."""

    folder: Path
    address: str
    places: dict[str, Path] = field(default_factory=dict)
    """The folder in which each terminal is."""
    said: dict[str, list[Path]] = field(default_factory=dict)
    """What each terminal showed, block by block."""
    parties: dict[str, subprocess.Popen] = field(default_factory=dict)
    """The parties that run, by terminal."""
    stopped: set[str] = field(default_factory=set)

    def read(self, sections):
        for block in blocks():
            if block.language == "sh":
                self.type_in(block, wanted=block.section[0] in sections)
            elif block.section[0] in sections and block.language == "text":
                self.compare(block)
            elif block.language in ("toml", "python"):
                (self.place("") / block.title).write_text(block.text)
        self.wait()

    def place(self, terminal):
        return self.places.get(terminal, self.places.get("", self.folder))

    def type_in(self, block, wanted):
        """Type the commands; a party's command goes on while others are typed."""
        terminal = block.title
        if wanted and block.joins:
            self.wait([terminal])
        elif wanted and "colonnade stop" in block.text:
            self.await_checkpoint(block)
        elif wanted:
            self.wait()
        # Installing needs the network, and was done before there was anything to test.
        if wanted and "pip install" not in block.text:
            process = self.start(block)
            self.parties[terminal] = process
            if not block.joins:
                self.wait([terminal])
        for name in re.findall(r"^cd (.+)$", block.text, re.M):
            self.places[terminal] = self.place(terminal) / name

    def start(self, block):
        shown = self.folder / f"shown-{sum(map(len, self.said.values()))}.txt"
        self.said.setdefault(block.title, []).append(shown)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        with shown.open("w") as out:
            return subprocess.Popen(
                ["sh", "-ec", ADDRESS.sub(self.address, block.text)],
                cwd=self.place(block.title),
                env=os.environ | {"PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, terminals=None):
        """Wait for what runs there; it must end well, or as it was stopped."""
        for terminal in list(self.parties) if terminals is None else terminals:
            if terminal in self.parties:
                code = self.parties.pop(terminal).wait(PATIENCE_S)
                expected = 130 if terminal in self.stopped else 0
                self.stopped.discard(terminal)
                assert code == expected, f"{terminal}: {self.said[terminal][-1].read_text()}"

    def await_checkpoint(self, block):
        """The guide stops a party after its first checkpoint."""
        (run,) = re.findall(r"colonnade stop (\S+)", block.text)
        whose = block.title.replace("second ", "")
        log, until = self.place(whose) / run / "log.txt", time.monotonic() + PATIENCE_S
        while "saved the checkpoint" not in (log.read_text() if log.exists() else ""):
            assert time.monotonic() < until and self.parties[whose].poll() is None
            time.sleep(0.05)
        self.stopped.add(whose)

    def compare(self, block):
        """Each line that the guide shows is shown, in some terminal, by now or in a while."""
        claimed = ADDRESS.sub(self.address, block.text).splitlines()
        until = time.monotonic() + PATIENCE_S
        while True:
            runs = any(process.poll() is None for process in self.parties.values())
            shown = {plain(line) for line in self.shown().splitlines()}
            missing = [line for line in claimed if line != "…" and plain(line) not in shown]
            if not missing:
                return
            # Who fails is not waited for, as the others may.
            self.wait([name for name, party in self.parties.items() if party.poll() in (1, 2)])
            assert runs and time.monotonic() < until, f"not seen: {missing} in {self.shown()}"
            time.sleep(0.1)

    def shown(self):
        return "\n".join(path.read_text() for paths in self.said.values() for path in paths)


def plain(line):
    line = re.sub("─+", "─", " ".join(line.split()))
    return FIGURE.sub("#", line) if VARIES.search(line) else line


@pytest.fixture
def reader(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    reader = Reader(tmp_path, f"127.0.0.1:{port}")
    yield reader
    for process in reader.parties.values():
        if process.poll() is None:
            # The shell, and what it started.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def counts(rows):
    return {
        (row["peer"], row["direction"], row["kind"]): (row["messages"], row["bytes"])
        for row in rows
    }


def forecast(folder, party):
    job, file = load(folder / "job.toml"), load_party(folder / f"{party}.toml")
    return look_ahead(own_job(job, party, file), party, file, Line())["traffic"]


def test_three_parties_train_as_the_guide_says(reader):
    reader.read(sections="12345678")
    for party in PARTIES:
        folder = reader.place("") / party
        (run,) = (folder / "runs").iterdir()
        ledger = counts(json.loads((run / "ledger.json").read_text()))
        expected = counts(forecast(folder, party))
        assert ledger.keys() == expected.keys()
        for key, (messages, size) in ledger.items():
            margin = messages if key[2] in LATER else 0
            assert expected[key][0] == messages, key
            assert size <= expected[key][1] <= size + margin, key
        reconciled = json.loads((run / "reconciliation.json").read_text())
        assert reconciled and not any(reconciled.values())
    assert "no difference\nverified: " in reader.shown()


def test_a_party_stops_and_goes_on_as_the_guide_says(reader):
    reader.read(sections="123459")
    assert "goes on from the end of round" in reader.shown()


def test_the_guide_has_all_that_it_promises():
    commands = [block.text for block in blocks() if block.language == "sh"]
    for party in PARTIES:
        assert sum(f"--me {party}" in text and "--dry-run" not in text for text in commands) >= 2
    for word in ("keys init", "keys issue", "--dry-run", "colonnade ledger", "colonnade stop"):
        assert any(word in text for text in commands), word
