"""Federated transfer learning under encryption: exact, and what it tells all the same."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from colonnade.cipher.paillier import generate
from colonnade.cipher.slots import from_fixed
from colonnade.cipher.tensor import decrypt, encrypt
from colonnade.errors import BreachError
from colonnade.job.records import Job, Party
from colonnade.party.session import run_session
from colonnade.protect.secret import Derived
from colonnade.sim.kernel import Simulator
from colonnade.transfer import program
from colonnade.transfer.clear import guest_gradients, host_gradients
from colonnade.transfer.leak import components_of_guest, embeddings_of_host, labels_of_guest
from colonnade.transfer.program import Transfer
from colonnade.transfer.rows import Rows
from colonnade.transfer.sealed import masked, unmasked
from colonnade.transfer.setting import (
    CONSTANT_BITS,
    EMBEDDING,
    FACTOR,
    HOST_BITS,
    KEY_BITS,
    MASK_BITS,
    MEAN,
    Bounds,
    Setting,
)
from colonnade.transfer.sides import Guest, Host
from colonnade.transfer.training import train
from colonnade.wire.messages import Buffer, Components, Masked, Opened, TransferKey
from tests.netrun import run_programs

JOB = Job(parties={"guest": Party(role="active"), "host": Party()})
SETTING = Setting(updates=2, rounds=2, width=4)


def rows(both: int = 6, guest: int = 20, host: int = 15, seed: int = 0) -> Rows:
    """Customers whose columns of both parties tell something of the label."""
    random = np.random.default_rng(seed)
    count = guest + host
    labels = np.where(random.random(count) < 0.5, 1.0, -1.0)
    ours, theirs = (random.normal(size=(count, c)) + 0.5 * labels[:, None] for c in (3, 5))
    columns = ours[:guest], labels[:guest], theirs[:both], theirs[guest:], labels[guest:]
    return Rows(*columns, overlap=both, guest_rows=guest)


def programs(setting: Setting, data: Rows) -> dict[str, Transfer]:
    return {
        name: Transfer(name, name == "guest", setting, data, Derived(number))
        for number, name in enumerate(JOB.parties)
    }


def simulated(told: dict[str, Transfer]):
    simulator = Simulator(JOB)
    started = {name: run_session(simulator.worlds[name], [own]) for name, own in told.items()}
    return {name: outcome[0] for name, outcome in simulator.run(started).items()}


def over_mtls(told: dict[str, Transfer]):
    started = {name: (lambda world, own=own: run_session(world, [own])) for name, own in
               told.items()}  # fmt: skip
    return {name: outcome[0] for name, outcome in run_programs(JOB, started)[0].items()}


@pytest.mark.parametrize("world", [simulated, over_mtls])
def test_encrypted_equals_fixed_point_bit_for_bit(world):
    data = rows()
    found, clear = world(programs(SETTING, data)), train(SETTING, data)
    for own, name in zip(clear, JOB.parties, strict=True):
        assert len(own.digests) == 2 and found[name].digests == own.digests
    assert found["guest"].auc == clear[0].auc
    kinds = {entry["kind"]: entry["messages"] for entry in found["guest"].ledger
             if entry["direction"] == "sent" and entry["purpose"] == "training"}  # fmt: skip
    # One exchange a round, and for each update a decryption with its round trip.
    assert kinds == {"TransferKey": 1, "Components": 2, "Masked": 4, "Opened": 4}


def test_a_party_has_only_its_own_rows():
    told = programs(SETTING, rows())
    assert told["guest"].rows.host.size == told["guest"].rows.host_only.size == 0
    host = told["host"].rows
    assert host.guest.size == host.labels.size == host.test_labels.size == 0


def test_the_training_ends_at_its_target():
    setting = Setting(updates=1, rounds=50, width=4, target=0.5)
    found = simulated(programs(setting, rows(seed=1)))
    assert found["guest"].auc[-1] >= 0.5 and len(found["host"].digests) == len(found["guest"].auc)
    assert len(found["guest"].auc) < 50


def test_gradients_are_those_of_the_loss():
    """ln 2 − ½yz + ⅛z² with the alignment, by autograd."""
    setting, data = Setting(updates=1, rounds=1, width=8, alpha=7.0), rows(both=9)
    guest, host = Guest(setting, data), Host(setting, data)
    own = torch.tensor(guest.embeddings, requires_grad=True)
    theirs = torch.tensor(host.embeddings, requires_grad=True)
    labels = torch.tensor(data.labels)
    z, y = theirs @ (labels @ own / len(labels)), labels[: data.overlap]
    logistic = (torch.log(torch.tensor(2.0)) - y * z / 2 + z * z / 8).sum()
    loss = setting.alpha * logistic - (own[: data.overlap] * theirs).sum() / setting.width
    loss.backward()
    constant, gradients = guest_gradients(
        guest.factors, guest.signs, host.components(), guest.bounds
    )
    slopes = host_gradients(host.factors, guest.components())
    error = {"rtol": 0, "atol": 2e-2}
    common = np.outer(data.labels, from_fixed(constant, CONSTANT_BITS)) * 7.0 / len(data.labels)
    assert np.allclose(common[data.overlap :], own.grad[data.overlap :].numpy(), **error)
    ours = from_fixed(gradients, CONSTANT_BITS + FACTOR)
    assert np.allclose(ours, own.grad[: data.overlap].numpy(), **error)
    assert np.allclose(from_fixed(slopes, HOST_BITS), theirs.grad.numpy(), **error)


@pytest.mark.parametrize("setting", [SETTING, Setting(updates=1, rounds=1)])
def test_no_gradient_exceeds_its_bound_nor_leaves_its_slot(setting):
    """With as many rows as in the credit data, and all numbers as large as they can be."""
    bounds = Bounds(setting, SimpleNamespace(overlap=663, guest_rows=9489))
    rows, width = (663, setting.width), setting.width
    shapes = [(width, width), rows, rows]
    full = [np.full(shape, b) for shape, b in zip(shapes, bounds.guest, strict=True)]
    slopes = host_gradients(np.full(rows, 1 << EMBEDDING), tuple(full))
    assert (slopes == bounds.host_gradient).all()
    full = [np.full(shape, b) for shape, b in zip(shapes, bounds.host, strict=True)]
    factors, signs = np.full(width, -1 << MEAN), np.full(663, 1)
    constant, gradients = guest_gradients(factors, signs, (full[0], full[1], -full[2]), bounds)
    assert (constant == -bounds.constant).all() and (gradients == -bounds.guest_gradient).all()
    for bound in (bounds.constant, bounds.guest_gradient, bounds.host_gradient):
        assert bound << MASK_BITS + 1 < setting.slots.limit


def test_a_mask_is_forty_bits_longer_than_what_it_hides_and_comes_off_again():
    key, setting, bound = generate(KEY_BITS, Derived(0)), SETTING, 2**45
    values = np.zeros((3, setting.padded), np.int64)
    values[:, :4] = np.arange(12).reshape(3, 4) - 2**45
    tensor = encrypt(values, key.public, setting.slots, bound, Derived(1))
    sent, mask = masked(tensor, bound, Derived(2))
    assert set(sent.ciphertexts).isdisjoint(tensor.ciphertexts)
    assert (unmasked(decrypt(sent, key), mask, setting) == values[:, :4]).all()
    assert 2**80 < max(abs(int(m)) for m in mask.reshape(-1)) <= 2**85
    again = masked(tensor, bound, Derived(3))[1]
    assert (again != mask).all()


def test_either_side_recovers_the_others_secret_from_what_it_decrypts():
    """The guest has the host's embeddings, to the bit; the host has the labels, and with a second
    update on the same exchange all that the guest has encrypted."""
    data, setting = rows(both=40, guest=60, seed=3), Setting(updates=2, rounds=2, width=8)
    found = simulated(programs(setting, data))
    guest = Guest(setting, data)
    _, constant, gradients = found["guest"].decrypted[-1]
    told = embeddings_of_host(constant, gradients, guest.signs, guest.bounds)
    assert (told == found["host"].components[1]).all()
    before, after = found["host"].decrypted
    guess = labels_of_guest(after[1])
    assert abs((guess * guest.signs).mean()) == 1
    products, rest = components_of_guest(before, after)
    assert (products == found["guest"].components[0]).all()
    assert (rest == found["guest"].components[1] + found["guest"].components[2]).all()


def _empty(message):
    return {
        TransferKey: lambda: TransferKey(message.key[:-1]),
        Components: lambda: Components(message.round, message.tensors[:2]),
        Masked: lambda: Masked(message.round, message.update, ()),
        Opened: lambda: Opened(message.round, message.update, ()),
    }[type(message)]()


def _zeros(message):
    zeros = tuple(Buffer(memoryview(bytes(len(b.view)))) for b in message.tensors)
    return type(message)(*message.__struct_fields__ and [
        zeros if field == "tensors" else getattr(message, field)
        for field in message.__struct_fields__
    ])  # fmt: skip


def _late(message):
    return type(message)(message.round + 1, *[
        getattr(message, field) for field in message.__struct_fields__[1:]
    ])  # fmt: skip


@cache
def key_of(bits):
    return generate(bits, Derived(0))


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        (TransferKey, _empty, "no encryption: 767 bytes are no key"),
        (Components, _empty, "sent 2 tensors where 3 are due"),
        (Components, _zeros, "no encryption: a ciphertext is 0"),
        (Components, _late, r"Components of \(1,\), due is \(0,\)"),
        (Masked, _empty, "sent 0 tensors where"),
        (Masked, _zeros, "no encryption: a ciphertext is 0"),
        (Masked, _late, r"Masked of \(1, 0\), due is \(0, 0\)"),
        (Opened, _empty, "decrypted 0 tensors of"),
    ],
)
@pytest.mark.parametrize("who", ["guest", "host"])
def test_a_party_that_deviates_is_named(monkeypatch, who, kind, change, sentence):
    # To find the primes takes longer than all else.
    monkeypatch.setattr(program, "generate", lambda bits, random: key_of(bits))
    simulator, told = Simulator(JOB), programs(SETTING, rows())
    world = simulator.worlds[who]
    send = world.send

    async def deviating(to, message):
        await send(to, change(message) if isinstance(message, kind) else message)

    world.send = deviating
    started = {name: run_session(simulator.worlds[name], [own]) for name, own in told.items()}
    with pytest.raises(BreachError, match=f"{who} .*{sentence}"):
        simulator.run(started)
