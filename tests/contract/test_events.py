"""The stream of events: the same in every world, told by every party."""

from __future__ import annotations

import functools
import operator
import typing

import msgspec
import pytest

from colonnade import simulate
from colonnade.party.training import Training
from colonnade.record import events
from colonnade.record.events import EVENTS, Evaluated, Event, RoundDone
from colonnade.run.setup import prepare
from tests.netrun import run_trainings
from tests.small import small

ROUNDS = 6
ANY = functools.reduce(operator.or_, EVENTS)


def told(tell):
    """What a run tells, by party: what, and of which round."""
    heard = []
    tell(heard.append)
    program = [event for event in heard if isinstance(event, RoundDone | Evaluated | events.Tested)]
    return {
        party: [(type(event), event.round) for event in program if event.party == party]
        for party in {event.party for event in program}
    }, program


@pytest.mark.parametrize("method", ["fedsgd", "fedbcd", "cvfl"])
def test_both_worlds_tell_the_same(method):
    case = small(
        3,
        method={"name": method},
        rounds=ROUNDS,
        validation=0.2,
        evaluate_every="3 rounds",
        labels="shared" if method == "cvfl" else "private",
    )

    def in_simulator(subscriber):
        simulate(case.job, case.data, case.modules, observers=[subscriber])

    def over_network(subscriber):
        parties = prepare(case.job, case.data, case.modules)
        trainings = {name: Training.of(party) for name, party in parties.items()}
        run_trainings(case.job, trainings, [subscriber])

    simulated, first = told(in_simulator)
    networked, second = told(over_network)
    assert simulated == networked
    assert simulated.keys() == set(case.job.parties)
    for party, found in simulated.items():
        rounds = [round for kind, round in found if kind is RoundDone]
        assert rounds == list(range(ROUNDS)), party
    assert [kind for kind, _ in simulated["p1"]].count(Evaluated) == 2
    assert [kind for kind, _ in simulated["p1"]].count(events.Tested) == 1
    for one, other in zip(
        *([e for e in run if e.party == "p1"] for run in (first, second)), strict=True
    ):
        if isinstance(one, RoundDone):
            assert one.loss == other.loss and one.rounds == ROUNDS
        else:
            assert one.measured == other.measured


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_an_event_survives_a_line_of_json(kind):
    """For whoever follows a party from another process."""
    given = {"str": "x", "int": 3, "bool": True, "float": 0.5}
    hints = typing.get_type_hints(kind)
    values = {}
    for field in msgspec.structs.fields(kind):
        text = str(hints[field.name])
        found = next((value for name, value in given.items() if name in text), {})
        values[field.name] = {"auc": 0.5} if "Mapping" in text else found
        if field.name == "weights":
            values[field.name] = (0.1, 0.5, 0.9)
        if "Measured" in text:
            values[field.name] = (events.Measured("x", 3, 3, window=2, embedding_bits=4),)
    event = kind(**values)
    read = msgspec.json.decode(
        msgspec.json.encode(event), type=functools.reduce(operator.or_, EVENTS)
    )
    assert read == event
    assert event.sentence() is None or "\n" not in event.sentence()


def test_every_kind_of_event_is_listed():
    kinds = {kind for kind in vars(events).values() if isinstance(kind, type)}
    told = {kind for kind in kinds if issubclass(kind, Event)} - {Event, events.PeerEnded}
    assert told == set(EVENTS)
