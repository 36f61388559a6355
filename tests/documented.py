"""What the documentation tells its reader to type: commands and code, taken from its own pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
INLINE = re.compile(r"`((?:colonnade|make|python3?|torchrun) [^`\n]*)`")
PROGRAMS = ("colonnade", "make", "python", "python3", "torchrun")
SETTING = re.compile(r"[A-Z_]+=\S+")


@dataclass(frozen=True)
class Block:
    """A piece of a page between two fences."""

    language: str
    text: str

    def commands(self) -> Iterator[Command]:
        """The commands in it; of a transcript also what they say."""
        if self.language not in ("", "sh"):
            return
        lines = self.text.replace("\\\n", " ").splitlines()
        prompted = any(line.startswith("$ ") for line in lines)
        for number, line in enumerate(lines):
            if prompted and not line.startswith("$ "):
                continue
            after = takewhile(lambda other: not other.startswith("$ "), lines[number + 1 :])
            said = next((text for text in after if text.startswith("colonnade: ")), "")
            for part in line.removeprefix("$ ").split(" && "):
                command = Command.of(part, said if prompted else "")
                if command is not None:
                    yield command


@dataclass(frozen=True)
class Command:
    """A command as a page has it."""

    words: tuple[str, ...]
    into: str = ""
    """The file that its output is written to."""
    said: str = ""
    """The sentence with which it is refused, where the page shows one."""

    @classmethod
    def of(cls, line: str, said: str = "") -> Command | None:
        """The command of a line; None where the line is something else.

        >>> Command.of("colonnade jobs credit > my-job.toml   # a job file").into
        'my-job.toml'
        """
        text, _, into = line.partition(" > ")
        try:
            words = shlex.split(text, comments=True)
        except ValueError:
            return None
        while words and SETTING.fullmatch(words[0]):
            words = words[1:]
        if not words or words[0] not in PROGRAMS:
            return None
        return cls(tuple(words), into.partition("#")[0].strip(), said)

    def __str__(self) -> str:
        return shlex.join(self.words)


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(m["language"], m["text"]) for m in BLOCK.finditer(page.read_text())]


def inline(page: Path) -> list[Command]:
    """The commands within a page's sentences; capitals and dots stand for what a reader puts in."""
    text = BLOCK.sub("", page.read_text())
    found = [
        Command.of(match[1].replace("[", "").replace("]", "")) for match in INLINE.finditer(text)
    ]
    return [command for command in found if command is not None]
