"""Parts of images: which pixels each party holds.

A view is a word (`left`, `top-right`, `all`), a strip of rows (`strip 2/8`), or a range that
begins at 0 and leaves out its end (`rows 0:14`, `columns 0:3`, `channels 0:3`); `none` is for
labels only. Channels are what several pictures of one object come as, too.
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
_FORMS = ("strip 1/2", "rows 0:8", "columns 0:8", "channels 0:3")
_STRIP = re.compile(r"strip (\d{1,9})/(\d{1,9})")
_RANGE = re.compile(r"(rows|columns|channels) (\d{1,9}):(\d{1,9})")


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
    sides = images.shape[1:]
    window = _window(view, *sides)
    inside = [0 <= a < b <= side for (a, b), side in zip(window, sides, strict=True)]
    if not all(inside):
        depth, height, width = sides
        size = f"{height} rows and {width} columns"
        if view.startswith("channels"):
            size = f"{depth} channels"
        raise DataError(
            f"the view '{view}' does not fit images of {size}: "
            "choose a part that lies inside and is not empty"
        )
    return images[:, *(slice(start, stop) for start, stop in window)]


def _window(view: str, depth: int, height: int, width: int) -> tuple[tuple[int, int], ...]:
    """From where to where, of channels, rows and columns."""
    if view in VIEWS:
        halves = _half(view, height, "top", "bottom"), _half(view, width, "left", "right")
        return (0, depth), *halves
    strip = _STRIP.fullmatch(view)
    if strip is not None:
        return (0, depth), _strip(view, int(strip[1]), int(strip[2]), height), (0, width)
    span = _RANGE.fullmatch(view)
    if span is not None:
        whole = {"channels": (0, depth), "rows": (0, height), "columns": (0, width)}
        return tuple({**whole, span[1]: (int(span[2]), int(span[3]))}.values())
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
