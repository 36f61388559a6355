"""Averaged weights: what is evaluated, kept and handed over is the average of the equation, written
out by hand; what is trained and sent is as without it."""

from __future__ import annotations

import copy
import itertools

import msgspec
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import colonnade as cn
from colonnade import methods, simulate
from colonnade.data.batches import BatchPlan
from colonnade.errors import RequestError
from colonnade.learn.average import Average
from colonnade.learn.saved import Bottom, Head, SavedParty, read_saved
from colonnade.policies.average import ema, none
from colonnade.run.clock import reclock
from colonnade.run.setup import prepare
from colonnade.testing.stores import MemoryStore
from tests.predicting import ROWS, at_places, batch_of, parties_of, simulated, tables
from tests.sim.test_cvfl import Algorithm1
from tests.sim.test_exact import Bcd, optimizers_of
from tests.sim.test_masks import _play, same
from tests.sim.test_replay import Replay, uneven
from tests.small import apart, small, with_network

DECAY = 0.9
EMA = {"average": f"ema:{DECAY}"}
TOLERANCE = 1e-12


class Means:
    """θ̄_t = d_t θ̄_{t−1} + (1 − d_t) θ_t with d_t = min(d, (1 + t)/(10 + t)), module by module;
    integers are copied."""

    def __init__(self, modules, decay=DECAY):
        self.live, self.modules, self.decay = modules, copy.deepcopy(modules), decay
        self.updates = dict.fromkeys(modules, 0)

    def follow(self, *names):
        for name in names:
            self.updates[name] += 1
            t = self.updates[name]
            d = min(self.decay, (1 + t) / (10 + t))
            own, now = self.modules[name].state_dict(), self.live[name].state_dict()
            for key, tensor in now.items():
                floats = tensor.is_floating_point()
                own[key].copy_(d * own[key] + (1 - d) * tensor if floats else tensor)


def own_of(case, name):
    """The modules of a party."""
    parts = [name] if name in case.modules else []
    return [*parts, "top"] if name == case.job.active else parts


def with_batch_norm(case):
    for name in case.parties:
        norm = nn.BatchNorm1d(case.x(name).shape[1])
        case.modules[name] = nn.Sequential(norm, case.modules[name]).double()
    return case


def loss_of(case, modules, split):
    """Of averaged modules, on all rows of a split."""
    for module in modules.values():
        module.eval()
    parts = [
        modules[name](torch.as_tensor(case.data.features[name].part(split)))
        for name in case.parties
    ]
    labels = torch.as_tensor(case.data.labels.part(split), dtype=torch.float64).view(-1, 1)
    return F.binary_cross_entropy_with_logits(modules["top"](parts), labels).item()


@pytest.mark.parametrize("decay", [0.05, 0.5, 0.9, 0.999])
def test_fedsgd_is_a_plain_loop_with_an_average_beside_it(decay):
    """Weights and statistics of batch norm, at the end and in the best round; what evaluations and
    the test at the end measure."""
    case = with_batch_norm(small(3, method={"name": "fedsgd", "average": f"ema:{decay}"}, rounds=40,
                                 optimizer={"name": "adam", "lr": 0.02}, validation=0.2,
                                 evaluate_every="5 rounds"))  # fmt: skip
    run = simulate(case.job, case.data, case.modules)
    modules = copy.deepcopy(case.modules)
    means, optimizers, kept = Means(modules, decay), optimizers_of(case, modules), {}
    plan = BatchPlan(case.data.train_count, case.job.train.batch_size, case.job.seed)
    for round in range(40):
        rows = torch.from_numpy(plan.batch(round).copy())
        embeddings = [modules[name](case.x(name)[rows]) for name in case.parties]
        loss = F.binary_cross_entropy_with_logits(modules["top"](embeddings), case.y()[rows])
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
        means.follow(*modules)
        kept[round + 1] = copy.deepcopy(means.modules)
    assert apart(run.weights, means.modules, case.job.active) <= TOLERANCE
    assert apart(run.weights, modules, case.job.active) > 1e-4, "that is no average"
    assert {name for weights in run.weights.values() for name in weights} > {
        "bottom.0.running_mean", "bottom.0.running_var", "bottom.0.num_batches_tracked"
    }  # fmt: skip
    measured = [row["validation_loss"] for row in run.history]
    assert len(measured) == 8
    by_hand = [loss_of(case, kept[row["round"]], "validation") for row in run.history]
    assert measured == pytest.approx(by_hand, abs=1e-10)
    best = kept[max(row["round"] for row in run.history if row["best"])]
    assert apart(run.best_weights, best, case.job.active) <= TOLERANCE
    assert run.test["test_loss"] == pytest.approx(loss_of(case, best, "test"), abs=1e-10)


class AveragedBcd(Bcd):
    """FedBCD that averages after every update of a party."""

    def __init__(self, *args):
        super().__init__(*args)
        self.means = Means(self.modules)

    def step(self, name, objective, anchors):
        super().step(name, objective, anchors)
        self.means.follow(*own_of(self.case, name))


@pytest.mark.parametrize("label_only", [False, True])
@pytest.mark.parametrize("order", ["parallel", "sequential"])
def test_fedbcd_averages_after_every_local_update_too(order, label_only):
    table = {"name": "fedbcd", "updates": 3, "order": order} | EMA
    case = small(3, "split", label_only, {"name": "adam", "lr": 0.01}, table, rounds=30)
    run = simulate(case.job, case.data, case.modules)
    by_hand = AveragedBcd(case, 3, order, "after", 0.0)
    by_hand.train()
    assert by_hand.means.updates["top"] == 90
    assert apart(run.weights, by_hand.means.modules, case.job.active) <= TOLERANCE


class AveragedAlgorithm1(Algorithm1):
    """C-VFL that averages: top and bottom model of the active party do as many updates."""

    def __init__(self, *args):
        super().__init__(*args)
        self.means = Means(self.modules)

    def step(self, name, loss):
        super().step(name, loss)
        self.means.follow(name)


@pytest.mark.parametrize("label_only", [False, True])
def test_snapshots_carry_the_top_model_as_it_is_and_all_average(label_only):
    table = {"name": "cvfl", "q": 4, "compressor": "scalar:3"} | EMA
    case = small(3, "split", label_only, {"name": "sgd", "lr": 0.1}, table, rounds=25,
                 labels="shared")  # fmt: skip
    run = simulate(case.job, case.data, case.modules)
    by_hand = AveragedAlgorithm1(case, 4, "scalar:3")
    by_hand.train()
    assert apart(run.weights, by_hand.means.modules, case.job.active) <= TOLERANCE


class AveragedReplay(Replay):
    """A log of actions that averages after each."""

    def __init__(self, *args):
        super().__init__(*args)
        self.means = Means(self.modules)

    def apply(self, name, gradients):
        super().apply(name, gradients)
        self.means.follow(*own_of(self.case, name))


@pytest.mark.parametrize(
    ("table", "threshold"),
    [
        ({"name": "pasta", "b_max": 4, "s_max": 6}, None),
        ({"name": "celu", "w": 4, "r": 4, "threshold": 0.3, "window": "pipelined:3"}, 0.3),
    ],
    ids=["pasta", "celu, pipelined"],
)
def test_a_party_that_runs_ahead_averages_in_the_order_of_its_updates(table, threshold):
    case = small(3, "split", False, {"name": "sgd", "lr": 0.05, "momentum": 0.5}, table | EMA,
                 rounds=60)  # fmt: skip
    case = uneven(case, {"p0": "211ms", "p2": "403ms"})
    run = simulate(case.job, case.data, case.modules)
    log = [(*action, name) for name, party in run.parties.items() for action in party.actions]
    replay = AveragedReplay(case, table, threshold)
    for _, action, round, party in sorted(log, key=lambda entry: entry[0]):
        replay.do(party, action, round)
    assert max(run.summary()["max_in_flight"].values()) >= 2
    assert apart(run.weights, replay.means.modules, case.job.active) <= TOLERANCE


METHODS = [
    {"name": "fedsgd"},
    {"name": "fedbcd", "updates": 3, "order": "sequential"},
    {"name": "cvfl", "q": 3},
    {"name": "celu", "window": "pipelined:3", "version": "recompute"},
    {"name": "pasta"},
    {"name": "vafl"},
    {"name": "fedsgd", "compress": {"embedding": "ef+scalar:2"}},
]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_what_is_trained_and_sent_is_as_without_it(method):
    """The losses of training, the clock and every byte; and an average that reaches back to nothing
    is no average, bit for bit."""
    runs = []
    for more in ({}, {"average": "ema:0.99"}, {"average": "ema:1e-300"}):
        case = small(3, method=method | more, rounds=20, labels="shared",
                     evaluate_every="5 rounds", validation=0.2)  # fmt: skip
        job = with_network(case.job, latency="100ms")
        runs.append(simulate(job, case.data, case.modules))
    plain, averaged, last = runs
    for run in (averaged, last):
        assert run.losses == plain.losses and run.time_s == plain.time_s
        for name, party in run.parties.items():
            assert party.ledger == plain.parties[name].ledger
    assert not same(averaged.weights, plain.weights)
    assert not same(averaged.best_weights, plain.best_weights)
    assert averaged.history != plain.history
    assert same(last.weights, plain.weights) and same(last.best_weights, plain.best_weights)
    assert last.history == plain.history and last.test == plain.test


def test_equal_things_are_equal_values_and_a_decay_has_its_bounds():
    assert ema(0) == none() and methods.build({"name": "fedsgd"}).average == none()
    plain = methods.build({"name": "fedsgd"})
    for text in ("none", "ema:0", "ema:decay=0.0"):
        assert methods.build({"name": "fedsgd", "average": text}) == plain
    made = methods.build({"name": "fedsgd", "average": "ema:0.999"})
    assert made.composition() == {"average": "ema(decay=0.999)"}
    for decay in (-0.1, 1, 1.5, float("nan")):
        with pytest.raises(RequestError, match="an average needs 0 to below 1"):
            ema(decay)


def test_the_parties_must_agree_on_it():
    digests = {
        prepare(case.job, case.data, case.modules)["p0"].hello.digest
        for average in ("none", "ema:0", "ema:0.9", "ema:0.99")
        for case in [small(3, method={"name": "fedsgd", "average": average})]
    }
    assert len(digests) == 3, "a decay of 0 is none"


def test_a_counter_is_copied_and_a_constant_stays_even_if_infinite():
    module = nn.Module()
    module.register_buffer("mask", torch.tensor([0.0, -torch.inf, torch.inf]))
    module.register_buffer("count", torch.tensor(0))
    module.register_buffer("seen", torch.zeros(2), persistent=False)
    average = Average(ema(0.5), {"bottom": module})
    module.count += 3
    module.seen += 11
    average.follow()
    mean = average.modules["bottom"]
    assert mean.mask.tolist() == [0.0, -torch.inf, torch.inf] and mean.count.item() == 3
    assert mean.seen.tolist() == pytest.approx([9, 9]) and module.seen.tolist() == [11, 11]


def test_a_run_through_crashes_has_the_averages_of_one_without_them():
    """A checkpoint holds the weights, their averages and how many updates those are of."""
    table = {"name": "fedbcd", "updates": 2, "average": "ema:0.99"}
    case = with_batch_norm(small(4, method=table, rounds=8, checkpoint_every=2, validation=0.2,
                                 evaluate_every="2 rounds"))  # fmt: skip
    job = with_network(case.job, latency="50ms")
    stores = {name: MemoryStore() for name in job.parties}
    plan = [(900, "p2", 300), (1900, "p1", 300), (2600, "p0", 100)]
    last = _play(job, case, stores, plan, itertools.count())
    undisturbed = simulate(job, case.data, case.modules)
    assert same({name: end.weights for name, end in last.items()}, undisturbed.weights)
    assert same({name: end.best_weights for name, end in last.items()}, undisturbed.best_weights)
    saved = stores["p0"].load(6)["learner"]
    kept = saved["trainer"]["average"]
    assert kept["updates"] == 12
    for name, tensor in saved["modules"]["bottom"].items():
        averaged = kept["modules"]["bottom"][name]
        assert torch.equal(tensor, averaged) == name.endswith("num_batches_tracked")


def test_a_checkpoint_without_an_average_has_no_place_for_one():
    case = small(3, checkpoint_every=5)
    stores = {name: MemoryStore() for name in case.job.parties}
    _play(case.job, case, stores, [], itertools.count())
    assert "average" not in stores["p0"].load(5)["learner"]["trainer"]


def test_it_is_clocked_again_as_it_was():
    case = small(3, method={"name": "fedbcd", "updates": 2} | EMA, rounds=6, validation=0.2,
                 evaluate_every="2 rounds")  # fmt: skip
    job = with_network(case.job, latency="10ms", bandwidth="1mbit")
    run = simulate(job, case.data, case.modules)
    again = reclock(run, job)
    assert again.time_s == run.time_s and again.history == run.history


@pytest.fixture
def lived(monkeypatch):
    """The weights after every update, by the first of them."""
    seen, follow = {}, Average.follow

    def noted(average):
        follow(average)
        own = {
            f"{part}.{name}": tensor.detach().clone()
            for part, module in average._live.items()
            for name, tensor in module.state_dict().items()
        }
        seen.setdefault(id(average), []).append(own)

    monkeypatch.setattr(Average, "follow", noted)
    return seen


def summed(weights, decay):
    """Σ_s (1 − d_s) ∏_{r>s} d_r θ_s: the average as one sum; the initial weights are forgotten."""
    decays = [min(decay, (1 + t) / (10 + t)) for t in range(1, len(weights) + 1)]
    shares = [(1 - d) * np.prod(decays[s + 1 :]) for s, d in enumerate(decays)]
    return {name: sum(share * own[name] for share, own in zip(shares, weights, strict=True))
            for name in weights[0]}  # fmt: skip


@pytest.mark.parametrize("every", ["never", "1 epoch"])
def test_a_saved_model_predicts_and_goes_on_with_the_average(every, lived, tmp_path):
    job = tables(tmp_path)
    train = msgspec.structs.replace(job.train, evaluate_every=every, epochs=4)
    job = msgspec.structs.replace(
        job, train=train, method={"name": "fedsgd", "average": "ema:0.95"}
    )
    run = cn.simulate(job)
    run.save(tmp_path / "run")
    cards = {name: party.card for name, party in run.parties.items()}
    updates = cards["bank"].round + 1
    means = [summed(own[:updates], 0.95) for own in lived.values()]
    saved = {name: read_saved(tmp_path / "run", name) for name in job.parties}
    by_hand = {
        name: SavedParty(each.card, mean, each.preprocessor)
        for name, each in saved.items()
        for mean in means
        if mean.keys() == each.tensors.keys()
        and all(torch.allclose(mean[key], each.tensors[key], atol=1e-4) for key in mean)
    }
    assert by_hand.keys() == job.parties.keys()
    parties = parties_of(job, tmp_path / "run", tmp_path / "asked")
    source, found = batch_of(parties["bank"], at_places(range(ROWS)))
    simulated(parties, source)
    columns = {name: party.data.columns for name, party in prepare(job).items()}
    for split in ("train", "test"):
        embeddings = {
            name: Bottom(by_hand[name]).embed(columns[name].part(split)) for name in job.parties
        }
        scores = Head(by_hand["bank"]).scores(embeddings)
        # Every row of the split is among all the rows that were asked for.
        gaps = np.abs(found[0].scores[None, :, 0] - scores[:, None, 0]).min(axis=1)
        assert gaps.max() < 1e-4
    still = ["parties.*.optimizer.lr=0", "parties.*.optimizer.name=sgd", "train.epochs=1"]
    again = cn.simulate(cn.with_sets(job, *still), start=tmp_path / "run")
    for name, party in again.parties.items():
        tensors = saved[name].tensors
        assert all(torch.equal(party.weights[key], tensors[key]) for key in tensors)
