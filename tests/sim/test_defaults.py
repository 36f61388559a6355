"""A job that says nothing but who holds what: it must learn, with every method."""

from __future__ import annotations

import pytest

from colonnade import Compute, Costs, Job, Link, Network, Party, Train, load, simulate
from colonnade.data.party import assemble
from colonnade.methods import known

TIMED = ("flexvfl", "sync_min", "sync_max")
QUICK = ("fedsgd", "vafl", "pasta")
"""Those that learn least with SGD at 0.1 and a linear top; `make test-all` tries the others."""
METHODS = [
    method if method in QUICK else pytest.param(method, marks=pytest.mark.slow)
    for method in known()
]


@pytest.fixture(scope="module")
def digits():
    return assemble(load("digits"))


def bare(name: str, method: str = "fedsgd") -> Job:
    """Parties, metric and method of a built-in job; everything else is as by default."""
    source = load(name)
    options = {"timeout": "150ms"} if method in TIMED else {}
    return Job(
        parties={party: Party(role=entry.role) for party, entry in source.parties.items()},
        method={"name": method} | options,
        train=Train(metric=source.train.metric, labels="shared"),
        network=Network(link=Link(latency="50ms")),
        compute=Compute(costs=Costs(forward="10ms", backward="20ms", aggregate="10ms")),
    )


def reached(job: Job, data) -> float:
    """On test rows, with the weights that were best on validation rows."""
    return simulate(job, data).summary()["metric"]["test"]


@pytest.mark.parametrize("method", METHODS)
def test_the_defaults_learn_with_every_method(method, digits):
    """With SGD at 0.1 and a linear top FedSGD, VAFL and PASTA stay below 0.5."""
    assert reached(bare("digits", method), digits) > 0.8


def test_the_defaults_learn_a_small_table():
    assert reached(bare("breast-cancer"), assemble(load("breast-cancer"))) > 0.98
