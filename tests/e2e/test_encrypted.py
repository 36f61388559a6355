"""Trainings under encryption over mTLS: the same as simulated; and what parties get that meddle
with keys or ciphertexts."""

from __future__ import annotations

import msgspec
import pytest
import torch

from colonnade.compress import plain
from colonnade.errors import PartyError
from colonnade.learn.encrypted import EncryptedActive
from colonnade.party import active as active_loop
from colonnade.protect.secret import Derived
from colonnade.wire.messages import Buffer, CipherKey, Embedding
from tests.e2e.test_masks import as_simulated, found_out, signing
from tests.netrun import run_trainings
from tests.sim.test_encrypted import case_of


def test_over_mtls_as_in_the_simulator():
    case = case_of({"name": "fedbcd", "updates": 2})
    left = as_simulated(case)
    first = case.job.passives[0]
    assert {name for name, kinds in left.items() if "CipherKey" in kinds} == {first}


def of_its_own(cipher):
    """A key to which the active party knows the private half."""
    holder = cipher.scheme.generate(Derived(9))
    return CipherKey(Buffer(memoryview(holder.public)), cipher.said.boxes)


def other_boxes(cipher):
    boxes = tuple(Buffer(memoryview(bytes(box.view.nbytes))) for box in cipher.said.boxes)
    return msgspec.structs.replace(cipher.said, boxes=boxes)


def fewer_boxes(cipher):
    return msgspec.structs.replace(cipher.said, boxes=cipher.said.boxes[:1])


@pytest.mark.parametrize("meddle", [of_its_own, other_boxes, fewer_boxes])
def test_an_active_party_that_meddles_with_the_key_is_named_and_gets_no_embedding(
    meddle, monkeypatch
):
    """The private half is sealed under what two passive parties share, with the public one."""
    case, seen = case_of(), []
    honest, take = active_loop.hand_on, active_loop.Active._take_embedding

    async def hostile(world, keys, receive):
        accept = keys.cipher.accept

        def accepted(sender, message):
            accept(sender, message)
            keys.cipher.said = meddle(keys.cipher)

        keys.cipher.accept = accepted
        await honest(world, keys, receive)

    def noted(loop, sender, message):
        seen.append(sender)
        take(loop, sender, message)

    monkeypatch.setattr(active_loop, "hand_on", hostile)
    monkeypatch.setattr(active_loop.Active, "_take_embedding", noted)
    assert found_out(case, signing(case), "p1 sent a key for ciphertexts") == {"p1"}
    # The first passive party has drawn the key itself, and sends what only the others can read.
    assert set(seen) <= {case.job.passives[0]}


def test_an_active_party_that_answers_with_what_is_no_ciphertext_is_named(monkeypatch):
    def gathered(learner, exchange):
        return torch.zeros(learner._cipher.scheme.cells(len(exchange.rows)), dtype=torch.uint8)

    monkeypatch.setattr(EncryptedActive, "gather", gathered)
    case = case_of()
    sentence = "p1 sent what is no ciphertext: a ciphertext is 0"
    assert found_out(case, signing(case), sentence) == {"p1"}


def test_an_active_party_that_answers_with_numbers_out_of_range_is_named(monkeypatch):
    """So that it cannot push a weight wherever it likes, or learn how numbers wrap."""
    gather = EncryptedActive.gather

    def gathered(learner, exchange):
        cells = gather(learner, exchange).numpy()
        part = learner._cipher.adder.received(cells, learner._centres[exchange.rows].shape)
        big = part._with((part.key.times(c, 1 << 2030) for c in part.ciphertexts), part.bound)
        return torch.frombuffer(bytearray(big.to_bytes()), dtype=torch.uint8).view(cells.shape)

    monkeypatch.setattr(EncryptedActive, "gather", gathered)
    case = case_of()
    sentence = "p1 sent what is no ciphertext: a ciphertext holds a"
    assert found_out(case, signing(case), sentence) == {"p1"}


@pytest.mark.parametrize("content", [0, 255])
def test_a_passive_party_that_sends_what_is_no_ciphertext_is_named(content, monkeypatch):
    case = case_of()
    trainings = signing(case)
    build = trainings["p2"].build

    def built(world, welcome):
        loop = build(world, welcome)
        send = world.send

        async def sent(to, message):
            if isinstance(message, Embedding):
                tensor = torch.full(message.tensor.shape, content, dtype=torch.uint8)
                message = Embedding(message.round, plain().encode(tensor))
            await send(to, message)

        world.send = sent
        return loop

    trainings["p2"].build = built
    with pytest.raises(PartyError, match="p2 sent what is no ciphertext"):
        run_trainings(case.job, trainings)
