"""A learner that is restored goes on to the last bit as the one that was saved.

The learners are driven here without programs and without a network, in the order in which the
programs of `party/` call them.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import msgspec
import pytest
import torch
from torch import nn

from colonnade.errors import BreachError
from colonnade.learn.build import build_active, build_passive
from colonnade.learn.optim import OPTIMIZERS, SCHEDULES
from colonnade.learn.state import restore_view, view_state
from colonnade.policies.view import Exchange, Role, View
from colonnade.run.setup import prepare, widths_of
from colonnade.testing.stores import MemoryStore
from tests.small import Small, small

ACTIVE = "p1"
FILLING = 2
"""How many updates there is time for where they fill idle time, before and after a reply."""


class Drive:
    """All parties of a job in one place, a round at a time."""

    def __init__(self, case: Small) -> None:
        parties = prepare(case.job, case.data, case.modules)
        active = parties[ACTIVE]
        agreement = active.agreement(widths_of(parties))
        self.method, self.plan = agreement.method, agreement.plan
        self.active = build_active(active, agreement)
        self.passives = {
            name: build_passive(parties[name], agreement, active.objective)
            for name in case.job.passives
        }
        self.learners = {ACTIVE: self.active, **self.passives}
        count, share = len(self.learners), self.method.quorum.per_round(len(self.passives))
        self.views = {
            name: View(Role.PASSIVE, 100, self.plan.per_epoch, count) for name in self.passives
        }
        self.views[ACTIVE] = View(Role.ACTIVE, 100, self.plan.per_epoch, count, share)
        self.views[ACTIVE].meet(list(self.passives))

    def share_labels(self) -> None:
        if (message := self.active.labels_message()) is not None:
            for learner in self.passives.values():
                learner.learn_labels(message)

    def rounds(self, start: int, end: int) -> Drive:
        for round in range(start, end):
            for name in self.learners:
                self._fill(name)
            together = [tuple(self.passives)]
            alone = [(peer,) for peer in self.passives]
            for peers in alone if self.method.quorum.remembers else together:
                self._turn(round, peers)
            for name, learner in self.learners.items():
                self._fill(name)
                learner.end_round(round)
                if round % 3 == 0:
                    learner.keep(round)
                    learner.prune(best=0, scored=round - 3)
        return self

    def _turn(self, round: int, peers: tuple[str, ...]) -> None:
        rows = self.plan.batch(round)
        sent = {}
        for peer in peers:
            sent[peer] = Exchange(round, rows)
            sent[peer].forward = self.passives[peer].forward(rows)
        own = Exchange(round, rows, self.active.forward(rows))
        own.packed = {peer: self.passives[peer].pack(sent[peer]) for peer in peers}
        own.others = self.active.gather(own)
        aggregate = self.active.aggregate(own, own.forward, True)
        own.answer = aggregate.answer
        replies = {peer: self.active.reply(own, peer, 0) for peer in peers}
        self.active.backward(own.forward, aggregate, round)
        self._did(ACTIVE, own)
        for peer, exchange in sent.items():
            self.passives[peer].unpack(exchange, replies[peer])
            self.passives[peer].backward(exchange)
            self.views[peer].sent += 1
            self._did(peer, exchange)

    def _did(self, name: str, exchange: Exchange) -> None:
        keep, rate = self.method.local.keep, self.learners[name].rate
        self.views[name].remember(exchange, keep, 0, 1000 * exchange.round, rate)

    def _fill(self, name: str) -> None:
        view, learner, local = self.views[name], self.learners[name], self.method.local
        for _ in range(99 if local.holds(view.role) else FILLING):
            if (exchange := local.next(view)) is None:
                return
            forward = learner.forward(exchange.rows)
            if name == ACTIVE:
                aggregate = self.active.aggregate(exchange, forward, False, stale=True)
                self.active.local_backward(forward, aggregate, exchange.round)
            else:
                learner.local_backward(forward, exchange)
            view.updated(exchange, 0, 1)

    def save(self) -> dict[str, MemoryStore]:
        stores = {}
        for name, learner in self.learners.items():
            stores[name] = MemoryStore()
            view = view_state(self.views[name])
            stores[name].save(1, {"view": view, "learner": learner.state()})
        return stores

    def restore(self, stores: dict[str, MemoryStore], *without: str) -> Drive:
        """Go on from what was saved, but for the parts named."""
        for name, learner in self.learners.items():
            state = stores[name].load(1)
            fresh = learner.state()
            for part in without:
                where = state["learner"]
                *path, last = part.split(".")
                for key in path:
                    where, fresh = where[key], fresh[key]
                if last in where:
                    where[last] = fresh[last]
                fresh = learner.state()
            restore_view(self.views[name], state["view"], learner.device)
            learner.restore(state["learner"])
        return self

    def weights(self) -> dict:
        return {name: learner.weights() for name, learner in self.learners.items()}

    def everything(self) -> dict:
        return {
            name: (learner.weights(), learner.state(), view_state(self.views[name]))
            for name, learner in self.learners.items()
        }


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "tobytes"):
        return a.tobytes() == b.tobytes()
    if isinstance(a, Exchange):
        return same(msgspec.structs.astuple(a), msgspec.structs.astuple(b))
    if hasattr(a, "__dataclass_fields__"):
        return all(same(getattr(a, f), getattr(b, f)) for f in a.__dataclass_fields__)
    return type(a) is type(b) and a == b


def other(case: Small) -> Small:
    """The same job as somebody starts it again: other initial weights, another secret seed."""
    modules = copy.deepcopy(case.modules)
    for module in modules.values():
        for tensor in module.state_dict().values():
            tensor.add_(1)
    parties = {
        name: msgspec.structs.replace(party, seed=77) for name, party in case.job.parties.items()
    }
    return Small(msgspec.structs.replace(case.job, parties=parties), case.data, modules)


def check(case: Small, *parts: str, before: int = 5, after: int = 5) -> None:
    """Bit-identical when restored; different when one of the parts is left out."""
    whole = Drive(case)
    whole.share_labels()
    stores = whole.rounds(0, before).save()
    saved = whole.everything()
    whole.rounds(before, before + after)
    restored = Drive(other(case)).restore(stores)
    assert same(restored.everything(), saved)
    restored.rounds(before, before + after)
    assert same(restored.everything(), whole.everything())
    # What is loaded is not what the learner moves, so the same can be loaded again.
    again = Drive(other(case)).restore(stores)
    assert same(again.everything(), saved)
    for part in parts:
        partly = Drive(other(case)).restore(stores, part)
        try:
            partly.rounds(before, before + after)
        except BreachError:
            continue  # Without it, something else is sent than was agreed on.
        assert not same(partly.weights(), whole.weights()), f"{part} makes no difference"


METHODS = {
    "fedsgd": ({"name": "fedsgd"}, ["modules"]),
    "fedbcd": ({"name": "fedbcd", "updates": 3}, ["modules"]),
    "fedbcd with the last gradient": ({"name": "fedbcd", "updates": 3, "order": "sequential"}, []),
    "proximal": ({"name": "celu", "step": "proximal:0.5"}, []),
    "momentum": ({"name": "celu", "step": "local_momentum:0.5"}, []),
    "celu": ({"name": "celu"}, []),
    "averaged": ({"name": "celu", "average": "ema:0.9"},
                 ["modules", "trainer.average", "trainer.average.updates"]),
    "pasta": ({"name": "pasta"}, []),
    "vafl": ({"name": "vafl"}, ["tables"]),
    "falling rate": ({"name": "fedsgd", "rate": "inverse_sqrt"}, []),
    "cvfl": ({"name": "cvfl", "q": 3}, []),
    "feedback": ({"name": "cvfl", "q": 2, "compressor": "ef+scalar:2"},
                 ["encoder", "own_encoder", "top_encoders"]),
    "feedback on gradients": ({"name": "fedsgd", "compress": {"gradient": "ef+topk:0.5"}},
                              ["encoders"]),
    "efvfl": ({"name": "efvfl", "both": True}, ["encoder", "decoder", "encoders", "decoders"]),
    "efvfl in snapshots": ({"name": "efvfl", "exchange": "snapshot"},
                           ["encoder", "own_encoder", "top_encoders", "decoders", "other_decoders",
                            "top_decoders"]),
    "importance": ({"name": "cvfl", "q": 2, "compressor": "topk:2:importance"}, ["importance"]),
    "steps": ({"name": "fedsgd",
               "compress": {"embedding": "steps:0=ef+scalar:2,3=ef+scalar:3,7=ef+scalar:2"}},
              ["encoder"]),
    "diminishing": ({"name": "fedsgd", "compress": {"embedding": "diminishing+scalar:2:dither"}},
                    []),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_every_method_goes_on(name):
    table, parts = METHODS[name]
    case = small(3, method=table, labels="shared", optimizer={"name": "sgd", "lr": 0.1})
    check(case, *parts)


def test_a_rate_by_speed_goes_on():
    table = {"name": "fedbcd", "updates": 3, "rate": "speed_adaptive:2"}
    check(small(3, method=table), "trainer.updates", before=1)


@pytest.mark.parametrize("top", ["split", "agg", "dot"])
@pytest.mark.parametrize("name", ["fedbcd", "cvfl"])
def test_every_top_goes_on(name, top):
    check(small(2, top, label_only=True, method={"name": name}, labels="shared"))


MOMENTUM = {"sgd": {"momentum": 0.9, "nesterov": True}, "rmsprop": {"momentum": 0.5}}
ALONE = {"lbfgs", "sparseadam", "muon"}
"""One needs the loss, one sparse gradients, one weights without biases."""


# All else here is of float64.
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sorted(OPTIMIZERS.keys() - ALONE))
def test_every_optimizer_goes_on(name, dtype):
    optimizer = {"name": name, "lr": 0.05} | MOMENTUM.get(name, {})
    case = small(2, method={"name": "fedbcd", "updates": 2}, optimizer=optimizer, dtype=dtype)
    check(case, "trainer.optimizers")


def test_muon_goes_on():
    case = small(2, optimizer={"name": "muon", "lr": 0.05})
    case.modules = {
        name: nn.Linear(size, 4, bias=False).double() for name, size in (("p0", 3), ("p1", 4))
    } | {"top": nn.Sequential(Joined(), nn.Linear(8, 1, bias=False)).double()}
    check(case, "trainer.optimizers")


class Joined(nn.Module):
    def forward(self, parts):
        return torch.cat(parts, dim=1)


SHAPED = {
    "steplr": {"step_size": 3, "gamma": 0.5},
    "multisteplr": {"milestones": [2, 7], "gamma": 0.5},
    "cosineannealinglr": {"T_max": 20},
    "cosineannealingwarmrestarts": {"T_0": 3, "T_mult": 2},
    "cycliclr": {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3},
    "onecyclelr": {"max_lr": 0.1, "total_steps": 30},
    "exponentiallr": {"gamma": 0.9},
    "linearlr": {},
    "constantlr": {"total_iters": 5},
    "polynomiallr": {"total_iters": 12},
    "inverse-sqrt": {},
}
NEED_MORE = {"_lrscheduler", "chainedscheduler", "lambdalr", "multiplicativelr",
             "reducelronplateau", "sequentiallr"}  # fmt: skip
"""Those that no job file can name."""


def test_all_schedules_are_here():
    assert SHAPED.keys() | NEED_MORE == SCHEDULES.keys()


@pytest.mark.parametrize("every", ["round", "epoch"])
@pytest.mark.parametrize("name", SHAPED)
def test_every_schedule_goes_on(name, every):
    case = small(2, method={"name": "fedbcd", "updates": 2}, batch_size=16,
                 optimizer={"name": "sgd", "lr": 0.1, "momentum": 0.5})  # fmt: skip
    schedule = {"name": name, "every": every} | SHAPED[name]
    parties = {
        party: msgspec.structs.replace(table, schedule=schedule)
        for party, table in case.job.parties.items()
    }
    case.job = msgspec.structs.replace(case.job, parties=parties)
    # The one that only multiplies has all its state in the optimizer's rate.
    counting = () if name == "exponentiallr" else ("trainer.schedules",)
    check(case, "trainer.optimizers", *counting, before=4, after=15)


def with_layers(case: Small, *layers: nn.Module) -> Small:
    for name in ("p0", "p1", "p2"):
        case.modules[name] = nn.Sequential(case.modules[name], *layers).double()
    return case


def test_running_statistics_go_on():
    case = with_layers(small(3, method={"name": "fedbcd", "updates": 2}), nn.BatchNorm1d(4))
    check(case, "modules")


@pytest.mark.parametrize("name", ["fedbcd", "cvfl"])
def test_dropout_goes_on(name):
    case = with_layers(small(3, method={"name": name}, labels="shared"), nn.Dropout(0.5))
    check(case, "random")


def test_dropout_in_a_shared_top_goes_on():
    """Every passive party draws it too, from a stream of its own."""
    case = small(3, method={"name": "cvfl", "q": 2}, labels="shared")
    case.modules["top"] = nn.Sequential(case.modules["top"], nn.Dropout(0.5)).double()
    check(case, "random")


def test_row_weights_go_on():
    case = small(3, method={"name": "cvfl", "q": 2}, labels="shared")
    weights = torch.linspace(0.5, 2, len(case.data.labels.train)).numpy()
    case.data = replace(case.data, labels=replace(case.data.labels, weights=weights))
    check(case, "weights")


def test_clipping_and_an_optimizer_of_the_top_go_on():
    case = small(3, clip_norm=0.1, optimizer={"name": "sgd", "lr": 0.5, "momentum": 0.9})
    top = msgspec.structs.replace(case.job.top, optimizer={"name": "adam", "lr": 0.01})
    case.job = msgspec.structs.replace(case.job, top=top)
    check(case, "trainer.optimizers")


def test_a_state_shows_the_learner_as_it_was():
    """It is a copy: updates of later are not in it."""
    drive = Drive(small(3, method={"name": "vafl"}, optimizer={"name": "adam", "lr": 0.1}))
    drive.rounds(0, 2)
    states = {name: learner.state() for name, learner in drive.learners.items()}
    copies = copy.deepcopy(states)
    drive.rounds(2, 4)
    assert same(states, copies)
