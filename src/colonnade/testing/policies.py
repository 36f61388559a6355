"""What every policy must pass: it is a value, and its answers are functions of what it is shown."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_type_hints

import numpy as np
import torch

from colonnade.compress import describe as text_of
from colonnade.compress import parse
from colonnade.methods.method import AXES, Method, describe
from colonnade.policies.local import UPDATES_MAX
from colonnade.policies.view import Exchange, Role, View
from colonnade.testing.expect import expect

MS = 10**6
_PURE = {"local": ("next", "expected"), "window": ("may_send",), "quorum": ("turn", "expected")}
"""The questions that are answered from a view and leave it alone."""
_ASKED_AT = {"local": tuple(Role), "window": (Role.PASSIVE,), "quorum": (Role.ACTIVE,)}


def check_policy(axis: str, policy: Any) -> None:
    """Check a policy of an axis; an `AssertionError` says what does not hold.

    >>> from colonnade.policies.local import repeat
    >>> check_policy("local", repeat(3))
    >>> check_policy("rate", repeat(3))
    Traceback (most recent call last):
    AssertionError: Repeat(updates=3) does not answer 'factor', which the axis rate asks
    """
    expect(axis in AXES, f"there is no axis '{axis}': choose one of {', '.join(AXES)}")
    for question in sorted(_questions(axis)):
        asked = f"{policy!r} does not answer '{question}', which the axis {axis} asks"
        expect(hasattr(policy, question), asked)
    _check_value(policy)
    if axis == "compress":
        for each in fields(policy):
            encoding = getattr(policy, each.name)
            again = parse(text_of(encoding), outside=True)
            expect(again == encoding, f"{text_of(encoding)} is read as another encoding")
        return
    for role in _ASKED_AT.get(axis, ()):
        for view in _views(role, policy if axis == "local" else None):
            _check_answers(axis, policy, view)
    further = {
        "rate": _check_rate,
        "weight": _check_weight,
        "step": _check_step,
        "average": _check_average,
        "momentum": _check_momentum,
    }
    if axis in further:
        further[axis](policy)


def _questions(axis: str) -> set[str]:
    protocol = get_type_hints(Method)[axis]
    return {name for name in vars(protocol) if not name.startswith("_")}


def _check_value(policy: Any) -> None:
    frozen = getattr(getattr(policy, "__dataclass_params__", None), "frozen", False)
    expect(frozen, f"{policy!r} is no frozen dataclass: two methods could not be compared")
    expect(copy.deepcopy(policy) == policy, f"{policy!r} does not equal its copy")
    expect(hash(copy.deepcopy(policy)) == hash(policy), f"{policy!r} has no hash of its value")
    expect("\n" not in describe(policy), f"{policy!r} is not described in a line")


def _views(role: Role, local: Any) -> Iterator[View]:
    """A party's view on the way through some rounds, with the updates that a local policy wants."""
    view = View(role, rounds=6, per_epoch=2, parties=3)
    if role is Role.ACTIVE:
        view.meet(["p0", "p2"])
    yield view
    for round in range(view.rounds):
        if role is Role.ACTIVE:
            view.arrived = dict.fromkeys(view.arrived, round)
            view.waiting = [(peer, round) for peer in view.arrived]
        view.sent = round + 1
        yield view
        exchange = Exchange(round, np.arange(4), replied_ns=view.now_ns)
        now_ns = view.now_ns + 20 * MS
        view.remember(exchange, getattr(local, "keep", 1), view.now_ns, now_ns, 0.1)
        view.now_ns, view.answered = now_ns, dict(view.arrived)
        yield view
        updates = 0
        while local is not None and (chosen := local.next(view)) is not None:
            updates += 1
            expect(updates <= UPDATES_MAX, f"{local!r} never comes to the end of its updates")
            expect(
                any(chosen is kept for kept in view.kept),
                f"{local!r} chose an exchange that is not among those that the party keeps",
            )
            view.updated(chosen, view.now_ns, view.now_ns + 30 * MS)
            view.now_ns += 30 * MS
        yield view


def _check_answers(axis: str, policy: Any, view: View) -> None:
    for question in _PURE[axis]:
        before = repr(view)
        one, other = getattr(policy, question)(view), getattr(policy, question)(view)
        same = one is other if isinstance(one, Exchange) else one == other
        expect(same, f"{policy!r} answers '{question}' in two ways to one view")
        expect(repr(view) == before, f"{policy!r} changes the view when asked for '{question}'")


def _check_rate(policy: Any) -> None:
    for round in (0, 1, 1000):
        for effort in (1.0, 5.0, *(() if policy.rehearses else (None,))):
            for staleness in (0, 1, 1000):
                factor = policy.factor(round, 3, effort, staleness)
                good = math.isfinite(factor) and factor > 0
                expect(good, f"{policy!r} multiplies the rate of round {round} by {factor}")
                again = policy.factor(round, 3, effort, staleness)
                expect(factor == again, f"{policy!r} changes its mind")


def _check_weight(policy: Any) -> None:
    draw = torch.Generator().manual_seed(0)
    stale, current, slope = torch.randn(3, 6, 3, generator=draw)
    rows = policy.rows(stale, current.requires_grad_(), slope)
    expect(rows.shape == (6,), f"{policy!r} gives weights of shape {tuple(rows.shape)} for 6 rows")
    good = torch.isfinite(rows).all() and (rows >= 0).all()
    expect(good, f"{policy!r} gives a row a weight below 0, or none that is finite")
    expect(not rows.requires_grad, f"{policy!r} lets gradients flow through its weights")


def _check_step(policy: Any) -> None:
    draw = torch.Generator().manual_seed(0)
    parameters = [torch.randn(3, 2, generator=draw), torch.randn(2, generator=draw)]
    before = [each.clone() for each in parameters]
    memory = policy.begin(parameters)
    expect(len(memory) in (0, 2), f"{policy!r} remembers {len(memory)} tensors for 2 parameters")
    for _ in range(3):
        for each in parameters:
            each.grad = torch.ones_like(each)
        policy.adjust(parameters, memory)
    for each, start in zip(parameters, before, strict=True):
        expect(torch.equal(each, start), f"{policy!r} moves weights: that is the optimizer's part")
        good = each.grad is not None and torch.isfinite(each.grad).all()
        expect(good, f"{policy!r} leaves a gradient that is not finite")
    heaviest = policy.largest_weight(5)
    expect(math.isfinite(heaviest) and heaviest > 0, f"{policy!r} weighs a gradient {heaviest}")


def _check_momentum(policy: Any) -> None:
    for momentum in (0.0, 0.5, 0.999):
        left = [policy.left(momentum, staleness) for staleness in (0, 1, 5, 1000)]
        expect(left[0] == momentum, f"{policy!r} takes momentum from gradients that are not stale")
        good = all(0 <= after <= before for before, after in itertools.pairwise(left))
        expect(good, f"{policy!r} leaves {left} of a momentum of {momentum} as staleness grows")


def _check_average(policy: Any) -> None:
    for update in (1, 2, 1000, 10**9):
        share = policy.share(update)
        good = 0 < share <= 1 and (policy.averages or share == 1)
        expect(good, f"{policy!r} gives the weights after update {update} a share of {share}")
        expect(share == policy.share(update), f"{policy!r} changes its mind")
