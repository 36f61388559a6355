"""Trainings on sums under masks: what is learnt is what the same sums give without masks."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade import simulate
from colonnade.errors import FailedError, JobError
from colonnade.job import load
from colonnade.models.top import Split
from colonnade.party.training import Training
from colonnade.party.world import Over
from colonnade.protect.keys import Occasion
from colonnade.protect.masks import Masks
from colonnade.protect.secret import Derived
from colonnade.run.clock import reclock
from colonnade.run.setup import prepare
from colonnade.testing.lossy import LossySimulator
from colonnade.testing.stores import MemoryStore
from tests.netrun import run_program
from tests.small import small, with_network

MASKED = {"protect": {"sum": "pairwise:32"}}
METHODS = [
    {"name": "fedsgd"},
    {"name": "fedbcd", "updates": 3},
    {"name": "fedbcd", "updates": 2, "order": "sequential"},
    {"name": "celu", "w": 3, "r": 3},
    {"name": "celu", "window": "pipelined:3"},
    {"name": "pasta", "b_max": 3, "s_max": 4},
    {"name": "fedsgd", "compress": {"gradient": "scalar:4"}},
    {"name": "fedbcd", "updates": 2, "average": "ema:0.9"},
]


def bare(masks, tensor, round, *use):
    """Fixed point, and no masks."""
    numbers = masks._protection.to_fixed(tensor, len(masks._parties))
    return torch.from_numpy(numbers.view(f"i{numbers.itemsize}"))


def same(one, other):
    return all(
        torch.equal(tensor, other[party][name])
        for party, weights in one.items()
        for name, tensor in weights.items()
    )


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("label_only", [False, True])
def test_masked_is_unmasked_fixed_point_bit_for_bit(method, label_only, monkeypatch):
    case = small(4, "agg", label_only, method=method | MASKED, rounds=9,
                 evaluate_every="3 rounds", validation=0.2)  # fmt: skip
    job = with_network(case.job, latency="30ms")
    masked = simulate(job, case.data, case.modules)
    monkeypatch.setattr(Masks, "hide", bare)
    unmasked = simulate(job, case.data, case.modules)
    assert same(masked.weights, unmasked.weights)
    assert masked.history == unmasked.history and masked.losses == unmasked.losses
    assert masked.test == unmasked.test and masked.time_s == unmasked.time_s
    for name, party in masked.parties.items():
        assert party.ledger == unmasked.parties[name].ledger


def test_what_crosses_looks_like_nothing(monkeypatch):
    """Zeros, hidden: every byte comes about as often as every other."""
    seen = []
    hide = Masks.hide

    def noted(masks, tensor, round, *use):
        seen.append(hide(masks, torch.zeros_like(tensor), round, *use))
        return seen[-1]

    monkeypatch.setattr(Masks, "hide", noted)
    case = small(3, "agg", method={"name": "fedsgd"} | MASKED, rounds=60, batch_size=48)
    simulate(case.job, case.data, case.modules)
    bytes_ = torch.cat([each.flatten() for each in seen]).view(torch.uint8)
    counts = torch.bincount(bytes_.long(), minlength=256).double()
    expected = len(bytes_) / 256
    assert len(bytes_) > 20_000
    # The mean of this is 255 and its standard deviation 22.6; what is drawn is always the same.
    assert ((counts - expected) ** 2 / expected).sum() < 400


def digits(*more, hidden="[]", embedding=10):
    sets = ["train.epochs=20", "top.kind=agg", f"top.hidden={hidden}", *more]
    sets += [f"parties.{name}.model.embedding={embedding}" for name in ("clinic", "lab", "insurer")]
    return simulate(load("digits", sets))


def test_twenty_fractional_bits_are_within_a_millionth_of_floating_point():
    floating, masked = digits(), digits("method.protect.sum=pairwise:32:20")
    gaps = [
        (tensor - masked.weights[party][name]).abs().max().item()
        for party, weights in floating.weights.items()
        for name, tensor in weights.items()
    ]
    assert 0 < max(gaps) < 1e-6
    assert masked.history[-1]["accuracy"] == floating.history[-1]["accuracy"]


def test_hidden_layers_after_the_sum_learn_as_a_plain_model_does():
    """With two passive parties and an active one, against the same sum written out."""
    job = load("digits", ["train.rounds=30", "top.kind=agg", "top.hidden=[12]"])
    run = simulate(job)
    masked = simulate(load("digits", ["train.rounds=30", "top.kind=agg", "top.hidden=[12]",
                                      "method.protect.sum=pairwise:64:44"]))  # fmt: skip
    assert run.weights["clinic"]["top.network.0.weight"].shape == (12, 16)
    for party, weights in run.weights.items():
        for name, tensor in weights.items():
            torch.testing.assert_close(masked.weights[party][name], tensor, atol=1e-5, rtol=1e-4)
    assert masked.losses[0]["loss"] == pytest.approx(run.losses[0]["loss"], rel=1e-6)


def test_it_is_clocked_again_as_it_was():
    case = small(4, "agg", method={"name": "fedbcd", "updates": 2} | MASKED, rounds=6,
                 evaluate_every="2 rounds", validation=0.2)  # fmt: skip
    job = with_network(case.job, latency="10ms", bandwidth="1mbit")
    run = simulate(job, case.data, case.modules)
    again = reclock(run, job)
    assert again.time_s == run.time_s
    for name, party in run.parties.items():
        assert again.parties[name].ledger == party.ledger


def test_an_embedding_beyond_the_room_ends_the_run_in_a_sentence():
    case = small(3, "agg", method={"name": "fedsgd", "protect": {"sum": "pairwise:32:24"}},
                 optimizer={"name": "sgd", "lr": 1e4}, rounds=50)  # fmt: skip
    with pytest.raises(FailedError, match=r"pairwise:32:24 has room for less than 64 with 2"):
        simulate(case.job, case.data, case.modules)


def test_a_top_model_of_ones_own_that_may_need_more_than_the_sum_is_refused():
    case = small(3, "agg", method={"name": "fedsgd"} | MASKED)
    top = Split(torch.nn.Linear(3, 1).double())
    with pytest.raises(JobError, match="shows the top model a sum"):
        simulate(case.job, case.data, case.modules | {"top": top})


MS = 10**6
crashes = st.lists(
    st.tuples(st.integers(0, 3000), st.sampled_from(("p0", "p1", "p2", "p3")), st.integers(0, 900)),
    max_size=6,
)


@settings(max_examples=10)
@given(
    crashes, st.sampled_from((METHODS[0], METHODS[1], METHODS[5])), st.sampled_from((None, 2, 5))
)
def test_no_mask_is_used_twice_whatever_crashes(plan, method, every):
    """Every party's every mask, over all processes, generations and returns to checkpoints, under
    an active party that gives every attempt the same name."""
    case = small(4, "agg", method=method | MASKED, rounds=6, checkpoint_every=every or None,
                 evaluate_every="3 rounds", validation=0.2)  # fmt: skip
    job = with_network(case.job, latency="50ms")
    used = []
    stores = {name: MemoryStore() for name in job.parties}

    class Noted(Masks):
        """Notes whose mask with whom it uses for what, by the bits of it."""

        def hide(self, tensor, round, *use):
            for peer, shared in self.shared.items():
                pad = shared.stream(*use, round).words(4).tobytes()
                used.append((self._me, peer, pad))
            return super().hide(tensor, round, *use)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("colonnade.party.masking.Masks", Noted)
        occasion = Occasion("terms", "run", "attempt")
        patch.setattr("colonnade.party.masking._occasion", lambda welcome: occasion)
        _play(job, case, stores, plan, itertools.count())
    assert len(used) >= 6 * 3 * 2 and len(set(used)) == len(used)


def _play(job, case, stores, plan, processes):
    """The job through its crashes to its end; a process knows nothing of the one before it but its
    checkpoints."""
    simulator = LossySimulator(job, until_ns=300_000 * MS)
    parties = prepare(job, case.data, case.modules)
    last, settled = {}, set()

    def start(name):
        party = replace(parties[name], randomness=Derived(next(processes)))
        training = Training.of(party, stores[name], lambda outcome: last.__setitem__(name, outcome))
        simulator.worlds[name].settled = lambda: settled.add(name)
        return training

    async def session(name, training):
        try:
            return await run_program(simulator.worlds[name], training)
        except Over:
            return last[name]

    def begin(name):
        if name in settled:
            simulator.gone(name)
        else:
            simulator.restart(name, session(name, start(name)))

    def crash(name, down_ns):
        if simulator.crash(name):
            simulator.call_at(simulator.now_ns + down_ns, lambda: begin(name))

    for at, name, down in plan:
        simulator.call_at(at * MS, lambda n=name, d=down: crash(n, d * MS))
    simulator.run({name: session(name, start(name)) for name in job.parties})
    return last


def test_a_run_through_crashes_learns_what_one_without_them_does():
    case = small(4, "agg", method={"name": "fedbcd", "updates": 2} | MASKED, rounds=8,
                 checkpoint_every=2, evaluate_every="2 rounds", validation=0.2)  # fmt: skip
    job = with_network(case.job, latency="50ms")
    stores = {name: MemoryStore() for name in job.parties}
    plan = [(900, "p2", 300), (1900, "p1", 300), (2600, "p0", 100)]
    last = _play(job, case, stores, plan, itertools.count())
    undisturbed = simulate(job, case.data, case.modules)
    assert same({name: outcome.weights for name, outcome in last.items()}, undisturbed.weights)
