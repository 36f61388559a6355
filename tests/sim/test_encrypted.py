"""Trainings under encryption: what is learnt is what the same fixed point gives without it."""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
import pytest
import torch
from torch.nn import functional as F

import colonnade as cn
from colonnade import simulate
from colonnade.errors import JobError
from colonnade.job import load
from colonnade.learn.objective import Objective
from colonnade.run.ceiling import ceiling
from colonnade.run.clock import reclock
from colonnade.run.naming import check_names
from colonnade.run.setup import prepare
from colonnade.testing.stores import MemoryStore
from tests.ciphers import in_the_clear
from tests.sim.test_masks import METHODS, _play, same
from tests.small import small, with_network

ENCRYPTED = {"protect": {"cipher": "paillier:2048"}}
COMPOSED = [method for method in METHODS if "compress" not in method]


def case_of(method=None, rounds=6, cipher="paillier:2048", **more):
    options = {"loss": "taylor", "evaluate_every": "3 rounds", "validation": 0.2} | more
    method = (method or {"name": "fedsgd"}) | {"protect": {"cipher": cipher}}
    return small(4, "agg", True, method=method, rounds=rounds, **options)


def trained(case, latency="30ms"):
    return simulate(with_network(case.job, latency=latency), case.data, case.modules)


@pytest.mark.parametrize("cipher", ["paillier:2048", "ckks:2048"])
@pytest.mark.parametrize("method", COMPOSED, ids=str)
def test_encrypted_is_fixed_point_bit_for_bit(method, cipher, monkeypatch):
    case = case_of(method, cipher=cipher)
    encrypted = trained(case)
    in_the_clear(monkeypatch)
    clear = trained(case)
    assert same(encrypted.weights, clear.weights)
    assert encrypted.time_s == clear.time_s and encrypted.test == clear.test
    figures = ("round", "validation_loss", "auc", "best")
    for one, other in zip(encrypted.history, clear.history, strict=True):
        assert [one[name] for name in figures] == [other[name] for name in figures]


def gap(one, other):
    return max(
        (tensor - other.weights[party][name]).abs().max().item()
        for party, weights in one.weights.items()
        for name, tensor in weights.items()
    )


def plainly(case):
    """The same training without encryption, in floating point."""
    method = {key: value for key, value in case.job.method.items() if key != "protect"}
    job = msgspec.structs.replace(case.job, method=method)
    return simulate(with_network(job, latency="30ms"), case.data, case.modules)


@pytest.mark.parametrize("method", COMPOSED[:2], ids=str)
def test_it_learns_what_plain_split_training_does_but_for_rounding(method):
    case = case_of(method, rounds=20)
    assert 0 < gap(trained(case), plainly(case)) < 1e-5


def quantities(**method):
    """Three classes or quantities, four parties, of which the active one has labels only."""
    generator = torch.Generator().manual_seed(1)
    x = {name: torch.randn(80, 3, generator=generator) for name in ("lab", "shop")}
    total = sum(columns[:, 0] for columns in x.values())
    parties = {
        "bank": cn.Party(role="active", optimizer={"name": "sgd", "lr": 0.05}),
        **dict.fromkeys(x, cn.Party(optimizer={"name": "sgd", "lr": 0.05})),
    }
    return x, total, parties


@pytest.mark.parametrize(
    ("task", "loss", "width"), [("multiclass", "taylor", 3), ("regression", "mse", 1)]
)
def test_classes_and_quantities(task, loss, width):
    x, total, parties = quantities()
    labels = (
        torch.bucketize(total, torch.tensor([-0.5, 0.5])) if width == 3 else total * 3
    ).numpy()
    data = cn.vertical({"bank": None} | {k: v.numpy() for k, v in x.items()}, labels, task=task)
    parties = {
        name: party if name == "bank" else msgspec.structs.replace(
            party, model={"name": "mlp", "hidden": [4], "embedding": width})
        for name, party in parties.items()
    }  # fmt: skip
    method = {"name": "fedbcd", "updates": 2}
    job = cn.Job(parties=parties, method=method | ENCRYPTED, top=cn.Top(kind="agg"),
                 train=cn.Train(rounds=12, batch_size=8, loss=loss))  # fmt: skip
    encrypted = simulate(job, data)
    plain = simulate(msgspec.structs.replace(job, method=method), data)
    assert 0 < gap(encrypted, plain) < 1e-5
    assert encrypted.tested() == pytest.approx(plain.tested(), abs=0.1)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_taylor_loss_is_the_logistic_one_to_second_order(task):
    classes = 2 if task == "binary" else 4
    labels = torch.arange(12) % classes
    objective = Objective(cn.Train(loss="taylor"), task, classes, labels)
    z = (torch.randn(12, objective.outputs, dtype=torch.float64) / 100).requires_grad_()
    prepared = objective.prepare(labels, torch.float64)
    y = (2 * prepared - 1) if classes == 2 else 2 * F.one_hot(labels, classes) - 1
    logistic = F.softplus(-y * z).sum(dim=1).mean()
    loss = objective(z, prepared)
    assert loss.item() == pytest.approx(logistic.item(), rel=1e-7)
    loss.backward()
    torch.testing.assert_close(z.grad, 0.25 * (z.detach() - objective.centre(prepared)) / 12)
    # To second order: the derivative of both is the same at 0, and so is that of the derivative.
    at = torch.zeros_like(z).requires_grad_()
    (first,) = torch.autograd.grad(F.softplus(-y * at).sum(dim=1).mean(), at, create_graph=True)
    torch.testing.assert_close(first.detach(), 0.25 * -objective.centre(prepared).double() / 12)


def test_the_active_party_does_not_know_the_loss_and_scores_evaluations_all_the_same():
    run = trained(case_of(rounds=6))
    assert len(run.losses) == 6 and all(math.isnan(row["loss"]) for row in run.losses)
    assert all(math.isfinite(row["validation_loss"]) for row in run.history)
    assert run.summary()["metric"]["best"] is not None


def test_it_is_clocked_again_as_it_was_and_no_more_leaves_than_can():
    case = case_of({"name": "fedbcd", "updates": 2})
    job = with_network(case.job, latency="10ms", bandwidth="1mbit")
    run = simulate(job, case.data, case.modules)
    again = reclock(run, job)
    assert again.time_s == run.time_s
    for name, party in run.parties.items():
        assert again.parties[name].ledger == party.ledger
    ready = prepare(job, case.data, case.modules)
    for name in job.passives:
        sent = {e["kind"]: (e["messages"], e["bytes"]) for e in run.parties[name].ledger
                if e["direction"] == "sent"}  # fmt: skip
        most = ceiling(ready[name])
        assert {kind: sent[kind] for kind in most} == most


@pytest.mark.parametrize("rows", [256])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32, 64])
def test_it_takes_at_most_4_2_times_the_bytes_of_plain_training(width, rows):
    parties = {"bank": cn.Party(role="active"), "lab": cn.Party(), "shop": cn.Party()}
    plain = cn.Job(parties=parties, method={"name": "fedsgd"}, top=cn.Top(kind="agg"),
                   train=cn.Train(rounds=4, batch_size=rows))  # fmt: skip
    encrypted = msgspec.structs.replace(plain, method={"name": "fedsgd"} | ENCRYPTED)
    widths = {"bank": 0, "lab": width, "shop": width}

    def sent(job):
        run = cn.simulate_clock(job, rows=4 * rows, widths=widths)
        kinds = ("Embedding", "Gradient")
        ledger = itertools.chain(*(party.ledger for party in run.parties.values()))
        return sum(entry["bytes"] for entry in ledger if entry["kind"] in kinds)

    assert sent(encrypted) <= 4.2 * sent(plain)


def test_a_run_through_crashes_learns_what_one_without_them_does():
    """Each time that they begin the parties have another key, and none that was saved."""
    method = {"name": "fedbcd", "updates": 2}
    case = case_of(method, rounds=8, checkpoint_every=2, evaluate_every="2 rounds")
    job = with_network(case.job, latency="50ms")
    stores = {name: MemoryStore() for name in job.parties}
    plan = [(900, "p2", 300), (1900, "p1", 300), (2600, "p0", 100)]
    last = _play(job, case, stores, plan, itertools.count())
    undisturbed = simulate(job, case.data, case.modules)
    assert same({name: outcome.weights for name, outcome in last.items()}, undisturbed.weights)


SETS = ["method.protect.cipher=paillier:2048", "top.kind=agg", "top.hidden=[]", "train.loss=taylor"]


@pytest.mark.parametrize(
    ("sets", "sentence"),
    [
        (["method.protect.cipher=paillier:1024"], "a key of 1024 bits: Paillier's takes"),
        (["method.protect.cipher=ckks:1000"], "polynomials of degree 1000: ckks takes 2048 or"),
        (
            ["method.protect.cipher=ckks", "method.protect.sum=pairwise:64"],
            "numbers of 64 bits: ckks takes 32 at most",
        ),
        (["method.protect.cipher=pailier:2048"], "there is no protection 'pailier' of cipher"),
        (["top.kind=split"], "with method.protect.cipher .* set top.kind = 'agg', without"),
        (["top.hidden=[4]"], r"top.hidden has layers: leave out top.hidden, or"),
        (["train.full_loss=true"], "train.full_loss shows the active party the sums"),
        (["train.class_weights=balanced"], "train.class_weights weighs rows"),
        (["method.compress.gradient=half"], "ciphertexts, which cannot be compressed"),
        (["method.compress.embedding=half"], "masks cancel in a sum of numbers"),
        (["method.protect.gradient=max_norm"], "cannot add noise to them"),
        (["method.quorum=anyone"], "no sum in which masks would cancel"),
        (["method.exchange=snapshot", "train.labels=shared"], "choose exchange=gradients"),
    ],
)
def test_what_cannot_be_computed_under_encryption_is_refused(sets, sentence):
    with pytest.raises(JobError, match=sentence):
        simulate(load("digits", [*SETS, *sets]))


def test_more_parties_than_a_cipher_adds_up_are_refused():
    parties = {"bank": cn.Party(role="active")} | {f"p{i}": cn.Party() for i in range(65)}
    job = cn.Job(parties=parties, method={"name": "fedsgd", "protect": {"cipher": "ckks"}},
                 top=cn.Top(kind="agg"), train=cn.Train(rounds=2, loss="taylor"))  # fmt: skip
    with pytest.raises(JobError, match="adds up 64 embeddings at most, and there are 65 passive"):
        check_names(job)


def test_losses_columns_weights_and_labels_that_do_not_fit_are_refused():
    with pytest.raises(JobError, match=r"the loss is bce: set train.loss = 'taylor'"):
        trained(case_of(loss="auto"))
    with pytest.raises(JobError, match="the active party has labels only, and here it has columns"):
        trained(small(4, "agg", False, method={"name": "fedsgd"} | ENCRYPTED, loss="taylor"))
    with pytest.raises(
        JobError, match=r"with one passive party.* leave out method\.protect\.cipher"
    ):
        trained(small(2, "agg", True, method={"name": "fedsgd"} | ENCRYPTED, loss="taylor"))
    x, total, parties = quantities()
    features = {"bank": None} | {name: columns.numpy() for name, columns in x.items()}
    job = cn.Job(parties=parties, method={"name": "fedsgd"} | ENCRYPTED, top=cn.Top(kind="agg"),
                 train=cn.Train(rounds=2, loss="mse"))  # fmt: skip
    with pytest.raises(JobError, match=r"the loss is huber: set train\.loss = 'mse'"):
        huber = msgspec.structs.replace(job, train=cn.Train(rounds=2, loss="huber"))
        simulate(huber, cn.vertical(features, total.numpy()))
    with pytest.raises(JobError, match="a label is too large for the fixed point"):
        simulate(job, cn.vertical(features, total.numpy() * 1e5))
    with pytest.raises(JobError, match="the rows have weights"):
        simulate(job, cn.vertical(features, total.numpy(), weights=np.ones(80)))
