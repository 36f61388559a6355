"""How large a job may be: whatever a file says is held against these before it is acted on."""

from __future__ import annotations

import re

from colonnade.errors import JobError

COUNT_MAX = 2**40
"""The most rounds, epochs or rows of a batch."""
LAYERS_MAX = 100
WIDTH_MAX = 1 << 20
"""The widest embedding or layer that is believed."""
PARTIES_MAX = 1_000
_SEED_MAX = 2**63 - 1


def check_name(name: str) -> None:
    """Refuse a name of a job that cannot be a folder's.

    >>> check_name("../x")
    Traceback (most recent call last):
    colonnade.errors.JobError: '../x' cannot be a job's name, which names folders: use up to 64 \
letters, digits, spaces and the signs . _ + - and begin with a letter or digit
    """
    if re.fullmatch(r"[^\W_][\w .+-]{0,63}", name) is None:
        raise JobError(
            f"{name[:80]!a} cannot be a job's name, which names folders: use up to 64 "
            "letters, digits, spaces and the signs . _ + - and begin with a letter or digit"
        )


def check_seed(seed: int | None, field: str) -> None:
    """Refuse a seed that generators do not take.

    >>> check_seed(-5, "seed")
    Traceback (most recent call last):
    colonnade.errors.JobError: seed is -5: it must be from 0 to 2^63 - 1
    """
    if seed is not None and not 0 <= seed <= _SEED_MAX:
        raise JobError(f"{field} is {seed}: it must be from 0 to 2^63 - 1")
