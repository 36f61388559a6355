"""Clicks on advertisements, from the files of two competitions as Kaggle has them.

Criteo's `train.txt` has no header: a row is the label, 13 counts and 26 words, between tabs.
Avazu's `train.csv` has one, and is published as `train.gz`. Both are read in blocks, and a word is
kept as its place in a dictionary: the largest table, of 46 million rows, takes about 7 GB then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from colonnade.errors import DataError

ROWS_MAX = 50_000_000
"""A little more than the largest of the two has; a longer file is another one."""
_BLOCK_BYTES = 16 * 2**20
_WORD = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class ClickFile:
    """What a file of clicks has in it."""

    names: tuple[str, ...]
    """Of its columns, in order."""
    numbers: tuple[str, ...]
    """Those that are whole numbers; the others are words."""
    places: tuple[str, ...]
    """Where it may lie below a data folder."""
    separator: str = ","
    headed: bool = True
    """Whether its first line has the names."""
    dropped: tuple[str, ...] = ()
    """Columns that are not read."""


_COUNTS = tuple(f"I{number}" for number in range(1, 14))
CRITEO = ClickFile(
    names=("label", *_COUNTS, *(f"C{number}" for number in range(1, 27))),
    numbers=("label", *_COUNTS),
    places=("criteo/train.txt", "criteo/train.txt.gz"),
    separator="\t",
    headed=False,
)
AVAZU = ClickFile(
    names=(
        *("id", "click", "hour", "C1", "banner_pos", "site_id", "site_domain", "site_category"),
        *("app_id", "app_domain", "app_category", "device_id", "device_ip", "device_model"),
        *("device_type", "device_conn_type", *(f"C{number}" for number in range(14, 22))),
    ),
    numbers=(
        *("click", "hour", "C1", "banner_pos", "device_type", "device_conn_type"),
        *(f"C{number}" for number in range(14, 22)),
    ),
    places=("avazu/train.csv", "avazu/train.csv.gz", "avazu/train.gz"),
    dropped=("id",),
)
FILES = {"criteo": CRITEO, "avazu": AVAZU}


def find(spec: ClickFile, folders: Sequence[Path]) -> Path | None:
    """The first place that has the file.

    >>> find(CRITEO, []) is None
    True
    """
    paths = (folder / place for folder in folders for place in spec.places)
    return next((path for path in paths if path.is_file()), None)


def read(path: Path, spec: ClickFile) -> pa.Table:
    """The table of a file, without the columns that are dropped."""
    try:
        blocks = list(_bounded(path, _opened(path, spec)))
    except (pa.ArrowException, OSError, EOFError) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise DataError(
            f"{path} cannot be read ({reason}): it is cut short, or not the file that Kaggle has: "
            "get it again"
        ) from None
    return pa.Table.from_batches(blocks).unify_dictionaries()


def _opened(path: Path, spec: ClickFile) -> pa.csv.CSVStreamingReader:
    kept = [name for name in spec.names if name not in spec.dropped]
    return pa.csv.open_csv(
        path,
        pa.csv.ReadOptions(
            block_size=_BLOCK_BYTES, column_names=None if spec.headed else list(spec.names)
        ),
        pa.csv.ParseOptions(delimiter=spec.separator, quote_char=False),
        pa.csv.ConvertOptions(
            column_types={n: pa.int32() if n in spec.numbers else _WORD for n in kept},
            include_columns=kept,
            strings_can_be_null=True,
            null_values=[""],
        ),
    )


def _bounded(path: Path, blocks: pa.csv.CSVStreamingReader) -> Iterator[pa.RecordBatch]:
    count = 0
    for block in blocks:
        count += block.num_rows
        if count > ROWS_MAX:
            raise DataError(
                f"{path} has more than {ROWS_MAX:,} rows, so it is not the file that Kaggle has: "
                "give a file of your own as a party's table"
            )
        yield block
