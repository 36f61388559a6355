"""How a check says what does not hold."""

from __future__ import annotations

from collections.abc import Mapping

import torch

Weights = Mapping[str, Mapping[str, torch.Tensor]]


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
