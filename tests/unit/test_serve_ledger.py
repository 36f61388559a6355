"""The ledger of a service: it never says less than what has crossed, and is exact at the end."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.record.chain import verify
from colonnade.record.tally import AT_ONCE_MAX, TalliedChain

MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([("sent", "Query"), ("received", "Answer")]),
        st.integers(40, 5000),
        st.integers(0, 15 * 10**9),
    ),
    max_size=80,
)


@settings(max_examples=40, deadline=None)
@given(MESSAGES, st.booleans())
def test_it_never_says_less_than_what_crossed(tmp_path_factory, messages, crashes):
    path = tmp_path_factory.mktemp("ledger") / "chain"
    chain = TalliedChain.open(path, "bank", "job", 0)
    count, size, now_ns = Counter(), Counter(), 0
    for (way, kind), each, later_ns in messages:
        now_ns += later_ns
        chain.message(now_ns, way, "telco", kind, -1, each)
        count[kind] += 1
        size[kind] += each
        said = verify(path).totals["telco", way, kind]
        assert said[0] >= count[kind] and said[1] >= size[kind]
    if not crashes:
        chain.close()
    found = verify(path)
    assert not found.fault
    for (_, _, kind), (many, total) in found.totals.items():
        assert many >= count[kind] and total >= size[kind]
        if not crashes:
            assert (many, total) == (count[kind], size[kind])
    # Whoever comes after a crash goes on with a sound chain.
    TalliedChain.open(path, "bank", "job", now_ns).close()


def test_a_busy_day_takes_little_disk(tmp_path):
    chain = TalliedChain.open(tmp_path / "chain", "bank", "job", 0)
    step_ns = 2_000_000
    for number in range(200_000):
        chain.message(number * step_ns, "sent", "telco", "Query", -1, 100)
    assert chain.entries < 40 and AT_ONCE_MAX >= 65_536
    chain.close()


def test_one_message_now_and_then_has_a_line_of_its_own(tmp_path):
    chain = TalliedChain.open(tmp_path / "chain", "bank", "job", 0)
    for minute in range(5):
        chain.message(minute * 60 * 10**9, "sent", "telco", "Query", -1, 100)
        assert verify(tmp_path / "chain").totals["telco", "sent", "Query"] == (
            minute + 1,
            100 * (minute + 1),
        )
    chain.close()
