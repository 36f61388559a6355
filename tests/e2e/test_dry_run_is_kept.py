"""What a passive party sends over a real connection is what its dry run says, to the byte."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colonnade import methods
from colonnade.cli.options import read_job
from colonnade.job.party_file import own_job
from colonnade.job.policy import Policy
from colonnade.party.training import Training
from colonnade.run.ceiling import ceiling
from colonnade.run.forecast import forecast
from colonnade.run.setup import participant
from colonnade.tls.signature import Credentials
from colonnade.wire.messages import CONTROL
from tests.netrun import identities, run_trainings

SETS = [
    "train.rounds=7",
    "train.batch_size=200",
    "train.evaluate_every=3 rounds",
    "train.full_loss=true",
    "train.labels=shared",
]
MASKS = ["top.kind=agg", "top.hidden=[16]", "method.protect.sum=pairwise:32"]
LOCKSTEP = [name for name in methods.known() if not methods.build({"name": name}).by_clock]
OPTIONS = [
    "fedbcd:updates=3:order=sequential",
    "cvfl:q=2:compressor=ef+topk:4",
    "cvfl:exchange=gradients:compressor=scalar:4",
]
ENCODINGS = ["diminishing+scalar:2", "topk:0.25:importance", "lattice:3", "half"]
BY_CLOCK = [name for name in methods.known() if methods.build({"name": name}).by_clock]
BY_CLOCK.remove("flexvfl_s")  # It can only be simulated.


def run(job):
    """Take part with every party, each knowing only its own; the parties, and what crossed."""
    policy = Policy(shares_labels=True)
    parties = {name: participant(own_job(job, name, None), name, policy) for name in job.parties}
    proof = identities(tuple(job.parties))
    parties = {
        name: replace(party, credentials=lambda own=proof[name]: Credentials(own))
        for name, party in parties.items()
    }
    trainings = {name: Training.of(party) for name, party in parties.items()}
    _, worlds = run_trainings(job, trainings)
    return parties, {name: world.ledger.entries() for name, world in worlds.items()}


def sent(entries):
    return {e["kind"]: (e["messages"], e["bytes"]) for e in entries if e["direction"] == "sent"}


def check(job):
    parties, ledgers = run(job)
    for name in job.passives:
        left, said = sent(ledgers[name]), sent(forecast(parties[name]).entries)
        keys = [each.pop("MaskKey", (0, 0)) for each in (left, said)]
        check_keys(*keys)
        assert left == said
        assert {kind: left[kind] for kind in left if kind not in CONTROL} == ceiling(parties[name])
        assert left["EvaluationEmbedding"][0] == 3 * 2 + 1


def check_keys(left, said):
    """Two whole numbers of a signature are as short as they can be written, so that it can be a few
    bytes shorter than the dry run says."""
    assert left[0] == said[0] and said[1] - 40 < left[1] <= said[1]


@pytest.mark.parametrize("more", [[], ["method.protect.embedding=gauss:1:4"]])
@pytest.mark.parametrize("method", ["fedsgd", "fedbcd:updates=3"])
def test_a_run_under_masks_sends_what_the_dry_run_says(method, more):
    job = read_job("digits", [*SETS, *MASKS, *more], method)
    check(job)


def test_what_the_active_party_hands_on_of_keys_is_no_more_than_its_dry_run_says():
    job = read_job("digits", [*SETS, *MASKS], "fedsgd")
    parties, ledgers = run(job)
    left = sent(ledgers["clinic"])["MaskKey"]
    said = sent(forecast(parties["clinic"]).entries)["MaskKey"]
    assert left[0] == said[0] == 1 and left[1] <= said[1]
    # Who has no certificate yet is told of a longer one.
    bare = replace(parties["lab"], credentials=None)
    assert sent(forecast(bare).entries)["MaskKey"][1] > sent(ledgers["lab"])["MaskKey"][1]


@pytest.mark.parametrize("method", [*LOCKSTEP, *OPTIONS])
def test_a_run_in_lock_step_sends_what_the_dry_run_says(method):
    check(read_job("digits", SETS, method))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_compressed_run_sends_what_the_dry_run_says(encoding):
    check(read_job("digits", [*SETS, f"method.compress.embedding={encoding}"], "fedsgd"))


@pytest.mark.parametrize("method", [*BY_CLOCK, "vafl:start=upload"])
def test_a_run_by_the_clock_never_sends_more_than_the_dry_run_allows(method):
    parties, ledgers = run(read_job("digits", SETS, method))
    for name in parties["clinic"].job.passives:
        most = ceiling(parties[name])
        for kind, (messages, size) in sent(ledgers[name]).items():
            if kind not in CONTROL:
                assert messages <= most[kind][0] and size <= most[kind][1], (name, kind)
