"""EF-VFL against its equations; and that both ends remember the same, whatever happens between."""

from __future__ import annotations

import copy
from functools import partial

import msgspec
import pytest
import torch
from torch.nn import functional as F

from colonnade import JobError, methods, simulate
from colonnade.compress import Key, Occasion, decode, parse, plain
from colonnade.data.batches import BatchPlan
from colonnade.errors import BreachError, NotFiniteError
from colonnade.job.records import Limits
from colonnade.learn.outbound import Stage
from colonnade.party.training import Training
from colonnade.run.setup import prepare
from colonnade.run.simulate import run_parties
from colonnade.sim.kernel import Simulator
from colonnade.testing.lossy import LossySimulator
from colonnade.testing.stores import MemoryStore
from tests.netrun import run_program
from tests.sim.test_recording import _recordings
from tests.small import Small, apart, small, with_network

SGD = {"name": "sgd", "lr": 0.1}


def train(case: Small, record=None, **method):
    job = msgspec.structs.replace(case.job, method={"name": "efvfl", **method})
    return simulate(job, case.data, case.modules, record=record)


class ByHand:
    """EF-VFL in one process: G ← G + C(h − G), and everybody's step by the loss of the G."""

    def __init__(self, case: Small, compressor: str, both: bool, shared: bool) -> None:
        self.case, self.both, self.shared = case, both, shared
        self.compressor, self.modules = parse(compressor), copy.deepcopy(case.modules)
        self.memories = {}

    def crossed(self, tensor, sender, role, receiver, round, rows):
        """What both ends have of a tensor when its compressed difference has crossed."""
        key = Key(self.case.job.seed, sender, role, receiver)
        empty = torch.zeros(self.case.data.train_count, tensor.shape[-1], dtype=tensor.dtype)
        known = self.memories.setdefault(key, empty if rows is not None else 0 * tensor)
        places = slice(None) if rows is None else torch.from_numpy(rows)
        change = (tensor - known[places]).detach()
        known[places] += decode(self.compressor.encoder(key).encode(change, Occasion(round, rows)))
        return known[places].clone()

    def train(self):
        case, lr = self.case, SGD["lr"]
        optimizers = [
            torch.optim.SGD(m.parameters(), lr=lr)
            for m in self.modules.values()
            if [*m.parameters()]
        ]
        plan = BatchPlan(case.data.train_count, case.job.train.batch_size, case.job.seed)
        for round in range(case.job.train.rounds):
            for optimizer in optimizers:
                optimizer.zero_grad()
            (self.round_of_snapshots if self.shared else self.round)(
                round, plan.batch(round).copy()
            )
            for optimizer in optimizers:
                optimizer.step()
        return self.modules

    def embedded(self, rows):
        return {name: self.modules[name](self.case.x(name)[torch.from_numpy(rows)])
                for name in self.case.parties}  # fmt: skip

    def loss(self, top, embeddings, rows):
        labels = self.case.y()[torch.from_numpy(rows)]
        return F.binary_cross_entropy_with_logits(top(list(embeddings.values())), labels)

    def round(self, round, rows):
        active, own = self.case.job.active, self.embedded(rows)
        leaves = {
            name: (h if name == active else self.crossed(h, name, "embedding", "", round, rows))
            .detach()
            .requires_grad_()
            for name, h in own.items()
        }
        self.loss(self.modules["top"], leaves, rows).backward()
        for name, h in own.items():
            gradient = leaves[name].grad
            if self.both and name != active:
                gradient = self.crossed(gradient, active, "gradient", name, round, rows)
            h.backward(gradient)

    def round_of_snapshots(self, round, rows):
        active, own = self.case.job.active, self.embedded(rows)
        read = {name: self.crossed(h, name, "embedding", "", round, rows)
                for name, h in own.items()}  # fmt: skip
        top = copy.deepcopy(self.modules["top"])
        for number, parameter in enumerate(top.parameters()):
            parameter.data = self.crossed(parameter.data, active, "top", str(number), round, None)
        self.loss(self.modules["top"], read, rows).backward()
        for name, h in own.items():
            self.loss(top, read | {name: h}, rows).backward()


@pytest.mark.parametrize("compressor", ["scalar:2", "scalar:1:dither", "lattice:2", "topk:1"])
@pytest.mark.parametrize("both", [False, True])
def test_it_follows_its_equations(compressor, both):
    case = small(3, rounds=30, optimizer=SGD)
    run = train(case, compressor=compressor, both=both)
    assert apart(run.weights, ByHand(case, compressor, both, False).train(), "p1") < 1e-12
    other = train(case, compressor=compressor, both=not both)
    assert apart(other.weights, ByHand(case, compressor, both, False).train(), "p1") > 1e-6


@pytest.mark.parametrize("compressor", ["scalar:2", "topk:0.5"])
def test_with_shared_labels_it_follows_its_equations_too(compressor):
    case = small(3, rounds=30, optimizer=SGD, labels="shared")
    run = train(case, compressor=compressor, exchange="snapshot")
    assert apart(run.weights, ByHand(case, compressor, False, True).train(), "p1") < 1e-12


def test_without_losses_it_is_plain_split_training():
    """As a value with plain; with another encoding that loses nothing, but for the rounding of the
    difference and of the sum: G + (h − G) is not h to the last bit."""
    assert methods.build({"name": "efvfl", "compressor": "plain"}) == methods.build({})
    case = small(3, rounds=40, optimizer=SGD)
    usual = simulate(case.job, case.data, case.modules)
    case.job = msgspec.structs.replace(
        case.job,
        method={"name": "fedsgd", "compress": {"embedding": "ef21+tests.outside:rotated:3",
                                               "gradient": "ef21+tests.outside:rotated:3"}},
    )  # fmt: skip
    run = simulate(case.job, case.data, case.modules)
    differences = [
        (run.weights[party][name] - tensor).abs().max()
        for party, weights in usual.weights.items()
        for name, tensor in weights.items()
    ]
    assert max(differences) < 1e-13


@pytest.mark.parametrize(
    "method",
    [
        {"name": "pasta", "b_max": 6, "s_max": 3},
        {"name": "celu", "window": "pipelined:4"},
        {"name": "vafl"},
        {"name": "pasta", "b_max": 4, "exchange": "snapshot"},
    ],
    ids=lambda method: method["name"],
)
def test_with_several_exchanges_in_flight_both_ends_read_the_same(method):
    """Also of a row that comes up again before the reply to its last batch is here: an epoch has
    three batches."""
    coded = {"embedding": "ef21+scalar:1"}
    if "exchange" not in method:
        coded["gradient"] = "ef21+scalar:1"
    case = small(3, method=method | {"compress": coded}, rounds=40, batch_size=16, labels="shared")
    case.job = with_network(case.job, latency="300ms")
    run = simulate(case.job, case.data, case.modules, record=200)
    if method["name"] != "vafl":
        assert max(run.summary()["max_in_flight"].values()) > 3
    seen = _recordings(run)
    for name in case.job.passives:
        ways = [(name, "p1", "embedding")]
        ways += [("p1", name, "gradient")] if "gradient" in coded else []
        for sender, receiver, purpose in ways:
            sent = seen[sender].streams["sent", receiver, purpose]
            there = seen[receiver].streams["received", sender, purpose]
            assert len(there.values) >= 40 * 16 - 16
            assert (there.values == sent.values[: len(there.values)]).all()
            assert (there.rows == sent.rows[: len(there.rows)]).all()


@pytest.mark.parametrize("method", [{"both": True}, {"exchange": "snapshot"}], ids=str)
@pytest.mark.parametrize("who", ["p0", "p1"])
def test_after_a_crash_both_ends_go_back_to_the_same_memory(who, method):
    """The others go back with it; what they learn is what they would have learnt, to the bit."""
    case = small(3, method={"name": "efvfl", **method}, rounds=30, labels="shared",
                 checkpoint_every=7)  # fmt: skip
    case.job = with_network(case.job, latency="5ms")
    stores = {name: MemoryStore() for name in case.parties}

    def training(name):
        return Training.of(prepare(case.job, case.data, case.modules)[name], stores[name])

    simulator = LossySimulator(case.job, until_ns=10**13)
    trainings = {name: training(name) for name in case.parties}

    def crash():
        assert trainings[who].loop.view.round > 14, "it has a checkpoint of the second epoch"
        assert simulator.crash(who)
        again = run_program(simulator.worlds[who], training(who))
        simulator.call_at(simulator.now_ns + 10_000_000, lambda: simulator.restart(who, again))

    simulator.call_at(900_000_000, crash)
    outcomes = simulator.run(
        {name: run_program(simulator.worlds[name], own) for name, own in trainings.items()}
    )
    assert simulator.worlds["p2"].regroups == 1
    alone = simulate(case.job, case.data, case.modules)
    for name, weights in alone.weights.items():
        for key, weight in weights.items():
            assert torch.equal(weight, outcomes[name].weights[key]), (name, key)


def test_in_the_first_epoch_it_is_the_compressor_alone():
    """Nothing is remembered yet of any row; from the second epoch on the two go apart."""
    case = small(3, rounds=6, optimizer=SGD)
    alone = {
        "name": "cvfl",
        "q": 1,
        "exchange": "gradients",
        "both": True,
        "compressor": "scalar:2",
    }
    for rounds, same in ((6, True), (8, False)):
        options = msgspec.structs.replace(case.job.train, rounds=rounds)
        case.job = msgspec.structs.replace(case.job, train=options, method=alone)
        one, other = simulate(case.job, case.data, case.modules), train(case, both=True)
        assert same == all(
            torch.equal(tensor, other.weights[party][name])
            for party, weights in one.weights.items()
            for name, tensor in weights.items()
        )


def test_what_crosses_is_as_long_as_in_the_inner_encoding():
    case = small(3, rounds=30, evaluate_every="10 rounds")
    for coded in ("scalar:2", "topk:2", "half"):
        ledgers = []
        for prefix in ("", "ef21+"):
            table = {"embedding": prefix + coded, "gradient": prefix + coded}
            method = {"name": "fedsgd", "compress": table}
            job = msgspec.structs.replace(case.job, method=method)
            run = simulate(job, case.data, case.modules)
            ledgers.append(
                [(e["kind"], e["messages"], e["bytes"]) for e in run.parties["p1"].ledger
                 if "Embedding" in e["kind"] or e["kind"] == "Gradient"]
            )  # fmt: skip
        assert ledgers[0] == ledgers[1]


def test_evaluations_neither_use_nor_move_the_memory():
    """Their embeddings cross by themselves, in the inner encoding."""
    case = small(3, rounds=30, optimizer=SGD, evaluate_every="never")
    often = copy.deepcopy(case)
    often.job = msgspec.structs.replace(
        case.job, train=msgspec.structs.replace(case.job.train, evaluate_every="2 rounds")
    )
    one, other = train(case), train(often)
    assert all(
        torch.equal(tensor, other.weights[party][name])
        for party, weights in one.weights.items()
        for name, tensor in weights.items()
    )


def leaving(monkeypatch, purpose, change, rounds=(4,)):
    """What leaves for a purpose is changed in some rounds."""
    pack = Stage.pack

    def changed(self, tensor, use=None, labels=None):
        good = pack(self, tensor, use, labels)
        hostile = self.purpose == purpose and use is not None and use.round in rounds
        return change(tensor) if hostile else good

    monkeypatch.setattr(Stage, "pack", changed)


@pytest.mark.parametrize("rounds", [(4,), (4, 5)])
def test_differences_that_add_up_to_too_much_name_their_sender(monkeypatch, rounds):
    """Each may be sent; the second one makes of the first what no loss can be computed from."""
    spoilt = partial(torch.full_like, fill_value=1e154)
    leaving(monkeypatch, "embedding", lambda tensor: plain().encode(spoilt(tensor)), rounds)
    case = small(2, rounds=7, batch_size=48)
    coded = {"compress": {"embedding": "ef21+steps:0=scalar:2,3=plain"}}
    case.job = msgspec.structs.replace(case.job, method={"name": "fedsgd", **coded})
    parties = prepare(case.job, case.data, case.modules)
    trainings = {name: Training.of(party) for name, party in parties.items()}
    run_parties(Simulator(case.job), trainings)
    fault = trainings["p1"].loop.fault
    if len(rounds) == 1:
        assert fault is None
    else:
        assert (fault.sender, fault.said) == (
            "p0",
            "p0 sent a tensor with components as large as 2e+154 in round 6",
        )


def test_a_gradient_that_makes_the_value_too_large_names_its_sender(monkeypatch):
    def spoilt(tensor):
        return plain().encode(torch.full_like(tensor, float("nan")))

    leaving(monkeypatch, "gradient", spoilt)
    case = small(3, rounds=12)
    coded = {"compress": {"gradient": "ef21+steps:0=scalar:2,3=plain"}}
    job = msgspec.structs.replace(case.job, method={"name": "fedsgd", **coded})
    with pytest.raises(NotFiniteError, match="p1 sent a tensor with NaN"):
        simulate(job, case.data, case.modules)


def test_a_plain_tensor_in_the_place_of_a_difference_is_a_breach(monkeypatch):
    leaving(monkeypatch, "embedding", lambda tensor: plain().encode(tensor))
    with pytest.raises(BreachError, match=r"p[02] sent .* 'plain' where ef21\+scalar:2 is due"):
        train(small(3, rounds=12))


@pytest.mark.parametrize(
    "coded", [{"embedding": "ef21+scalar:2"}, {"gradient": "ef21+scalar:2"}], ids=str
)
def test_a_memory_over_its_limit_is_refused_before_anything_is_allocated(coded):
    case = small(3)
    rows = case.data.train_count
    method = {"name": "fedsgd", "compress": coded}
    job = msgspec.structs.replace(case.job, method=method, limits=Limits(table_bytes=rows * 4 * 8))
    assert prepare(job, case.data, case.modules)["p1"].agreement().width_max == 4
    less = msgspec.structs.replace(job, limits=Limits(table_bytes=rows * 4 * 8 - 1))
    with pytest.raises(JobError, match=r"remember 48 rows of p0, 4 wide, .* limits.table_bytes is"):
        prepare(less, case.data, case.modules)
    usual = msgspec.structs.replace(less, method={"name": "fedsgd"})
    assert prepare(usual, case.data, case.modules)["p1"].agreement().width_max > 4
