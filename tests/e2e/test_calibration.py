"""Lines that are measured over real connections, and parties that abuse it."""

from __future__ import annotations

import msgspec
import pytest
import torch

from colonnade.compress import plain
from colonnade.errors import BreachError, PartyError
from colonnade.party import calibration, probed
from colonnade.record.chain import reconcile
from colonnade.wire.messages import Calibrate, Echo, Probe, Setting
from tests import loop
from tests.scene import scene
from tests.small import small

AUTO = {"name": "auto", "most": 4, "share": 1.0}


def some_case(**train):
    return small(3, method=AUTO, rounds=30, **train)


def ended(case, *names, **deviating):
    """These parties, or all, and how each ended, with some trainings changed."""
    found = {}

    async def whole():
        async with scene(case) as s:
            parties = {}
            for name in ("p1", "p0", "p2"):
                training = s.training(name)
                parties[name] = await s.start(name, deviating.get(name, lambda t: t)(training))
            for name in names or parties:
                found[name] = parties[name], await parties[name].end()

    loop.run(whole())
    return found


def changing(kind, to="p2", **change):
    """Lets a party send messages of a kind otherwise, to one party: else the first that notices
    may be another."""

    def deviate(training):
        build = training.build

        def built(world, welcome):
            send = world.send

            async def changed(peer, message):
                hit = peer == to and isinstance(message, kind)
                await send(peer, msgspec.structs.replace(message, **change) if hit else message)

            world.send = changed
            return build(world, welcome)

        training.build = built
        return training

    return deviate


def test_a_job_that_measures_ends_well_and_both_ends_count_alike():
    found = ended(some_case())
    for name, (_, outcome) in found.items():
        assert not isinstance(outcome, Exception), (name, outcome)
    (told,) = found["p1"][1].history.calibrations
    measured = {each["party"]: each for each in told["parties"]}
    assert measured["p2"]["forward_ns"] > 0 and measured["p2"]["latency_ns"] > 0
    assert 1 <= measured["p2"]["window"] <= 4
    active = found["p1"][0].world.ledger.entries()
    for name in ("p0", "p2"):
        own = found[name][0].world.ledger.entries()
        assert not reconcile(own, name, active, "p1")


def test_a_job_measures_again_in_the_midst_and_goes_on(monkeypatch):
    monkeypatch.setattr(calibration, "CALM", 4)
    rounds = iter(range(1000))
    monkeypatch.setattr(calibration.Watch, "changed", lambda *_: next(rounds) == 8)
    found = ended(small(3, method=AUTO, rounds=40, checkpoint_every=5))
    for name, (_, outcome) in found.items():
        assert not isinstance(outcome, Exception), (name, outcome)
    first, second = found["p1"][1].history.calibrations
    assert first["round"] == 0 < second["round"] < 40


ONES = plain().encode(torch.ones(4))
ACTIVE = {
    "fewer bits than agreed": (changing(Setting, bits=3), "chose a window of"),
    "bits that there are not": (changing(Setting, bits=7), "which the job does not allow"),
    "a window beyond the bound": (changing(Setting, window=5), "chose a window of 5"),
    "no window": (changing(Setting, window=0), "chose a window of 0"),
    "a probe that says something": (changing(Probe, tensor=ONES), "sent a probe that is not of"),
    "a probe out of turn": (changing(Probe, number=3), "a message that is not due, of kind Probe"),
}


@pytest.mark.parametrize("name", ACTIVE)
def test_an_active_party_that_goes_beyond_the_bounds_is_named(name):
    deviate, said = ACTIVE[name]
    _, error = ended(some_case(), "p2", p1=deviate)["p2"]
    assert isinstance(error, BreachError) and error.peer == "p1" and said in str(error)


PASSIVE = {
    "an answer that says something": (
        changing(Echo, to="p1", tensor=ONES),
        "something else than zeros",
    ),
    "an answer to another probe": (changing(Echo, to="p1", number=5), "not due, of kind Echo"),
}


@pytest.mark.parametrize("name", PASSIVE)
def test_a_passive_party_that_answers_otherwise_is_named(name):
    deviate, said = PASSIVE[name]
    _, error = ended(some_case(), "p2", p2=deviate)["p2"]
    assert isinstance(error, PartyError) and "p1 refused: " in str(error) and said in str(error)


@pytest.mark.parametrize("round", [0, 3, 30, 2**40])
def test_a_call_to_measure_that_is_past_or_beyond_the_end_is_a_breach(monkeypatch, round):
    monkeypatch.setattr(calibration, "CALM", 4)
    rounds = iter(range(1000))
    monkeypatch.setattr(calibration.Watch, "changed", lambda *_: next(rounds) == 8)
    _, error = ended(some_case(), "p2", p1=changing(Calibrate, round=round))["p2"]
    assert isinstance(error, BreachError) and error.peer == "p1"
    assert "wants to measure after round" in str(error)


def test_a_passive_party_lets_itself_be_measured_only_so_often(monkeypatch):
    monkeypatch.setattr(calibration, "CALM", 1)
    monkeypatch.setattr(calibration.Watch, "changed", lambda *_: True)
    monkeypatch.setattr(probed, "CALIBRATIONS_MAX", 2)
    _, error = ended(some_case(), "p2")["p2"]
    assert isinstance(error, BreachError) and "2 times are agreed on" in str(error)
