"""Frames of pandas: rows by index, columns by name, or a sentence."""

import numpy as np
import pandas as pd
import pytest

from colonnade.data.scale import remarks
from colonnade.data.vertical import vertical
from colonnade.errors import DataError

IDS = [f"c{i:03}" for i in range(40)]
BANK = pd.DataFrame({"age": np.arange(40.0), "rent": np.arange(40.0) * 10}, index=IDS)
TELCO = pd.DataFrame({"calls": np.arange(40.0) + 100}, index=IDS)
LABELS = pd.Series(np.arange(40) % 2, index=IDS)


def _together(data):
    """Whether every row still holds what belongs to one customer."""
    for part in ("train", "test"):
        bank, telco = (getattr(data.features[name], part) for name in ("bank", "telco"))
        assert np.array_equal(telco[:, 0], bank[:, 0] + 100)
        assert np.array_equal(getattr(data.labels, part), bank[:, 0] % 2)


def test_frames_in_another_order_are_matched_by_their_index():
    telco, labels = TELCO.sample(frac=1, random_state=1), LABELS.sample(frac=1, random_state=2)
    _together(vertical({"bank": BANK, "telco": telco}, labels))


def test_weights_and_test_rows_are_matched_too():
    shuffled = BANK["age"].sample(frac=1, random_state=3)
    data = vertical({"bank": BANK, "telco": TELCO}, LABELS, weights=shuffled)
    assert np.array_equal(data.labels.weights, data.features["bank"].train[:, 0])
    data = vertical(
        {"bank": BANK, "telco": TELCO},
        LABELS,
        test_features={"bank": BANK[["rent", "age"]], "telco": TELCO[::-1]},
        test_labels=LABELS.sample(frac=1, random_state=4),
    )
    _together(data)


def test_a_shuffled_frame_meets_one_in_the_order_of_its_file():
    bank, telco, labels = (each.reset_index(drop=True) for each in (BANK, TELCO, LABELS))
    _together(vertical({"bank": bank, "telco": telco.sample(frac=1, random_state=1)}, labels))


def test_a_default_index_is_a_place():
    bank, telco = BANK.reset_index(drop=True), TELCO.reset_index(drop=True)
    _together(vertical({"bank": bank, "telco": telco.to_numpy()}, LABELS.to_numpy()))


def test_equal_frames_give_what_their_arrays_give():
    frames = vertical({"bank": BANK, "telco": TELCO}, LABELS, split_seed=3)
    arrays = vertical(
        {"bank": BANK.to_numpy(), "telco": TELCO.to_numpy()}, LABELS.to_numpy(), split_seed=3
    )
    assert np.array_equal(frames.features["bank"].train, arrays.features["bank"].train)
    assert np.array_equal(frames.labels.test, arrays.labels.test)


def test_text_labels_of_pandas_are_classes():
    words = LABELS.map({0: "good", 1: "bad"})
    for labels in (words, words.astype("category"), words.astype(object)):
        assert vertical({"bank": BANK, "telco": TELCO}, labels).task == "binary"


def test_true_or_false_beside_numbers_is_a_number():
    bank = BANK.assign(vip=True, cars=pd.array([1] * 40, dtype="Int64"))
    assert vertical({"bank": bank, "telco": TELCO}, LABELS).features["bank"].shape == (4,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"telco": TELCO[:38]},
            "2 rows of bank are missing at telco and 0 of telco at bank .bank has 'c038'",
        ),
        ({"telco": TELCO.rename({"c000": "new"})}, "1 rows of bank .* 1 of telco at bank"),
        ({"telco": TELCO.reset_index(drop=True)}, "bank and telco have no entry in common"),
        ({"telco": TELCO.rename({"c001": "c000"})}, "telco has 1 rows with an index that came"),
        ({"telco": TELCO.to_numpy()}, "the rows of bank have an index and there is none for telco"),
        ({"telco": TELCO.assign(plan="a")}, "columns of telco are not numbers .plan.: encode"),
    ],
)
def test_frames_that_cannot_be_matched_are_refused(change, words):
    with pytest.raises(DataError, match=words):
        vertical({"bank": BANK, "telco": TELCO} | change, LABELS)


def test_labels_without_an_index_do_not_fit_frames_with_one():
    with pytest.raises(
        DataError, match=r"there is none for the labels.*give the labels as a Series"
    ):
        vertical({"bank": BANK, "telco": TELCO}, LABELS.to_numpy())
    with pytest.raises(DataError, match="the label is missing in 1 rows"):
        vertical({"bank": BANK, "telco": TELCO}, LABELS.astype(object).mask(LABELS.index == "c000"))


def test_test_rows_with_other_columns_are_refused():
    with pytest.raises(DataError, match=r"test rows of bank have other columns.*'rent'"):
        vertical(
            {"bank": BANK, "telco": TELCO},
            LABELS,
            test_features={"bank": BANK[["age"]], "telco": TELCO},
            test_labels=LABELS,
        )


def test_indexes_of_different_kinds_are_told_to_be_made_the_same():
    telco = TELCO.set_axis(range(100, 140))
    with pytest.raises(
        DataError, match=r"no entry in common .bank has 'c000', telco has 100.: give"
    ):
        vertical({"bank": BANK, "telco": telco}, LABELS)


@pytest.mark.parametrize(
    ("odd", "sentence"),
    [
        ("", "the label is empty in 1 rows: leave out the rows without one"),
        ("yes ", "the labels 'yes ' and 'yes' differ in spaces only: write them the same way"),
    ],
    ids=["empty", "spaces"],
)
def test_text_labels_that_are_hardly_meant_are_refused(odd, sentence):
    labels = pd.Series(["no", "yes"] * 20, index=IDS)
    labels.iloc[4] = odd
    with pytest.raises(DataError, match=sentence):
        vertical({"bank": BANK, "telco": TELCO}, labels)


def test_targets_that_look_like_classes_name_the_cure_for_python_too():
    targets = pd.Series(np.arange(400) * 1000)
    rows = np.zeros((400, 1))
    with pytest.raises(DataError, match=r"task='regression' in cn\.vertical"):
        vertical({"bank": rows, "telco": rows}, targets)


def test_tiny_targets_are_remarked_as_large_ones_are():
    data = vertical({"bank": BANK, "telco": TELCO}, LABELS * 1e-6 + 1e-7, task="regression")
    assert any("targets are far from unit scale" in said for said in remarks({}, data.labels))
