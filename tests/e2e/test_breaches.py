"""What a party says in the midst of a job that it may not say: shapes, values, kinds."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
import torch

from colonnade.compress import plain
from colonnade.errors import PartyError
from colonnade.job.policy import Policy
from colonnade.wire.fault import Fault
from colonnade.wire.messages import Packed
from tests import loop
from tests.scene import case, play, scene


def spoil(training, at, how):
    """Let a training's learner send something else in one round."""
    build = training.build

    def built(world, welcome):
        program = build(world, welcome)
        pack = program.learner.pack
        program.learner.pack = lambda exchange: (
            how(exchange) if exchange.round == at else pack(exchange)
        )
        return program

    training.build = built
    return training


def tensor(*shape, dtype=torch.float64, value=0.0):
    return lambda exchange: plain().encode(torch.full(shape, value, dtype=dtype))


def quantised(exchange):
    packed = tensor(8, 4)(exchange)
    return Packed("scalar", packed.dtype, packed.shape, packed.data, b"??")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (tensor(7, 4), "p2 sent a tensor of shape (7, 4) where (8, 4) is due"),
        (tensor(8, 5), "p2 sent a tensor of shape (8, 5) where (8, 4) is due"),
        (tensor(8, 4, dtype=torch.float32), "of type float32 where float64 is due"),
        (quantised, "p2 sent a tensor in the encoding 'scalar' where plain is due"),
    ],
)
def test_an_embedding_of_another_form_in_the_midst_of_a_job(how, said):
    async def run(s, active):
        error = await (await s.start("p2", spoil(s.training("p2"), 7, how))).end()
        assert isinstance(error, PartyError) and error.exit_code == 1
        assert "p1 refused: " in str(error) and said in str(error)
        assert active.said("refused p2: p2 sent") and active.world.detector.refusals == {"p2": 1}

    play(run)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_an_embedding_that_is_not_finite_ends_the_job_with_its_senders_name(value):
    async def whole():
        async with scene(case()) as s:
            bad = spoil(s.training("p2"), 3, tensor(8, 4, value=value))
            parties = [await s.start("p1"), await s.start("p0"), await s.start("p2", bad)]
            for party in parties:
                outcome = await party.end()
                assert (outcome.reason, outcome.view.fresh) == ("diverged", 3)
                said = "p2 sent a tensor with NaN or infinite components in round 4"
                assert outcome.fault == Fault(said, sender="p2")

    loop.run(whole())


def test_a_gradient_that_is_not_finite_ends_the_job_with_the_active_partys_name():
    async def whole():
        async with scene(case()) as s:
            training = s.training("p1")
            build = training.build

            def built(world, welcome):
                program = build(world, welcome)
                reply = program.learner.reply

                def spoilt(exchange, peer, signal):
                    good = reply(exchange, peer, signal)
                    bad = tensor(8, 4, value=float("nan"))(exchange)
                    hit = exchange.round == 3 and peer == "p2"
                    return msgspec.structs.replace(good, tensor=bad) if hit else good

                program.learner.reply = spoilt
                return program

            training.build = built
            parties = [await s.start("p1", training), await s.start("p0"), await s.start("p2")]
            for party in parties:
                error = await party.end()
                assert isinstance(error, PartyError) and error.exit_code == 1
                assert "p1 sent a tensor with NaN or infinite components" in str(error)
            assert parties[2].world.detector.refusals == {"p1": 1}

    loop.run(whole())


@pytest.mark.parametrize(
    ("party", "policy", "said"),
    [
        ("p2", Policy(kinds=frozenset({"Hello"})), "policy.kinds does not list Embedding"),
        ("p2", Policy(receive=frozenset({"Status"})), "policy.receive does not list Gradient"),
    ],
)
def test_a_passive_partys_policy_ends_its_part_and_the_job(party, policy, said):
    async def whole():
        async with scene(case()) as s:
            parties = [await s.start("p1"), await s.start("p0"), await s.start("p2", policy=policy)]
            for each in parties:
                error = await each.end()
                assert isinstance(error, PartyError) and said in str(error)
                assert "p2" in str(error) or each.name == "p2"

    loop.run(whole())


def test_an_active_partys_policy_refuses_who_sends_what_it_does_not_take():
    async def whole():
        async with scene(case(evaluate_every="4 rounds")) as s:
            active = await s.start("p1", policy=Policy(receive=frozenset({"Embedding"})))
            others = [(await s.start(name)).task for name in ("p0", "p2")]
            (first,), _ = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
            error, said = first.exception(), "policy.receive does not list EvaluationEmbedding"
            assert isinstance(error, PartyError) and said in str(error) and active.said(said)

    loop.run(whole())
