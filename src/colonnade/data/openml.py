"""Data sets from openml.org, for those who ask for a download with `COLONNADE_DOWNLOAD=1`.

scikit-learn fetches them and keeps them in its own cache. OpenML renamed some columns; here they
get the names of the original publication back, so that one job fits every source.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.errors import DataError

_IMAGES = {"mnist": "mnist_784", "fmnist": "Fashion-MNIST"}
_TABLES = {
    "credit": ("default-of-credit-card-clients", 1),
    "adult": ("adult", 2),
    "bank": ("bank-marketing", 1),
}
_LABELS = {"credit": "default", "adult": "income", "bank": "y"}
_MONTHS = range(1, 7)
_CREDIT = (
    *("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"),
    *("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6"),
    *(f"BILL_AMT{month}" for month in _MONTHS),
    *(f"PAY_AMT{month}" for month in _MONTHS),
)
_BANK = (
    *("age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact"),
    *("day", "month", "duration", "campaign", "pdays", "previous", "poutcome"),
)
_TRAIN_IMAGES = 60_000


def wanted() -> bool:
    """Say whether the user asked for downloads."""
    return os.environ.get("COLONNADE_DOWNLOAD") == "1"


def has(name: str) -> bool:
    """Say whether OpenML has a data set of ours.

    >>> has("credit"), has("gmsc")
    (True, False)
    """
    return name in _IMAGES or name in _TABLES


def images(name: str) -> list[npt.NDArray[Any]]:
    """Fetch training images and labels, test images and labels, as in the four idx files."""
    bunch = _fetch(_IMAGES[name], 1, as_frame=False)
    pixels = np.asarray(bunch.data).astype(np.uint8).reshape(-1, 28, 28)
    labels = np.asarray(bunch.target).astype(np.int64)
    cut = _TRAIN_IMAGES
    return [pixels[:cut], labels[:cut], pixels[cut:], labels[cut:]]


def table(name: str) -> pa.Table:
    """Fetch a table, features and label, with the column names of its first publication."""
    remote, version = _TABLES[name]
    bunch = _fetch(remote, version, as_frame=True)
    features = pa.Table.from_pandas(bunch.data, preserve_index=False)
    label = [str(value) for value in bunch.target]
    if name == "bank":
        label = [{"1": "no", "2": "yes"}.get(value, value) for value in label]
    names = _names(name, features.column_names)
    if len(names) != features.num_columns:
        raise DataError(
            f"OpenML's {remote} has {features.num_columns} columns and not {len(names)}: "
            "put the original file into COLONNADE_DATA instead"
        )
    return features.rename_columns(names).append_column(_LABELS[name], pa.array(label))


def _names(name: str, found: list[str]) -> list[str]:
    if name == "adult":
        return [column.replace("-", "_") for column in found]
    return list(_CREDIT if name == "credit" else _BANK)


def _fetch(remote: str, version: int, *, as_frame: bool) -> Any:
    from sklearn import datasets

    try:
        return datasets.fetch_openml(remote, version=version, as_frame=as_frame)
    except ImportError:
        raise DataError(
            "reading a data set of OpenML needs pandas: install colonnade[frames]"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(
            f"OpenML's {remote} could not be fetched ({error}): "
            "try again later, or put the file into COLONNADE_DATA"
        ) from None
