import numpy as np
import pyarrow as pa
import pytest

from colonnade.data import named
from colonnade.data.batches import held_out
from colonnade.data.named import Dataset
from colonnade.data.party import assemble
from colonnade.errors import DataError
from colonnade.job.files import builtin_names
from colonnade.job.files import load as load_job
from colonnade.job.records import Job, Party, Train

COUNT = 40
LABELS = np.arange(COUNT) % 2


def toy(test_rows=None):
    columns = {"age": np.arange(COUNT) * 1.0, "job": [str(i % 3) for i in range(COUNT)]}
    return Dataset(
        name="toy",
        table=pa.table(columns | {"w": np.arange(COUNT) + 1.0}),
        labels=LABELS,
        task="binary",
        classes=("no", "yes"),
        label="default",
        source="made here",
        test_rows=test_rows,
    )


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.setitem(named._LOADERS, "toy", lambda _: toy())
    monkeypatch.setitem(named._LOADERS, "split", lambda _: toy(np.array([3, 5])))


def job(bank, telco, train=None, data=None):
    plain = {"preprocessing": "plain"}
    parties = {"bank": Party(role="active", **plain | bank), "telco": Party(**plain | telco)}
    return Job(
        parties=parties,
        data=data,
        train=Train(**{"batch_size": 4, "validation": 0} | (train or {})),
    )


def test_columns_of_a_named_table(toys):
    data = assemble(
        job({"columns": ["age"], "sample_weight": "w"}, {"columns": ["a*", "job"]}, data="toy")
    )
    train, test = held_out(COUNT, 0.2, 0)
    assert (data.task, data.classes, data.train_count, data.test_count) == ("binary", 2, 32, 8)
    assert np.array_equal(data.labels.train, LABELS[train])
    assert np.array_equal(data.labels.test, LABELS[test])
    assert np.array_equal(data.labels.weights, train + 1.0)
    bank, telco = data.features["bank"], data.features["telco"]
    assert np.allclose(bank.train[:, 0] * train.std() + train.mean(), train)
    assert np.allclose(bank.test[:, 0] * train.std() + train.mean(), test)
    assert telco.preprocessor.feature_names[:2] == ["age", "job=?"]
    assert np.array_equal(telco.train[:, 0], bank.train[:, 0])


def test_the_publishers_test_rows_come_first(toys):
    data = assemble(job({}, {"columns": ["age"]}, data="split"))
    assert data.test_count == 2
    assert data.labels.test.tolist() == [1, 1]
    assert data.features["bank"].train is None
    assert data.features["bank"].test is None


def test_parts_of_named_images():
    data = assemble(job({}, {"view": "left"}, data="digits"))
    assert data.features["telco"].train.shape == (1438, 1, 8, 4)
    assert data.features["telco"].preprocessor is None
    assert data.classes == 10


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_job_finds_its_columns(name):
    built_in = load_job(name)
    try:
        data = assemble(built_in)
    except DataError as error:
        if "is not on this computer" not in str(error) and "Pillow" not in str(error):
            raise
        pytest.skip(str(error))
    assert set(data.features) == set(built_in.parties)
    for party, columns in data.features.items():
        assert (columns.train is None) == (built_in.parties[party].view == "none")
    assert data.test_count > 0


@pytest.mark.parametrize(
    ("data", "bank", "telco", "words"),
    [
        ("toy", {}, {}, "passive party telco has no features: set parties.telco.columns"),
        (
            "toy",
            {},
            {"columns": ["agee"]},
            "no column of the data set toy matches 'agee': did you mean 'age'",
        ),
        (
            "toy",
            {},
            {"columns": ["default"]},
            "label column at a passive party: telco would read 'default'",
        ),
        ("toy", {"columns": ["default"]}, {"columns": ["age"]}, "bank lists its label 'default'"),
        ("toy", {"view": "left"}, {"columns": ["age"]}, "holds a table: use columns instead"),
        (
            "toy",
            {"label": "other"},
            {"columns": ["age"]},
            "the label of the data set toy is 'default'",
        ),
        ("toy", {"sample_weight": "ww"}, {"columns": ["age"]}, "no column 'ww' for sample_weight"),
        ("toy", {}, {"columns": ["age"], "table": "x.csv"}, "telco has a table although"),
        (
            "toy",
            {},
            {"columns": ["age"], "categorical": ["j*"]},
            "parties.telco: no column matches",
        ),
        ("digits", {}, {}, "passive party telco has no features: set parties.telco.view"),
        ("digits", {}, {"columns": ["age"]}, "holds images: use view instead"),
        ("digits", {}, {"view": "lef"}, "there is no view 'lef': did you mean 'left'"),
        ("digits", {"sample_weight": "w"}, {"view": "left"}, "no column 'w' for sample_weight"),
        ("toyy", {}, {}, "there is no data set 'toyy'"),
    ],
)
def test_named_data_that_does_not_fit(toys, data, bank, telco, words):
    with pytest.raises(DataError, match=words):
        assemble(job(bank, telco, data=data))


def test_batches_and_test_rows_are_checked_early(toys):
    with pytest.raises(DataError, match="batch_size is 33 but there are only 32 training rows"):
        assemble(job({}, {"columns": ["age"]}, {"batch_size": 33}, data="toy"))
    for share in (0.0, 0.01):
        with pytest.raises(DataError, match="leaves no rows to evaluate on"):
            assemble(job({}, {"columns": ["age"]}, {"test": share}, data="toy"))
    never = {"test": 0.0, "evaluate_every": "never"}
    assert assemble(job({}, {"columns": ["age"]}, never, data="toy")).test_count == 0
