"""Tables on disk: CSV, Parquet, folders of Parquet, and Arrow, with only the columns asked for.

A CSV file is read as it is written: separator, encoding and decimal mark are found out
(`csv_dialect.py`) unless the party says them, and so are marks between thousands. The types of its
columns are those of its first block, where the rest of the file bears them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet

from colonnade.data.csv_dialect import Dialect, Said, sniff
from colonnade.data.csv_faults import csv_fault
from colonnade.errors import DataError, nearest

_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    **dict.fromkeys(_CSV, "csv"),
}
_CSV_BLOCK_BYTES = 16 * 2**20
"""The types of CSV columns are read off the first block, so it should show most of them."""
_LEADING_ZERO = r"^\s*[+-]?0[0-9]"
_GROUPS = {".": r"[, '’\x{a0}\x{202f}]", ",": r"[. '’\x{a0}\x{202f}]"}
"""What may stand between thousands, by the decimal mark."""


class TableFile:
    """A table on disk whose column names are known and whose values are not read yet.

    >>> TableFile("missing.csv")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    colonnade.errors.DataError: there is no file missing.csv: ...
    """

    def __init__(
        self, path: str | Path, text: Sequence[str] = (), said: Said | None = None
    ) -> None:
        """Open a file; the columns named in `text` are text even where CSV shows numbers."""
        self.path, said = Path(path), said or Said()
        self._format = _format_of(self.path)
        self._text = tuple(text)
        self._settled: tuple[list[str], list[str]] | None = None
        self._dialect = Dialect()
        try:
            if self._format == "csv":
                self._dialect = sniff(self.path, said)
            elif said != Said():
                raise DataError(
                    f"{self.path} is no CSV file, so it has no separator, encoding or decimal "
                    "mark: leave them out"
                )
            self._file = self._open(self._text)
            _check_schemas(self.path, self._file)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._unreadable(error) from None
        self.schema: pa.Schema = self._file.schema
        self.names: list[str] = list(self.schema.names)
        if len(set(self.names)) < len(self.names):
            raise _twice(self.path, self.names)

    @property
    def said(self) -> Said:
        """How it is written, of a CSV file, as a party would say it.

        >>> TableFile.said.fget is not None
        True
        """
        dialect = self._dialect
        return Said(dialect.encoding, dialect.separator, dialect.decimal)

    @property
    def is_csv(self) -> bool:
        """Whether it is a file of text, whose types are guessed."""
        return self._format == "csv"

    def _open(self, text: Sequence[str]) -> ds.Dataset:
        if self.path.is_dir():
            return ds.dataset(_parts(self.path), format="parquet")
        kind: Any = self._format
        return ds.dataset(str(self.path), format=self._csv(text) if kind == "csv" else kind)

    def _csv(self, text: Sequence[str]) -> ds.CsvFileFormat:
        dialect = self._dialect
        return ds.CsvFileFormat(
            read_options=pyarrow.csv.ReadOptions(
                block_size=_CSV_BLOCK_BYTES, encoding=dialect.encoding
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=dialect.separator, newlines_in_values=dialect.quoted
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={name: pa.string() for name in text},
                strings_can_be_null=True,
                decimal_point=dialect.decimal,
            ),
        )

    def _unreadable(self, error: Exception) -> DataError:
        if isinstance(error, DataError):
            return error
        # Arrow repeats the path before each of its reasons; the last one is the cause.
        cause = str(error).split(f"{self.path}'")[-1].lstrip(".: ")
        reason = " ".join(cause.split())[:200].rstrip(".")
        known = csv_fault(self.path, reason, self._dialect) if self._format == "csv" else None
        if known is not None:
            return known
        if "duplicate field names" in reason:
            return _twice(self.path, _names(self.path, self._format))
        kind = {"csv": "CSV", "parquet": "Parquet", "ipc": "Arrow"}[self._format]
        return DataError(
            f"{self.path} cannot be read as a table ({reason}): it is cut short, or no {kind} "
            "file: copy or write it again, with the ending that says what it is"
        )

    def check(self, names: Iterable[str]) -> list[str]:
        """These columns, each once; refuses one that is not there."""
        wanted = list(dict.fromkeys(names))
        for name in wanted:
            if name not in self.names:
                raise DataError(f"{self.path} has no column '{name}': {nearest(name, self.names)}")
        return wanted

    def read(self, columns: Iterable[str]) -> pa.Table:
        """Read the named columns, each once, and no others.

        A column of a CSV file that writes a number with a leading zero, such as `00284`, holds
        codes, and stays text.
        """
        names = self.check(columns)
        try:
            if self._format == "csv":
                found = self._settled_file(names).to_table(columns=_fields(names))
                table = self._unmark(found)
            else:
                table = self._file.to_table(columns=_fields(names))
        except (pa.ArrowException, OSError, ValueError, EOFError) as error:
            raise self._unreadable(error) from None
        if not table.num_rows and names:
            raise DataError(f"{self.path} has column names and no rows: add the rows")
        return table

    def count_bytes(self, columns: int) -> int:
        """How much memory so many of its columns take, roughly."""
        if self._format == "csv":
            # Text packs to a fifth or so, and numbers take about as much as their digits.
            packed = 5 if self.path.suffix.lower() == ".gz" else 1
            return self.path.stat().st_size * packed * columns // max(1, len(self.names))
        try:
            return int(self._file.count_rows()) * columns * 8
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._unreadable(error) from None

    def batches(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """The named columns piece by piece, as `read` would have them, with little read ahead."""
        names = self.check(columns)
        ahead = {"batch_readahead": 2, "fragment_readahead": 1}
        try:
            file = self._settled_file(names) if self._format == "csv" else self._file
            for batch in file.to_batches(columns=_fields(names), **ahead):
                yield from self._unmark(pa.Table.from_batches([batch])).to_batches()
        except (pa.ArrowException, OSError, ValueError, EOFError) as error:
            raise self._unreadable(error) from None

    def _settled_file(self, names: Sequence[str]) -> ds.Dataset:
        """The file with the types that all of its rows bear out."""
        self._settled = self._settle(names)
        return self._open([*self._text, *self._settled[0]])

    def _settle(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Columns that are text although they begin otherwise, since some number has zeros in front
        that it would lose, or some value is none of its column's type; and columns of text that are
        numbers with marks between thousands."""
        kinds = {name: self.schema.field(name).type for name in names if name not in self._text}
        typed = {name for name, kind in kinds.items() if not pa.types.is_string(kind)}
        marked, odd, codes = set(kinds) - typed, set[str](), set[str]()
        begun = set[str]()
        if not kinds:
            return [], []
        file = self._open([*self._text, *kinds])
        for batch in file.to_batches(columns=_fields(list(kinds))):
            for name in list(typed | odd | marked):
                values = batch[name]
                if name in typed and not self._holds(values, kinds[name]):
                    typed.discard(name)
                    odd.add(name)
                if pc.any(pc.match_substring_regex(values, _LEADING_ZERO)).as_py():
                    codes |= {name} & (typed | odd)
                    typed, odd, marked = typed - {name}, odd - {name}, marked - {name}
                elif name in marked and values.null_count < len(values):
                    begun.add(name)
                    if not _all_match(values, self._number):
                        marked.discard(name)
        numbers = [name for name in kinds if name in (marked & begun) or self._is_number(odd, name)]
        return [name for name in kinds if name in odd | codes], numbers

    def _is_number(self, odd: set[str], name: str) -> bool:
        if name not in odd:
            return False
        pieces = self._open([*self._text, name]).to_batches(columns=_fields([name]))
        return all(_all_match(piece[name], self._number) for piece in pieces)

    @property
    def _number(self) -> str:
        groups, mark = _GROUPS[self._dialect.decimal], self._dialect.decimal
        whole = f"([0-9]{{1,3}}({groups}[0-9]{{3}})+|[0-9]+)"
        return rf"^\s*[+-]?({whole}([{mark}][0-9]*)?|[{mark}][0-9]+)([eE][+-]?[0-9]+)?\s*$"

    def _holds(self, values: pa.Array, kind: pa.DataType) -> bool:
        if pa.types.is_floating(kind) and self._dialect.decimal == ",":
            values = pc.replace_substring(values, ",", ".")
        try:
            pc.cast(pc.utf8_trim_whitespace(values), kind)
        except pa.ArrowException:
            return False
        return True

    def _unmark(self, table: pa.Table) -> pa.Table:
        """The table with numbers in place of text that is numbers with marks."""
        for name in self._settled[1] if self._settled else ():
            bare = pc.replace_substring_regex(
                table[name], rf"{_GROUPS[self._dialect.decimal]}|\s", ""
            )
            numbers = pc.cast(pc.replace_substring(bare, ",", "."), pa.float64())
            table = table.set_column(table.column_names.index(name), name, numbers)
        return table


def _format_of(path: Path) -> str:
    if path.is_dir():
        return "parquet"
    name = path.name.lower()
    ending = next((end for end in sorted(_FORMATS, key=len)[::-1] if name.endswith(end)), None)
    if ending is None:
        raise DataError(
            f"{path} ends in '{path.suffix.lower()}': use a table in {', '.join(_FORMATS)}, a "
            "folder of Parquet files, or an array in .npy or idx"
        )
    if not path.is_file():
        raise DataError(f"there is no file {path}: check its path in the job or the party file")
    return _FORMATS[ending]


def _parts(folder: Path) -> list[str]:
    """The Parquet files of a folder and those below it, as other programs write them."""
    found = sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in (".parquet", ".pq") and not file.name.startswith((".", "_"))
    )
    if not found:
        raise DataError(f"the folder {folder} has no Parquet files: give one that does, or a file")
    return [str(file) for file in found]


def _check_schemas(path: Path, file: ds.Dataset) -> None:
    """All files of a folder have the same columns, of the same types."""
    if not path.is_dir():
        return
    parts = list(file.get_fragments())
    first = parts[0].physical_schema
    for part in parts[1:]:
        for field in first:
            place = part.physical_schema.get_field_index(field.name)
            own = None if place < 0 else part.physical_schema.field(place).type
            if own != field.type:
                has = f"no column '{field.name}'" if own is None else f"'{field.name}' as {own}"
                raise DataError(
                    f"{part.path} has {has}, and {parts[0].path} has it as {field.type}: write all "
                    "files of a folder with the same columns"
                )
        more = [name for name in part.physical_schema.names if name not in first.names]
        if more:
            raise DataError(
                f"{part.path} has a column '{more[0]}', and {parts[0].path} has none: write all "
                "files of a folder with the same columns"
            )


def _names(path: Path, kind: str) -> list[str]:
    if kind == "parquet":
        files = _parts(path) if path.is_dir() else [str(path)]
        return [name for file in files for name in pyarrow.parquet.read_schema(file).names]
    with pa.memory_map(str(path)) as source:
        return list(pa.ipc.open_file(source).schema.names)


def _twice(path: Path, names: Sequence[str]) -> DataError:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), "")
    return DataError(f"{path} has two columns named '{twice}': give each a name of its own")


def _fields(names: Sequence[str]) -> dict[str, ds.Expression]:
    return {name: ds.field(name) for name in names}


def _all_match(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py() is not False)
