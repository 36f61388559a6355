"""What a party may have of its own: the step, and how its tensors are written."""

from __future__ import annotations

import msgspec
import pytest
import torch

from colonnade import JobError, simulate
from tests.small import small


def train(own=None, method=None, **options):
    case = small(3, method=method or {"name": "fedbcd", "updates": 3}, **options)
    parties = {
        name: msgspec.structs.replace(party, **(own or {}).get(name, {}))
        for name, party in case.job.parties.items()
    }
    return simulate(msgspec.structs.replace(case.job, parties=parties), case.data, case.modules)


def same(first, second, party) -> bool:
    return all(
        torch.equal(tensor, second.weights[party][name])
        for name, tensor in first.weights[party].items()
    )


@pytest.mark.parametrize("step", ["local_momentum:0.9", "proximal:0.5"])
def test_a_step_for_everybody_is_everybodys_own(step):
    common = train(method={"name": "fedbcd", "updates": 3, "step": step})
    own = train({name: {"step": step} for name in ("p0", "p1", "p2")})
    assert all(same(common, own, party) for party in own.parties)


def test_each_party_may_have_its_own_step():
    """In the first round only the party's own weights can tell."""
    plain = train(rounds=1)
    mixed = train({"p0": {"step": "local_momentum:0.9"}, "p2": {"step": "proximal:0.5"}}, rounds=1)
    assert not same(plain, mixed, "p0") and not same(plain, mixed, "p2")
    assert same(plain, mixed, "p1")


def test_each_party_may_have_its_own_compression():
    own = {"p0": {"compress": {"embedding": "scalar:4"}}, "p2": {"compress": {"gradient": "half"}}}
    run = train(own, {"name": "fedsgd"}, batch_size=24, rounds=10)
    sizes = {(entry["peer"], entry["kind"]): entry["bytes"] for entry in run.parties["p1"].ledger}
    assert sizes["p0", "Embedding"] < sizes["p2", "Embedding"] / 3
    assert sizes["p2", "Gradient"] < sizes["p0", "Gradient"] / 2


def test_compression_for_everybody_is_everybodys_own():
    roles = {"embedding": "scalar:4"}
    common = train(method={"name": "fedsgd", "compress": roles})
    own = train({name: {"compress": roles} for name in ("p0", "p2")}, {"name": "fedsgd"})
    assert all(same(common, own, party) for party in own.parties)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"p0": {"compress": {"top": "half"}}}, "set it for p1"),
        ({"p1": {"compress": {"gradient": "half"}}}, "the passive party that gets them"),
        ({"p0": {"compress": {"embeding": "half"}}}, "did you mean 'embedding'"),
        ({"p0": {"step": "momentum:0.9"}}, "no step policy 'momentum'"),
    ],
)
def test_what_has_no_effect_is_refused(own, words):
    with pytest.raises(JobError, match=words):
        train(own)
