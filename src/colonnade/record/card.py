"""What a trained model is, at one party: all that it takes to score rows with it again.

A party's folder has it as `model.json`, beside the weights and what was learnt of the columns. The
file may come from anywhere: nothing in it is believed before it is checked, and nothing runs.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from colonnade.errors import RequestError
from colonnade.job.bounds import WIDTH_MAX
from colonnade.job.train import Top
from colonnade.record.calibration import Calibration

FORMAT = 1
FILE = "model.json"
_BYTES_MAX = 2**24


class Card(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A party's part of a model.

    >>> card = Card(job="credit", party="telco", active="bank", run="4f" * 16, round=119)
    >>> card.version
    '4f4f4f4f4f4f-120'
    """

    format: int = FORMAT
    job: str
    """The name of the job."""
    party: str
    active: str
    """The party that has the top model."""
    run: str
    """The run that all parts of the model come from: 32 hexadecimal digits."""
    round: int
    """The round whose weights these are, counted from 0."""
    weights: Literal["best", "last"] = "best"
    """Those of the best round, or, where nothing was evaluated, the last."""
    widths: dict[str, int] = {}
    """How wide every party's embedding is, in the order of the job; 0 for one that has none."""
    dtype: Literal["float32", "float64"] = "float32"
    model: dict[str, Any] | None = None
    """The bottom model as a job names it; None where there is none, or a module of one's own."""
    row_shape: tuple[int, ...] = ()
    """The shape of one row of numbers that the bottom model reads."""
    columns: tuple[str, ...] = ()
    """Those of the party's table that it reads; empty where it reads an array."""
    id: tuple[str, ...] = ()
    """The columns that name the rows."""
    rule: str = ""
    """What of an id counts."""
    rows: dict[str, int] = {}
    """How many rows there were of each split."""
    order: str = ""
    """What the order of those rows is known by: as long as a table gives the same, its rows can be
    asked for by their places in it."""

    task: Literal["binary", "multiclass", "regression"] | None = None
    """This and what follows is the active party's."""
    outputs: int = 0
    """How wide the prediction is."""
    classes: tuple[str, ...] = ()
    """The class behind each code, of two the positive one last."""
    top: Top | None = None
    """The top model; None where it is a module of one's own."""
    calibration: Calibration | None = None

    @property
    def version(self) -> str:
        """The name under which a prediction speaks of it: run and round."""
        return f"{self.run[:12]}-{self.round + 1}"

    @property
    def width(self) -> int:
        """How wide this party's embedding is."""
        return self.widths.get(self.party, 0)

    @property
    def leads(self) -> bool:
        """Whether the party has the top model."""
        return self.party == self.active

    def to_json(self) -> str:
        """As the file has it; `from_json` reads an equal value.

        >>> widths = {"bank": 8, "telco": 4}
        >>> card = Card(
        ...     job="credit", party="telco", active="bank", run="4f" * 16, round=9, widths=widths
        ... )
        >>> from_json(card.to_json().encode(), "model.json") == card
        True
        """
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"


def from_json(content: bytes, where: str) -> Card:
    """Read what `Card.to_json` wrote, or refuse it."""
    again = "copy the whole folder of the run again"
    if len(content) > _BYTES_MAX:
        raise RequestError(f"{where} is too large for what describes a model: {again}")
    try:
        card = msgspec.json.decode(content, type=Card)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise RequestError(f"{where} does not describe a model, or is damaged: {again}") from None
    if card.format != FORMAT:
        raise RequestError(
            f"{where} has the format {card.format}, and this version of colonnade reads {FORMAT}: "
            "use the version that wrote it, or train again"
        )
    widths = card.widths.values()
    sound = all(0 <= width <= WIDTH_MAX for width in widths) and 0 <= card.outputs <= WIDTH_MAX
    if not sound or not {card.party, card.active} <= card.widths.keys():
        raise RequestError(f"{where} names widths that no model has: {again}")
    return card
