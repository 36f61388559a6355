"""The queue of a service: every request is answered exactly once, whatever comes in which order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.job.ids import Ids
from colonnade.predict.batch import IdRows
from colonnade.predict.request import ROWS_MAX, Scored
from colonnade.predict.rows import PartyRows
from colonnade.serve.live import ROWS_WAITING_MAX, WAITING_MAX, FullError, Live, Ticket

NAMES = [f"c{number}" for number in range(50)]
INDEX = IdRows(PartyRows(len(NAMES), {}, pa.array(NAMES)), Ids())


class Clock:
    now_ns = 0

    def __call__(self):
        return self.now_ns


def made(**options):
    clock = Clock()
    return clock, Live(lambda: INDEX, now=clock, world_now=lambda: clock() + 7, **options)


def ticket(names, answers, model="v1", mean=False, until_ns=10**9, features=None):
    """A request; what it is answered with is appended to `answers`."""
    return Ticket(list(names), model, mean, until_ns, answers.append, features)


def scores(request):
    """An answer that says of each row which one it is in the table."""
    return Scored(request.own[:, None].astype(float))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_request_is_answered_once_and_with_its_own_rows(data):
    clock, live = made()
    asked, flying, answers = [], [], {}
    for _ in range(data.draw(st.integers(1, 40))):
        step = data.draw(st.sampled_from(["put", "put", "take", "deliver", "decline", "give_up"]))
        if step == "put":
            names = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5))
            model, mean = data.draw(st.sampled_from(["v1", "v2"])), data.draw(st.booleans())
            answers[len(asked)] = got = []
            asked.append(ticket(names, got, model, mean, clock() + data.draw(st.integers(1, 99))))
            live.put(asked[-1])
        elif step == "take" and (request := live.take()) is not None:
            flying.append(request)
        elif step in ("deliver", "decline") and flying:
            request = flying.pop(data.draw(st.integers(0, len(flying) - 1)))
            declined = {"telco": "no"} if step == "decline" else {}
            request.deliver(Scored(scores(request).scores, declined=declined))
        elif step == "give_up" and asked:
            live.give_up(data.draw(st.sampled_from(asked)), ("telco",))
        clock.now_ns += data.draw(st.integers(0, 20))
    while flying or live.waiting:
        flying += [request for request in [live.take()] if request is not None]
        request = flying.pop()
        request.deliver(scores(request))
    for place, each in enumerate(asked):
        (got,) = answers[place]
        if not got.late and not got.declined:
            assert [NAMES[int(row)] for row in got.scores[:, 0]] == each.texts
    assert live.take() is None and live._rows_waiting == 0


def test_what_asks_for_the_same_goes_together_and_oldest_first():
    _, live = made()
    for names, model, mean in (("a", "v1", False), ("b", "v2", False), ("cd", "v1", False),
                               ("e", "v1", True)):  # fmt: skip
        live.put(ticket(names, [], model, mean))
    taken = [live.take() for _ in range(3)]
    assert [(request.model, request.mean, len(request)) for request in taken] == [
        ("v1", False, 3),
        ("v2", False, 1),
        ("v1", True, 1),
    ]
    assert live.take() is None


def test_the_last_deadline_counts_by_the_clock_of_the_world():
    clock, live = made()
    live.put(ticket("a", [], until_ns=50))
    live.put(ticket("b", [], until_ns=90))
    clock.now_ns = 10
    assert live.take().deadline_ns == 10 + 7 + 80


def test_without_batches_each_goes_by_itself():
    _, live = made(batches=False)
    live.put(ticket("a", []))
    live.put(ticket("b", []))
    assert [len(live.take()), len(live.take())] == [1, 1]


def test_a_request_is_never_larger_than_parties_answer():
    _, live = made()
    for _ in range(3):
        live.put(ticket(NAMES[:1] * (ROWS_MAX // 2), []))
    assert [len(live.take()), len(live.take())] == [ROWS_MAX, ROWS_MAX // 2]


def test_nothing_is_asked_while_a_party_is_away():
    there, calls = [False], []
    _, live = made(may_ask=lambda: there[0])
    live.bind(lambda: calls.append(1))
    answers = []
    live.put(ticket("a", answers))
    assert live.take() is None and calls == [1]
    there[0] = True
    live.wake()
    assert calls == [1, 1] and len(live.take()) == 1
    live.wake()
    assert calls == [1, 1], "nothing waits"


def test_the_queue_is_bounded_by_requests_and_by_rows():
    _, live = made()
    for _ in range(WAITING_MAX):
        live.put(ticket("a", []))
    with pytest.raises(FullError):
        live.put(ticket("a", []))
    _, live = made()
    for _ in range(ROWS_WAITING_MAX // ROWS_MAX):
        live.put(ticket(NAMES[:1] * ROWS_MAX, []))
    with pytest.raises(FullError):
        live.put(ticket("a", []))


def test_what_is_declined_together_is_tried_one_by_one_once():
    _, live = made()
    first, second = [], []
    live.put(ticket(["c1"], first))
    live.put(ticket(["c2"], second))
    request = live.take()
    request.deliver(Scored(scores(request).scores, declined={"telco": "too many"}))
    assert first == second == [] and live.waiting == 2
    one = live.take()
    assert len(one) == 1
    one.deliver(Scored(scores(one).scores, declined={"telco": "too many"}))
    other = live.take()
    other.deliver(scores(other))
    assert first[0].declined and second[0].scores.tolist() == [[2.0]]


def test_rows_that_come_with_their_numbers_keep_them():
    _, live = made()
    live.put(ticket(["c1"], [], features=np.array([[1.0, 2.0]])))
    live.put(ticket(["c2"], []))
    live.put(ticket(["c3", "c4"], [], features=np.zeros((2, 2))))
    assert live.take().features.tolist() == [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    assert live.take().features is None


def test_rows_without_ids_are_asked_for_by_their_places():
    rows = PartyRows(3, {}, order=np.array([2, 0, 1]))
    live = Live(lambda: IdRows(rows, Ids()), now=lambda: 0, world_now=lambda: 0)
    live.put(ticket(["1", "7"], []))
    request = live.take()
    assert request.places.tolist() == [1, 7] and request.own.tolist() == [0, -1]
