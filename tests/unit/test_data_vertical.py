import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data.labels import encode
from colonnade.data.vertical import Columns, Labels, VerticalData, vertical
from colonnade.errors import DataError

X = np.arange(20.0).reshape(10, 2)
Y = np.array([0, 1] * 5)


def test_rows_stay_together():
    data = vertical(
        {"bank": X, "telco": X * 10}, labels=np.arange(10), test=0.3, split_seed=4, validation=0
    )
    assert (data.train_count, data.test_count) == (7, 3)
    bank, telco = data.features["bank"], data.features["telco"]
    assert np.array_equal(bank.train[:, 0], data.labels.train * 2)
    assert np.array_equal(bank.test[:, 0], data.labels.test * 2)
    assert np.array_equal(telco.test, bank.test * 10)
    assert bank.shape == (2,)


def test_tensors_lists_and_integers_are_taken():
    data = vertical({"bank": torch.ones(10, 3), "telco": [[1, 2]] * 10}, torch.tensor(Y))
    assert data.features["bank"].train.dtype == np.float32
    assert data.features["telco"].train.dtype == np.float64
    assert data.labels.train.dtype == np.int64


@pytest.mark.parametrize(
    ("labels", "task", "classes"),
    [
        ([0, 1] * 5, "binary", 2),
        ([0.0, 1.0] * 5, "binary", 2),
        (["no", "yes"] * 5, "binary", 2),
        ([True, False] * 5, "binary", 2),
        ([-1, 1] * 5, "binary", 2),
        ([3, 4, 5, 6, 7] * 2, "multiclass", 5),
        (np.linspace(0, 1, 10), "regression", 1),
        (np.arange(10.0), "regression", 1),
    ],
)
def test_the_task_is_read_off_the_labels(labels, task, classes):
    data = vertical({"bank": X, "telco": X}, labels)
    assert (data.task, data.classes) == (task, classes)
    assert data.labels.train.dtype == (np.float64 if task == "regression" else np.int64)
    if task != "regression":
        assert set(data.labels.train) | set(data.labels.test) == set(range(classes))


def test_a_given_task_wins():
    assert vertical({"bank": X, "b": X}, np.arange(10), task="regression").task == "regression"
    assert vertical({"bank": X, "b": X}, Y, task="multiclass").task == "multiclass"


def test_test_rows_of_their_own():
    data = vertical(
        {"bank": X, "telco": None},
        labels=["b", "a"] * 5,
        test_features={"bank": X[:4], "telco": None},
        test_labels=["a", "a", "b", "a"],
        weights=np.arange(10),
        validation=0,
    )
    assert data.labels.train.tolist() == [1, 0] * 5
    assert data.labels.test.tolist() == [0, 0, 1, 0]
    assert data.features["telco"].train is None
    assert data.features["telco"].shape is None
    assert data.labels.weights.tolist() == list(range(10))


def test_no_test_rows():
    data = vertical({"bank": X, "telco": X}, Y, test=0)
    assert data.test_count == 0
    assert data.features["bank"].test.shape == (0, 2)


def test_weights_follow_their_rows():
    data = vertical({"bank": X, "telco": X}, Y, weights=X[:, 0])
    assert np.array_equal(data.labels.weights, data.features["bank"].train[:, 0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"features": {"bank": X, "telco": X[:9]}},
            "unequal row counts: telco has 9 training rows",
        ),
        ({"features": {"bank": X, "telco": X[:, :0]}}, "at least one column"),
        ({"features": {"bank": X, "telco": Y}}, "shape"),
        ({"features": {"bank": X, "telco": X.astype(str)}}, "give numbers"),
        ({"features": {"bank": X, "telco": X * np.nan}}, "missing or infinite"),
        ({"labels": [0] * 10}, "all labels are 0: there is nothing to learn"),
        ({"labels": X}, "one label per row"),
        ({"labels": np.full(10, np.nan)}, "a label is missing"),
        ({"labels": np.array([None] * 10)}, "the label is missing in 10 rows"),
        ({"labels": np.array(["a", 1] * 5, dtype=object)}, "labels of type object"),
        ({"labels": np.arange(10), "task": "binary"}, "the labels have 10 values"),
        ({"labels": Y * 0.5, "task": "binary"}, "a fraction cannot be classes"),
        ({"labels": ["a", "b"] * 5, "task": "regression"}, "text labels"),
        ({"weights": -X[:, 0]}, "0 or more"),
        ({"weights": np.zeros(10)}, "not all zero"),
        ({"weights": np.ones(9)}, "unequal row counts: weights has 9"),
        ({"weights": ["a"] * 10}, "one number per row"),
        ({"test": 1.0}, "give a share"),
        ({"test_labels": Y}, "belong together"),
        ({"test_labels": Y, "test_features": {"bank": X}}, "nothing for telco"),
        (
            {"test_labels": Y, "test_features": {"bank": X, "telco": X[:3]}},
            "unequal row counts: bank has 10 test rows, telco has 3",
        ),
        (
            {"test_labels": Y[:9], "test_features": {"bank": X, "telco": X}},
            "bank has 10 test rows, labels has 9",
        ),
        ({"test_labels": Y, "test_features": {"bank": X, "telco": X[:, :1]}}, "same columns"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    request = {"features": {"bank": X, "telco": X}, "labels": Y} | change
    with pytest.raises(DataError, match=words):
        vertical(**request)


def test_parties_with_unequal_rows_are_named():
    columns = {"bank": Columns(np.ones((1000, 1)), X), "telco": Columns(np.ones((900, 1)), X)}
    with pytest.raises(DataError, match="bank has 1000 training rows, telco has 900: keep only"):
        VerticalData(columns, Labels(np.zeros(1000), np.zeros(10)), "binary", 2)


@given(
    values=st.lists(st.integers(-50, 50), min_size=2, max_size=40).filter(lambda v: len(set(v)) > 1)
)
def test_codes_name_the_classes_in_sorted_order(values):
    encoded = encode(np.array(values))
    assert [int(encoded.classes[code]) for code in encoded.values] == values
    assert [int(name) for name in encoded.classes] == sorted(set(values))


def test_whole_floats_are_classes_and_too_many_are_not():
    assert encode(np.array([0.0, 1.0, 2.0])).task == "multiclass"
    with pytest.raises(DataError, match="10001 distinct values"):
        encode(np.arange(10_001))
