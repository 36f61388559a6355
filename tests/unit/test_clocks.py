"""Clocks: whatever the true offset, drift and delays, the error is within what is stated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.record.clocks import align, exchanges_on_my_clock, fit, on_my_clock
from colonnade.record.events import RoundDone
from colonnade.record.exchanges import Exchanges
from colonnade.record.timeline import Timeline

DELAYS = st.lists(st.integers(0, 10**8), min_size=1, max_size=30)
SECOND = 10**9


def seen(peer_clock, down, up, apart=SECOND):
    """The timelines of a bank and a lab whose messages take these delays, one each `apart`; the
    bank's clock is the true one."""
    bank, lab = Timeline(), Timeline()
    for number, delay in enumerate(down):
        at = number * apart
        bank.add("send", at, at + delay // 2, number + 1, 40 + number, "lab", "Gradient")
        came = peer_clock(at + delay)
        lab.add("receive", came, came + 5, number + 1, 40 + number, "bank", "Gradient")
    for number, delay in enumerate(up):
        at = number * apart + apart // 2
        left = peer_clock(at)
        lab.add("send", left, left + delay // 2, number + 1, 90 + number, "bank", "Embedding")
        bank.add("receive", at + delay, at + delay + 5, number + 1, 90 + number, "lab", "Embedding")
    return {"bank": bank, "lab": lab}


@given(st.integers(-(10**15), 10**15), DELAYS, DELAYS)
def test_the_error_of_a_constant_offset_is_within_the_stated_uncertainty(offset, down, up):
    clock = align(seen(lambda at: at + offset, down, up), "bank")["lab"]
    (piece,) = clock.pieces
    assert abs(piece.offset_ns - offset) <= piece.uncertainty_ns
    assert piece.uncertainty_ns == (min(down) + min(up) + 1) // 2
    assert (piece.drift_ppm, clock.messages) == (0.0, len(down) + len(up))


@given(
    st.integers(-(10**12), 10**12),
    st.floats(-500e-6, 500e-6),
    st.lists(st.integers(0, 10**6), min_size=5, max_size=40),
    st.lists(st.integers(0, 10**6), min_size=5, max_size=40),
)
def test_the_error_of_a_clock_that_drifts_is_within_the_stated_uncertainty(offset, drift, down, up):
    """At any instant from the first message to the last, unless a constant offset fits too."""
    timelines = seen(lambda at: at + offset + round(at * drift), down, up, 100 * SECOND)
    clock = align(timelines, "bank")["lab"]
    (piece,) = clock.pieces
    if not piece.drift_ppm:
        return
    for share in np.linspace(0, 1, 7):
        last = 100 * SECOND * (max(len(down), len(up)) - 1)
        theirs = piece.since_ns + round(share * (last + last * drift))
        true = theirs - (theirs - offset) / (1 + drift)
        found = int(piece.offsets(np.array([theirs]))[0])
        assert abs(found - true) <= piece.uncertainty_ns + 2


def test_a_drift_is_found_and_stated():
    rng = np.random.default_rng(0)
    delays = rng.integers(10**6, 5 * 10**6, (2, 600))
    timelines = seen(lambda at: at + 7 * SECOND + at // 20_000, *delays.tolist(), SECOND)
    clock = align(timelines, "bank")["lab"]
    (piece,) = clock.pieces
    assert piece.drift_ppm == pytest.approx(50, abs=2)
    assert piece.uncertainty_ns < 5 * 10**6
    found = clock.mine(np.array([7 * SECOND + 300 * SECOND + 15_000_000]))
    assert abs(int(found[0]) - 300 * SECOND) <= piece.uncertainty_ns


def test_a_clock_that_stands_still_for_a_while_is_aligned_before_and_after():
    def paused(at):
        return at - (3600 * SECOND if at > 300 * SECOND else 0)

    rng = np.random.default_rng(1)
    delays = rng.integers(10**6, 2 * 10**6, (2, 600)).tolist()
    # An order by the peer's clock, which is set back: two stretches on end would overlap.
    clock = align(seen(lambda at: paused(at) + 3600 * SECOND * (at > 300 * SECOND) * 2, *delays),
                  "bank")["lab"]  # fmt: skip
    first, last = clock.pieces[0], clock.pieces[-1]
    assert abs(first.offset_ns) <= first.uncertainty_ns
    assert abs(last.offset_ns - 3600 * SECOND) <= last.uncertainty_ns
    assert len(clock.facts()["pieces"]) == len(clock.pieces)


def test_only_messages_of_one_generation_are_paired():
    """What was under way when a party crashed came to nobody."""
    bank, lab = Timeline(), Timeline()
    for timeline in (bank, lab):
        timeline.add("begin", 0, 0, message="7")
    bank.add("send", 100, 101, bytes=1, peer="lab")
    bank.add("begin", 5000, 5000, message="8")
    lab.add("begin", 5000, 5000, message="8")
    bank.add("send", 6000, 6001, bytes=2, peer="lab")
    lab.add("receive", 6010, 6011, bytes=2, peer="bank")
    lab.add("send", 6020, 6021, bytes=3, peer="bank")
    bank.add("receive", 6030, 6031, bytes=3, peer="lab")
    (piece,) = align({"bank": bank, "lab": lab}, "bank")["lab"].pieces
    assert (piece.offset_ns, piece.uncertainty_ns) == (0, 10)


def test_what_is_no_pair_is_left_out_with_all_that_follows():
    timelines = seen(lambda at: at + 50, [10, 10], [10, 10])
    wrong = Timeline()
    for span in timelines["lab"]:
        second = span.kind == "receive" and span.round == 2
        wrong.add(*(span._replace(bytes=999, start_ns=0) if second else span))
    (piece,) = align(timelines | {"lab": wrong}, "bank")["lab"].pieces
    assert (piece.offset_ns, piece.uncertainty_ns) == (50, 10)


def test_a_party_that_was_never_heard_has_no_clock():
    assert align(seen(lambda at: at, [5], []), "bank") == {}
    empty = np.zeros(0, np.int64)
    assert fit(empty, empty, empty, empty) is None


def test_a_moved_timeline_keeps_how_long_things_took():
    timelines = seen(lambda at: at + 50, [10, 10], [10, 10])
    lab = timelines["lab"]
    lab.add("forward", 150, 157, 3)
    clock = align(timelines, "bank")["lab"]
    moved = on_my_clock(lab, clock)
    assert list(moved)[-1][1:3] == (100, 107)
    assert moved.busy_ns() == lab.busy_ns()
    exchanges = Exchanges()
    exchanges(RoundDone("lab", 157, 0, 1, sent_ns=150, replied_ns=155))
    assert next(iter(exchanges_on_my_clock(exchanges, clock)))[1:4] == (100, 105, 107)
