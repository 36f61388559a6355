"""What a trained model is, at one party: all that it takes to score rows with it again.

A party's folder has it as `model.json`, beside the weights and what was learnt of the columns. The
file may come from anywhere: nothing in it is believed before it is checked, and nothing runs.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from colonnade.errors import RequestError
from colonnade.formats import FORMATS, check_json
from colonnade.job.bounds import PARTIES_MAX, WIDTH_MAX
from colonnade.job.train import Top
from colonnade.record.calibration import Calibration
from colonnade.record.reading import read_regular

FORMAT = FORMATS["model"].version
FILE = "model.json"
BYTES_MAX = 2**24
PREPROCESSING = "preprocessing.json"
CLASSES = "classes.json"
FILES = ("best.safetensors", "last.safetensors", PREPROCESSING, CLASSES)
"""What may lie beside a card, and have its hash there."""
_DIMENSIONS_MAX = 8
_ROWS_MAX = 2**48
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RUN = re.compile(r"[0-9a-f]{32}")
_VERSION = re.compile(r"([0-9a-f]{12}-\d{1,15})?")
_HASH = re.compile(r"[0-9a-f]{64}")


class Aligned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The alignment that chose the rows of a training.

    >>> Aligned("5e" * 16, 16_000).count
    16000
    """

    common: str
    """A name that all parties of the alignment know."""
    count: int
    """How many rows it found."""


class Recorded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party has kept of the tensors that crossed, in its folder `traffic`.

    >>> Recorded(94, 188, 3_400_000).whole
    True
    """

    rounds: int
    """Those of the first so many rounds."""
    tensors: int
    bytes: int
    whole: bool = True
    """False where there was more than may be kept."""


class Spent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the embeddings of a party's rows have told others by a training, where they left with
    noise.

    >>> Spent(20, 2.0).releases
    20
    """

    releases: int
    """How often the row that left most often did, over all attempts at this training."""
    mu: float
    """How far apart two rows are by now, in standard deviations of the noise, over this training
    and those that it went on from."""


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

    types: dict[str, str] = {}
    """How the table stored each column that became something, as Arrow names types."""
    alignment: Aligned | None = None
    """Of the rows; None where they were not aligned."""
    method: dict[str, Any] = {}
    """How it was trained, as a job names it."""
    seed: int = 0
    """The job's, which all parties know."""
    parent: str = ""
    """The version that the training began from; empty where it began from nothing."""
    recorded: Recorded | None = None
    """The recording of the training's traffic; None where there is none."""
    spent: Spent | None = None
    """What its rows have told; None where that has no bound, or nobody has counted it."""
    environment: dict[str, str] = {}
    """The versions of what it was trained with."""
    hashes: dict[str, str] = {}
    """SHA-256 of the files beside the card; known once they are written."""

    task: Literal["binary", "multiclass", "regression"] | None = None
    """This and what follows is the active party's."""
    outputs: int = 0
    """How wide the prediction is."""
    classes: tuple[str, ...] = ()
    """The class behind each code, of two the positive one last."""
    top: Top | None = None
    """The top model; None where it is a module of one's own."""
    calibration: Calibration | None = None
    metric: str = ""
    """The metric by which the round was chosen."""
    measured: dict[str, dict[str, float]] = {}
    """What these weights gave, by the rows it was measured on: `validation`, `test`."""

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


def read_card(folder: Path) -> Card:
    """The card of a party's folder, or one sentence."""
    return from_json(read_regular(folder / FILE, BYTES_MAX), str(folder / FILE))


def from_json(content: bytes, where: str) -> Card:
    """Read what `Card.to_json` wrote, or refuse it."""
    again = "copy the whole folder of the run again"
    if len(content) > BYTES_MAX:
        raise RequestError(f"{where} is too large for what describes a model: {again}")
    check_json("model", content, where)
    try:
        card = msgspec.json.decode(content, type=Card)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise RequestError(f"{where} does not describe a model, or is damaged: {again}") from None
    widths = card.widths.values()
    sound = all(0 <= width <= WIDTH_MAX for width in widths) and 0 <= card.outputs <= WIDTH_MAX
    if not sound or not {card.party, card.active} <= card.widths.keys():
        raise RequestError(f"{where} names widths that no model has: {again}")
    for field, good in _checks(card):
        if not good:
            raise RequestError(f"{where} has a {field} that no model has: {again}")
    return card


def _checks(card: Card) -> list[tuple[str, bool]]:
    """What the types of the fields do not say of them, by field."""
    names = (card.party, card.active, *card.widths)
    fitted, aligned, kept = card.calibration, card.alignment, card.recorded
    told = card.spent
    sizes = all(0 <= size < _ROWS_MAX for size in card.row_shape)
    return [
        ("party", len(card.widths) <= PARTIES_MAX and all(map(_NAME.fullmatch, names))),
        ("run", _RUN.fullmatch(card.run) is not None),
        ("round", -1 <= card.round < _ROWS_MAX),
        ("row_shape", len(card.row_shape) <= _DIMENSIONS_MAX and sizes),
        ("rows", all(0 <= count < _ROWS_MAX for count in card.rows.values())),
        ("parent", _VERSION.fullmatch(card.parent) is not None),
        ("hashes", card.hashes.keys() <= set(FILES)),
        ("hashes", all(map(_HASH.fullmatch, card.hashes.values()))),
        ("recorded", kept is None or min(kept.rounds, kept.tensors, kept.bytes) >= 0),
        ("spent", told is None or (told.releases >= 0 and 0 <= told.mu < math.inf)),
        ("alignment", aligned is None or 0 <= aligned.count < _ROWS_MAX),
        ("calibration", fitted is None or (fitted.scale > 0 and math.isfinite(fitted.shift))),
    ]
