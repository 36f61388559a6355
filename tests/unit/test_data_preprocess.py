import datetime
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data.preprocess import Preprocessor
from colonnade.errors import DataError

numbers = st.one_of(st.none(), st.floats(-1e100, 1e100))
words = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=5))


@st.composite
def tables(draw):
    count = draw(st.integers(1, 30))
    draw_column = {
        "number": lambda: pa.array(
            draw(st.lists(numbers, min_size=count, max_size=count)), pa.float64()
        ),
        "word": lambda: pa.array(
            draw(st.lists(words, min_size=count, max_size=count)), pa.string()
        ),
        "flag": lambda: pa.array(draw(st.lists(st.booleans(), min_size=count, max_size=count))),
        "code": lambda: pa.array(draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))),
    }
    return pa.table({name: make() for name, make in draw_column.items()})


def fit(columns, rows=None, categorical=()):
    table = pa.table(columns)
    chosen = np.arange(table.num_rows) if rows is None else np.array(rows)
    fitted = Preprocessor.fit(table, chosen, categorical)
    return fitted, fitted.transform(table)


@given(table=tables())
def test_what_was_written_down_transforms_identically(table):
    fitted = Preprocessor.fit(table, np.arange(0, table.num_rows, 2), ["code"])
    again = Preprocessor.from_json(fitted.to_json())
    assert again == fitted
    try:
        expected = fitted.transform(table)
    except DataError as error:
        assert "too far" in str(error)
        return
    assert expected.tobytes() == again.transform(table).tobytes()
    assert expected.shape == (table.num_rows, fitted.width)
    assert len(fitted.feature_names) == fitted.width
    assert np.isfinite(expected).all()


def test_numbers_are_standardised():
    fitted, out = fit({"x": [1.0, 2.0, 3.0, 6.0], "n": pa.array([1, 2, 3, 4], pa.int32())})
    assert fitted.feature_names == ["x", "n"]
    assert np.allclose(out.mean(axis=0), 0)
    assert np.allclose(out.std(axis=0), 1)


def test_a_column_that_never_changes_becomes_0():
    _, out = fit({"x": [0.1] * 7 + [5.0]}, rows=range(7))
    assert not out.any()


def test_missing_numbers_become_the_mean_and_are_marked():
    fitted, out = fit({"x": [1.0, None, 3.0, math.nan], "y": [1.0, 2.0, 3.0, 4.0]})
    assert fitted.feature_names == ["x", "x?missing", "y"]
    assert out[:, 0].tolist() == [-1, 0, 1, 0]
    assert out[:, 1].tolist() == [0, 1, 0, 1]


def test_missing_only_in_later_rows_has_no_mark():
    fitted, out = fit({"x": pa.array([1, 3, None], pa.int64())}, rows=[0, 1])
    assert fitted.feature_names == ["x"]
    assert out[:, 0].tolist() == [-1, 1, 0]


def test_categories_by_frequency_then_name():
    fitted, out = fit({"job": ["b", "c", "a", "c", None, "new"]}, rows=range(5))
    assert fitted.feature_names == ["job=?", "job=c", "job=a", "job=b"]
    assert out.argmax(axis=1).tolist() == [3, 1, 2, 1, 0, 0]
    assert out.sum(axis=1).tolist() == [1] * 6


def test_flags_dictionaries_and_codes_are_categories():
    columns = {
        "flag": [True, False, True],
        "dictionary": pa.array(["x", "y", "x"]).dictionary_encode(),
        "code": [7, 8, 7],
        "decimal": pa.array([1, 2, 2], pa.decimal128(5, 2)),
    }
    fitted, _ = fit(columns, categorical=["co*"])
    names = ["flag=?", "flag=true", "flag=false", "dictionary=?", "dictionary=x", "dictionary=y"]
    assert fitted.feature_names == [*names, "code=?", "code=7", "code=8", "decimal"]


def test_a_code_is_the_same_code_in_another_type():
    fitted, out = fit({"code": [1, 2, 2]}, categorical=["code"])
    for column in ([1.0, 2.0, 2.0], ["1", "2", "2"], pa.array([1, 2, 2], pa.decimal128(5, 2))):
        assert np.array_equal(fitted.transform(pa.table({"code": column})), out)


def test_a_column_without_values_becomes_zeros():
    columns = {
        "x": pa.array([None, None, 4.0]),
        "word": pa.array([None, None, "a"]),
        "nothing": pa.nulls(3),
    }
    fitted, out = fit(columns, rows=[0, 1])
    assert fitted.width == 3
    assert not out.any()


@given(noise=st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=5))
def test_test_rows_change_nothing_of_what_is_learnt(noise):
    train = [1.0, 2.0, None, 4.0, 5.0]
    job = ["a", "b", "a", None, "b"]
    rows = np.arange(5)
    plain = Preprocessor.fit(pa.table({"x": train, "job": job}), rows)
    text = [str(value) for value in noise]
    noisy = Preprocessor.fit(pa.table({"x": train + noise, "job": job + text}), rows)
    assert noisy.to_json() == plain.to_json()


def test_chunks_make_no_difference():
    table = pa.table({"job": ["a", "b", "b", "c"], "x": [1.0, 2.0, 3.0, 4.0]})
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    fitted = Preprocessor.fit(chunked, np.arange(4))
    assert fitted == Preprocessor.fit(table, np.arange(4))
    assert np.array_equal(fitted.transform(chunked), fitted.transform(table))
    assert fitted.transform(table.slice(0, 0)).shape == (0, fitted.width)


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ([1.0, math.inf], "column 'x' holds an infinite number"),
        ([datetime.date(2020, 1, 1)] * 2, "holds dates or times"),
        (pa.array([1, 2], pa.timestamp("s")), "holds dates or times"),
        (pa.array([datetime.date(2020, 1, 1)] * 2).dictionary_encode(), "holds dates or times"),
        ([[1], [2]], "which cannot be encoded: leave it out"),
        ([1e308, -1e308, 1e308], "too large"),
        ([str(index) for index in range(10_001)], "10001 categories.*leave it out"),
    ],
)
def test_columns_that_are_refused(column, sentence):
    with pytest.raises(DataError, match=sentence):
        fit({"x": column})


def test_infinite_codes_are_refused():
    with pytest.raises(DataError, match="infinite"):
        fit({"x": [1.0, math.inf]}, categorical=["x"])


def test_later_tables_must_look_like_the_training_table():
    fitted, _ = fit({"age": [1.0, 2.0]})
    with pytest.raises(DataError, match=r"no column 'age'.*did you mean 'agee'"):
        fitted.transform(pa.table({"agee": [1.0]}))
    with pytest.raises(DataError, match="held numbers in training and holds string"):
        fitted.transform(pa.table({"age": ["old"]}))
    with pytest.raises(DataError, match="too far from those seen"):
        fit({"x": [0.0, 1e-150]})[0].transform(pa.table({"x": [1e300]}))


def test_a_categorical_pattern_must_match():
    with pytest.raises(DataError, match="categorical 'SEXX': did you mean 'SEX'"):
        fit({"SEX": [1, 2]}, categorical=["SEXX"])


@pytest.mark.parametrize("text", ["", "{}", '{"columns":[{"type":"other"}]}', '{"columns":3}'])
def test_text_that_is_no_preprocessor(text):
    with pytest.raises(DataError, match="not a stored preprocessor"):
        Preprocessor.from_json(text)
