"""What is shown of a run: kept from its events alone, whatever they are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.cli.watching import SERIES_MAX, Series, Watch
from colonnade.record import events
from colonnade.record.events import (
    Busy,
    Connected,
    Disconnected,
    Evaluated,
    Finished,
    Notice,
    RoundDone,
    RowsScored,
    Waited,
    Waiting,
    Worked,
)
from colonnade.units import NS_PER
from tests.anything import ANY

S = NS_PER["s"]


def watch(**more):
    return Watch(["bank", "telco", "shop"], "bank", "credit", **more)


def rounds(seen, count, until_s=10.0, total=100):
    """So many rounds of the active party, evenly in time, looked at after each."""
    for round in range(count):
        up = 1000 * (round + 1)
        done = RoundDone("bank", round * S, round, total, 0.5, bytes_up=up, bytes_down=2 * up)
        seen(done)
        moment = seen.moment(until_s * round / (count - 1))
    return moment


def test_progress_speed_and_time_left_come_from_the_rounds():
    moment = rounds(watch(), 51, until_s=10)
    assert (moment.done, moment.total, moment.loss) == (51, 100, 0.5)
    assert moment.rate == pytest.approx(5)
    assert moment.left_s == pytest.approx(49 / 5)
    assert moment.up_rate == pytest.approx(5000) and moment.down_rate == pytest.approx(10_000)
    assert moment.virtual_s is None


def test_in_a_simulation_lines_are_measured_by_virtual_time():
    moment = rounds(watch(virtual=True), 51, until_s=10)
    assert moment.virtual_s == 50
    assert moment.virtual_rate == pytest.approx(5)
    assert moment.up_rate == pytest.approx(1000), "a round takes a virtual second"


def test_a_run_that_goes_back_to_a_checkpoint_has_no_speed_from_before():
    seen = watch()
    rounds(seen, 51)
    seen(RoundDone("bank", 0, 9, 100, 0.5))
    moment = seen.moment(11.0)
    assert (moment.done, moment.rate, moment.left_s) == (10, None, None)
    seen(RoundDone("bank", 0, 19, 100, 0.5))
    assert seen.moment(12.0).rate == pytest.approx(10)


def test_at_the_end_the_speed_is_that_of_the_whole_run_and_nothing_is_left():
    seen = watch()
    rounds(seen, 100)
    seen.moment(60.0)
    moment = seen.moment(61.0)
    assert moment.rate == pytest.approx(9.9) and moment.left_s is None


def test_the_metric_has_its_curve_and_its_best_value():
    seen = watch()
    for round, (value, best) in enumerate([(0.5, True), (0.8, True), (0.7, False)]):
        measured = {"validation_loss": 1.0, "auc": value}
        seen(Evaluated("bank", 0, round, measured, best, 10, 20))
    seen(events.Tested("bank", 0, 1, {"auc": 0.75}))
    moment = seen.moment(0.0)
    assert (moment.metric, moment.value, moment.best) == ("auc", 0.7, (0.8, 2))
    assert moment.curve == [0.5, 0.8, 0.7]
    assert moment.test == {"auc": 0.75}
    assert (moment.bytes_up, moment.bytes_down) == (10, 20)


def party(moment, name):
    return next(each for each in moment.parties if each.name == name)


def test_what_a_party_does_is_told_in_shares_of_its_own_time():
    seen = watch()
    seen.moment(0.0)
    seen(Worked("telco", 0, "forward", 2 * S))
    seen(Worked("telco", 2 * S, "backward", 5 * S))
    seen(Waited("telco", 5 * S, "wait", 10 * S, peer="bank"))
    told = party(seen.moment(1.0), "telco")
    assert told.works == [("backward", 0.3), ("forward", 0.2)]
    assert told.waits == [("bank", 0.5)]
    assert told.text == "", "its shares say more than its last sentence"


def test_sums_from_another_process_say_the_same():
    one, other = watch(), watch()
    for seen in (one, other):
        seen.moment(0.0)
    one(Worked("telco", 0, "forward", 4))
    one(Waited("telco", 4, "wait", 10, peer="bank"))
    other(Busy("telco", 10, {"forward": 4}, {"bank": 6}))
    assert party(one.moment(1.0), "telco") == party(other.moment(1.0), "telco")


def test_a_window_staleness_and_local_updates_come_from_the_last_round():
    seen = watch()
    seen(RoundDone("telco", 0, 7, 9, None, 4, 3, 2, 5, local=30, fresh=10))
    seen(RoundDone("bank", 0, 8, 9, 0.5, local=20, fresh=10))
    telco, bank = (party(seen.moment(0.0), name) for name in ("telco", "bank"))
    assert (telco.done, telco.window, telco.in_flight, telco.staleness) == (8, 4, 3, 2)
    assert telco.ratio == 3 and bank.ratio == 2
    assert bank.window is None and bank.leads, "nothing of the active party is in flight"


def test_a_wait_is_said_until_it_is_over():
    seen = watch()
    seen(Waiting("bank", 0, "waiting for telco: to send round 3"))
    assert party(seen.moment(0.0), "bank").text == "waiting for telco: to send round 3"
    seen(Waiting("bank", 0, None))
    assert "waiting" not in party(seen.moment(0.0), "bank").text


def test_one_party_sees_whom_it_is_connected_with():
    seen = Watch(["bank", "telco"], "bank", me="bank")
    assert party(seen.moment(0.0), "telco").text == "not connected yet"
    seen(Connected("bank", 0, "telco"))
    assert party(seen.moment(0.0), "telco").text == "connected"
    seen(Disconnected("bank", 0, "telco"))
    assert "is lost" in party(seen.moment(0.0), "telco").text
    seen(Finished("bank", 0, "end"))
    assert party(seen.moment(0.0), "bank").text == "ends: all rounds are done"


def test_a_passive_party_shows_its_own_rounds_and_bytes():
    seen = Watch(["bank", "telco"], "bank", me="telco")
    seen(RoundDone("telco", 0, 4, 10, bytes_up=7, bytes_down=8))
    moment = seen.moment(0.0)
    assert (moment.done, moment.total, moment.bytes_up, moment.bytes_down) == (5, 10, 7, 8)


def test_rows_are_counted_where_rows_are_scored():
    seen = watch()
    seen(RowsScored("bank", 0, 40, 100))
    moment = seen.moment(0.0)
    assert (moment.done, moment.total, moment.unit) == (40, 100, "row")


def test_a_stranger_is_not_shown():
    seen = watch()
    seen(RoundDone("nobody", 0, 1, 2))
    assert [each.name for each in seen.moment(0.0).parties] == ["bank", "telco", "shop"]


@given(st.lists(st.floats(), max_size=1200))
def test_a_curve_of_any_length_is_short_and_ends_with_its_last_point(values):
    series = Series()
    for value in values:
        series.add(value)
    finite = [value for value in values if math.isfinite(value)]
    assert len(series.values) <= SERIES_MAX + 1
    assert series.values[-1:] == finite[-1:]
    assert all(map(math.isfinite, series.values))


@given(
    st.lists(ANY, max_size=30),
    st.lists(st.floats(0, 1e6), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([None, "bank", "telco"]),
)
def test_no_sequence_of_events_is_too_much_and_no_word_of_them_acts(told, looks, virtual, me):
    seen = Watch(["bank", "telco", "shop", "\x1b[2J"], "bank", "title", virtual=virtual, me=me)
    for place, each in enumerate(told):
        seen(each)
        if place % 7 == 0:
            seen.moment(looks[place % len(looks)])
    moment = seen.moment(max(looks))
    for each in moment.parties:
        words = [each.name, each.text, *(name for name, _ in [*each.works, *each.waits])]
        assert all(word.isprintable() for word in words)
        assert all(0 < share <= 1 for _, share in [*each.works, *each.waits])


def test_a_sentence_is_said_in_one_line():
    seen = watch()
    seen(Notice("bank", 0, "one\n\x1b[31mtwo" + "x" * 10_000))
    text = party(seen.moment(0.0), "bank").text
    assert text.startswith("one ?[31mtwo") and len(text) <= 400
