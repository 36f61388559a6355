"""The methods against straightforward single-process scripts, in float64."""

from __future__ import annotations

import copy

import msgspec
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from colonnade import simulate
from colonnade.data.batches import BatchPlan
from tests.small import Small, apart, small

TOLERANCE = 1e-12
ROUNDS = 20
"""Three times through the rows, and some."""
OPTIMIZERS = {
    "sgd": {"name": "sgd", "lr": 0.05},
    "momentum": {"name": "sgd", "lr": 0.02, "momentum": 0.9},
    "adam": {"name": "adam", "lr": 0.01},
}


def optimizers_of(case: Small, modules: dict[str, nn.Module]) -> dict[str, torch.optim.Optimizer]:
    """One optimizer to a party; the active party's also moves the top model."""
    made = {}
    for name, party in case.job.parties.items():
        options = dict(party.optimizer)
        build = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[options.pop("name")]
        parameters = list(modules[name].parameters()) if name in modules else []
        if name == case.job.active:
            parameters += list(modules["top"].parameters())
        if parameters:
            made[name] = build(parameters, **options)
    return made


def joint_training(case: Small) -> dict[str, nn.Module]:
    """Plain autograd through the joint model: no cut, no messages."""
    modules = copy.deepcopy(case.modules)
    optimizers = optimizers_of(case, modules)
    names = [name for name in case.parties if case.has_features(name)]
    plan = BatchPlan(case.data.train_count, case.job.train.batch_size, case.job.seed)
    for round in range(case.job.train.rounds):
        rows = torch.from_numpy(plan.batch(round).copy())
        embeddings = [modules[name](case.x(name)[rows]) for name in names]
        loss = F.binary_cross_entropy_with_logits(modules["top"](embeddings), case.y()[rows])
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
    return modules


# An optimizer is a party's own, however many others there are.
SIZES = [pytest.param(parties, optimizer,
                      marks=[pytest.mark.slow] * (parties != 3 and optimizer != "adam"))
         for parties in (2, 3, 5) for optimizer in OPTIMIZERS]  # fmt: skip


@pytest.mark.parametrize(("parties", "optimizer"), SIZES)
@pytest.mark.parametrize("label_only", [False, True])
@pytest.mark.parametrize("top", ["split", "agg", "dot"])
def test_fedsgd_is_joint_training(top, parties, label_only, optimizer):
    case = small(parties, top, label_only, OPTIMIZERS[optimizer], rounds=ROUNDS)
    run = simulate(case.job, case.data, case.modules)
    assert run.rounds == ROUNDS
    assert apart(run.weights, joint_training(case), case.job.active) <= TOLERANCE


def test_training_moves_every_weight():
    case = small(rounds=ROUNDS)
    run = simulate(case.job, case.data, case.modules)
    for party, weights in run.weights.items():
        for name, tensor in weights.items():
            part, _, key = name.partition(".")
            start = case.modules["top" if part == "top" else party].state_dict()[key]
            assert not torch.equal(start, tensor), name


class Bcd:
    """FedBCD in one process: Algorithm 1 for -p, the reference notes' rule for -s."""

    def __init__(self, case: Small, updates: int, order: str, reply: str, mu: float) -> None:
        self.case = case
        self.updates, self.order, self.reply, self.mu = updates, order, reply, mu
        self.modules = copy.deepcopy(case.modules)
        self.optimizers = optimizers_of(case, self.modules)
        self.passives = list(case.job.passives)
        self.active = case.job.active

    def train(self) -> dict[str, nn.Module]:
        case = self.case
        plan = BatchPlan(case.data.train_count, case.job.train.batch_size, case.job.seed)
        for round in range(case.job.train.rounds):
            self.round(torch.from_numpy(plan.batch(round).copy()))
        return self.modules

    def round(self, rows: torch.Tensor) -> None:
        sent = {
            name: self.modules[name](self.case.x(name)[rows]).detach() for name in self.passives
        }
        first = self.derivatives(rows, sent)
        anchors = {
            name: [p.detach().clone() for p in self.parameters(name)] for name in self.case.parties
        }
        before_last = first
        for update in range(self.updates):
            if update == self.updates - 1:
                before_last = self.derivatives(rows, sent)
            self.step(self.active, self.loss(rows, sent), anchors)
        replies = first
        if self.order == "sequential":
            replies = self.derivatives(rows, sent) if self.reply == "after" else before_last
        for name in self.passives:
            for _ in range(self.updates):
                embedding = self.modules[name](self.case.x(name)[rows])
                self.step(name, (embedding * replies[name]).sum(), anchors)

    def loss(self, rows: torch.Tensor, sent: dict[str, torch.Tensor]) -> torch.Tensor:
        embeddings = dict(sent)
        if self.case.has_features(self.active):
            embeddings[self.active] = self.modules[self.active](self.case.x(self.active)[rows])
        ordered = [embeddings[name] for name in self.case.parties if name in embeddings]
        return F.binary_cross_entropy_with_logits(self.modules["top"](ordered), self.case.y()[rows])

    def derivatives(self, rows: torch.Tensor, sent: dict[str, torch.Tensor]):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in sent.items()}
        gradients = torch.autograd.grad(self.loss(rows, leaves), list(leaves.values()))
        return dict(zip(leaves, gradients, strict=True))

    def parameters(self, name: str) -> list[torch.Tensor]:
        own = list(self.modules[name].parameters()) if name in self.modules else []
        return own + (list(self.modules["top"].parameters()) if name == self.active else [])

    def step(self, name: str, objective: torch.Tensor, anchors) -> None:
        for parameter, start in zip(self.parameters(name), anchors[name], strict=True):
            objective = objective + self.mu / 2 * ((parameter - start) ** 2).sum()
        if name in self.optimizers:
            self.optimizers[name].zero_grad()
            objective.backward()
            self.optimizers[name].step()


@pytest.mark.parametrize(("updates", "mu"), [(1, 0.0), (3, 0.0), (3, 0.1), (5, 0.0), (5, 0.1)])
@pytest.mark.parametrize(
    ("order", "reply"), [("parallel", "after"), ("sequential", "after"), ("sequential", "last")]
)
def test_fedbcd_is_its_algorithm(order, reply, updates, mu):
    method = {"name": "fedbcd", "updates": updates, "order": order, "reply": reply, "mu": mu}
    case = small(3, optimizer=OPTIMIZERS["momentum"], method=method, rounds=ROUNDS)
    run = simulate(case.job, case.data, case.modules)
    expected = Bcd(case, updates, order, reply, mu).train()
    assert apart(run.weights, expected, case.job.active) <= TOLERANCE
    counted = run.summary()["updates"]
    assert all(c == {"fresh": ROUNDS, "local": ROUNDS * (updates - 1)} for c in counted.values())


@pytest.mark.parametrize("top", ["split", "agg", "dot"])
@pytest.mark.parametrize("label_only", [False, True])
def test_fedbcd_for_every_top(top, label_only):
    method = {"name": "fedbcd", "updates": 4, "mu": 0.05}
    case = small(3, top, label_only, OPTIMIZERS["adam"], method, rounds=ROUNDS)
    run = simulate(case.job, case.data, case.modules)
    expected = Bcd(case, 4, "parallel", "after", 0.05).train()
    assert apart(run.weights, expected, case.job.active) <= TOLERANCE


def final_weights(case: Small, **method):
    run = simulate(msgspec.structs.replace(case.job, method=method), case.data, case.modules)
    return run.weights


def equal(a, b) -> bool:
    return all(torch.equal(a[p][n], b[p][n]) for p in a for n in a[p])


def test_degenerate_cases_are_equal_bit_for_bit():
    case = small(3, optimizer=OPTIMIZERS["adam"], rounds=ROUNDS)
    plain = final_weights(case, name="fedsgd")
    assert equal(plain, final_weights(case, name="fedbcd", updates=1))
    assert equal(
        plain, final_weights(case, name="fedbcd", updates=1, order="sequential", reply="last")
    )
    assert not equal(plain, final_weights(case, name="fedbcd", updates=2))
    assert not equal(plain, final_weights(case, name="fedbcd", updates=1, order="sequential"))


@pytest.mark.parametrize(("decay", "parties"), [("sqrt", 1), ("sqrt-parties", 3)])
def test_decay_is_a_learning_rate_by_rounds(decay, parties):
    case = small(3, method={"name": "fedbcd", "updates": 1, "decay": decay}, rounds=ROUNDS)
    run = simulate(case.job, case.data, case.modules)
    schedule = {"name": "LambdaLR", "lr_lambda": lambda r: 1 / ((r + 1) * parties) ** 0.5}
    scheduled = {
        name: msgspec.structs.replace(party, schedule=schedule | {"every": "round"})
        for name, party in case.job.parties.items()
    }
    plain = msgspec.structs.replace(case.job, parties=scheduled, method={"name": "fedsgd"})
    other = simulate(plain, case.data, case.modules)
    for party, weights in run.weights.items():
        for name, tensor in weights.items():
            torch.testing.assert_close(tensor, other.weights[party][name], atol=1e-13, rtol=0)
