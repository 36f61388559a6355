"""Durations and data rates as people write them: `50ms`, `300mbit`.

Inside the program time is an integer count of nanoseconds and a rate an integer count of
bits per second, so that virtual time has no rounding.
"""

from __future__ import annotations

import re
from decimal import Decimal

from colonnade.errors import JobError

NS_PER = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
DURATION_H_MAX = 10_000
"""The longest duration in hours: so that virtual time, in nanoseconds, fits into 64 bits."""
BITS_PER = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_QUANTITY = re.compile(r"^\s*(-?\d+(?:\.\d+)?)\s*([a-z]+)\s*$", re.IGNORECASE)


def _parse(text: str, units: dict[str, int], what: str, example: str) -> int:
    match = _QUANTITY.match(text)
    if match is None or match[2].lower() not in units:
        raise JobError(
            f"'{text}' is not a {what}: write a number and one of "
            f"{', '.join(units)}, as in '{example}'"
        )
    value = Decimal(match[1]) * units[match[2].lower()]
    if value < 0:
        raise JobError(f"'{text}' is a negative {what}: it must be 0 or more")
    return int(value)


def duration_ns(text: str) -> int:
    """Nanoseconds of a duration.

    >>> duration_ns("50ms"), duration_ns("1.5s")
    (50000000, 1500000000)
    """
    duration = _parse(text, NS_PER, "duration", "50ms")
    if duration > DURATION_H_MAX * NS_PER["h"]:
        raise JobError(
            f"'{text[:40]}' is too long a duration: it must be {DURATION_H_MAX:,}h or less"
        )
    return duration


def rate_bits(text: str) -> int:
    """Bits per second of a data rate.

    >>> rate_bits("300mbit")
    300000000
    """
    rate = _parse(text, BITS_PER, "data rate", "300mbit")
    if rate >= 2**63:
        raise JobError(f"'{text[:40]}' is too high a data rate: leave bandwidth out for no limit")
    if rate == 0:
        raise JobError(f"'{text}' carries nothing: leave bandwidth out for a link without a limit")
    return rate


def show_seconds(seconds: float) -> str:
    """A duration for a table.

    >>> show_seconds(0.0123), show_seconds(75), show_seconds(7200)
    ('12.3 ms', '75 s', '2 h')
    """
    for limit, divisor, unit in ((1e-3, 1e-6, "us"), (1, 1e-3, "ms"), (600, 1, "s")):
        if seconds < limit:
            return f"{seconds / divisor:.3g} {unit}"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"


def show_time(seconds: float, clock: str = "virtual") -> str:
    """How long a run took, by which clock; without a network nothing takes any virtual time.

    >>> show_time(75), show_time(75, "wall"), show_time(0)
    ('75 s of virtual time', '75 s', 'no time without [network] and [compute]')
    """
    if clock != "virtual":
        return show_seconds(seconds)
    if not seconds:
        return "no time without [network] and [compute]"
    return f"{show_seconds(seconds)} of virtual time"


def show_bits(rate: float) -> str:
    """A bit rate for a table.

    >>> show_bits(300_000_000), show_bits(64_500)
    ('300 Mbit/s', '64.5 kbit/s')
    """
    for divisor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if rate >= divisor:
            return f"{rate / divisor:.3g} {unit}"
    return f"{rate:.0f} bit/s"


def show_bytes(count: float) -> str:
    """A byte count for a table, in powers of ten.

    >>> show_bytes(999), show_bytes(1234567)
    ('999 B', '1.23 MB')
    """
    for divisor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= divisor:
            return f"{count / divisor:.3g} {unit}"
    return f"{count:.0f} B"
