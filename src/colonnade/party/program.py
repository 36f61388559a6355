"""A program: a part of a job that all parties go through together.

A job is a sequence of programs over one connection. Training is one of them. What it takes to meet,
to go on after a crash, to count what crosses and to part is the session's, and the same for all.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from colonnade.party.kinds import Kinds
from colonnade.party.world import World
from colonnade.record.checkpoints import Store
from colonnade.record.tree import Tree
from colonnade.wire.messages import Hello, Welcome


class Program(Protocol):
    """One party's part in a program. It lives as long as the session; `begin` is called each time
    that the parties begin, or begin again."""

    leads: bool
    """Whether this is the active party."""
    kinds: Kinds
    """What crosses, beside what starts and ends it."""
    store: Store | None
    """Where its checkpoints are, if it has any."""
    start: int
    """The checkpoint from which it last began; 0 is the beginning."""
    restarts: int
    """The most returns to one and the same checkpoint."""

    @property
    def terms(self) -> Mapping[str, str]:
        """The job as this party understands it, field by field; known without the data."""

    @property
    def hello(self) -> Hello:
        """How the party introduces itself, but for its checkpoints. Whatever data the program needs
        is read by now, and refused if the party's policy forbids to use it so."""

    def refuse(self, peer: str, hello: Hello) -> str | None:
        """At the active party: why a passive one cannot take part; None if it can."""

    def welcome(self, heard: Mapping[str, Hello]) -> Welcome:
        """At the active party: what to tell everybody, once all have introduced themselves."""

    def begin(self, world: World, welcome: Welcome) -> None:
        """Build all that it needs, as it is before its first step."""

    def run(self, world: World) -> Coroutine[Any, Any, Any]:
        """Go through it to the end; what came out."""

    def state(self) -> Tree:
        """All that it needs to go on from here, when nothing is in flight."""

    def restore(self, state: Tree) -> None:
        """Go on from there, right after `begin`."""

    def keep(self, outcome: Any) -> None:
        """Keep what came out, before others are told that this party is done."""
