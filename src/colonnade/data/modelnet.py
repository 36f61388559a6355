"""ModelNet10 as twelve grey views of each object, from a file of our own making.

The views are rendered from occupancy grids of 30³, one every 30°; the original pictures of C-VFL's
experiments, with 224 pixels a side, are no longer to be had. Objects whose grid is empty are left
out: there is nothing to be seen of them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError

FILE = "modelnet10_views12_48.npz"
PART = 4
"""C-VFL takes a quarter of the training objects."""

_Array = npt.NDArray[Any]


class Views(NamedTuple):
    """Bytes [objects, 12, 48, 48] and their labels, by the publisher's split."""

    train: _Array
    train_labels: _Array
    test: _Array
    test_labels: _Array
    classes: tuple[str, ...]
    place: Path


def read(places: Sequence[Path]) -> Views | None:
    """Read the views from the first folder that has them; None where none does."""
    file = next((place / FILE for place in places if (place / FILE).is_file()), None)
    if file is None:
        return None
    try:
        with np.load(file, allow_pickle=False) as arrays:
            views, labels = arrays["views"], arrays["y"]
            kept = ~arrays["blank"].astype(bool)
            test = arrays["is_test"].astype(bool) & kept
            train = kept & ~test
            classes = tuple(str(name) for name in arrays["class_names"])
            parts = views[train], labels[train], views[test], labels[test]
    except (OSError, KeyError, ValueError, IndexError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{file} does not hold ModelNet10's views ({error}): get it again"
        ) from None
    return Views(*parts, classes, file.parent)


def subset(whole: Views) -> Views:
    """Every fourth training object, about as many as C-VFL has, and all test objects."""
    return whole._replace(
        train=whole.train[::PART],
        train_labels=whole.train_labels[::PART],
    )
