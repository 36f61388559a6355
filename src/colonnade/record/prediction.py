"""What a party's folder of predictions says of itself: `prediction.json`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from colonnade.errors import RequestError
from colonnade.formats import FORMATS, check_json
from colonnade.record.private import write_whole
from colonnade.record.reading import read_regular

FILE = "prediction.json"
_BYTES_MAX = 2**20


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The last prediction of a party in a folder, or its service."""

    format: int = FORMATS["prediction"].version
    program: str
    """`predict`, or `serve` for a service."""
    party: str
    role: str
    models: tuple[str, ...]
    """The versions with which rows are scored."""
    status: str | None = None
    """`end` once all rows are scored; None before, and if it never came to that."""
    rows: int = 0
    """Scored at the active party; at a passive one, answered for."""
    time_s: float = 0.0
    """Since all parties had connected."""
    busy_s: float = 0.0
    idle_s: float = 0.0

    def save(self, folder: Path) -> None:
        """Write it, for its owner only."""
        text = msgspec.json.format(msgspec.json.encode(self), indent=1).decode()
        write_whole(folder / FILE, text + "\n")


def read_prediction(folder: Path) -> Prediction:
    """What a folder of predictions says of itself; the folder may have come from anybody.

    >>> read_prediction(Path("nowhere"))
    Traceback (most recent call last):
    colonnade.errors.RequestError: nowhere/prediction.json cannot be read: no such file or directory
    """
    path = folder / FILE
    content = read_regular(path, _BYTES_MAX)
    check_json("prediction", content, path)
    try:
        return msgspec.json.decode(content, type=Prediction)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise RequestError(
            f"{path} is damaged: copy the whole folder of the prediction again"
        ) from None
