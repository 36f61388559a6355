"""Parts of images: which pixels each party holds.

A view is a word (`left`, `top-right`, `all`), a strip of rows (`strip 2/8`), or a range that
begins at 0 and leaves out its end (`rows 0:14`, `columns 0:3`); `none` is for labels only.
"""

from __future__ import annotations

import re
from typing import Any

import numpy.typing as npt

from colonnade.errors import DataError, nearest

VIEWS = (
    "all",
    "left",
    "right",
    "top",
    "bottom",
    "top-left",
    "top-right",
    "bottom-left",
    "bottom-right",
)
NO_VIEW = "none"
"""Of an active party that has the labels only."""
_FORMS = ("strip 1/2", "rows 0:8", "columns 0:8")
_STRIP = re.compile(r"strip (\d{1,9})/(\d{1,9})")
_RANGE = re.compile(r"(rows|columns) (\d{1,9}):(\d{1,9})")


def cut(images: npt.NDArray[Any], view: str) -> npt.NDArray[Any]:
    """Return a party's part of images [count, channels, height, width].

    Where a side has an odd length, the right or bottom half has the pixel in the middle.

    >>> import numpy as np
    >>> cut(np.zeros((10, 1, 8, 8)), "strip 1/3").shape
    (10, 1, 3, 8)
    >>> cut(np.zeros((10, 1, 8, 8)), "bottom-left").shape
    (10, 1, 4, 4)
    """
    if images.ndim != 4:
        raise DataError(
            f"the view '{view}' needs images [count, channels, height, width], but the array has "
            f"shape {images.shape}: leave out view"
        )
    height, width = images.shape[2:]
    rows, columns = _window(view, height, width)
    if not (0 <= rows[0] < rows[1] <= height and 0 <= columns[0] < columns[1] <= width):
        raise DataError(
            f"the view '{view}' does not fit images of {height} rows and {width} columns: "
            "choose a part that lies inside and is not empty"
        )
    return images[:, :, rows[0] : rows[1], columns[0] : columns[1]]


def _window(view: str, height: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    if view in VIEWS:
        return _half(view, height, "top", "bottom"), _half(view, width, "left", "right")
    strip = _STRIP.fullmatch(view)
    if strip is not None:
        return _strip(view, int(strip[1]), int(strip[2]), height), (0, width)
    span = _RANGE.fullmatch(view)
    if span is not None:
        chosen = (int(span[2]), int(span[3]))
        return (chosen, (0, width)) if span[1] == "rows" else ((0, height), chosen)
    raise DataError(f"there is no view '{view}': {nearest(view, (*VIEWS, *_FORMS))}")


def _half(view: str, length: int, first: str, second: str) -> tuple[int, int]:
    words = view.split("-")
    start = length // 2 if second in words else 0
    stop = length // 2 if first in words else length
    return start, stop


def _strip(view: str, index: int, count: int, height: int) -> tuple[int, int]:
    if not 1 <= index <= count:
        raise DataError(f"the view '{view}' counts from 1: write 'strip 1/{max(count, 1)}' onwards")
    # The first strips are one row taller when the rows do not divide evenly, as in numpy.
    size, larger = divmod(height, count)
    start = (index - 1) * size + min(index - 1, larger)
    return start, start + size + (index <= larger)
