"""A fingerprint of what every method computes and sends, to be compared before and after a change
that must not move a bit.

    python -m tests.golden record FILE     compute all fingerprints and keep them
    python -m tests.golden check FILE      compute them anew, and name what differs

Simulated, of every method: weights, history, ledger, actions and frames. Over mTLS, of methods
that do not go by the clock: weights, losses, ledger and the frames of training, but no times and
no identities of runs. With two and three parties, with and without checkpoints. The last bits
depend on the processor and on torch, so a file is good for one machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import torch

from colonnade import methods, simulate
from colonnade.wire.codec import Codec
from tests.contract.test_two_worlds import OPTIONS, networked
from tests.small import small, with_network

MORE = {
    "celu, pipelined": {"name": "celu", "window": "pipelined:3"},
    "celu, not weighed": {"name": "celu", "weigh": False},
    "fedbcd, one after another": {"name": "fedbcd", "updates": 2, "order": "sequential"},
    "flexvfl, adaptive": {"name": "flexvfl", "adaptive": True},
    "fedsgd, half": {"name": "fedsgd", "compress": {"embedding": "half"}},
}
METHODS: dict[str, dict[str, Any]] = {
    **{name: {"name": name} for name in methods.known()},
    **OPTIONS,
    **MORE,
}
Fingerprints = dict[str, str]


def digest(value: Any) -> str:
    """The SHA-256 of a value in a form that is the same wherever it comes from.

    >>> digest({"b": 1, "a": 2.0}) == digest({"a": 2.0, "b": 1})
    True
    """
    found = sha256()
    _feed(found.update, value)
    return found.hexdigest()[:16]


def _feed(update: Callable[[bytes], None], value: Any) -> None:
    if isinstance(value, torch.Tensor):
        whole = value.detach().cpu().contiguous()
        update(f"tensor {whole.dtype} {tuple(whole.shape)};".encode())
        update(whole.view(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(value, Mapping):
        _feed(update, [(repr(key), value[key]) for key in sorted(value, key=repr)])
    elif isinstance(value, bytes | bytearray):
        update(b"bytes %d;" % len(value))
        update(value)
    elif isinstance(value, str | int | float | None):
        update(f"{value!r};".encode())
    else:
        update(b"[")
        for each in value:
            _feed(update, each)
        update(b"]")


@contextmanager
def frames(only: str | None = None) -> Iterator[dict[str, list[str]]]:
    """Inside, every frame that is encoded leaves its digest, by kind of message; perhaps only
    those of one purpose."""
    found: dict[str, list[str]] = {}
    encode = Codec.encode

    def noted(self: Codec, message: Any) -> bytearray:
        frame = encode(self, message)
        if only in (None, message.PURPOSE):
            found.setdefault(type(message).__name__, []).append(digest(frame))
        return frame

    Codec.encode = noted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Codec.encode = encode  # type: ignore[method-assign]


def case(parties: int, every: int | None, method: str) -> Any:
    """The job of which the fingerprints are."""
    made = small(parties, method=METHODS[method], rounds=20, evaluate_every="5 rounds",
                 labels="shared", validation=0.2, checkpoint_every=every)  # fmt: skip
    made.job = with_network(made.job, latency="5ms", bandwidth="10mbit")
    return made


def in_simulator(parties: int, every: int | None, method: str) -> Fingerprints:
    """Of everything that a simulated run shows."""
    its = case(parties, every, method)
    with frames() as crossed:
        run = simulate(its.job, its.data, its.modules)
    return {
        "weights": digest(run.weights),
        "best": digest(run.best_weights),
        "history": digest([run.history, run.test, run.losses, run.time_s, run.status]),
        "ledger": digest({name: party.ledger for name, party in run.parties.items()}),
        "actions": digest({name: list(party.actions) for name, party in run.parties.items()}),
        "efforts": digest({name: list(party.efforts) for name, party in run.parties.items()}),
        "frames": digest(crossed),
    }


def over_mtls(parties: int, every: int | None, method: str) -> Fingerprints:
    """Of what does not depend on time."""
    with frames("training") as crossed:
        found = networked(case(parties, every, method))
    # Passive parties send when they are ready, in an order of their own.
    sent = {kind: sorted(digests) for kind, digests in crossed.items()}
    parts = {
        "weights": found.weights,
        "best": found.best,
        "history": found.history,
        "rounds": found.losses,
        "ledger": found.ledger,
        "frames": sent,
    }
    return {part: digest(value) for part, value in parts.items()}


def all_fingerprints() -> Iterator[tuple[str, Fingerprints]]:
    """All of them, one after another."""
    for method, parties, every in product(METHODS, (2, 3), (None, 7)):
        name = f"{method}, {parties} parties" + ("" if every is None else ", checkpoints")
        yield f"simulator: {name}", in_simulator(parties, every, method)
        if not methods.build(METHODS[method]).by_clock:
            yield f"mTLS: {name}", over_mtls(parties, every, method)


def main() -> int:
    """Record or check."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["record", "check"])
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found = dict(all_fingerprints())
    if asked.what == "record":
        asked.file.write_text(json.dumps(found, indent=1))
        print(f"{len(found)} fingerprints")
        return 0
    kept = json.loads(asked.file.read_text())
    apart = [
        f"{name}: {part}"
        for name in kept.keys() | found.keys()
        for part in kept.get(name, {}).keys() | found.get(name, {}).keys()
        if kept.get(name, {}).get(part) != found.get(name, {}).get(part)
    ]
    print("\n".join([*sorted(apart), f"{len(kept)} kept, {len(found)} found, {len(apart)} differ"]))
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
