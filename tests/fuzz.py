"""Mutated frames and handshakes against a live job: `python -m tests.fuzz --count 100000 --seed 1`.

A job of three parties trains over mTLS in this process: p1 is active, p0 is passive, and p2 is the
party whose certificate the fuzzer has. Another process (`tests/attack.py`) sends what was valid
once: while p2 is awaited, while it trains, and while it has crashed in mid-job. Whatever comes, no
party but p2's fuzzed double may end, memory stays flat, and in the end the right p2 comes and the
job's weights are those of an undisturbed run, bit for bit. Then passive parties dial an active one
that speaks nonsense: each must end with an error that says so, and no other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from colonnade import simulate
from colonnade.errors import ColonnadeError
from colonnade.net import client
from colonnade.net.client import Client, ClientStream
from colonnade.net.link import Emulation
from colonnade.net.server import ServerStream
from colonnade.party.world import Over
from colonnade.tls.keyring import Keyring
from tests import loop
from tests.certificates import store
from tests.scene import PATIENCE_S, Scene, Taker, scene
from tests.small import small

MB = 1 << 20
BATCH = 250
GROWTH_MB = 32
SHARES = {"absent": 0.35, "training": 0.2, "crashed": 0.35, "client": 0.1}
"""How much of all is sent when: while p2 is awaited, while it trains, after it has crashed, and to
passive parties."""
SOCKETS = 0.02
"""The share of raw connections among what strangers send."""


def resident_mb() -> float:
    """What this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / MB


@dataclass
class Found:
    """What a fuzz came to."""

    read: Counter[str] = field(default_factory=Counter)
    """Messages that really reached our code: at the server, and at passive parties."""
    sent: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    """How often all began again, and whatever higher number the fuzzer claimed."""
    told: int = 0
    """How many tens of thousands were told of."""
    victims: Counter[str] = field(default_factory=Counter)
    """How the passive parties ended that dialled nonsense."""
    resident: dict[str, list[float]] = field(default_factory=dict)
    """Megabytes again and again, by act."""
    seconds: float = 0.0
    rounds: int = 0
    """Rounds that were trained while the fuzzer was at work."""

    def tell(self) -> None:
        """Show how far it is, now and then."""
        tens, self.told = self.told, self.read.total() // 10_000
        if self.told > tens:
            print(f"{self.told * 10_000} read, {resident_mb():.0f} MB resident", file=sys.stderr)

    @property
    def growth_mb(self) -> float:
        """From the first half of an act to its second, in the act that grew most."""
        halves = [(act[: len(act) // 2], act[len(act) // 2 :]) for act in self.resident.values()]
        return max(max(late) - max(early) for early, late in halves if early)


class Attack:
    """The other process."""

    def __init__(self, process: asyncio.subprocess.Process, found: Found) -> None:
        self._process, self._found = process, found

    @classmethod
    async def start(cls, folder: Path, seed: int, found: Found) -> Attack:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.attack", str(folder), str(seed)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return cls(process, found)

    async def do(self, how: str, address: str, count: int) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        command = {"how": how, "address": address, "count": count}
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        answer = json.loads(await self._process.stdout.readline() or b"{}")
        assert answer, "the fuzzer has ended"
        self._found.sent[how] += answer["sent"]
        self._found.tell()
        return answer["result"]

    async def end(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def fuzz(count: int, seed: int) -> Found:
    """Send so many, and see that nothing comes of it."""
    found = Found()
    began = time.monotonic()
    noise: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: noise.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    reading = ServerStream.read, ClientStream.read
    ServerStream.read = _counted(reading[0], found, "server")  # type: ignore[method-assign]
    ClientStream.read = _counted(reading[1], found, "client")  # type: ignore[method-assign]
    try:
        loop.run(_whole(count, seed, found))
    finally:
        ServerStream.read, ClientStream.read = reading  # type: ignore[method-assign]
        logging.getLogger().removeHandler(handler)
    assert noise == [], noise[:3]
    found.seconds = time.monotonic() - began
    return found


def _counted(read: Any, found: Found, where: str) -> Any:
    async def counting(stream: Any) -> bytes | None:
        data: bytes | None = await read(stream)
        found.read[where] += data is not None
        return data

    return counting


async def _whole(count: int, seed: int, found: Found) -> None:
    warm = small(3, rounds=20, evaluate_every="10 rounds")
    simulate(warm.job, warm.data, warm.modules)  # What is imported late is here now.
    case = small(
        3, rounds=max(400, count // 10), checkpoint_every=10, evaluate_every="50 rounds", seed=seed
    )
    with tempfile.TemporaryDirectory() as name:
        async with scene(case, ("x",), Emulation(latency_ns=3 * 10**6)) as s:
            folder = Path(name)
            (folder / "hello.json").write_bytes(msgspec.json.encode(s.training("p2").hello))
            for party, own in s.known.items():
                store(folder / party, own.certificate, own.key, own.authority)
            attack = await Attack.start(folder, seed, found)
            try:
                await _door(s, attack, count, found)
                await _clients(s, attack, int(count * SHARES["client"]), found)
            finally:
                await attack.end()


async def _door(s: Scene, attack: Attack, count: int, found: Found) -> None:
    """The active party's server, in three acts."""
    fixed = [await _start(s, "p1"), await _start(s, "p0")]
    active = fixed[0]
    send = partial(_send, found, attack, s)
    await send("absent", ("party",), count * SHARES["absent"], fixed)
    right = await _start(s, "p2")
    await s.until(lambda: right.world.agreed)
    program = active.training.loop
    left = await send(
        "training",
        ("stranger", "stranger", "stranger", "party"),
        count * SHARES["training"],
        [*fixed, right],
        until=lambda: program.view.round > s.job.train.rounds // 2,
        most=BATCH // 5,
    )
    found.rounds = program.view.round
    await right.crash()
    rest = count * SHARES["crashed"] + left
    await send("crashed", ("party", "party", "party", "stranger"), rest, fixed)
    again = await _start(s, "p2")
    patience_s = PATIENCE_S + s.job.train.rounds / 20
    s.unharmed({party.name: await party.end(patience_s) for party in (*fixed, again)})
    found.refusals = active.world.detector.refusals
    found.generation = active.world.roster.generation


async def _start(s: Scene, name: str) -> Taker:
    training = s.training(name)
    training.restarts = 10**9
    taker = await s.start(name, training)
    taker.report.events = deque(maxlen=50)  # type: ignore[assignment]
    return taker


async def _send(
    found: Found,
    attack: Attack,
    s: Scene,
    act: str,
    ways: tuple[str, ...],
    count: float,
    alive: list[Taker],
    until: Any = lambda: False,
    most: int = BATCH,
) -> float:
    """Send in batches as long as something is left to send; what was not sent."""
    sizes = found.resident.setdefault(act, [])
    batch = 0
    while count > 0 and not until():
        size = int(min(most, count) + 1)
        how = ways[batch % len(ways)]
        await attack.do(how, s.address, size)
        await attack.do("socket", s.address, int(size * SOCKETS) + 1)
        for taker in alive:
            assert not taker.task.done(), (taker.name, taker.task)
        sizes.append(resident_mb())
        count -= size
        batch += 1
    return count


async def _clients(s: Scene, attack: Attack, count: int, found: Found) -> None:
    """Passive parties that dial an active one which speaks nonsense."""
    goal = found.read["client"] + count
    address = f"127.0.0.1:{await attack.do('server', '', count)}"
    pause_s, client.BACKOFF_S = client.BACKOFF_S, 0.001
    idle = 0
    try:
        while found.read["client"] < goal and idle < 50 and await attack.do("unsaid", "", 0):
            before = found.read["client"]
            training = s.training("p0")
            training.store = None
            victim = Taker(s, "p0", training, None, s.job)
            victim.go(Client(victim.world, Keyring(s.known["p0"]), address))
            await asyncio.wait([victim.task], timeout=1)
            if victim.task.done():
                error = victim.task.exception()
                # An active party may say that the job is complete, and is believed.
                assert isinstance(error, ColonnadeError | Over), error
                found.victims[type(error).__name__] += 1
            else:
                await victim.crash()
                found.victims["went on"] += 1
            found.resident.setdefault("client", []).append(resident_mb())
            idle = idle + 1 if found.read["client"] == before else 0
    finally:
        client.BACKOFF_S = pause_s


def main(words: Sequence[str] | None = None) -> Found:
    """Read the command line, fuzz, and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    found = fuzz(options.count, options.seed)
    total = sum(found.read.values())
    print(f"sent {dict(+found.sent)}; read by ours {dict(found.read)}, {total} in all")
    print(f"in {found.seconds:.0f} s, {total / found.seconds:.0f} a second")
    print(f"refused {found.refusals}; in the end in generation {found.generation}")
    print(f"passive parties at a bad active one ended with {dict(found.victims)}")
    for act, sizes in found.resident.items():
        print(f"resident, {act}: {sizes[0]:.0f} MB at first, {max(sizes):.0f} MB at most")
    print(f"{found.rounds} rounds were trained meanwhile; the job ended well")
    assert found.growth_mb < GROWTH_MB, f"{found.growth_mb:.0f} MB more in the half of an act"
    return found


if __name__ == "__main__":
    main()
