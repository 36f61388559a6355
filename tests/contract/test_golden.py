"""The fingerprints by which a change shows that it moved no bit."""

from __future__ import annotations

import pytest
import torch

from tests.golden import METHODS, digest, in_simulator, over_mtls


@pytest.mark.parametrize("world", [in_simulator, over_mtls])
def test_fingerprints_are_the_same_each_time_and_tell_methods_apart(world):
    one = world(2, 7, "fedbcd")
    assert world(2, 7, "fedbcd") == one
    other = world(2, 7, "fedsgd")
    assert {part for part in one if one[part] == other[part]} <= {"ledger"}


def test_digests_tell_values_apart():
    values = [1, 1.0, "1", None, [1], [[1]], {"a": 1}, {"a": 2}, torch.ones(1), torch.ones(1, 1)]
    values += [torch.ones(1, dtype=torch.float64), torch.zeros(1), b"1", [1, 11], [11, 1]]
    assert len({digest(value) for value in values}) == len(values)
    assert digest({"b": 1, "a": 2.0}) == digest({"a": 2.0, "b": 1})


def test_every_method_has_fingerprints():
    assert {table["name"] for table in METHODS.values()} >= {"fedsgd", "fedbcd", "cvfl", "pasta"}
