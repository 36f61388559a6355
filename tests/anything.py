"""Any event that a party could tell, with whatever words somebody could put into it."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from colonnade.record.events import EVENTS

HOSTILE = st.text(
    st.sampled_from([*string.ascii_letters, "\x1b", "\x9b", "\n", "\r", "[", "]", "日", "\u202e"]),
    max_size=40,
)
NAMES = st.one_of(st.sampled_from(["bank", "telco", "shop"]), HOSTILE)
COUNTS = st.integers(-(2**63), 2**63 - 1)
FIGURES = st.dictionaries(HOSTILE, st.floats(), max_size=4)
TIMES = st.dictionaries(HOSTILE, COUNTS, max_size=4)


def event(kind):
    """Any event of a kind, with whatever its fields may hold."""
    more = {"party": NAMES}
    for name in kind.__struct_fields__:
        if name in ("measured",):
            more[name] = FIGURES
        elif name in ("worked", "waited"):
            more[name] = TIMES
        elif name == "parties":
            more[name] = st.just(())
        elif name == "loss":
            more[name] = st.none() | st.floats()
        elif name == "weights":
            more[name] = st.none()
        elif name in ("what",):
            more[name] = st.none() | HOSTILE
        elif name in ("best", "again"):
            more[name] = st.booleans()
        elif name in ("text", "peer", "cause", "reason", "more", "detail", "kind"):
            more[name] = HOSTILE | st.sampled_from(["bank", "telco"])
        elif name != "party":
            more[name] = COUNTS
    return st.builds(kind, **more)


ANY = st.one_of([event(kind) for kind in EVENTS])
