"""Any choice on every axis ends in a training or in a sentence, never in a foreign exception."""

from __future__ import annotations

import random

import msgspec
import pytest

from colonnade import ColonnadeError, JobError, methods, simulate
from colonnade.errors import RequestError
from colonnade.methods.method import AXES
from colonnade.policies.parse import constructors
from tests.small import small, with_network

CHOICES = {
    "exchange": ["gradients", "snapshot"],
    "window": ["lockstep", "pipelined:1", "pipelined:2", "pipelined:4", "fixed:3", "fixed:4:2",
               "bandwidth_delay:4:1", "bandwidth_delay:1"],
    "quorum": ["everyone", "anyone", "anyone:upload"],
    "local": ["once", "repeat:1", "repeat:3", "workset:3:3", "workset:2:3:false",
              "workset:1:2:false", "while_waiting:0", "while_waiting:3", "while_waiting:2:false",
              "until:0s", "until:70ms", "agreed:70ms:min", "agreed:90ms:max",
              "deadline:0", "deadline:3"],
    "version": ["stash", "recompute", "recompute:idle"],
    "weight": ["uniform", "cosine:0", "cosine:0.7", "cosine_fresh", "cosine_fresh:0.7",
               "compensate"],
    "rate": ["constant", "inverse_sqrt", "inverse_sqrt:true", "inverse", "speed_adaptive",
             "speed_adaptive:2", "stale", "stale:2"],
    "momentum": ["kept", "shared"],
    "step": ["plain_step", "proximal:0", "proximal:0.2", "local_momentum:0.5"],
    "order": ["parallel", "sequential", "sequential:last"],
    "average": ["none", "ema:0", "ema:0.9"],
}  # fmt: skip
ENCODINGS = ["plain", "half", "scalar:3:minmax:dither", "lattice:4", "topk:2", "topk:1:importance",
             "topk:0.5:shared", "ef+scalar:2", "diminishing+lattice:2",
             "steps:0=scalar:2,2=half"]  # fmt: skip
PROTECTIONS = {"gradient": "max_norm", "embedding": "dcor:0.1+gauss:2:0.1"}
BUDGET, BLOCK = 240, 40


def composition(chance: random.Random) -> dict[str, object]:
    """A few axes away from plain split training, or many."""
    axes = chance.sample(list(CHOICES), chance.choice((1, 2, 3, 4, 9)))
    table: dict[str, object] = {"name": "fedsgd"} | {a: chance.choice(CHOICES[a]) for a in axes}
    if chance.random() < 0.5:
        roles = chance.sample(["embedding", "gradient", "top"], chance.choice((1, 1, 2)))
        table["compress"] = {role: chance.choice(ENCODINGS) for role in roles}
    if chance.random() < 0.3:
        parts = chance.sample(list(PROTECTIONS), chance.choice((1, 2)))
        table["protect"] = {part: PROTECTIONS[part] for part in parts}
    return table


def test_every_policy_of_every_axis_is_tried():
    assert {*CHOICES, *methods.TABLES} == set(AXES)
    for axis, texts in CHOICES.items():
        assert {text.partition(":")[0] for text in texts} == set(constructors(axis))


@pytest.mark.parametrize("block", range(BUDGET // BLOCK))
def test_a_random_composition_trains_or_is_refused(block):
    chance = random.Random(block)
    trained = 0
    for _ in range(BLOCK):
        table = composition(chance)
        try:
            methods.build(table)
        except RequestError:
            continue
        case = small(chance.choice((2, 3)), chance.choice(("split", "agg")), chance.random() < 0.4,
                     rounds=6, labels="shared",
                     evaluate_every=chance.choice(("never", "2 rounds")))  # fmt: skip
        costs = {"forward": "10ms", "backward": "20ms", "aggregate": "10ms", "top": "5ms"}
        job = with_network(case.job, costs, latency=chance.choice(("0ms", "37ms", "300ms")))
        job = msgspec.structs.replace(job, method=table)
        try:
            run = simulate(job, case.data, case.modules)
        except ColonnadeError as refusal:
            assert isinstance(refusal, JobError), (table, refusal)
            continue
        except Exception as error:
            pytest.fail(f"{table} ended in {error!r}")
        assert run.status in ("end", "diverged"), table
        trained += 1
    assert trained >= BLOCK // 10
