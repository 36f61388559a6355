"""Every tensor comes in the encoding that the job has for it, in both directions, or its sender is
named; and no honest party is ever taken for one that deviates."""

from __future__ import annotations

import msgspec
import pytest

from colonnade import simulate
from colonnade.compress import decode, parse, plain
from colonnade.errors import BreachError, JobError
from colonnade.learn.outbound import Outbound, Stage
from colonnade.learn.snapshot import SnapshotActive
from colonnade.wire.messages import Buffer
from tests.small import small

PLAINLY = {"name": "fedsgd"}
SNAPSHOT = {"name": "fedsgd", "exchange": "snapshot"}
UPLOAD = {"name": "vafl", "start": "upload"}
EVALUATED = {"evaluate_every": "3 rounds", "validation": 0.25}


def run(method, compress=None, **train):
    table = method | ({"compress": compress} if compress else {})
    shared = {"labels": "shared"} if "exchange" in method or method["name"] == "cvfl" else {}
    case = small(3, method=table, **{"rounds": 9, **shared, **train})
    return simulate(case.job, case.data, case.modules)


def other(monkeypatch, who, purpose, text):
    """A party writes its tensors for a purpose in another encoding than the job says."""
    stage = Outbound.stage

    def deviating(self, given, encoding=None, to=""):
        changes = (self._me, given) == (who, purpose)
        return stage(self, given, parse(text) if changes else encoding, to)

    monkeypatch.setattr(Outbound, "stage", deviating)


CASES = {
    "an embedding": ("p2", "embedding", PLAINLY, {"embedding": "scalar:4"}, {}),
    "an embedding of more columns": ("p2", "embedding", PLAINLY, {"embedding": "topk:2"}, {}),
    "a half": ("p2", "embedding", PLAINLY, {"embedding": "half"}, {}),
    "what is fed back": ("p2", "embedding", PLAINLY, {"embedding": "ef+lattice:3"}, {}),
    "a difference": ("p2", "embedding", PLAINLY, {"embedding": "ef21+scalar:2"}, {}),
    "a difference of gradients": ("p1", "gradient", PLAINLY, {"gradient": "ef21+half"}, {}),
    "an evaluation": ("p2", "evaluation", PLAINLY, {"embedding": "scalar:4"}, EVALUATED),
    "a gradient": ("p1", "gradient", PLAINLY, {"gradient": "scalar:4"}, {}),
    "the own embedding in a snapshot": ("p1", "embedding", SNAPSHOT, {"embedding": "scalar:4"}, {}),
    "the top model in a snapshot": ("p1", "top", SNAPSHOT, {"top": "scalar:4"}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_downgrade_to_plain_is_a_breach_that_names_the_sender(monkeypatch, name):
    who, purpose, method, compress, train = CASES[name]
    other(monkeypatch, who, purpose, "plain")
    (due,) = compress.values()
    with pytest.raises(BreachError) as found:
        run(method, compress, **train)
    assert found.value.peer == who
    said = f"{who} sent a tensor in the encoding 'plain' where {due} is due"
    assert str(found.value).startswith(said)


@pytest.mark.parametrize(
    ("who", "purpose", "method", "train"),
    [
        ("p2", "embedding", PLAINLY, {}),
        ("p1", "gradient", PLAINLY, {}),
        ("p2", "upload", UPLOAD, {}),
        ("p1", "labels", SNAPSHOT, {}),
        ("p2", "evaluation", {"name": "fedsgd", "compress": {"embedding": "half"}},
         EVALUATED | {"evaluate_plain": True}),
    ],
)  # fmt: skip
def test_what_is_due_plain_is_taken_plain_only(monkeypatch, who, purpose, method, train):
    other(monkeypatch, who, purpose, "half:bfloat16")
    with pytest.raises(BreachError, match=f"{who} sent .* 'half' where plain is due"):
        run(method, **train)


@pytest.mark.parametrize(
    ("agreed", "sent"),
    [
        ("scalar:4", "scalar:16"),
        ("scalar:4", "scalar:4:dither"),
        ("lattice:3", "scalar:3"),
        ("topk:1", "topk:2"),
        ("topk:2", "topk:2:shared"),
        ("half", "half:bfloat16"),
        ("steps:0=scalar:2,4=scalar:8", "scalar:2"),
        ("diminishing+scalar:2", "scalar:2"),
        ("topk:2:importance", "plain"),
        ("ef21+scalar:2", "scalar:4"),
        ("ef21+steps:0=scalar:2,4=scalar:8", "ef21+scalar:2"),
    ],
)
def test_other_options_or_another_round_of_a_schedule_are_a_downgrade_too(
    monkeypatch, agreed, sent
):
    other(monkeypatch, "p2", "embedding", sent)
    with pytest.raises(BreachError, match="p2 sent a tensor in the encoding"):
        run(PLAINLY, {"embedding": agreed})


@pytest.mark.parametrize("agreed", ["scalar:4", "ef+topk:2"])
def test_what_cannot_be_read_names_the_sender_too(monkeypatch, agreed):
    pack = Stage.pack

    def spoilt(self, tensor, use=None, labels=None):
        good = pack(self, tensor, use, labels)
        cut = Buffer(good.data.view[:-1])
        return good if good.codec == "plain" else msgspec.structs.replace(good, data=cut)

    monkeypatch.setattr(Stage, "pack", spoilt)
    with pytest.raises(BreachError, match=r"p[02] sent what cannot be read: a \w+ tensor"):
        run(PLAINLY, {"embedding": agreed})


def test_what_is_handed_on_of_others_is_held_to_their_encoding(monkeypatch):
    reply = SnapshotActive.reply

    def changed(self, exchange, peer, signal):
        good = reply(self, exchange, peer, signal)
        tensors = tuple(plain().encode(decode(each)) for each in good.embeddings)
        return msgspec.structs.replace(good, embeddings=tensors)

    monkeypatch.setattr(SnapshotActive, "reply", changed)
    with pytest.raises(BreachError, match=r"p1 sent .* 'plain' where scalar:4 is due"):
        run(SNAPSHOT, {"embedding": "scalar:4"})


ENCODINGS = (
    *("half", "scalar:3:dither", "lattice:2", "topk:2", "topk:2:importance", "topk:4:importance"),
    *("ef+topk:2:importance", "ef+scalar:2", "diminishing+lattice:2"),
    *("steps:0=topk:2:importance,2=scalar:4,5=plain", "tests.outside:rotated:3"),
    *("ef21+scalar:2", "ef21+topk:2:importance", "ef21+steps:0=topk:2:importance,4=half,6=plain"),
)


HONEST = (
    PLAINLY,
    {"name": "pasta", "b_max": 3},
    {"name": "vafl"},
    {"name": "celu"},
    {"name": "fedbcd", "updates": 2, "order": "sequential"},
    SNAPSHOT,
    {"name": "pasta", "b_max": 3, "exchange": "snapshot"},
)


def honest(method, text):
    """Encodings that depend on nothing but the tensor are the same in every method."""
    slow = text in ENCODINGS[:4] and method not in (PLAINLY, SNAPSHOT)
    name = "-".join(map(str, method.values()))
    marks = [pytest.mark.slow] * slow
    return pytest.param(method, text, id=f"{name}-{text}", marks=marks)


@pytest.mark.parametrize(
    ("method", "text"), [honest(method, text) for method in HONEST for text in ENCODINGS]
)
def test_honest_parties_are_never_refused(method, text):
    """Where the importance of columns is not known yet, plain tensors are as they should be."""
    assert run(method, {"embedding": text}, rounds=12, **EVALUATED).status == "end"


@pytest.mark.parametrize("text", ENCODINGS[:4])
def test_nor_are_honest_gradients_and_top_models(text):
    assert run(PLAINLY, {"gradient": text}).status == "end"
    assert run(SNAPSHOT, {"top": text}).status == "end"


def test_an_encoding_from_outside_says_its_tags():
    with pytest.raises(JobError, match="does not say which tags its tensors have"):
        run(PLAINLY, {"embedding": "tests.outside:untold"})
