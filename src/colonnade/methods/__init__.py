"""The methods, one file a paper; found by looking, so that a new one touches one file.

A method's name is the name of a public function in one of these files that returns a `Method`.
From outside the package it is `package.module:function`, declared by `extension("method")`.

May import policies, compress, protect.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

from colonnade import compress as encodings
from colonnade.compress import Compress
from colonnade.errors import JobError, nearest
from colonnade.methods.method import AXES, Method
from colonnade.plugins import import_function, own_functions
from colonnade.policies.local import once
from colonnade.policies.momentum import Shared
from colonnade.policies.parse import parse
from colonnade.policies.rate import SpeedAdaptive, Stale
from colonnade.policies.step import plain_step
from colonnade.protect.base import parse as parse_protections

MethodFunction = Callable[..., Method]
TABLES = ("compress", "protect")
"""The axes that are tables in a job, and not texts."""


def known() -> dict[str, MethodFunction]:
    """Every method that comes with the package, by name.

    >>> sorted(known())[:2]
    ['auto', 'celu']
    """
    return {
        name: function
        for name, function in sorted(own_functions(sys.modules[__name__]).items())
        if get_type_hints(function).get("return") is Method
    }


def find(name: str) -> MethodFunction:
    """The function of a method: one of ours, or `package.module:function`."""
    if ":" in name:
        return _from_outside(name)
    methods = known()
    if name not in methods:
        raise JobError(
            f"there is no method '{name}': {nearest(name, methods)} "
            "(one of your own is 'package.module:function')"
        )
    return methods[name]


def _from_outside(name: str) -> MethodFunction:
    first, _, rest = name.partition(":")
    if "=" in rest or first in known():
        raise JobError(
            f"method.name is '{name}': options are keys of their own beside the name, as in "
            f'{{ name = "{first}", … }}'
        )
    return import_function(name, "method")


def build(table: Mapping[str, Any]) -> Method:
    """The method of a job's `[method]` table: its name and its options.

    >>> build({"name": "fedbcd", "updates": 5}).composition()
    {'local': 'repeat(updates=5)'}
    """
    options = dict(table)
    name = options.pop("name", "fedsgd")
    if not isinstance(name, str):
        raise JobError(f"method.name is {name!r}: it must be text")
    function = find(name)
    parameters = _parameters(function, name)
    overridable = (options.keys() & set(AXES)) - parameters.keys()
    axes = {key: options.pop(key) for key in sorted(overridable)}
    hints = get_type_hints(function)
    for key, value in options.items():
        if key not in parameters:
            hint = nearest(key, [*parameters, *AXES]) if parameters else "it has none"
            raise JobError(f"the method {name} has no option '{key}': {hint}")
        options[key] = _checked(name, key, value, hints.get(key))
    try:
        inspect.signature(function).bind(**options)
    except TypeError as error:
        raise JobError(f"the method {name} lacks an option: {error}") from None
    method = function(**options)
    if not isinstance(method, Method):
        raise JobError(f"{name} returned {type(method).__name__}: it must return a Method")
    return composed(method, axes)


def composed(method: Method, axes: Mapping[str, Any]) -> Method:
    """A method with some of its policies replaced, each given as text.

    >>> composed(build({"name": "fedsgd"}), {"local": "repeat:3"}) == build(
    ...     {"name": "fedbcd", "updates": 3})
    True
    """
    changes = {axis: _policy(axis, spec) for axis, spec in axes.items() if axis not in TABLES}
    if "compress" in axes:
        changes["compress"] = _compression(method.compress, axes["compress"])
    if "protect" in axes:
        if not isinstance(axes["protect"], Mapping):
            raise JobError(
                f"method.protect is {axes['protect']!r}: say what is to be protected, as in "
                "method.protect.labels"
            )
        changes["protect"] = parse_protections(axes["protect"], method.protect)
    made = replace(method, **changes)
    for senseless, sentence in (*_senseless(made), *_without_effect(made)):
        if senseless:
            raise JobError(sentence)
    return made


def _senseless(method: Method) -> Iterator[tuple[bool, str]]:
    """Combinations that mean nothing, and what to choose instead."""
    snapshots = method.exchange.sends_snapshots
    yield (
        method.weight.weighs
        and method.local == once()
        and not (method.weight.weighs_fresh and method.updates_between),
        "method.weight weighs stale instances, but there are no local updates to weigh: "
        "set method.local, as in workset:5:5, or weigh what a window makes stale, as in "
        "window=bandwidth_delay:16 with weight=cosine_fresh:0",
    )
    yield (
        method.window.needs_local and method.local == once(),
        "this window grows only while a party has time for local updates, and this method has "
        "none, so one exchange would be in flight: set method.local, as in while_waiting:4 (with "
        "pasta s_max), leave out method.window (with pasta b_max=1), or choose one that needs "
        "none, as in bandwidth_delay:16",
    )
    yield (
        method.step != plain_step() and method.local == once(),
        "method.step changes local updates, and this method has none: set method.local, as in "
        "repeat:5, or leave out method.step (with fedbcd mu, with flexvfl momentum)",
    )
    yield (
        snapshots and method.weight.weighs,
        "method.weight compares gradients that came with those of now, and with snapshots none "
        "come: choose exchange=gradients, or leave out method.weight",
    )
    yield (
        snapshots and not method.order.at_once,
        "with snapshots all parties update at the same time: leave out method.order",
    )
    yield (
        snapshots and method.compress.gradient != Compress().gradient,
        "with snapshots no gradients cross: compress the embedding and the top model instead",
    )
    yield (
        snapshots and method.quorum.remembers,
        "with quorum=anyone a party gets the gradient of its own turn: choose exchange=gradients, "
        "or quorum=everyone",
    )
    yield (
        snapshots and method.protect.gradient is not None,
        "with snapshots no gradients cross, and the labels do: choose exchange=gradients, or leave "
        "out method.protect.gradient",
    )
    yield from _unsummed(method)
    yield from _unencrypted(method)
    yield (
        method.window.most > 1 and method.quorum.remembers,
        "with quorum=anyone nobody waits for others, so there is nothing to pipeline for: leave "
        "out method.window, or choose quorum=everyone",
    )
    yield (
        not snapshots and method.compress.top != Compress().top,
        "the top model crosses only in snapshots: set method.exchange=snapshot, or leave out "
        "method.compress.top",
    )


def _unsummed(method: Method) -> Iterator[tuple[bool, str]]:
    """Combinations in which embeddings are needed one by one, and cannot be masked."""
    summed = method.protect.sum is not None
    yield (
        summed and method.exchange.sends_snapshots,
        "with snapshots everybody gets the others' embeddings one by one, so that they cannot be "
        "masked: choose exchange=gradients, or leave out method.protect.sum",
    )
    yield (
        summed and method.quorum.remembers,
        "with quorum=anyone embeddings come and are remembered one by one, so there is no sum in "
        "which masks would cancel: choose quorum=everyone, or leave out method.protect.sum",
    )
    yield (
        summed and method.compress.embedding != Compress().embedding,
        "masks cancel in a sum of numbers, and compressed embeddings are none: leave out "
        "compress.embedding, or method.protect.sum",
    )


def _unencrypted(method: Method) -> Iterator[tuple[bool, str]]:
    """Combinations in which gradients are needed in the clear, and cannot be encrypted."""
    encrypts = method.protect.cipher is not None
    yield (
        encrypts and method.protect.gradient is not None,
        "with method.protect.cipher the active party computes gradients that it cannot read, so it "
        "cannot add noise to them: leave out method.protect.gradient, or the cipher",
    )
    yield (
        encrypts and method.compress.gradient != Compress().gradient,
        "with method.protect.cipher gradients cross as ciphertexts, which cannot be compressed: "
        "leave out compress.gradient, or the cipher",
    )


def _without_effect(method: Method) -> Iterator[tuple[bool, str]]:
    """Choices that would change nothing, and what would make them count."""
    yield (
        isinstance(method.rate, SpeedAdaptive) and method.local == once(),
        "an adaptive rate goes by how many updates a party does, and here each does one: set "
        "method.local, as in until:100ms (with flexvfl timeout), or leave it out",
    )
    for axis in ("rate", "momentum"):
        policy = getattr(method, axis)
        shares = isinstance(policy, Stale) and policy.share and method.local != once()
        yield (
            isinstance(policy, Stale | Shared) and not (method.updates_between or shares),
            f"method.{axis} goes by how stale a gradient is, and here no update comes between an "
            "embedding and its reply: leave it out, or let more be in flight, as in "
            "window=bandwidth_delay:16",
        )
    yield (
        method.version.recomputes() and not method.updates_between,
        "method.version says with which weights a reply goes backward, and here no update comes "
        "between an embedding and its reply: leave it out, or let updates come between with "
        "method.window or an overlapping method.local, as in workset:5:5",
    )
    yield (
        encodings.chooses(method.compress.top) is not None,
        "the top model goes to everybody, so that its bits cannot follow one line: choose another "
        "encoding for compress.top, such as scalar:8",
    )
    for role in ("gradient", "top"):
        encoding = getattr(method.compress, role)
        yield (
            encodings.without_importance(encoding) != encoding,
            f"the importance of columns is known of embeddings only, so compress.{role} would have "
            "no effect: choose another encoding, such as topk:0.25",
        )


def _policy(axis: str, spec: Any) -> Any:
    if not isinstance(spec, str):
        raise JobError(f"method.{axis} is {spec!r}: write it as text, such as 'repeat:3'")
    return parse(axis, spec)


def _compression(base: Compress, roles: Any) -> Compress:
    known = [field.name for field in fields(base)]
    if not isinstance(roles, Mapping):
        raise JobError(
            f"method.compress is {roles!r}: say for which tensors, as in "
            f"method.compress.embedding (of {', '.join(known)})"
        )
    for role, spec in roles.items():
        if role not in known:
            raise JobError(f"there is no tensor role '{role}' to compress: {nearest(role, known)}")
        if not isinstance(spec, str):
            raise JobError(f"method.compress.{role} is {spec!r}: write it as text, 'scalar:4'")
    # Code from outside was allowed when the job was read (`job/trust.py` looks at these texts).
    chosen = {role: encodings.parse(spec, outside=True) for role, spec in roles.items()}
    return replace(base, **chosen)


def _parameters(function: MethodFunction, name: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:
        raise JobError(f"{name} does not tell its options: write a function in Python") from None


def _checked(name: str, key: str, value: Any, hint: Any) -> Any:
    """Hold an option against its annotation, so that a slip is a sentence and not a traceback."""
    option = f"the option {key} of {name} is {value!r}"
    if hint is float and type(value) is int:
        return float(value)
    if isinstance(hint, type) and type(value) is not hint:
        raise JobError(f"{option}: it must be of type {hint.__name__}")
    choices = get_args(hint)
    words = choices and all(isinstance(choice, str) for choice in choices)
    if words and value not in choices:
        raise JobError(f"{option}: choose {' or '.join(choices)}")
    return value
