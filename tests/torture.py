"""Crash torture: parties are killed at random moments and started again, the active one too.

    python -m tests.torture                                     what `make torture` does
    python -m tests.torture --kills 30 --method fedsgd --seed 1
    python -m tests.torture --kills 30 --method fedsgd --wild --forked
    python -m tests.torture --smoke                             one kill and a short scene

With a method that does not go by the clock, weights, metrics and ledgers must be those of a run
that nobody disturbed; with one that does, the target must be reached. `--wild` also stops
processes, resets connections and cuts lines meanwhile.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.alliance import (
    ACTIVE,
    PARTIES,
    PASSIVES,
    Alliance,
    Forked,
    Fresh,
    differences,
    has_traceback,
    until,
)
from tests.tcp_relay import Relay

METHODS: dict[str, tuple[str, ...]] = {
    "fedsgd": (),
    "fedbcd": ("method.updates=3",),
    "averaged": ("method.name=fedbcd", "method.updates=2", "method.average=ema:0.99"),
    "masked": ("method.name=fedsgd", "method.protect.sum=pairwise:32", "top.kind=agg"),
    "encrypted": (
        "method.name=fedsgd",
        "method.protect.cipher=paillier:2048",
        "top.kind=agg",
        "top.hidden=[]",
        "train.loss=taylor",
        "parties.clinic.view=none",
        "parties.*.model.embedding=10",
        # Decrypting a batch takes some 60 ms.
        "train.rounds=120",
    ),
    "cvfl": ("method.q=2", "method.compressor=scalar:4", "train.labels=shared"),
    "pasta": ("train.target=0.8", "train.stop=target"),
    "celu": ("train.target=0.8", "train.stop=target"),
    "auto": ("method.share=1.0", "train.target=0.7", "train.stop=target"),
    "fullpipe": ("method.share=1.0", "train.target=0.7", "train.stop=target"),
    "vafl": ("train.target=0.6", "train.stop=target"),
    "flexvfl": ("train.target=0.7", "train.stop=target", "train.labels=shared"),
}
IN_STEP = ("fedsgd", "fedbcd", "averaged", "masked", "encrypted", "cvfl")
PLAN = (
    *(("fedsgd", 30), ("fedbcd", 10), ("averaged", 5), ("masked", 5), ("encrypted", 5)),
    *(("cvfl", 5), ("pasta", 10), ("celu", 10), ("fullpipe", 10), ("auto", 5)),
)
"""What is done when nothing is asked for; the scenes come after it."""
ROUNDS = 600
MOMENTS = {"any": 4, "greeting": 2, "training": 4, "checkpoint": 4, "goodbye": 1}
"""When a party is killed, and how often so."""
PATIENCE_S = 10
"""How long a moment is waited for; then the party is killed all the same."""
PAUSE_S = 2.0
"""The longest that a party stays dead."""


@dataclass
class Killer:
    """Kills and starts again, as a seed says."""

    alliance: Alliance
    chance: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    """How many there were, by moment and by party."""
    due: dict[str, float] = field(default_factory=dict)
    """Who is to be started again, and when."""

    def rage(self, kills: int, limit_s: float) -> None:
        """Kill up to so many times while the job runs, and see it to its end."""
        end, before = time.monotonic() + limit_s, self.count()
        while not self.over():
            assert time.monotonic() < end, f"not over in {limit_s} s:\n{self.alliance.said()}"
            if self.count() - before < kills:
                self.strike(self.chance.choice(PARTIES))
            self.revive()
            time.sleep(0.01)

    def count(self) -> int:
        """How many kills there were."""
        return sum(self.kills[name] for name in PARTIES)

    def over(self) -> bool:
        """Whether everybody has ended well; only who was killed is started again."""
        codes = {name: process.poll() for name, process in self.alliance.processes.items()}
        bad = {name: code for name, code in codes.items() if code not in (None, 0, -9)}
        assert not bad, f"{bad}\n{self.alliance.said()}"
        return all(code == 0 for code in codes.values())

    def strike(self, name: str) -> None:
        """Kill a party at some moment, if it is there to be killed."""
        moment = self.chance.choices(list(MOMENTS), list(MOMENTS.values()))[0]
        self.await_(moment, name)
        time.sleep(self.chance.choice((0, 0, 0.002, 0.02)))
        if self.alliance.ended(name):
            return
        self.alliance.kill(name)
        if self.alliance.processes[name].poll() == -9:
            self.kills[moment] += 1
            self.kills[name] += 1
            print(f"  {self.count()}: {name} killed ({moment})", file=sys.stderr, flush=True)

    def await_(self, moment: str, name: str) -> None:
        """Wait for a moment in a party's life, and start others again meanwhile."""
        folder = self.alliance.run_folder(name)
        chain = folder / "ledger.chain"
        before = self.alliance.log(name).count("connected with")
        wanted = _size(chain) + self.chance.randrange(2_000, 40_000)
        signs: dict[str, Callable[[], bool]] = {
            "any": lambda: False,
            "greeting": lambda: self.alliance.log(name).count("connected with") > before,
            "training": lambda: _size(chain) > wanted,
            "checkpoint": lambda: any((folder / "checkpoints").glob(".*.part")),
            "goodbye": lambda: (folder / "party.json").exists(),
        }

        def come() -> bool:
            self.revive()
            return self.alliance.processes[name].poll() == 0 or signs[moment]()

        until(come, self.chance.random() * 3 if moment == "any" else PATIENCE_S, step_s=0.0005)

    def revive(self) -> None:
        """Start again whoever has been dead for long enough."""
        now = time.monotonic()
        for name, process in self.alliance.processes.items():
            if process.poll() == -9 and self.due.setdefault(name, now + self._pause_s()) <= now:
                del self.due[name]
                self.alliance.start(name)

    def _pause_s(self) -> float:
        return self.chance.choice((0.0, self.chance.random() * PAUSE_S))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def mischief(alliance: Alliance, chance: random.Random) -> Iterator[None]:
    """Inside, processes are stopped for a while, connections reset and lines cut."""
    over = threading.Event()

    def play(relays: dict[str, Relay]) -> None:
        while not over.wait(chance.random() * 2):
            pause_s = chance.choice((0.1, 1.0, 4.0))
            name, relay = chance.choice(PARTIES), relays[chance.choice(PASSIVES)]
            prank = chance.randrange(3)
            if prank == 0:
                relay.reset()
            elif prank == 1:
                relay.cut()
                over.wait(pause_s)
                relay.heal()
            else:
                alliance.signal(name, signal.SIGSTOP)
                over.wait(pause_s)
                alliance.signal(name, signal.SIGCONT)

    with Relay(alliance.port) as one, Relay(alliance.port) as other:
        relays = dict(zip(PASSIVES, (one, other), strict=True))
        alliance.connect = {name: relay.port for name, relay in relays.items()}
        player = threading.Thread(target=play, args=(relays,))
        player.start()
        try:
            yield
        finally:
            over.set()
            player.join()


@dataclass
class Torture:
    """A job of one method, undisturbed once, and then as often as there are kills left."""

    folder: Path
    method: str = "fedsgd"
    start: type[Forked | Fresh] = Fresh
    rounds: int = ROUNDS
    wild: bool = False
    limit_s: float = 600
    hurry: float = 1.0
    """How much shorter the scenes are than they are called."""
    calm: dict[str, Any] = field(default_factory=dict)

    def alliance(self, name: str, *more: str) -> Alliance:
        """The job in a folder of its own."""
        sets = [f"method.name={self.method}", f"train.rounds={self.rounds}", *METHODS[self.method]]
        sets += ["timeouts.silence=2s"] if self.wild else []
        return Alliance(self.folder / name, *sets, *more, start=self.start)

    def undisturbed(self) -> None:
        """Find out what comes of the job when nothing happens."""
        with self.alliance("undisturbed") as alliance:
            alliance.start()
            alliance.complete(self.limit_s)
            self.calm = alliance.result()

    def check(self, alliance: Alliance) -> None:
        """Was it as if nothing had happened?"""
        assert not has_traceback(alliance.said()), alliance.said()
        if self.method in IN_STEP:
            found = differences(self.calm, alliance.result())
            assert not found, "\n".join(found)
        else:
            summary = (alliance.run_folder(ACTIVE) / "summary.json").read_text()
            assert '"target"' in summary, summary

    def kill(self, kills: int, seed: int) -> str:
        """Kill so many times; what there was."""
        chance, began = random.Random(seed), time.monotonic()
        self.undisturbed()
        took_s, jobs, starts, counts = time.monotonic() - began, 0, 0, Counter[str]()
        while (left := kills - sum(counts[name] for name in PARTIES)) > 0:
            jobs += 1
            with self.alliance(f"run-{jobs}") as alliance:
                killer = Killer(alliance, chance, counts)
                more = mischief(alliance, random.Random(seed)) if self.wild else nullcontext()
                with more:
                    alliance.start()
                    killer.rage(left, self.limit_s)
                self.check(alliance)
                starts += alliance.starts - len(PARTIES)
        moments = ", ".join(f"{name} {counts[name]}" for name in (*MOMENTS, *PARTIES))
        return (
            f"{self.method}: {kills} kills ({moments}), {starts} restarts in {jobs} jobs of "
            f"{self.rounds} rounds, {time.monotonic() - began:.0f} s; undisturbed {took_s:.0f} s"
        )

    def scenes(self, names: Sequence[str]) -> Iterator[str]:
        """What else may happen to a job, one after another."""
        if not self.calm:
            self.undisturbed()
        for name in names:
            began = time.monotonic()
            with self.alliance(name) as alliance, Relay(alliance.port) as relay:
                alliance.connect = dict.fromkeys(PASSIVES, relay.port)
                alliance.start()
                alliance.wait_for_round(100)
                SCENES[name](alliance, relay, 1 / self.hurry)
                alliance.complete(self.limit_s)
                self.check(alliance)
            yield f"{name}: {time.monotonic() - began:.0f} s"


def _stopped(alliance: Alliance, name: str, pause_s: float) -> None:
    alliance.signal(name, signal.SIGSTOP)
    time.sleep(pause_s)
    alliance.signal(name, signal.SIGCONT)


def _resets(alliance: Alliance, relay: Relay, share: float) -> None:
    for _ in range(10):
        relay.reset()
        time.sleep(0.5 * share)


def _partition(alliance: Alliance, relay: Relay, share: float) -> None:
    relay.cut()
    time.sleep(10 * share)
    relay.heal()


SCENES: dict[str, Callable[[Alliance, Relay, float], None]] = {
    "a passive party stopped for 20 s": lambda them, _, share: _stopped(them, "lab", 20 * share),
    "the active party stopped for 20 s": lambda them, _, share: _stopped(them, ACTIVE, 20 * share),
    "all connections reset 10 times": _resets,
    "a partition of 10 s": _partition,
}
SHORT = ("all connections reset 10 times",)
"""The scenes of the smoke form."""


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line, torture, and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--method", choices=METHODS, help="by default several, and other scenes")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--wild", action="store_true", help="stop, reset and cut meanwhile")
    parser.add_argument("--forked", action="store_true", help="start from a loaded process")
    parser.add_argument("--smoke", action="store_true", help="one kill and a short scene")
    chosen = parser.parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Else its processes would stay.
    start = Forked if chosen.forked or chosen.smoke else Fresh
    plan = ((chosen.method, chosen.kills),) if chosen.method else PLAN
    rounds, hurry = (150, 20.0) if chosen.smoke else (chosen.rounds, 1.0)
    calm: dict[str, dict[str, Any]] = {}
    for method, kills in (("fedsgd", 1),) if chosen.smoke else plan:
        folder = Path(tempfile.mkdtemp(prefix="torture-"))
        print(f"{method}: {kills} kills, seed {chosen.seed}, in {folder}", flush=True)
        torture = Torture(folder, method, start, rounds, chosen.wild)
        print(torture.kill(kills, chosen.seed), flush=True)
        calm[method] = torture.calm
        # A folder stays where something went wrong.
        shutil.rmtree(folder)
    if not chosen.method:
        folder = Path(tempfile.mkdtemp(prefix="torture-"))
        scenes = SHORT if chosen.smoke else tuple(SCENES)
        torture = Torture(folder, "fedsgd", start, rounds, hurry=hurry, calm=calm["fedsgd"])
        for said in torture.scenes(scenes):
            print(said, flush=True)
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
