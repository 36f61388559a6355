"""A deviating active party, over real connections: whatever it tries, no row leaves beyond those
that the terms and the party's own policy allow, and it is named.

What else it may ask in vain is in `test_evaluation.py`, what a passive party may in
`test_breaches.py` and `test_attacks.py`.
"""

from __future__ import annotations

from collections import Counter as Count
from dataclasses import replace
from functools import lru_cache

import msgspec
import pytest

from colonnade.compress import decode, parse, plain
from colonnade.errors import BreachError, PartyError
from colonnade.job.policy import Policy
from colonnade.run.releases import Counter, allowance
from colonnade.run.setup import prepare
from colonnade.run.surroundings import PartyWorld
from colonnade.wire.messages import Evaluate, Gradient
from tests import loop
from tests.e2e.test_excess import overheard
from tests.e2e.test_releases import greedy
from tests.scene import scene
from tests.small import small

SCALAR = {"embedding": "scalar:8", "gradient": "scalar:8"}
TRAIN = {
    "rounds": 12,
    "evaluate_every": "3 rounds",
    "validation": 0.25,
    "checkpoint_every": 4,
    "method": {"name": "fedsgd", "compress": SCALAR},
}


class Watched(PartyWorld):
    """Notes every row that leaves: of which message, and which rows of it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.left = Count()

    async def send(self, to, message):
        await super().send(to, message)
        for packed in message.packed():
            place = message.round, getattr(message, "split", "batch"), getattr(message, "start", 0)
            self.left[type(message).__name__, *place] += packed.shape[0]


@pytest.fixture(autouse=True)
def watched(monkeypatch):
    monkeypatch.setattr("tests.scene.NetworkWorld", Watched)


@lru_cache
def agreed():
    """All rows that leave p2 in an honest run, by the message that they leave in."""
    case, rows = small(3, **TRAIN), Count()

    async def whole():
        async with scene(case) as s:
            parties = {name: await s.start(name) for name in ("p1", "p0", "p2")}
            s.unharmed({name: await party.end() for name, party in parties.items()})
            rows.update(parties["p2"].world.left)

    loop.run(whole())
    return rows


def attacked(case, deviate, policy=None):
    """Let p1 deviate; p2, which holds the line, and the error with which it ends."""
    found = []

    async def whole():
        async with scene(case) as s:
            ready = prepare(case.job, case.data, case.modules)["p2"]
            await s.start("p1", deviate(s.training("p1")))
            await s.start("p0")
            victim = await s.start("p2")
            victim.world.releases = Counter(allowance(replace(ready, policy=policy or Policy())))
            found.extend([victim, await victim.end()])

    loop.run(whole())
    return found


def asking(change):
    """Asks for something else than is due."""
    return lambda training: overheard(
        training,
        lambda message: (
            msgspec.structs.replace(message, **change) if isinstance(message, Evaluate) else message
        ),
    )


def answering(encoding):
    """Writes its gradients in another encoding than was agreed on."""

    def change(message):
        if not isinstance(message, Gradient) or message.round < 5:
            return message
        written = encoding.encoder(None).encode(decode(message.tensor))
        return msgspec.structs.replace(message, tensor=written)

    return lambda training: overheard(training, change)


BREACHES = {
    "an evaluation that is not scheduled": (
        asking({"round": 1, "after": 1}),
        "p1 asked for an evaluation of round 2, which is not due",
    ),
    "an evaluation of training rows": (
        asking({"splits": ("train",)}),
        "p1 asked for train rows, and the job has validation rows evaluated",
    ),
    "an evaluation of training rows too": (
        asking({"splits": ("train", "validation")}),
        "p1 asked for train and validation rows",
    ),
    "gradients that are plain": (
        answering(plain()),
        "p1 sent a tensor in the encoding 'plain' where scalar:8 is due",
    ),
    "gradients of other bits": (
        answering(parse("scalar:16")),
        "p1 sent a tensor in the encoding 'scalar' where scalar:8 is due",
    ),
}


@pytest.mark.parametrize("name", BREACHES)
def test_what_was_not_agreed_on_makes_no_further_row_leave_and_names_the_party(name):
    deviate, said = BREACHES[name]
    case = small(3, **TRAIN)
    victim, error = attacked(case, deviate)
    assert isinstance(error, PartyError) and said in str(error)
    if isinstance(error, BreachError):
        assert error.peer == "p1" and victim.world.detector.refusals == {"p1": 1}
    else:
        assert str(error).startswith("p1 failed: p0 failed: "), "the other one saw it first"
    beyond = victim.world.left - agreed()
    assert victim.world.left and not beyond, beyond


def test_endless_rollbacks_get_no_more_than_releases_max_over_all_generations():
    """From one checkpoint to the next and back again, so that no count of returns stops it."""
    case = small(3, **TRAIN)
    policy = Policy(releases_max=17, evaluations_max=5)
    rounds = [3, 5, 4, 7, 6, 5]
    victim, error = attacked(case, lambda training: greedy(training, *rounds), policy)
    assert isinstance(error, PartyError)
    assert "policy.releases_max is 17, and so many batches of embeddings have left" in str(error)
    assert "find out why p1 has the parties begin again and again" in str(error)
    batches = [rows for (kind, *_), rows in victim.world.left.items() if kind == "Embedding"]
    assert victim.world.releases.count == 17 and victim.world.releases.evaluations <= 5
    assert 0 < sum(batches) <= 17 * case.job.train.batch_size
    # However often, it is always the same rows, in the same batches and evaluations.
    assert victim.world.left.keys() <= agreed().keys()


def test_evaluations_that_are_asked_once_more_stop_at_evaluations_max():
    case = small(3, **TRAIN | {"evaluate_every": "1 round"})
    policy = Policy(evaluations_max=14)
    victim, error = attacked(case, lambda training: greedy(training, 3), policy)
    assert "policy.evaluations_max is 14, and so many messages of evaluation" in str(error)
    assert "raise policy.evaluations_max in the party file" in str(error) and "p1" in str(error)
    kinds = Count(kind for kind, *_ in victim.world.left.elements())
    assert kinds["EvaluationEmbedding"] == 14 * 12, "rows of 14 messages"
