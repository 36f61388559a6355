"""Columns are treated by what they look like; what was learnt is kept and applied again."""

import datetime
import math

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.data.kinds import recognise
from colonnade.data.layout import expanded, of_structure, structure
from colonnade.data.preprocess import Preprocessor
from colonnade.errors import DataError
from colonnade.job.records import Job, Party, Train
from colonnade.models.front import Front

ROWS = 600
DRAW = np.random.default_rng(0)
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=3 * n) for n in range(ROWS)]
COLUMNS = {
    "height": DRAW.normal(170, 10, ROWS),
    "income": DRAW.lognormal(8, 1, ROWS),
    "ratio": DRAW.standard_cauchy(ROWS),
    "gain": np.where(np.arange(ROWS) % 20 == 0, DRAW.integers(1, 9999, ROWS), 0),
    "odd": np.append(DRAW.normal(0, 1, ROWS - 1), 40.0),
    "sex": ["f", "m"] * (ROWS // 2),
    "smokes": ["yes", "no", "no"] * (ROWS // 3),
    "raucht": ["Ja", "Nein", "Nein"] * (ROWS // 3),
    "town": [f"town {n % 90}" for n in range(ROWS)],
    "zip": [10_000 + 7 * (n % 90) for n in range(ROWS)],
    "plz": [f"{n % 90:05d}" for n in range(ROWS)],
    "opened": DAYS,
    "closed": [day.strftime("%d.%m.%Y") for day in DAYS],
    "customer": [f"c{n:04}" for n in range(ROWS)],
    "row": np.arange(ROWS),
    "note": [f"called at {n} and spoke of {n * 7}" for n in range(ROWS)],
    "same": [1] * ROWS,
    "nothing": pa.nulls(ROWS),
    "flag": [True, False] * (ROWS // 2),
    "infinite": [math.inf, *DRAW.normal(size=ROWS - 1)],
    "rarely": [1.5 if n % 3 == 0 else None for n in range(ROWS)],
}
TABLE = pa.table(COLUMNS)


@pytest.mark.parametrize(
    ("name", "kind", "word"),
    [
        ("height", "number", "standard"),
        ("income", "number", "log"),
        ("ratio", "number", "quantile"),
        ("gain", "number", "bins"),
        ("odd", "number", "quantile"),
        ("sex", "category", "one-hot"),
        ("smokes", "boolean", "one-hot"),
        ("raucht", "boolean", "one-hot"),
        ("town", "category", "embedding"),
        ("zip", "category", "embedding"),
        ("plz", "category", "embedding"),
        ("opened", "date", "date"),
        ("closed", "date", "date"),
        ("customer", "id", "left out"),
        ("row", "id", "left out"),
        ("note", "text", "left out"),
        ("same", "constant", "left out"),
        ("nothing", "empty", "left out"),
        ("flag", "boolean", "one-hot"),
        ("infinite", "number", "standard"),
    ],
)
def test_each_column_is_treated_by_what_it_looks_like(name, kind, word):
    assert recognise(name, TABLE[name]).kind == kind
    table = TABLE.select(list(dict.fromkeys([name, "odd"])))
    fitted = Preprocessor.fit(table, np.arange(ROWS), auto=True)
    assert fitted.columns[0].word == word
    assert np.isfinite(fitted.transform(TABLE)).all()


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("customer", "unique in every row"),
        ("row", "unique in every row"),
        ("zip", "name is that of a code"),
        ("plz", "zeros in front: read as codes"),
        ("same", "never changes"),
        ("infinite", "1 of its numbers are infinite"),
        ("rarely", "67% of its values are missing"),
        ("note", "different values in"),
    ],
)
def test_what_a_person_should_know_is_said(name, warning):
    assert any(warning in text for text in recognise(name, TABLE[name]).warnings)


def test_two_thousand_categories_are_said_and_take_one_column():
    words = pa.chunked_array([[f"shop {n % 2000}" for n in range(100_000)]])
    assert "it has 2,000 categories" in recognise("shop", words).warnings
    table = pa.table({"shop": words})
    fitted = Preprocessor.fit(table, np.arange(100_000), auto=True)
    rows = fitted.transform(table)
    assert rows.nbytes == 400_000
    assert expanded(fitted.inputs) == 16


def test_very_many_categories_are_hashed():
    table = pa.table({"user": [f"u{n % 20_000}" for n in range(60_000)]})
    fitted = Preprocessor.fit(table, np.arange(60_000), auto=True)
    assert fitted.columns[0].word == "hash"
    assert len(fitted.to_json()) < 1000
    later = fitted.transform(pa.table({"user": ["u1", "new", None]}))
    assert later[0, 0] == fitted.transform(table)[1, 0]
    assert (later[:2] >= 2).all() and later[2, 0] == -1


def test_rare_and_unseen_categories_are_other_and_counted():
    words = ["a"] * 50 + ["b"] * 50 + [f"rare {n}" for n in range(20)]
    table = pa.table({"x": words})
    fitted = Preprocessor.fit(table, np.arange(len(words)), auto=True)
    assert fitted.columns[0].values == ["a", "b"]
    later = pa.table({"x": ["a", "new", "rare 3", None]})
    assert fitted.transform(later)[:, 0].tolist() == [2, 1, 1, -1]
    assert fitted.unseen(later) == {"x": 2}
    assert fitted.unseen(pa.table({"x": ["a"]})) == {}


def test_what_training_had_no_rows_of_becomes_nothing():
    fitted = Preprocessor.fit(pa.table({"x": ["a", "b"] * 5}), np.arange(10), auto=True)
    rows = torch.tensor(fitted.transform(pa.table({"x": ["a", "new", None]})))
    assert Front(fitted.inputs)(rows).tolist() == [[1, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ("category", "embedding"),
        ("one-hot", "one-hot"),
        ("hash", "hash"),
        ("quantile", "quantile"),
        ("clip", "clip"),
        ("bins", "bins"),
        ("number", "standard"),
    ],
)
def test_a_party_may_say_otherwise(asked, word):
    fitted = Preprocessor.fit(
        TABLE.select(["zip"]), np.arange(ROWS), treat={"z*": asked}, auto=True
    )
    assert fitted.columns[0].word == word


@pytest.mark.parametrize(
    ("treat", "sentence"),
    [
        ({"zipp": "category"}, "no column matches the treat 'zipp': did you mean 'zip'"),
        ({"town": "log"}, "column 'town' is string, so it cannot be treated as log"),
        ({"town": "date"}, "column 'town' is to be a date, but not all"),
        ({"town": "boolean"}, "column 'town' has more than two values"),
    ],
)
def test_what_a_column_cannot_be_is_refused(treat, sentence):
    with pytest.raises(DataError, match=sentence):
        Preprocessor.fit(TABLE, np.arange(ROWS), treat=treat, auto=True)


def test_a_table_that_says_nothing_is_refused():
    with pytest.raises(DataError, match="no column is left to learn from"):
        Preprocessor.fit(TABLE.select(["same", "row"]), np.arange(ROWS), auto=True)


def test_dates_become_their_parts():
    fitted = Preprocessor.fit(TABLE.select(["opened", "closed"]), np.arange(ROWS), auto=True)
    rows = fitted.transform(TABLE)
    half = rows.shape[1] // 2
    assert np.array_equal(rows[:, :half], rows[:, half:])
    assert fitted.feature_names[:4] == [
        "opened:days", "opened:year", "opened:year_sin", "opened:year_cos"
    ]  # fmt: skip
    assert np.allclose(rows[:, 0].mean(), 0, atol=1e-5)
    late = pa.table({"opened": [None, DAYS[0]], "closed": ["no date", "01.01.2020"]})
    assert not fitted.transform(late)[0].any()


def test_bins_are_shares_of_the_ranges_that_a_number_reaches():
    fitted = Preprocessor.fit(TABLE.select(["gain"]), np.arange(ROWS), auto=True)
    rows = torch.tensor(fitted.transform(TABLE))
    wide = Front(fitted.inputs)(rows)
    assert wide.shape == (ROWS, expanded(fitted.inputs))
    order = rows[:, 0].argsort()
    reach = wide[:, 1:].sum(dim=1)[order]
    assert (reach.diff() >= -1e-5).all() and reach.min() == 0
    assert torch.isclose(reach.max(), torch.tensor(float(wide.shape[1] - 1)))


finite = st.floats(-1e100, 1e100)
cells = {
    "number": st.one_of(st.none(), finite, st.just(math.inf), st.just(math.nan)),
    "spiky": st.sampled_from([0.0] * 20 + [1.0, 2.5, 1e6]),
    "word": st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=3)),
    "day": st.one_of(st.none(), st.dates()),
    "flag": st.booleans(),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), count=st.integers(2, 40))
def test_what_was_written_down_transforms_identically(data, count):
    table = pa.table(
        {
            name: pa.array(
                data.draw(st.lists(cell, min_size=count, max_size=count)),
                pa.date32() if name == "day" else None,
            )
            for name, cell in cells.items()
        }
        | {"n": np.arange(count) % 3}
    )
    treat = data.draw(
        st.sampled_from([{}, {"number": "quantile"}, {"number": "bins"}, {"spiky": "log"}])
    )
    try:
        fitted = Preprocessor.fit(table, np.arange(0, count, 2), treat=treat, auto=True)
    except DataError as error:
        assert any(words in str(error) for words in ("too large", "looks like", "is left", "holds"))
        return
    again = Preprocessor.from_json(fitted.to_json())
    assert again == fitted
    rows = fitted.transform(table)
    assert rows.tobytes() == again.transform(table).tobytes()
    assert rows.shape == (count, fitted.width) and np.isfinite(rows).all()
    pieces = [fitted.transform(table.slice(n, 1)) for n in range(count)]
    assert np.array_equal(np.concatenate(pieces), rows)
    front = Front(fitted.inputs)
    wide = front(torch.tensor(rows))
    assert wide.shape == (count, expanded(fitted.inputs)) and wide.isfinite().all()


def stored(**changes):
    fitted = Preprocessor.fit(TABLE.select(["gain", "town", "opened"]), np.arange(ROWS), auto=True)
    plain = msgspec.json.decode(fitted.to_json())
    for column in plain["columns"]:
        column.update({key: value for key, value in changes.items() if key in column})
    return msgspec.json.encode(plain).decode()


@pytest.mark.parametrize(
    "changes",
    [
        {"deviation": -1.0},
        {"edges": [1.0, 0.0]},
        {"edges": list(range(100_000))},
        {"knots": [0.0], "scores": []},
        {"width": 10**9},
        {"buckets": 10**12},
        {"buckets": -5},
        {"values": ["a", "a"]},
        {"form": "%p"},
        {"days_deviation": -1.0},
        {"transform": "eval"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_stored_preprocessing_that_nobody_can_have_learnt_is_refused(changes):
    assert Preprocessor.from_json(stored()).width
    with pytest.raises(DataError, match="not a stored preprocessor"):
        Preprocessor.from_json(stored(**changes))


def test_stored_numbers_that_are_not_finite_are_refused():
    text = stored().replace('"mean":', '"mean":1e999,"x":', 1)
    with pytest.raises(DataError, match="not a stored preprocessor"):
        Preprocessor.from_json(text)


def test_a_front_is_built_anew_from_its_structure():
    """As a worker of a party of several processes does; what is in it comes with the buffers."""
    fitted = Preprocessor.fit(TABLE, np.arange(ROWS), auto=True)
    rows = torch.tensor(fitted.transform(TABLE))
    front, worker = Front(fitted.inputs), Front(of_structure(structure(fitted.inputs)))
    for own, theirs in zip(
        [*worker.parameters(), *worker.buffers()],
        [*front.parameters(), *front.buffers()],
        strict=True,
    ):
        own.data.copy_(theirs.data)
    assert torch.equal(front(rows), worker(rows))


def test_a_model_of_codes_is_given_codes(tmp_path):
    pa_parquet.write_table(TABLE.select(["customer", "town", "zip", "smokes"]), tmp_path / "t.pq")
    own = {"table": str(tmp_path / "t.pq"), "id": "customer"}
    model = {"name": "dssm", "buckets": 500, "field_width": 4, "hidden": 8, "embedding": 4}
    parties = {
        "bank": Party(role="active", label="smokes", **own),
        "telco": Party(columns=["town", "zip"], model=model, **own),
    }
    run = cn.simulate(Job(parties=parties, train=Train(rounds=3, batch_size=20)))
    assert run.status == "end"
    kept = Preprocessor.from_json(run.parties["telco"].preprocessing)
    assert [column.word for column in kept.columns] == ["embedding", "embedding"]
