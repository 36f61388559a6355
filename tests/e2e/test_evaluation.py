"""An active party that asks for more than the terms of the job allow, over a real connection.

Whatever it asks, the passive party gives what the schedule says and no more, and says who asked.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from colonnade import simulate
from colonnade.errors import PartyError
from colonnade.wire.messages import Evaluate
from tests import loop
from tests.scene import scene
from tests.small import small

TRAIN = {"rounds": 12, "evaluate_every": "3 rounds", "validation": 0.25}


def deviating(training, ask):
    """The active party with other questions for p2: `ask` makes them of the one that is due."""
    build = training.build

    def built(world, welcome):
        program = build(world, welcome)
        send = world.send

        async def other(to, message):
            if to == "p2" and isinstance(message, Evaluate):
                for question in ask(message):
                    await send(to, question)
            else:
                await send(to, message)

        world.send = other
        return program

    training.build = built
    return training


async def attacked(s, training):
    """Let all take part; p2, and the error that ended each."""
    parties = [await s.start("p1", training), await s.start("p0"), await s.start("p2")]
    errors = [await party.end() for party in parties]
    assert all(isinstance(error, PartyError) for error in errors), errors
    return parties[2], str(errors[2])


def changed(**fields):
    return lambda due: [msgspec.structs.replace(due, **fields)]


def at(round, how):
    return lambda due: how(due) if due.round == round else [due]


DEVIATIONS = {
    "the training rows": (
        changed(splits=("train", "validation")),
        "asked for train and validation rows, and the job has validation rows evaluated",
    ),
    "nothing but training rows": (changed(splits=("train",)), "asked for train rows"),
    "the test rows before the end": (changed(splits=("test",)), "asked for test rows"),
    "one question eighty times": (
        lambda due: [due] * 80,
        "asked for an evaluation of round 3, which is not due",
    ),
    "a round that is not due": (
        changed(round=1),
        "asked for an evaluation of round 2, which is not due",
    ),
    "a round of the future": (
        changed(round=5, after=5),
        "asked for an evaluation after round 6, when 2 have a reply",
    ),
    "every round": (
        lambda due: [msgspec.structs.replace(due, round=r, after=r) for r in range(due.round + 1)],
        "asked for an evaluation of round 1, which is not due",
    ),
    "the test rows twice": (at(12, lambda due: [due, due]), "asked once more after the test rows"),
    "the test rows at once": (
        changed(round=12, splits=("test",)),
        "asked for the test rows before all was scored",
    ),
    "a score of what was not asked": (
        at(5, changed(scored=4)),
        "scored round 5, which it had not asked for",
    ),
    "weights that are gone": (
        at(8, changed(best=3)),
        "calls round 4 the best, which was not scored just now",
    ),
}


@pytest.mark.parametrize("name", DEVIATIONS)
def test_a_question_off_the_schedule_is_a_breach_and_is_not_answered(name):
    ask, said = DEVIATIONS[name]
    case = small(3, **TRAIN)
    allowed = simulate(case.job, case.data, case.modules).parties["p2"].ledger

    async def whole():
        async with scene(case) as s:
            honest, error = await attacked(s, deviating(s.training("p1"), ask))
            assert f"p1 {said}" in error
            assert honest.world.detector.refusals == {"p1": 1}
            sent = {e["kind"]: e for e in honest.world.ledger.entries() if e["direction"] == "sent"}
            for entry in allowed:
                if entry["direction"] == "sent" and entry["kind"] in sent:
                    assert sent[entry["kind"]]["bytes"] <= entry["bytes"]
            assert len(honest.training.loop.learner._kept) <= 2

    loop.run(whole())


def test_questions_without_judgements_do_not_make_a_party_keep_weights():
    """An active party that claims to have scored nothing is refused at the ninth question."""
    case = small(3, rounds=40, evaluate_every="1 round", validation=0.25)

    async def whole():
        async with scene(case) as s:
            training = deviating(s.training("p1"), changed(scored=-1, best=-1))
            honest, error = await attacked(s, training)
            assert "p1 asked for 9 evaluations without scoring any of them" in error
            assert len(honest.training.loop.learner._kept) <= 8

    loop.run(whole())


def test_weights_that_nobody_judged_are_no_result():
    case = small(3, **TRAIN)

    async def whole():
        async with scene(case) as s:
            training = s.training("p1")
            build = training.build

            def built(world, welcome):
                program = build(world, welcome)
                settle = program.evaluations.close

                def forget(evaluation):
                    settle(evaluation)
                    if evaluation.is_test:
                        program.evaluations.best = 7

                program.evaluations.close = forget
                return program

            training.build = built
            _, error = await attacked(s, training)
            assert "p1 calls round 8 the best, which was not scored just now" in error

    loop.run(whole())


def stopping(training, round, stuck):
    """A passive party that gets no further than a round."""
    build = training.build

    def built(world, welcome):
        program = build(world, welcome)
        send_next = program._send_next

        async def stop():
            if program.view.sent == round:
                stuck.set()
                await asyncio.Event().wait()
            await send_next()

        program._send_next = stop
        return program

    training.build = built
    return training


def test_a_party_that_comes_back_is_asked_again_only_after_its_checkpoint():
    """Evaluations since the checkpoint are repeated, with equal results; none before it."""
    case = small(3, rounds=12, evaluate_every="2 rounds", checkpoint_every=5, validation=0.25)

    async def whole():
        async with scene(case) as s:
            parties = {name: await s.start(name) for name in ("p1", "p0")}
            stuck = asyncio.Event()
            parties["p2"] = await s.start("p2", stopping(s.training("p2"), 9, stuck))
            await asyncio.wait_for(stuck.wait(), 60)
            await parties["p2"].crash()
            parties["p2"] = await s.start("p2")
            s.unharmed({name: await party.end() for name, party in parties.items()})
            expected = simulate(case.job, case.data, case.modules)
            assert parties["p2"].world.ledger.entries() == expected.parties["p2"].ledger

    loop.run(whole())
