"""Methods that depend on the clock, against plain scripts that replay a run's own action log.

The log says who did what on which batch and when; the script does the same with plain torch and
knows nothing of messages, policies or the simulator. In the end the weights must be equal.
"""

from __future__ import annotations

import copy

import msgspec
import pytest
import torch
from torch.nn import functional as F

from colonnade import Costs, Link, simulate
from colonnade.data.batches import BatchPlan
from tests.small import Small, apart, small, with_network


class Replay:
    """Everybody's weights, moved by a log of actions."""

    def __init__(self, case: Small, table: dict, threshold: float | None) -> None:
        self.case = case
        fullpipe = table["name"] == "fullpipe"
        self.compensates = fullpipe or table.get("weight") == "compensate"
        self.spares = fullpipe or table.get("version") == "recompute:idle"
        self.again: set[tuple[str, int]] = set()
        self.stale = "rate" in table or table["name"] == "fullpipe"
        """Whether fresh updates are weighed, slowed and robbed of momentum by their staleness."""
        self.updates = dict.fromkeys(case.job.parties, 0)
        self.then: dict[tuple[str, int], int] = {}
        self.active = case.job.active
        self.peers = list(case.job.passives)
        self.threshold = threshold
        self.modules = copy.deepcopy(case.modules)
        self.optimizers = {}
        for name, party in case.job.parties.items():
            options = {key: value for key, value in party.optimizer.items() if key != "name"}
            parameters = list(self.modules[name].parameters()) if name in self.modules else []
            if name == self.active:
                parameters += list(self.modules["top"].parameters())
            self.optimizers[name] = torch.optim.SGD(parameters, **options)
        self.plan = BatchPlan(case.data.train_count, case.job.train.batch_size, case.job.seed)
        self.sent: dict[tuple[str, int], torch.Tensor] = {}
        self.stash: dict[tuple[str, int], torch.nn.Module] = {}
        self.gradients: dict[tuple[str, int], torch.Tensor] = {}

    def rows(self, round: int) -> torch.Tensor:
        return torch.from_numpy(self.plan.batch(round).copy())

    def embed(self, name: str, round: int, module=None) -> torch.Tensor:
        return (module or self.modules[name])(self.case.x(name)[self.rows(round)])

    def do(self, name: str, action: str, round: int) -> None:
        who = "active" if name == self.active else "passive"
        getattr(self, f"{who}_{action}")(name, round)

    def passive_send(self, name, round):
        self.then[name, round] = self.updates[name]
        self.stash[name, round] = copy.deepcopy(self.modules[name])
        self.sent[name, round] = self.embed(name, round)

    def passive_again(self, name, round):
        """Backward with the weights of now."""
        self.stash[name, round] = copy.deepcopy(self.modules[name])
        self.again.add((name, round))

    def passive_fresh(self, name, round):
        """Backward with the weights of then, or of now, applied to those of now."""
        stash, gradient = self.stash.pop((name, round)), self.gradients[name, round]
        staleness = self.updates[name] - self.then[name, round] if self.stale else 0
        again = (name, round) in self.again or not self.spares
        if staleness and again and (self.threshold is not None or self.compensates):
            gradient = self.weighed(gradient, name, round, self.embed(name, round).detach())
        embedding = self.embed(name, round, stash)
        gradients = torch.autograd.grad(embedding, list(stash.parameters()), gradient)
        (group,) = self.optimizers[name].param_groups
        own = group["lr"], group["momentum"]
        group["lr"] = own[0] * 3 / (3 + staleness)
        if staleness:
            remembered = 1 / (1 - own[1]) - staleness
            group["momentum"] = max(0, 1 - 1 / remembered) if remembered > 0 else 0
        self.apply(name, gradients)
        group["lr"], group["momentum"] = own

    def passive_local(self, name, round):
        embedding = self.embed(name, round)
        gradient = self.gradients[name, round]
        if self.threshold is not None or self.compensates:
            gradient = self.weighed(gradient, name, round, embedding.detach())
        parameters = list(self.modules[name].parameters())
        self.apply(name, torch.autograd.grad(embedding, parameters, gradient))

    def active_aggregate(self, name, round):
        leaves, losses = self.losses(round)
        gradients = torch.autograd.grad(losses.mean(), list(leaves.values()))
        for peer, gradient in zip(leaves, gradients, strict=True):
            self.gradients[peer, round] = gradient

    def active_fresh(self, name, round):
        _, losses = self.losses(round)
        self.descend(losses.mean())

    def active_local(self, name, round):
        if self.threshold is None:
            return self.active_fresh(name, round)
        leaves, losses = self.losses(round)
        now = torch.autograd.grad(losses.mean(), list(leaves.values()))
        then = [self.gradients[peer, round] for peer in leaves]
        weights = self.weights(torch.cat(then, 1), torch.cat(now, 1))
        _, losses = self.losses(round)
        return self.descend((losses * weights).mean())

    def losses(self, round: int):
        leaves = {
            peer: self.sent[peer, round].detach().clone().requires_grad_() for peer in self.peers
        }
        embeddings = dict(leaves)
        if self.case.has_features(self.active):
            embeddings[self.active] = self.embed(self.active, round)
        ordered = [embeddings[name] for name in self.case.parties if name in embeddings]
        prediction = self.modules["top"](ordered)
        labels = self.case.y()[self.rows(round)]
        losses = F.binary_cross_entropy_with_logits(prediction, labels, reduction="none")
        return leaves, losses.view(-1)

    def weighed(self, gradient, name, round, now):
        sent = self.sent[name, round].detach()
        if not self.compensates:
            return gradient * self.weights(sent, now)[:, None]
        holders = sum(self.case.has_features(each) for each in self.case.parties)
        own_losses = len(gradient) * gradient
        fallen = (own_losses * (now - sent)).sum(1)
        return gradient * (1 + holders * fallen).clamp(0, 2)[:, None]

    def weights(self, stale, current):
        similarity = F.cosine_similarity(stale, current, dim=1, eps=1e-12).detach()
        return similarity * (similarity >= self.threshold)

    def descend(self, loss):
        parameters = [p for g in self.optimizers[self.active].param_groups for p in g["params"]]
        self.apply(self.active, torch.autograd.grad(loss, parameters))

    def apply(self, name, gradients):
        parameters = [p for g in self.optimizers[name].param_groups for p in g["params"]]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.detach()
        self.optimizers[name].step()
        self.updates[name] += 1


def uneven(case: Small, latencies: dict[str, str]) -> Small:
    """Parties and links of different speeds, without ties on the clock."""
    job = with_network(case.job, latency="37ms")
    speeds = {"p0": ("9ms", "17ms"), "p2": ("13ms", "23ms"), "p1": ("11ms", "19ms")}
    costs = {
        name: Costs(forward=f, backward=b, aggregate="7ms")
        for name, (f, b) in speeds.items()
        if name in job.parties
    }
    links = {name: Link(latency=latency) for name, latency in latencies.items()}
    return Small(
        msgspec.structs.replace(
            job,
            compute=msgspec.structs.replace(job.compute, overrides=costs),
            network=msgspec.structs.replace(job.network, overrides=links),
        ),
        case.data,
        case.modules,
    )


STALE = {"weight": "cosine_fresh:0.2", "rate": "stale:3", "momentum": "shared"}
COMPENSATED = STALE | {"weight": "compensate"}
RECOMPUTED = COMPENSATED | {"version": "recompute"}
METHODS = {
    "pasta": ({"name": "pasta", "b_max": 4, "s_max": 6}, None),
    "pasta, no decay": ({"name": "pasta", "b_max": 3, "s_max": 4, "decay": False}, None),
    "celu": ({"name": "celu", "w": 4, "r": 4, "threshold": 0.3}, 0.3),
    "celu, strict": ({"name": "celu", "w": 3, "r": 5, "threshold": 0.99}, 0.99),
    "celu, no weights": ({"name": "celu", "w": 4, "r": 4, "weigh": False}, None),
    "celu, pipelined": (
        {"name": "celu", "w": 4, "r": 4, "threshold": 0.3, "window": "pipelined:3"},
        0.3,
    ),
    "fedbcd, pipelined": ({"name": "fedbcd", "updates": 3, "window": "pipelined:3"}, None),
    "celu, held": ({"name": "celu", "w": 3, "r": 3, "overlap": False}, 0.5),
    "fixed window": ({"name": "fedsgd", "window": "fixed:4"}, None),
    "a window that fills the pipe": (
        {"name": "fedbcd", "updates": 2, "window": "bandwidth_delay:6:1"},
        None,
    ),
    "present weights": ({"name": "fedsgd", "window": "fixed:3", "version": "recompute"}, None),
    "present weights while there is time": (
        {"name": "fullpipe", "share": 1.0, "tau": 3.0, "decay": 0.0},
        None,
    ),
    "present weights while there is time, and instance weights": (
        STALE | {"name": "fedsgd", "window": "fixed:6", "version": "recompute:idle"},
        0.2,
    ),
    "stale": (STALE | {"name": "fedsgd", "window": "fixed:3"}, 0.2),
    "stale, and local updates": (
        STALE | {"name": "celu", "w": 3, "r": 3, "window": "bandwidth_delay:4:1"},
        0.2,
    ),
    "compensated": (COMPENSATED | {"name": "fedsgd", "window": "fixed:3"}, None),
    "compensated, and local updates": (
        COMPENSATED | {"name": "celu", "w": 3, "r": 3, "window": "bandwidth_delay:4:1"},
        None,
    ),
    "compensated, recomputed, and local updates": (
        RECOMPUTED | {"name": "celu", "w": 3, "r": 3, "window": "bandwidth_delay:4:1"},
        None,
    ),
}


@pytest.mark.parametrize("label_only", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_a_run_is_what_its_log_says(name, label_only):
    table, threshold = METHODS[name]
    case = small(3, "split", label_only, {"name": "sgd", "lr": 0.05, "momentum": 0.5}, table,
                 rounds=30)  # fmt: skip
    case = uneven(case, {"p0": "211ms", "p2": "403ms"})
    run = simulate(case.job, case.data, case.modules)
    log = [(*action, name) for name, party in run.parties.items() for action in party.actions]
    replay = Replay(case, table, threshold)
    for _, action, round, party in sorted(log, key=lambda entry: entry[0]):
        replay.do(party, action, round)
    assert apart(run.weights, replay.modules, case.job.active) <= 1e-12
    updates = run.summary()["updates"]
    local = sum(counts["local"] for counts in updates.values())
    if table["name"] not in ("fedsgd", "fullpipe"):
        assert local >= 0.3 * sum(counts["local"] + counts["fresh"] for counts in updates.values())
    if "there is time" in name:
        counts = {which: sum(entry[1] == which for entry in log) for which in ("again", "fresh")}
        assert counts["again"] > 0
    if "pasta" in name or "window" in table:
        assert max(run.summary()["max_in_flight"].values()) >= 2
