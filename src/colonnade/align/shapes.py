"""What ids look like, told in a few figures by parties that are willing to, so that two tables
which write the same ids in different ways are found out."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_BYTES_MAX = 400
_FEATURES = {
    "digits": (r"^[0-9]+$", "consist of digits"),
    "zeros": (r"^0[0-9]", "have zeros in front"),
    "upper": (r"[A-Z]", "have capital letters"),
    "lower": (r"[a-z]", "have small letters"),
    "dashes": (r"[-_./ ]", "have dashes, dots or spaces inside"),
    "decimals": (r"^[0-9]+[.,]0+$", "end in .0"),
}
_CLEAR = 0.5
"""By how much a share must differ to be worth a word."""


class _Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    shortest: int
    longest: int
    shares: dict[str, float]


def shape_of(texts: pa.Array) -> str:
    """Lengths, and which share of the ids has which feature, in hundredths.

    >>> shape_of(pa.array(["0012", "0034"]))[:60]
    '{"shortest":4,"longest":4,"shares":{"digits":1.0,"zeros":1.0'
    """
    lengths = pc.min_max(pc.utf8_length(texts))
    shares = {
        name: round(pc.mean(pc.match_substring_regex(texts, pattern).cast(pa.int8())).as_py(), 2)
        for name, (pattern, _) in _FEATURES.items()
    }
    shape = _Shape(lengths["min"].as_py(), lengths["max"].as_py(), shares)
    return msgspec.json.encode(shape).decode()


def hint(mine: str, theirs: str, peer: str) -> str | None:
    """In what the ids of two tables differ, if in anything; `theirs` came from outside.

    >>> zeros, bare = shape_of(pa.array(["0012"])), shape_of(pa.array(["12"]))
    >>> hint(zeros, bare, "telco")
    'yours have zeros in front, those of telco mostly do not; yours have 4 to 4 characters, those \
of telco 2 to 2'
    """
    if len(theirs) > _BYTES_MAX:
        return None
    try:
        own, other = (msgspec.json.decode(text, type=_Shape) for text in (mine, theirs))
    except msgspec.MsgspecError:
        return None
    said = []
    for name, (_, words) in _FEATURES.items():
        here, there = own.shares.get(name, 0.0), other.shares.get(name, 0.0)
        if here - there >= _CLEAR:
            said.append(f"yours {words}, those of {peer} mostly do not")
        elif there - here >= _CLEAR:
            said.append(f"those of {peer} {words}, yours mostly do not")
    if own.shortest > other.longest or own.longest < other.shortest:
        lengths = f"{own.shortest} to {own.longest} characters"
        said.append(f"yours have {lengths}, those of {peer} {other.shortest} to {other.longest}")
    return "; ".join(said) or None
