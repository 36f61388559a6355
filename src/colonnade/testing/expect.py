"""How a check says what does not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

Given = str | Mapping[str, Any] | Callable[..., Any]
"""A method or a model as text, as a table, or the function itself."""
Weights = Mapping[str, Mapping[str, torch.Tensor]]


def as_table(
    given: Given, known: Mapping[str, Any], parse: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """A table of a job from a text, a table, or a function: one of the `known`, or another's."""
    if isinstance(given, str):
        return parse(given)
    if isinstance(given, Mapping):
        return dict(given)
    ours = {function: name for name, function in known.items()}
    return {"name": ours.get(given, f"{given.__module__}:{given.__name__}")}


def expect(holds: object, sentence: str) -> None:
    """Raise an `AssertionError` with a sentence, unless something holds; also under `python -O`.

    >>> expect(1 + 1 == 3, "one and one is 2, not 3")
    Traceback (most recent call last):
    AssertionError: one and one is 2, not 3
    """
    if not holds:
        raise AssertionError(sentence)


def expect_same(one: Weights, other: Weights, sentence: str) -> None:
    """Hold two sets of weights, by party and name, against each other to the last bit."""
    for party, weights in one.items():
        for name, tensor in weights.items():
            equal = torch.equal(tensor, other[party][name])
            expect(equal, f"{sentence}: {name} of {party} differs")
