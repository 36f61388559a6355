import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as pa_feather
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data.files import TableFile
from colonnade.data.tables import ordered, select, values
from colonnade.errors import DataError

TABLE = pa.table(
    {"id": [3, 1, 20], "PAY_0": [0.5, 1.5, 2.5], "PAY.2": [1, 2, 3], "job": ["a", None, "b"]}
)


def by_id(table, column, where):
    """The table in the order of its ids, without them, and the ids."""
    ids, order = ordered(table[column], column, where)
    return table.drop_columns([column]).take(order), ids


def write(folder, suffix, table=TABLE):
    path = folder / f"bank{suffix}"
    if suffix in (".parquet", ".pq"):
        pa_parquet.write_table(table, path)
    elif suffix == ".csv":
        pa_csv.write_csv(table, path)
    else:
        pa_feather.write_feather(table, str(path), compression="uncompressed")
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".pq", ".csv", ".arrow", ".feather", ".ipc"])
def test_every_format_gives_the_same_columns(tmp_path, suffix):
    file = TableFile(write(tmp_path, suffix))
    assert file.names == TABLE.column_names
    table = file.read(["job", "PAY.2"])
    assert table.column_names == ["job", "PAY.2"]
    assert table["job"].to_pylist() == ["a", None, "b"]
    assert table["PAY.2"].to_pylist() == [1, 2, 3]


def test_only_named_columns_are_read(tmp_path):
    path = tmp_path / "bank.csv"
    path.write_text("id,x,y\n" + "1,2,3\n" * 10)
    table = TableFile(path, text=["id"]).read(["x", "x"])
    assert table.column_names == ["x"]
    assert table["x"].to_pylist() == [2] * 10


def test_ids_in_csv_keep_their_zeros(tmp_path):
    path = tmp_path / "bank.csv"
    path.write_text("id,x\n007,1\n7,2\n")
    table, ids = by_id(TableFile(path, text=["id"]).read(["id", "x"]), "id", "bank.csv")
    assert ids.to_pylist() == ["007", "7"]
    assert table["x"].to_pylist() == [1, 2]


def test_codes_in_csv_keep_their_zeros(tmp_path):
    path = tmp_path / "bank.csv"
    rows = "".join(f"{i},1000{i},0.5,0,{i}.25\n" for i in range(1, 9))
    path.write_text(f"id,branch,rate,flag,icd\n9,00284,0.25,1,008.45\n{rows},,-0.5,,\n")
    table = TableFile(path, text=["id"]).read(["branch", "rate", "flag", "icd"])
    assert table["branch"].to_pylist() == ["00284", *(f"1000{i}" for i in range(1, 9)), None]
    assert table["icd"].to_pylist()[:2] == ["008.45", "1.25"]
    assert table["rate"].to_pylist() == [0.25, *[0.5] * 8, -0.5]
    assert table["flag"].to_pylist() == [1, *[0] * 8, None]


def test_a_zero_far_down_the_file_counts_too(tmp_path, monkeypatch):
    monkeypatch.setattr("colonnade.data.files._CSV_BLOCK_BYTES", 64)
    path = tmp_path / "bank.csv"
    path.write_text("id,branch\n" + "".join(f"{i},{i + 100}\n" for i in range(100)) + "100,007\n")
    assert TableFile(path, text=["id"]).read(["branch"])["branch"].to_pylist()[-1] == "007"


def test_csv_without_some_ids(tmp_path):
    path = tmp_path / "bank.csv"
    path.write_text("id,x\na,1\n,2\n")
    with pytest.raises(DataError, match="1 rows of bank have no id"):
        by_id(TableFile(path, text=["id"]).read(["id", "x"]), "id", "bank")
    assert TableFile(path, text=["other"]).names == ["id", "x"]


def test_files_that_are_not_tables(tmp_path):
    with pytest.raises(DataError, match=r"there is no file .*missing\.csv"):
        TableFile(tmp_path / "missing.csv")
    with pytest.raises(DataError, match=r"ends in '\.xlsx': use a table in \.parquet"):
        TableFile(tmp_path / "bank.xlsx")
    for suffix in (".parquet", ".arrow"):
        path = tmp_path / f"broken{suffix}"
        path.write_bytes(b"this is not a table")
        with pytest.raises(DataError, match="cannot be read as a table"):
            TableFile(path)
    (tmp_path / "empty.csv").write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        TableFile(tmp_path / "empty.csv")
    (tmp_path / "ragged.csv").write_text("id,x\n1,2\n3\n")
    with pytest.raises(DataError, match="has 1 columns in line 3"):
        TableFile(tmp_path / "ragged.csv").read(["x"])
    (tmp_path / "twice.csv").write_text("id,x,x\n1,2,3\n")
    with pytest.raises(DataError, match="two columns named 'x'"):
        TableFile(tmp_path / "twice.csv")
    twice = pa.table([[1], [2]], names=["x", "x"])
    with pytest.raises(DataError, match="two columns named 'x'"):
        TableFile(write(tmp_path, ".arrow", twice))


def test_a_column_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="has no column 'jobb': did you mean 'job'"):
        TableFile(write(tmp_path, ".parquet")).read(["jobb"])


def test_patterns():
    names = ["PAY_0", "pay_1", "PAY_2", "AGE", "x[1]"]
    assert select(["AGE", "PAY_*", "PAY_0"], names, "bank") == ["AGE", "PAY_0", "PAY_2"]
    assert select(["x[1]"], names, "bank") == ["x[1]"]
    assert select([], names, "bank") == []
    with pytest.raises(DataError, match="no column of bank matches 'PAY_9': did you mean 'PAY_"):
        select(["PAY_9"], names, "bank")
    with pytest.raises(DataError, match="matches 'Z\\*'"):
        select(["Z*"], names, "bank")


def test_patterns_that_leave_columns_out():
    names = ["PAY_0", "PAY_2", "AGE", "opened", "!odd"]
    assert select(["*", "!opened", "!PAY_*"], names, "bank") == ["AGE", "!odd"]
    assert select(["!opened", "PAY_*", "AGE"], names, "bank") == ["PAY_0", "PAY_2", "AGE"]
    assert select(["!PAY_*"], names, "bank") == ["AGE", "opened", "!odd"]
    assert select(["!odd"], names, "bank") == ["!odd"]
    with pytest.raises(DataError, match="no column of bank matches 'opend': did you mean 'opened'"):
        select(["*", "!opend"], names, "bank")


@given(ids=st.lists(st.integers(0, 10**6), min_size=1, max_size=50, unique=True), data=st.data())
def test_equal_ids_get_equal_orders_whatever_their_type(ids, data):
    other = data.draw(st.permutations(ids))
    kinds = [pa.int32(), pa.uint64(), pa.float64(), pa.string(), pa.large_string()]
    kind = data.draw(st.sampled_from(kinds))
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    column = pa.array([str(i) if text else i for i in other], type=kind)
    first, first_ids = by_id(pa.table({"id": ids, "x": ids}), "id", "a")
    second, second_ids = by_id(pa.table({"id": column, "x": other}), "id", "b")
    assert first_ids.equals(second_ids)
    assert first["x"].to_pylist() == second["x"].to_pylist()
    assert first_ids.to_pylist() == sorted(map(str, ids))
    assert first.column_names == ["x"]


def test_text_ids_sort_by_their_bytes():
    _, ids = by_id(pa.table({"id": ["é", "z", "Z", "", "😀", "\uffff"]}), "id", "a")
    assert ids.to_pylist() == sorted(["é", "z", "Z", "", "😀", "\uffff"], key=str.encode)


def test_dictionary_ids():
    column = pa.array(["b", "a"]).dictionary_encode()
    assert by_id(pa.table({"id": column}), "id", "a")[1].to_pylist() == ["a", "b"]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1, 2, 1, 1, 3, 3], "duplicate ids in 'id': '1' comes more than once, and 3 rows"),
        ([1, None, 2], "1 rows of bank have no id in 'id'"),
        ([1.5, 2.0], "has type double: use whole numbers or text"),
        ([[1], [2]], "use whole numbers or text"),
    ],
)
def test_ids_that_do_not_name_rows(ids, words):
    with pytest.raises(DataError, match=words):
        by_id(pa.table({"id": ids}), "id", "bank")


def test_values_of_label_columns():
    def found(array):
        return values(pa.chunked_array([array]), "the label")

    assert found(pa.array([True, False])).tolist() == [True, False]
    assert found(pa.array(["b", "a"]).dictionary_encode()).tolist() == ["b", "a"]
    assert found(pa.array([1, 2], type=pa.int8())).dtype == np.int8
    with pytest.raises(DataError, match="the label is missing in 2 rows"):
        found(pa.array([1, None, None]))
    with pytest.raises(DataError, match="the label has type timestamp"):
        found(pa.array([1], type=pa.timestamp("s")))
