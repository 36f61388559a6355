"""Jobs whose parties bring files of their own."""

import gzip
import struct

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest

from colonnade.data.batches import held_out
from colonnade.data.party import assemble
from colonnade.errors import DataError
from tests.unit.test_data_assemble import COUNT, LABELS, job

IDS = [f"c{index:03}" for index in range(COUNT)]


@pytest.fixture
def files(tmp_path):
    """Two parties' tables with the same ids in different orders."""
    bank = {"id": IDS, "spend": np.arange(COUNT) * 1.0, "default": LABELS, "w": np.ones(COUNT)}
    telco = {"key": IDS[::-1], "calls": np.arange(COUNT)[::-1] * 1.0, "plan": ["a", "b"] * 20}
    return Files(tmp_path, bank, telco)


class Files:
    def __init__(self, folder, bank, telco):
        self.folder, self.tables = folder, {"bank": bank, "telco": telco}

    def path(self, name, columns):
        path = self.folder / f"{name}.parquet"
        pa_parquet.write_table(pa.table(columns), path)
        return str(path)

    def job(self, bank=None, telco=None, train=None, tables=None):
        whole = self.tables | (tables or {})
        paths = {name: self.path(name, table) for name, table in whole.items()}
        own = {"table": paths["bank"], "id": "id", "label": "default", "columns": ["spend"]}
        other = {"table": paths["telco"], "id": "key"}
        return job(own | (bank or {}), other | (telco or {}), train)

    def changed(self, party, **columns):
        return {party: self.tables[party] | columns}

    def shorter(self, party, count):
        return {party: {name: list(column)[:count] for name, column in self.tables[party].items()}}


def test_rows_of_files_are_matched_by_id(files):
    data = assemble(files.job({"sample_weight": "w"}))
    train, _ = held_out(COUNT, 0.2, 0)
    assert np.array_equal(data.labels.train, LABELS[train])
    assert np.array_equal(data.labels.weights, np.ones(32))
    bank, telco = data.features["bank"], data.features["telco"]
    assert np.array_equal(bank.train[:, 0], telco.train[:, 0])
    assert np.array_equal(bank.test[:, 0], telco.test[:, 0])
    names = telco.preprocessor.feature_names
    assert sorted(names) == ["calls", "plan=?", "plan=a", "plan=b"]
    # The file lists plan a first, and the last customer first.
    odd = train % 2 == 1
    assert np.array_equal(telco.train[:, names.index("plan=a")], odd)


def test_a_csv_and_a_parquet_file_are_matched(files):
    order = np.arange(COUNT)[::-1]
    pa_csv.write_csv(pa.table({"key": order, "calls": order * 1.0}), files.folder / "t.csv")
    path = {"table": str(files.folder / "t.csv")}
    data = assemble(files.job(None, path, tables=files.changed("bank", id=np.arange(COUNT))))
    bank, telco = data.features["bank"], data.features["telco"]
    assert np.array_equal(bank.train, telco.train)
    assert np.array_equal(bank.test, telco.test)


def test_ids_that_differ_by_their_zeros_are_not_the_same(files):
    padded = [f"{index:03}" for index in range(COUNT)]
    tables = files.changed("bank", id=padded) | files.changed("telco", key=np.arange(COUNT))
    with pytest.raises(DataError, match=r"has the row '000' .* alike but for zeros in front"):
        assemble(files.job(tables=tables))


def test_ids_that_differ_by_spaces_are_said_to_do_so(files):
    spaced = [f"c{index:03} " for index in range(COUNT)]
    tables = files.changed("bank", id=spaced)
    tables |= files.changed("telco", key=[name.strip() for name in spaced])
    with pytest.raises(DataError, match="alike but for spaces at their ends"):
        assemble(files.job(tables=tables))


def test_codes_are_categories_in_training_rows_and_test_rows(files):
    train = "key,branch\n" + "".join(f"{name},00{n % 2}84\n" for n, name in enumerate(IDS))
    test = "key,branch\n" + "".join(f"{name},{[84, 10284][n % 2]}\n" for n, name in enumerate(IDS))
    telco = {}
    for field, text in (("table", train), ("table_test", test)):
        (files.folder / f"{field}.csv").write_text(text)
        telco[field] = str(files.folder / f"{field}.csv")
    bank = {"table_test": files.path("bank_test", files.tables["bank"])}
    columns = assemble(files.job(bank, telco)).features["telco"]
    assert columns.preprocessor.feature_names == ["branch=?", "branch=00084", "branch=00184"]
    # 84 is not 00084: a code that was not seen in training.
    assert columns.test[:, 0].all()


def test_the_active_party_may_hold_only_the_labels(files):
    data = assemble(files.job({"columns": []}))
    assert data.features["bank"].train is None
    assert data.train_count == 32


def test_a_star_leaves_out_label_id_and_weight(files):
    data = assemble(files.job({"columns": ["*"], "sample_weight": "w"}))
    assert data.features["bank"].preprocessor.feature_names == ["spend"]


@pytest.mark.parametrize(
    ("labels", "train", "task", "classes"),
    [
        (["x", "y"] * 20, {}, "binary", 2),
        ([1, 5, 9, 9] * 10, {}, "multiclass", 3),
        ([1.0, 5.0, 9.0, 9.0] * 10, {}, "multiclass", 3),
        ([1, 5, 9, 9] * 10, {"loss": "huber"}, "regression", 1),
        ([1, 5, 9, 9] * 10, {"metric": "mae"}, "multiclass", 3),
        (np.linspace(0, 1, COUNT), {}, "regression", 1),
    ],
)
def test_the_task_of_a_label_column(files, labels, train, task, classes):
    data = assemble(files.job(train=train, tables=files.changed("bank", default=labels)))
    assert (data.task, data.classes) == (task, classes)


def test_only_training_rows_are_learnt_from(files):
    _, test = held_out(COUNT, 0.2, 0)
    plain = assemble(files.job()).features["bank"]
    spend = np.arange(COUNT) * 1.0
    spend[test] = 1e6
    changed = assemble(files.job(tables=files.changed("bank", spend=spend))).features["bank"]
    assert changed.preprocessor == plain.preprocessor
    assert np.array_equal(changed.train, plain.train)
    assert not np.array_equal(changed.test, plain.test)


def test_files_of_test_rows(files):
    later = {"id": ["x2", "x1"], "spend": [7.0, 8.0], "default": [1, 0], "w": [1.0, 1.0]}
    bank = {"table_test": files.path("bank_test", later)}
    telco = {
        "table_test": files.path(
            "telco_test", {"key": ["x1", "x2"], "calls": [8.0, 7.0], "plan": ["b", "zz"]}
        )
    }
    data = assemble(files.job(bank, telco))
    assert (data.train_count, data.test_count) == (40, 2)
    assert data.labels.test.tolist() == [0, 1]
    assert np.array_equal(data.features["bank"].test[:, 0], data.features["telco"].test[:, 0])
    names = data.features["telco"].preprocessor.feature_names
    assert data.features["telco"].test[:, names.index("plan=b")].tolist() == [1, 0]
    assert data.features["telco"].test[:, names.index("plan=?")].tolist() == [0, 1]
    with pytest.raises(DataError, match="bank has a file of test rows but telco has no table_test"):
        assemble(files.job(bank))


@pytest.mark.parametrize(
    ("bank", "telco", "words"),
    [
        ({"id": "idd"}, {}, "has no id column 'idd': did you mean 'id'"),
        ({"id": None}, {}, "has the table .* but no id: set parties.bank.id"),
        ({"label": "defalt"}, {}, "has no column 'defalt': did you mean 'default'"),
        ({"label": None}, {}, "the active party bank has no label"),
        ({"label": "y.npy"}, {}, "make the label a column of the table"),
        ({"columns": ["default"]}, {}, "bank lists its label 'default'"),
        ({"sample_weight": "ww"}, {}, "has no column 'ww'"),
        ({"view": "left"}, {}, "use columns instead of view"),
        ({"table": None}, {}, "the label 'default' of bank is a column"),
        ({}, {"table": None}, "telco has no data: set parties.telco.table"),
        ({}, {"table": "nowhere.csv"}, "there is no file nowhere.csv"),
        ({}, {"columns": ["cals"]}, "matches 'cals': did you mean 'calls'"),
        ({}, {"columns": ["key"]}, "matches 'key'"),
        ({}, {"categorical": ["x"]}, "parties.telco: no column matches the categorical 'x'"),
    ],
)
def test_files_that_do_not_fit(files, bank, telco, words):
    with pytest.raises(DataError, match=words):
        assemble(files.job(bank, telco))


def test_rows_that_do_not_match(files):
    with pytest.raises(DataError, match="unequal row counts: bank has 40 rows, telco has 39"):
        assemble(files.job(tables=files.shorter("telco", 39)))
    other = files.changed("telco", key=["zz", *IDS[1:]])
    with pytest.raises(DataError, match=r"bank has the row 'c000' and telco does not \(1 such"):
        assemble(files.job(tables=other))
    twice = files.changed("telco", key=[IDS[1], *IDS[1:]])
    with pytest.raises(DataError, match="duplicate ids in 'key': 'c001'"):
        assemble(files.job(tables=twice))
    nulls = files.changed("bank", default=[None, *LABELS[1:].tolist()])
    with pytest.raises(DataError, match="the label 'default' of bank is missing in 1 rows"):
        assemble(files.job(tables=nulls))


@pytest.mark.parametrize("columns", [[], ["default"], ["de*"], ["*"]])
def test_a_label_column_at_a_passive_party(files, columns):
    leak = files.changed("telco", default=LABELS)
    with pytest.raises(DataError, match="label column at a passive party: telco would read"):
        assemble(files.job(None, {"columns": columns}, tables=leak))
    kept = assemble(files.job(None, {"columns": ["calls"]}, tables=leak))
    assert kept.features["telco"].preprocessor.feature_names == ["calls"]


def save(folder, name, array):
    np.save(folder / f"{name}.npy", array)
    return str(folder / f"{name}.npy")


def test_arrays_are_taken_as_they_are(tmp_path):
    matrix = np.arange(COUNT * 3, dtype=np.float32).reshape(COUNT, 3)
    bank = {"label": save(tmp_path, "y", LABELS), "table": save(tmp_path, "b", matrix)}
    telco = {"table": save(tmp_path, "t", matrix * 2)}
    data = assemble(job(bank, telco))
    train, _ = held_out(COUNT, 0.2, 0)
    assert np.array_equal(data.features["bank"].train, matrix[train])
    assert np.array_equal(data.features["telco"].train, matrix[train] * 2)
    assert np.array_equal(data.labels.train, LABELS[train])
    assert data.features["bank"].preprocessor is None


def test_idx_images_with_test_files(tmp_path):
    images = np.arange(COUNT * 4 * 6).reshape(COUNT, 4, 6).astype(np.uint8)
    header = struct.pack(">BBBB3I", 0, 0, 8, 3, *images.shape)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(header + images.tobytes()))
    labels = save(tmp_path, "y", LABELS)
    telco = {"table": str(path), "table_test": str(path), "view": "columns 0:2"}
    data = assemble(job({"label": labels, "label_test": labels}, telco))
    assert (data.train_count, data.test_count) == (COUNT, COUNT)
    assert data.features["telco"].train.shape == (COUNT, 1, 4, 2)
    assert np.allclose(data.features["telco"].train[:, 0] * 255, images[:, :, :2])
    with pytest.raises(DataError, match="telco has a file of test rows but bank has no label_test"):
        assemble(job({"label": labels}, telco))
    with pytest.raises(DataError, match="the view 'rows 0:9' does not fit"):
        assemble(job({"label": labels}, {"table": str(path), "view": "rows 0:9"}))


def test_arrays_that_do_not_fit(tmp_path, files):
    labels, matrix = save(tmp_path, "y", LABELS), save(tmp_path, "x", np.ones((COUNT, 2)))
    short, text = save(tmp_path, "s", LABELS[:39]), save(tmp_path, "w", np.array([["a"]] * COUNT))
    wrong = [
        ({"label": short}, {"table": matrix}, "bank has 39 rows, telco has 40"),
        ({"label": short, "table": matrix}, {"table": matrix}, "its label file has 39"),
        ({"label": labels}, {"table": matrix, "columns": ["a"]}, "array without column names"),
        ({"label": labels}, {"table": matrix, "view": "left"}, "needs images"),
        ({"label": labels}, {"table": text}, "the features of telco have type"),
        ({"label": labels}, {"table": labels}, "the features of telco have shape"),
        ({"label": labels, "sample_weight": "w"}, {"table": matrix}, "no table with columns"),
        ({}, {"table": matrix}, "the active party bank has no label"),
    ]
    for bank, telco, words in wrong:
        with pytest.raises(DataError, match=words):
            assemble(job(bank, telco))
    with pytest.raises(DataError, match="bank has its rows by id and telco has an array"):
        assemble(files.job(None, {"table": matrix}))
