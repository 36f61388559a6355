"""What `test_parallel.py` starts under torchrun: cases by name, one figure for each.

A case gives the modules, and what rank 0 does with them; the figure is how far they are from
the same modules in one process. The other ranks serve.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import sys
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from colonnade.errors import ColonnadeError
from colonnade.models.top import Split
from colonnade.parallel.group import END, Command, init_group
from colonnade.parallel.spread import Spreader, work

ROWS = 7


def mlp(*extra):
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), *extra, nn.Linear(8, 3)).double()


def convolution():
    layers = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(36, 3)).double()


def split():
    return Split(nn.Sequential(nn.Linear(9, 6), nn.Tanh(), nn.Linear(6, 3))).double()


class Idle(nn.Module):
    """One layer takes no part, one is frozen, and a buffer counts the batches of training."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Linear(5, 5)
        self.frozen = nn.Linear(5, 5).requires_grad_(False)
        self.used = nn.Linear(5, 3)
        self.register_buffer("batches", torch.tensor(0))
        self.double()

    def forward(self, x):
        if self.training:
            self.batches += 1
        return self.used(self.frozen(x))


class Trap(nn.Module):
    """Kills one rank in pass 2 (the first forward, repeated in backward) or 3 (the next one)."""

    def __init__(self, rank, after):
        super().__init__()
        self.inner, self.rank, self.left = mlp(), rank, after

    def forward(self, x):
        self.left -= 1
        if self.left == 0 and str(self.rank) == os.environ["RANK"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner(x)


def apart(left, right):
    """The largest difference between tensors that may be missing, on both sides alike."""
    pairs = list(zip(left, right, strict=True))
    assert all((a is None) == (b is None) for a, b in pairs)
    return max(((a - b).abs().max().item() for a, b in pairs if a is not None), default=0.0)


def weights_apart(module, plain):
    assert list(module.state_dict()) == list(plain.state_dict())
    return apart(module.state_dict().values(), plain.state_dict().values())


def train(module, batches, steps=5):
    """Adam for some steps; also the gradients by the inputs, where those want any."""
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    found = []
    for step in range(steps):
        given = batches[step % len(batches)]
        leaves = given if isinstance(given, list) else [given]
        output = module(given)
        F.cross_entropy(output, torch.arange(len(output)) % 3).backward()
        found += [output.detach(), *(leaf.grad for leaf in leaves if leaf.requires_grad)]
        optimizer.step()
        optimizer.zero_grad()
        for leaf in leaves:
            leaf.grad = None
    return found


def trained(*shape, copies=1, rows=(ROWS, 8, 2, 1)):
    """Training on batches that leave slices of unequal size, and one too small to be spread."""

    def check(modules, plain):
        module, other = modules["m"], plain["m"]
        batches = [torch.randn(n, *shape, dtype=torch.float64) for n in rows]
        if copies > 1:
            batches = [[x.clone().requires_grad_() for _ in range(copies)] for x in batches]
        found = apart(train(module, batches), train(other, batches))
        return max(found, weights_apart(module, other))

    return check


def in_flight(modules, plain):
    """Three forward passes with copied weights, an evaluation, then backward in another order."""
    module, other = modules["m"], plain["m"]
    worst = 0.0
    for _ in range(2):
        batches = [torch.randn(ROWS, 5, dtype=torch.float64) for _ in range(3)]
        flying = []
        for x in batches:
            pair = []
            for net in (module, other):
                own = {n: p.detach().clone().requires_grad_() for n, p in net.named_parameters()}
                pair.append((functional_call(net, own, (x,)), own))
                with torch.no_grad():
                    for parameter in net.parameters():
                        parameter.mul_(0.9)
            flying.append(pair)
            with torch.no_grad():
                worst = max(worst, apart([module.eval()(x)], [other.eval()(x)]))
            module.train(), other.train()
            module(x)  # given up: it never goes backward
        for number in (0, 2, 1):
            (left, ours), (right, theirs) = flying[number]
            gradient = torch.randn(ROWS, 3, dtype=torch.float64)
            left.backward(gradient)
            right.backward(gradient)
            worst = max(worst, apart([left], [right]))
            worst = max(worst, apart([p.grad for p in ours.values()],
                                     [p.grad for p in theirs.values()]))  # fmt: skip
    return worst


def top_alone(modules, plain):
    """Gradients by the inputs through weights that want none, as with a snapshot."""
    x = [torch.randn(ROWS, 3, dtype=torch.float64) for _ in range(3)]
    found = []
    for net in (modules["m"], plain["m"]):
        fixed = {name: p.detach().clone() for name, p in net.named_parameters()}
        leaf = x[1].clone().requires_grad_()
        output = functional_call(net, fixed, ([x[0], leaf, x[2]],))
        found.append([output, *torch.autograd.grad(output.square().sum(), leaf)])
    assert all(p.grad is None for p in modules["m"].parameters())
    return apart(*found)


def idle(modules, plain):
    module, other = modules["m"], plain["m"]
    x = torch.randn(ROWS, 5, dtype=torch.float64)
    worst = 0.0
    for _ in range(3):
        for net in (module, other):
            net.zero_grad()
            net(x).square().sum().backward()
        assert module.unused.weight.grad is None and module.frozen.weight.grad is None
        worst = max(worst, apart(*([p.grad for p in n.parameters()] for n in (module, other))))
    assert module.batches == 3
    return max(worst, weights_apart(module, other))


def copied(modules, plain):
    """A copy has its own weights; the first keeps the rest."""
    module, other = copy.deepcopy(modules["m"]), plain["m"]
    x = torch.randn(ROWS, 5, dtype=torch.float64)
    with torch.no_grad():
        for parameter in [*modules["m"].parameters(), *other.parameters()]:
            parameter.add_(1.0)
        for parameter in [*module.parameters()]:
            parameter.zero_()
    module(x).sum().backward()
    assert module(x).abs().max() == 0 and modules["m"][0].weight.grad is None
    return apart([modules["m"](x)], [other(x)])


def dropout(modules, plain):
    """Each rank has its own mask; it is the same in a backward pass that comes late."""
    module = modules["m"]
    x = torch.ones(8, 5, dtype=torch.float64, requires_grad=True)
    state = torch.get_rng_state()
    first, second = module(x), module(x)
    first.sum().backward()
    masks = first.detach() / module[0].weight.detach().sum(dim=1)
    expected = (masks @ module[0].weight.detach()).detach()
    torch.set_rng_state(state)
    same = apart([module(x)], [first.detach()])
    assert not torch.equal(first, second) and not torch.equal(first[:4], first[4:])
    return max(same, apart([x.grad], [expected]))


def rough(dtype):
    """Half precision sums in another order: equal to what one digit of it is worth."""

    def check(modules, plain):
        x = torch.randn(ROWS, 5).to(dtype)
        for net in (modules["m"], plain["m"]):
            net(x).square().mean().backward()
        gradients = [[p.grad.double() for p in n.parameters()] for n in (modules["m"], plain["m"])]
        assert modules["m"](x).dtype == dtype
        return max(0.0, apart(*gradients) - 0.02)

    return check


def learners(**options):
    """A whole job, all of its models spread."""

    def check(modules, plain):
        from colonnade import simulate
        from tests.small import apart as runs_apart

        case = job(**options)
        theirs = simulate(case.job, case.data, plain)
        ours = simulate(case.job, case.data, modules)
        assert ours.weights.keys() == theirs.weights.keys() and ours.rounds == theirs.rounds
        assert runs_apart(ours.weights, plain, case.job.active) > 1e-3, "nothing was learned"
        return max(
            apart([ours.weights[p][name]], [theirs.weights[p][name]])
            for p, tensors in theirs.weights.items()
            for name in tensors
        )

    return check


def job(**options):
    from tests.small import small, with_network

    case = small(optimizer={"name": "adam", "lr": 0.01}, rounds=12, batch_size=5, **options)
    case.job = with_network(case.job, latency="25ms")
    return case


METHODS = {
    "fedsgd": {},
    "pasta": {"method": {"name": "pasta", "b_max": 3, "s_max": 2}},
    "celu": {"method": {"name": "celu"}},
    "cvfl": {"method": {"name": "cvfl", "q": 2, "compressor": "plain"}, "labels": "shared"},
    "agg": {"top": "agg"},
    "averaged": {
        "method": {"name": "pasta", "average": "ema:0.9"},
        "evaluate_every": "4 rounds",
        "validation": 0.2,
    },
}
CASES = {
    "mlp": (lambda: {"m": mlp()}, trained(5)),
    "convolution": (lambda: {"m": convolution()}, trained(1, 8, 8)),
    "split top": (lambda: {"m": split()}, trained(3, copies=3)),
    "in flight": (lambda: {"m": mlp()}, in_flight),
    "top alone": (lambda: {"m": split()}, top_alone),
    "idle": (lambda: {"m": Idle()}, idle),
    "copied": (lambda: {"m": mlp()}, copied),
    "dropout": (lambda: {"m": nn.Sequential(nn.Linear(5, 8, bias=False),
                                            nn.Dropout()).double()}, dropout),
    "half": (lambda: {"m": mlp().half()}, rough(torch.float16)),
    "bfloat16": (lambda: {"m": mlp().bfloat16()}, rough(torch.bfloat16)),
    "batch norm": (lambda: {"m": mlp(nn.BatchNorm1d(8))}, None),
    "killed": (lambda: {"m": Trap(1, 2)}, trained(5)),
    "another model": (lambda: {"m": mlp(*[nn.Linear(8, 8)] * int(os.environ["RANK"]))}, trained(5)),
    "rank 0 killed": (lambda: {"m": Trap(0, 3)}, trained(5)),
} | {
    name: (lambda options=options: job(**options).modules, learners(**options))
    for name, options in METHODS.items()
}  # fmt: skip


def watched(group):
    """The commands that rank 0 gives, as a list that grows."""
    commands, send = [], group.send

    def noting(command):
        commands.append(command)
        send(command)

    group.send = noting
    return commands


def served(module):
    """A builder; where the shapes of rows are known, they have to be right."""

    def build(shapes):
        if isinstance(module, nn.Sequential) and isinstance(module[0], nn.Linear):
            assert shapes == ((module[0].in_features,),)
        return module

    return build


def main(out, names):
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    group = init_group(torch.device("cpu"), timeout_s=300)
    # torchrun ends rank 0 as soon as another has died; here rank 0 is to say what it saw.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    commands, found = watched(group), {}
    with group:
        assert group.share([3, 14] if group.rank == 0 else []) == (3, 14)
        for name in names:
            build, check = CASES[name]
            torch.manual_seed(group.rank)
            modules = build()
            plain = copy.deepcopy(modules)
            try:
                commands.clear()
                if group.rank:
                    builders = {part: served(module) for part, module in modules.items()}
                    work(group, builders, sorted(modules))
                else:
                    spread = Spreader(group, sorted(modules))
                    for part, module in modules.items():
                        spread(part, copy.deepcopy(module))  # the model before a restart
                        assert spread(part, module) is module
                    figure = check(modules, plain)
                    again = sum(command.recompute for command in commands)
                    found[name] = {"apart": figure, "orders": len(commands), "again": again}
                    group.send(Command(END))
            except ColonnadeError as error:
                found[name] = str(error)
                if name != "batch norm":
                    raise
                group.send(Command(END))
            finally:
                Path(out, f"{group.rank}.json").write_text(json.dumps(found))
        if group.rank:
            work(group, {})
    threads = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    Path(out, f"{group.rank}.threads").write_text(json.dumps(threads))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
