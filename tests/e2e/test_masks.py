"""Sums under masks over mTLS: the same as simulated, and an active party that meddles with the
keys, or wants a model of sums to score rows, gets nothing."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
import torch

from colonnade import simulate
from colonnade.errors import BreachError, ColonnadeError, RequestError
from colonnade.job.records import Top
from colonnade.party import active as active_loop
from colonnade.party.training import Training
from colonnade.run.ceiling import ceiling
from colonnade.run.predict_party import PredictParty, read_models
from colonnade.run.setup import prepare
from colonnade.tls.signature import Credentials
from colonnade.wire.messages import CONTROL
from tests.netrun import identities, run_program, run_programs, run_trainings
from tests.predicting import tables
from tests.small import small

MASKED = {"protect": {"sum": "pairwise:32"}}


def case_of(**more):
    options = {"method": {"name": "fedbcd", "updates": 2} | MASKED, "rounds": 6}
    return small(4, "agg", evaluate_every="2 rounds", validation=0.2, **options | more)


def signing(case):
    """Everybody's training, with certificates."""
    proof = identities(tuple(case.job.parties))
    return {
        name: Training.of(replace(party, credentials=lambda own=proof[name]: Credentials(own)))
        for name, party in prepare(case.job, case.data, case.modules).items()
    }


def as_simulated(case):
    """Run a case over mTLS and compare it with the simulator; the messages that left each passive
    party, by kind."""
    trainings, left = signing(case), {}
    outcomes, worlds = run_trainings(case.job, trainings)
    simulated = simulate(case.job, case.data, case.modules)
    for name, outcome in outcomes.items():
        for key, tensor in outcome.weights.items():
            assert torch.equal(tensor, simulated.weights[name][key]), (name, key)
    for name in case.job.passives:
        sent = {e["kind"]: (e["messages"], e["bytes"]) for e in worlds[name].ledger.entries()
                if e["direction"] == "sent"}  # fmt: skip
        most = ceiling(trainings[name].party)
        assert {kind: sent[kind] for kind in sent if kind not in CONTROL} == most
        left[name] = {kind: messages for kind, (messages, _) in sent.items()}
    return left


def test_over_mtls_as_in_the_simulator():
    assert all(left["MaskKey"] == 1 for left in as_simulated(case_of()).values())


def found_out(case, trainings, sentence):
    """Run trainings that somebody ends with a sentence: whose breach those have found who end
    themselves. What the others hear of it may come out before."""
    ends = {}

    def noting(name):
        async def run(world):
            try:
                await run_program(world, trainings[name])
            except ColonnadeError as error:
                ends[name] = error
                raise

        return run

    with pytest.raises(ColonnadeError, match=sentence):
        run_programs(case.job, {name: noting(name) for name in trainings})
    return {error.peer for error in ends.values() if isinstance(error, BreachError)}


def tampered(keys, earlier):
    return {name: msgspec.structs.replace(each, key=bytes(31) + b"\t")
            for name, each in keys.said.items()}  # fmt: skip


def swapped(keys, earlier):
    """Keys of its own, signed as itself."""
    own = keys._credentials
    return {
        name: msgspec.structs.replace(each, key=bytes(31) + b"\t", certificate=own.certificate,
                                      signature=own.sign(b"whatever"))
        for name, each in keys.said.items()
    }  # fmt: skip


def replayed(keys, earlier):
    return earlier


@pytest.mark.parametrize("meddle", [tampered, swapped, replayed])
def test_an_active_party_that_meddles_with_keys_is_named_and_gets_no_embedding(meddle, monkeypatch):
    case, earlier = case_of(), {}
    honest = active_loop.hand_on

    async def noted(world, keys, receive):
        await honest(world, keys, receive)
        earlier.update(keys.said)

    async def hostile(world, keys, receive):
        while keys.missing():
            await receive()
        keys.said = meddle(keys, dict(earlier))
        await honest(world, keys, receive)

    monkeypatch.setattr(active_loop, "hand_on", noted)
    run_trainings(case.job, signing(case))
    monkeypatch.setattr(active_loop, "hand_on", hostile)
    trainings, seen = signing(case), []
    monkeypatch.setattr(
        "colonnade.learn.active.received_sum", lambda *_, **__: seen.append("an embedding")
    )
    assert found_out(case, trainings, r"p1 sent the key of p\d for masks") == {"p1"}
    assert not seen


def test_a_model_of_sums_scores_no_rows_over_the_network(tmp_path):
    """Whatever the job says that it comes with: each party goes by its own model too."""
    job = tables(tmp_path)
    top = Top(kind="agg", hidden=[4])
    run = simulate(msgspec.structs.replace(job, method={"name": "fedsgd"} | MASKED, top=top))
    run.save(tmp_path / "run")
    for name in job.parties:
        models = read_models([tmp_path / "run"], name)
        party = PredictParty(job, name, models, tmp_path / name)
        with pytest.raises(RequestError, match="would show the active party single embeddings"):
            party.program()
