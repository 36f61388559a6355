"""The model of a line, driven by hand: no root, no clock, no network."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.wan.link import FOR_EVER_NS, NS_PER_SECOND, Link, Shape
from tests.wan.net import Side

MS = 10**6
SIZES = st.integers(20, 9000)
TRAFFIC = st.lists(st.tuples(st.integers(0, 5 * MS), SIZES), min_size=1, max_size=60)
SHAPES = st.builds(
    Shape,
    latency_ns=st.integers(0, 100 * MS),
    rate_bits=st.integers(10**5, 10**10),
    queue_bytes=st.integers(1500, 200_000),
    loss=st.sampled_from([0.0, 0.3]),
    jitter_ns=st.sampled_from([0, 1, 20 * MS]),
)
PLAIN = Shape(latency_ns=10 * MS, rate_bits=8 * 10**6, queue_bytes=10_000)
"""One byte takes a microsecond."""


def packet(number, size):
    return number.to_bytes(4, "big") + bytes(size - 4)


def drive(link, traffic):
    """Offer packets at their times; returns (number, size, offered, arrived) of those that arrive.

    The clock stops at every event, as it would for a relay that is never late.
    """
    now, offered, out = 0, {}, []

    def run_until(end):
        while (due := link.next_due()) <= end:
            assert not link.arrived(due - 1), "a packet came before it was due"
            for data in link.arrived(due):
                number = int.from_bytes(data[:4], "big")
                out.append((number, len(data), offered[number], due))

    for number, (gap, size) in enumerate(traffic):
        now += gap
        run_until(now)
        offered[number] = now
        link.offer(now, packet(number, size))
    run_until(FOR_EVER_NS - 1)
    return out


@given(SHAPES, TRAFFIC)
def test_packets_keep_their_order_and_are_all_accounted_for(shape, traffic):
    link = Link(shape, seed=1)
    out = drive(link, traffic)
    numbers = [number for number, *_ in out]
    assert numbers == sorted(set(numbers))
    assert all(traffic[number][1] == size for number, size, *_ in out)
    counts = link.counts
    assert counts.packets == len(out)
    assert counts.bytes == sum(size for _, size, *_ in out)
    assert counts.packets + counts.no_room + counts.lost + counts.cut == len(traffic)


@given(SHAPES, TRAFFIC)
def test_no_packet_is_earlier_than_size_over_rate_and_latency(shape, traffic):
    for _, size, offered, arrived in drive(Link(shape, seed=1), traffic):
        assert (arrived - offered - shape.latency_ns) * shape.rate_bits >= size * 8 * NS_PER_SECOND


@given(SHAPES.map(lambda shape: replace(shape, jitter_ns=0)), TRAFFIC)
def test_no_stretch_of_time_carries_more_than_the_rate(shape, traffic):
    out = drive(Link(shape, seed=1), traffic)
    for first in range(len(out)):
        carried = 0
        for _, size, _, arrived in out[first + 1 :]:
            carried += size
            assert (arrived - out[first][3]) * shape.rate_bits >= carried * 8 * NS_PER_SECOND


@given(SHAPES.map(lambda shape: replace(shape, jitter_ns=0)), TRAFFIC)
def test_the_queue_keeps_its_bound(shape, traffic):
    # What waits when a packet has been taken in leaves at the rate, the packet last.
    rounding_ns = len(traffic) + 1
    for _, _, offered, arrived in drive(Link(shape, seed=1), traffic):
        waiting = (arrived - shape.latency_ns - offered - rounding_ns) * shape.rate_bits
        assert waiting <= (shape.queue_bytes + 1) * 8 * NS_PER_SECOND


@given(SHAPES, TRAFFIC)
def test_with_room_and_no_loss_everything_arrives_and_the_line_is_never_idle(shape, traffic):
    sizes = [size for _, size in traffic]
    roomy = replace(shape, queue_bytes=2 * sum(sizes), loss=0.0, jitter_ns=0)
    out = drive(Link(roomy, seed=1), [(0, size) for size in sizes])
    assert len(out) == len(sizes)
    ideal_ns = sum(sizes) * 8 * NS_PER_SECOND / shape.rate_bits
    assert out[-1][3] - shape.latency_ns <= ideal_ns + len(sizes)


@given(TRAFFIC, SHAPES, SHAPES)
def test_a_change_of_shape_keeps_the_order(traffic, before, after):
    link = Link(before, seed=1)
    half = len(traffic) // 2
    for number, (_, size) in enumerate(traffic):
        if number == half:
            link.shape = after
        link.offer(0, packet(number, size))
    dues = [due for due, _ in link.under_way]
    assert dues == sorted(dues)


def test_times_by_hand():
    link = Link(PLAIN, seed=1)
    link.offer(0, packet(0, 1000))
    link.offer(0, packet(1, 500))
    link.offer(20 * MS, packet(2, 1000))
    assert [due for due, _ in link.under_way] == [11 * MS, 11.5 * MS, 31 * MS]


def test_a_full_queue_drops_the_newest_and_drains():
    link = Link(PLAIN, seed=1)
    for number in range(12):
        link.offer(0, packet(number, 1000))
    assert (len(link.under_way), link.counts.no_room) == (10, 2)
    link.offer(1 * MS - 1, packet(12, 1000))
    link.offer(1 * MS, packet(13, 1000))
    assert (len(link.under_way), link.counts.no_room) == (11, 3)


def test_loss_is_the_share_said_and_comes_from_the_seed():
    shape = replace(PLAIN, queue_bytes=10**9, loss=0.2)
    traffic = [(0, 20)] * 10_000
    first, again, other = (drive(Link(shape, seed), traffic) for seed in (1, 1, 2))
    assert first == again != other
    assert 0.78 < len(first) / len(traffic) < 0.82


def test_jitter_spreads_within_its_bound():
    link = Link(replace(PLAIN, jitter_ns=5 * MS), seed=1)
    out = drive(link, [(50 * MS, 1000)] * 100)
    delays = [arrived - offered - 11 * MS for _, _, offered, arrived in out]
    assert 0 <= min(delays) < 1 * MS
    assert 4 * MS < max(delays) < 5 * MS


def test_a_cut_loses_what_is_under_way_until_healed():
    link = Link(PLAIN, seed=1)
    link.offer(0, packet(0, 1000))
    link.cut()
    link.offer(1 * MS, packet(1, 1000))
    assert (link.next_due(), link.counts.cut) == (FOR_EVER_NS, 2)
    link.heal()
    link.offer(2 * MS, packet(2, 1000))
    assert link.arrived(FOR_EVER_NS) == [packet(2, 1000)]


def test_a_cut_with_an_end_heals_by_itself():
    link = Link(PLAIN, seed=1)
    link.cut(until=5 * MS)
    link.offer(5 * MS - 1, packet(0, 1000))
    link.offer(5 * MS, packet(1, 1000))
    assert link.arrived(FOR_EVER_NS) == [packet(1, 1000)]


def test_the_default_queue_is_a_round_trip_at_full_rate_and_at_least_64_packets():
    assert Side(latency="25ms", rate="300mbit").shape(1500).queue_bytes == 1_875_000
    assert Side(latency="1ms", rate="5mbit").shape(1500).queue_bytes == 64 * 1500
    assert Side(queue=3000).shape(1500).queue_bytes == 3000
