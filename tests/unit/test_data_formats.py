"""Tables as other programs export them are read as they are; what cannot be is refused by name."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.feather as pa_feather
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.data.csv_dialect import Said
from colonnade.data.files import TableFile
from colonnade.errors import DataError

TOWNS = ["Zürich", "Köln", "Genève"]


def read(path, content, said=None, columns=None):
    if content is not None:
        path.write_bytes(content)
    file = TableFile(path, text=["key"], said=said)
    return file.read(columns or file.names).to_pydict()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_any_separator_encoding_and_packing_gives_the_same_table(
    separator, encoding, packed, tmp_path
):
    rows = [["key", "town", "spend"], *([f"00{n}", t, f"{n}.5"] for n, t in enumerate(TOWNS))]
    text = "\r\n".join(separator.join(row) for row in rows) + "\r\n"
    path = tmp_path / ("bank.csv.gz" if packed else "bank.csv")
    content = gzip.compress(text.encode(encoding)) if packed else text.encode(encoding)
    found = read(path, content)
    assert found == {"key": ["000", "001", "002"], "town": TOWNS, "spend": [0.5, 1.5, 2.5]}


@pytest.mark.parametrize(
    ("separator", "cells", "numbers"),
    [
        (";", ["1,5", "2,25", "1000,125"], [1.5, 2.25, 1000.125]),
        (";", ["1.234,5", "12", "1.234.567,25"], [1234.5, 12.0, 1234567.25]),
        (";", ["1 234,5", "2\u00a0000,5", "3'000,5"], [1234.5, 2000.5, 3000.5]),
        (",", ['"1,234.5"', '"12,000"', "7"], [1234.5, 12000.0, 7.0]),
        (",", ["1'234.5", "12", "7"], [1234.5, 12.0, 7.0]),
        ("\t", ["1,5", "2,5", ""], [1.5, 2.5, None]),
    ],
)
def test_decimal_commas_and_marks_between_thousands_are_numbers(
    separator, cells, numbers, tmp_path
):
    lines = [separator.join(["key", "x"]), *(f"k{i}{separator}{c}" for i, c in enumerate(cells))]
    found = read(tmp_path / "bank.csv", "\n".join(lines).encode())
    assert found["x"] == numbers


def test_what_a_party_says_of_its_file_wins(tmp_path):
    path = tmp_path / "bank.csv"
    content = "key:x\n1:2,5\n2:1,234\n".encode("cp1252")
    said = Said(separator=":", decimal=",")
    assert read(path, content, said)["x"] == [2.5, 1.234]
    assert read(path, b"key;x\n1;1,234\n")["x"] == [1.234]
    assert read(path, b"key;x\n1;1,234\n", Said(decimal="."))["x"] == [1234.0]
    greek = "key,x\n1,α\n".encode("iso-8859-7")
    assert read(path, greek, Said(encoding="iso-8859-7"))["x"] == ["α"]


def test_types_that_the_rest_of_a_file_does_not_bear_out_are_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("colonnade.data.files._CSV_BLOCK_BYTES", 256)
    lines = ["key,whole,empty,day,note", *(f"{n},{n},,2024-01-0{n % 9 + 1},1" for n in range(50))]
    lines += ["50,1.5,late,soon,none", "51,1'000,x,2024-02-01,2"]
    found = read(tmp_path / "bank.csv", "\n".join(lines).encode())
    assert found["whole"][-2:] == [1.5, 1000.0]
    assert found["empty"][-2:] == ["late", "x"]
    assert found["day"][-2:] == ["soon", "2024-02-01"]
    assert found["note"][-2:] == ["none", "2"]


def test_values_with_line_ends_in_quotes(tmp_path):
    found = read(tmp_path / "bank.csv", b'key;x\n1;"a\nb;c"\n2;d\n')
    assert found["x"] == ["a\nb;c", "d"]


def test_a_folder_of_parquet_files_is_one_table(tmp_path):
    (tmp_path / "rows" / "more").mkdir(parents=True)
    for place, name in enumerate(["b.parquet", "a.parquet", "more/c.pq"]):
        pa_parquet.write_table(
            pa.table({"key": [place], "x": [place * 1.0]}), tmp_path / "rows" / name
        )
    (tmp_path / "rows" / "_SUCCESS").write_text("")
    (tmp_path / "rows" / "README.txt").write_text("as exported")
    found = read(tmp_path / "rows", None)
    assert sorted(found["x"]) == [0.0, 1.0, 2.0]


def parquet(table):
    def write(folder):
        pa_parquet.write_table(table, folder / "t.parquet")
        return folder / "t.parquet"

    return write


def content(name, data):
    def write(folder):
        (folder / name).write_bytes(data)
        return folder / name

    return write


def cut(folder):
    path = parquet(pa.table({"key": np.arange(1000)}))(folder)
    path.write_bytes(path.read_bytes()[:-200])
    return path


def mixed(folder):
    (folder / "rows").mkdir()
    pa_parquet.write_table(pa.table({"key": [1], "x": [1]}), folder / "rows" / "a.parquet")
    pa_parquet.write_table(pa.table({"key": [1], "x": ["1"]}), folder / "rows" / "b.parquet")
    return folder / "rows"


def lacking(folder):
    (folder / "rows").mkdir()
    pa_parquet.write_table(pa.table({"key": [1]}), folder / "rows" / "a.parquet")
    pa_parquet.write_table(pa.table({"key": [1], "y": [1]}), folder / "rows" / "b.parquet")
    return folder / "rows"


def hollow(folder):
    (folder / "rows").mkdir()
    return folder / "rows"


def feather(folder):
    pa_feather.write_feather(pa.table([[1], [2]], names=["x", "x"]), str(folder / "t.feather"))
    return folder / "t.feather"


FAULTS = {
    "empty": (content("t.csv", b""), "is empty: it needs a line with column names"),
    "blank": (content("t.csv", b"\n \n"), "is empty"),
    "no rows": (content("t.csv", b"key;x\n"), "has column names and no rows"),
    "no rows, parquet": (parquet(pa.table({"key": pa.array([], pa.int64())})), "and no rows"),
    "short": (content("t.csv", b"key;c;d\n1;2;3\n4;5\n"), "has 2 columns in line 3, and 3 column"),
    "long": (content("t.csv", b"key\tc\n1\t2\n4\t5\t6\n"), "put quotes around a value with tabs"),
    "twice": (content("t.csv", b"key;c;c\n1;2;3\n"), "two columns named 'c': give each a name"),
    "twice, arrow": (feather, "two columns named 'x': give each a name"),
    "gzip": (content("t.csv.gz", b"key,x\n1,2\n"), "is not a whole gzip file"),
    "cut gzip": (content("t.csv.gz", gzip.compress(b"key,x\n" * 999)[:-9]), "not a whole gzip"),
    "cut parquet": (cut, "it is cut short, or no Parquet file: copy or write it again"),
    "no arrow": (content("t.arrow", b"hello"), "is cut short, or no Arrow file"),
    "empty arrow": (content("t.arrow", b""), "is cut short, or no Arrow file"),
    "mixed": (mixed, "b.parquet has 'x' as string, and"),
    "lacking": (lacking, "b.parquet has a column 'y', and"),
    "hollow": (hollow, "has no Parquet files"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_of_a_format_is_one_sentence_with_the_cure(fault, tmp_path):
    write, sentence = FAULTS[fault]
    path = write(tmp_path)
    with pytest.raises(DataError) as caught:
        file = TableFile(path, text=["key"])
        file.read(file.names)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_ragged_line_far_down_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("colonnade.data.files._CSV_BLOCK_BYTES", 64)
    lines = ["key;x", *(f"{n};1" for n in range(500)), "500", "501;2"]
    path = tmp_path / "bank.csv"
    with pytest.raises(DataError, match="has 1 columns in line 502, and 2 column names"):
        read(path, "\n".join(lines).encode())


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "utf-16"])
def test_a_wrong_encoding_is_named_with_the_line(encoding, tmp_path):
    content = b"key,x\n1,a\n2,\xfc\xff\n"
    with pytest.raises(DataError, match=f"is not text in the encoding '{encoding}'.*leave out enc"):
        read(tmp_path / "bank.csv", content, Said(encoding=encoding))


def test_what_is_said_of_csv_does_not_fit_parquet(tmp_path):
    with pytest.raises(DataError, match="is no CSV file, so it has no separator"):
        TableFile(parquet(pa.table({"x": [1]}))(tmp_path), said=Said(separator=";"))


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 10**9), st.floats(-1e6, 1e6), st.sampled_from(["a", "b c", "ü"])),
        min_size=2,
        max_size=8,
    ),
    separator=st.sampled_from(",;\t|"),
)
def test_what_is_written_in_any_dialect_is_read_back(rows, separator, tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    lines = [["key", "x", "y"], *([str(k), repr(x), y] for k, x, y in rows)]
    path.write_text("\n".join(separator.join(line) for line in lines), encoding="utf-8")
    found = TableFile(path, text=["key"]).read(["key", "x", "y"]).to_pydict()
    assert found["key"] == [str(key) for key, _, _ in rows]
    assert found["x"] == [x for _, x, _ in rows]
    assert found["y"] == [y for _, _, y in rows]
