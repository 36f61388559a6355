"""C-VFL against its Algorithm 1, and what it equals in its degenerate cases."""

from __future__ import annotations

import copy

import msgspec
import pytest
import torch
from torch.nn import functional as F

from colonnade import JobError, simulate
from colonnade.compress import Key, Occasion, decode, parse
from colonnade.data.batches import BatchPlan
from tests.small import Small, apart, small


def train(case: Small, **method):
    job = msgspec.structs.replace(case.job, method={"name": "cvfl", **method})
    return simulate(job, case.data, case.modules)


class Algorithm1:
    """C-VFL in one process; `squeeze` is what a tensor looks like after the wire."""

    def __init__(self, case: Small, q: int, compressor: str) -> None:
        self.case, self.q = case, q
        self.modules = copy.deepcopy(case.modules)
        self.names = [name for name in case.parties if case.has_features(name)]
        self.optimizers = {
            name: torch.optim.SGD(module.parameters(), lr=0.1)
            for name, module in self.modules.items()
            if list(module.parameters())
        }
        self.encoders = {}
        self.compressor = parse(compressor)

    def squeeze(self, tensor, sender, role, receiver, round, rows):
        key = Key(self.case.job.seed, sender, role, receiver)
        encoder = self.encoders.setdefault(key, self.compressor.encoder(key))
        return decode(encoder.encode(tensor, Occasion(round, rows))).clone()

    def train(self):
        case = self.case
        plan = BatchPlan(case.data.train_count, case.job.train.batch_size, case.job.seed)
        for round in range(case.job.train.rounds):
            self.round(round, plan.batch(round).copy())
        return self.modules

    def round(self, round, rows):
        index, active = torch.from_numpy(rows), self.case.job.active
        shared = {
            name: self.squeeze(self.embed(name, index).detach(), name, "embedding", "", round, rows)
            for name in self.names
        }
        top = copy.deepcopy(self.modules["top"])
        for number, parameter in enumerate(top.parameters()):
            parameter.data = self.squeeze(parameter.data, active, "top", str(number), round, None)
        for _ in range(self.updates(active, round)):
            self.step("top", self.loss(self.modules["top"], shared, index))
        for name in self.names:
            for _ in range(self.updates(name, round)):
                mine = shared | {name: self.embed(name, index)}
                self.step(name, self.loss(top, mine, index))

    def at_rate(self, factor):
        for optimizer in self.optimizers.values():
            optimizer.param_groups[0]["lr"] = 0.1 * factor

    def updates(self, party, round):
        return self.q

    def embed(self, name, index):
        return self.modules[name](self.case.x(name)[index])

    def loss(self, top, embeddings, index):
        prediction = top([embeddings[name] for name in self.names])
        return F.binary_cross_entropy_with_logits(prediction, self.case.y()[index])

    def step(self, name, loss):
        if name in self.optimizers:
            self.optimizers[name].zero_grad()
            loss.backward()
            self.optimizers[name].step()


@pytest.mark.parametrize("compressor", ["plain", "scalar:3", "lattice:4", "half", "topk:0.5"])
@pytest.mark.parametrize("label_only", [False, True])
@pytest.mark.parametrize("q", [1, 4])
def test_cvfl_is_its_algorithm(q, label_only, compressor):
    case = small(3, "split", label_only, {"name": "sgd", "lr": 0.1}, rounds=15, labels="shared")
    run = train(case, q=q, compressor=compressor)
    expected = Algorithm1(case, q, compressor).train()
    assert apart(run.weights, expected, case.job.active) <= 1e-12
    assert run.summary()["updates"]["p0"] == {"fresh": 15, "local": 15 * (q - 1)}


class ByImportance(Algorithm1):
    """The columns of an embedding that are sent are those with the largest |Σ_i ∂ℓ/∂h_i| in the
    first update of the round before, at the active party as at all others."""

    def __init__(self, case, q, compressor):
        super().__init__(case, q, compressor)
        self.importance, self.newest = {}, {}

    def squeeze(self, tensor, sender, role, receiver, round, rows):
        key = Key(self.case.job.seed, sender, role, receiver)
        known = self.importance.get(sender) if role == "embedding" else None
        packed = self.compressor.encoder(key).encode(tensor, Occasion(round, rows, known))
        return decode(packed).clone()

    def round(self, round, rows):
        self.noted = set()
        super().round(round, rows)

    def embed(self, name, index):
        self.newest[name] = super().embed(name, index)
        self.newest[name].retain_grad()
        return self.newest[name]

    def step(self, name, loss):
        super().step(name, loss)
        if name in self.names and name not in self.noted:
            self.noted.add(name)
            self.importance[name] = self.newest[name].grad.sum(0).abs()


@pytest.mark.parametrize("q", [1, 4])
def test_every_party_chooses_columns_by_its_fresh_update(q):
    case = small(3, optimizer={"name": "sgd", "lr": 0.1}, rounds=20, labels="shared")
    run = train(case, q=q, compressor="topk:1:importance")
    expected = ByImportance(case, q, "topk:1:importance").train()
    assert apart(run.weights, expected, case.job.active) <= 1e-12


def test_algorithm_2_sends_plain_gradients_unless_both_are_to_be_compressed():
    """The paper compresses the embeddings of its Algorithm 2 and not the derivatives."""
    case = small(3, rounds=10, batch_size=48)
    sizes = {}
    for both in (False, True):
        run = train(case, q=1, compressor="scalar:4", exchange="gradients", both=both)
        sizes[both] = {e["kind"]: e["bytes"] for e in run.parties["p0"].ledger}
    plain = {
        e["kind"]: e["bytes"]
        for e in simulate(case.job, case.data, case.modules).parties["p0"].ledger
    }
    assert sizes[False]["Embedding"] == sizes[True]["Embedding"] < plain["Embedding"] / 3
    assert sizes[False]["Gradient"] == plain["Gradient"]
    assert sizes[True]["Gradient"] < plain["Gradient"] / 3


@pytest.mark.parametrize("compressor", ["diminishing+scalar:2", "diminishing+lattice:2"])
def test_an_error_that_diminishes_goes_with_an_inverse_rate(compressor):
    """Theorem 4.4: η₀/(r+1), and more bits in later rounds."""

    class Theorem44(Algorithm1):
        def round(self, round, rows):
            self.at_rate(1 / (round + 1))
            super().round(round, rows)

    case = small(3, optimizer={"name": "sgd", "lr": 0.1}, rounds=20, labels="shared",
                 batch_size=24)  # fmt: skip
    run = train(case, q=3, compressor=compressor, rate="inverse")
    assert apart(run.weights, Theorem44(case, 3, compressor).train(), "p1") <= 1e-12
    assert [rate for _, rate in run.parties["p0"].efforts][:3] == pytest.approx(
        [0.1, 0.05, 0.1 / 3]
    )


@pytest.mark.parametrize("top", ["split", "agg", "dot"])
def test_one_update_without_compression_is_fedsgd(top):
    case = small(3, top, rounds=20, labels="shared")
    plain = simulate(case.job, case.data, case.modules).weights
    for exchange in ("snapshot", "gradients"):
        run = train(case, q=1, compressor="plain", exchange=exchange)
        for party in plain:
            for name, tensor in plain[party].items():
                torch.testing.assert_close(tensor, run.weights[party][name], atol=1e-12, rtol=0)


def test_private_labels_are_refused_with_the_cure():
    case = small(3, rounds=5)
    with pytest.raises(JobError, match="exchange=gradients"):
        train(case, q=2)
    assert train(case, q=2, exchange="gradients").rounds == 5


def test_what_crosses_is_counted():
    """Labels once to each passive, a snapshot a round, and packed bits instead of floats."""
    case = small(3, rounds=10, labels="shared", dtype="float32", batch_size=48)
    runs = {c: train(case, q=2, compressor=c) for c in ("plain", "scalar:4")}
    for run in runs.values():
        kinds = {(e["peer"], e["kind"]): e for e in run.parties["p1"].ledger}
        assert kinds["p0", "Labels"]["messages"] == 1
        assert kinds["p0", "Snapshot"]["messages"] == 10
        assert ("p0", "Gradient") not in kinds
    sizes = {
        c: next(e["bytes"] for e in run.parties["p0"].ledger if e["kind"] == "Embedding")
        for c, run in runs.items()
    }
    assert sizes["scalar:4"] < sizes["plain"] / 3


def test_a_top_with_running_statistics_is_refused():
    case = small(3, rounds=5, labels="shared")
    case.modules["top"].network.append(torch.nn.BatchNorm1d(1).double())
    with pytest.raises(JobError, match="running statistics"):
        train(case, q=2)
