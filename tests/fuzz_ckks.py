"""Hostile bytes for CKKS: each is refused or read, and nothing crashes, hangs or grows.

    python -m tests.fuzz_ckks [SEED [COUNT]]     5,000 by default, a few seconds

In a process of its own, since what could crash is SEAL's C++. The short form is a test.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections import Counter

import numpy as np

from colonnade.cipher.ckks import CkksScheme
from colonnade.cipher.paillier import InvalidCipher

GROWTH_MAX_KIB = 64 * 1024


def mutated(content: bytes, random: np.random.Generator) -> bytes:
    """A few bytes changed, or cut off, or put in, or moved; or all of them others."""
    octets = bytearray(content)
    for _ in range(int(random.integers(1, 4))):
        place = int(random.integers(0, len(octets) + 1))
        many = int(random.choice([1, 2, 7, 64, len(octets)]))
        match random.integers(0, 7):
            case 0 | 1:
                octets[place : place + many] = random.bytes(len(octets[place : place + many]))
            case 2:
                octets[place : place + many] = bytes(len(octets[place : place + many]))
            case 3:
                octets[place : place + many] = b"\xff" * len(octets[place : place + many])
            case 4:
                octets = octets[place:] + octets[:place]
            case 5:
                del octets[place : place + many]
            case _:
                octets[place:place] = random.bytes(many)
    return bytes(octets)


def attempts(seed: int, count: int) -> Counter[str]:
    """How many mutations were refused, and how many read; whatever else happens is raised."""
    random, scheme = np.random.default_rng(seed), CkksScheme(2048, 32)
    own, shape = scheme.generate(os.urandom), (3, 400)
    good = own.encrypt(random.integers(-1000, 1000, shape)).tobytes()
    adder, known = scheme.adder(own.public), np.zeros(shape, np.int64)

    def add(content: bytes) -> object:
        part = adder.received(np.frombuffer(content, np.uint8), shape)
        return adder.total([part, part], known)

    def open_other(content: bytes) -> object:
        sent = np.frombuffer(good, np.uint8)
        return scheme.holder(content, os.urandom).decrypt(sent, shape)

    doors = [
        (good, add),
        (good, lambda content: own.decrypt(np.frombuffer(content, np.uint8), shape)),
        (own.secret, open_other),
        (own.public, scheme.adder),
    ]
    found: Counter[str] = Counter()
    for number in range(count):
        content, door = doors[number % len(doors)]
        try:
            door(mutated(content, random))
            found["read"] += 1
        except InvalidCipher:
            found["refused"] += 1
    return found


def _child(seed: int, count: int) -> None:
    attempts(seed, 100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(dict(attempts(seed, count)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < GROWTH_MAX_KIB, f"it grew by {grown} KiB"


def main(words: list[str]) -> int:
    if words[:1] == ["--child"]:
        _child(int(words[1]), int(words[2]))
        return 0
    seed, count = [*words, *["0", "5000"][len(words) :]]
    command = [sys.executable, "-m", "tests.fuzz_ckks", "--child", seed, count]
    return subprocess.run(command, timeout=60 + int(count), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
