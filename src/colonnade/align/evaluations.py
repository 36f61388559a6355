"""How many points a party has evaluated under one key, whatever begins again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from colonnade.errors import RequestError
from colonnade.record.private import write_whole

EVALUATIONS = "evaluations.json"
_CURE = (
    "find out why so many are wanted, then raise policy.oprf_evaluations_max in the party file, or "
    "begin anew at all parties with --restart, which draws a new key"
)


class Evaluations:
    """A count in a file, which is raised before points are evaluated, and never lowered.

    Each evaluation lets somebody else find out one value of this party's function. Points that come
    again after a crash are the same ones, and do not count.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Evaluations(Path(folder), most=10).spend(7, "telco")
    ...     Evaluations(Path(folder), most=10).count
    7
    """

    def __init__(self, folder: Path, most: int | None = None) -> None:
        self.path, self.most = folder / EVALUATIONS, most

    @property
    def count(self) -> int:
        """So far."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=int)
        except FileNotFoundError:
            return 0
        except msgspec.MsgspecError:
            raise RequestError(
                f"{self.path} is damaged, which counts the points that were evaluated: put it "
                "back, or begin anew at all parties with --restart"
            ) from None

    def check(self, more: int, whose: str) -> None:
        """Refuse so many more points, if that is too many."""
        count = self.count
        if self.most is not None and count + more > self.most:
            raise RequestError(
                f"policy.oprf_evaluations_max is {self.most:,}, and {whose} asks for {more:,} "
                f"points where {count:,} were evaluated before: {_CURE}"
            )

    def spend(self, more: int, whose: str) -> None:
        """So many more are about to be evaluated."""
        self.check(more, whose)
        write_whole(self.path, [msgspec.json.encode(self.count + more)])
