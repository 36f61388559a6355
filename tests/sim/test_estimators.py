"""The estimators: scikit-learn's own checks, frames of every kind, rows that parties lack."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import colonnade as cn
from colonnade.data.preprocess import Preprocessor
from colonnade.data.splits import split_rows
from colonnade.errors import DataError, JobError, RequestError
from tests.frames import ROWS, bank_and_telco

SMALL = {"epochs": 3, "batch_size": 32, "learning_rate": 0.05}
"""Quick, and enough for what scikit-learn's checks want to be learnt."""
CANNOT = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a weight scales a row's loss within its mini-batch: a row that comes twice is in other "
        "batches than one that counts twice, and all rows are in another order"
    ),
}


@parametrize_with_checks(
    [cn.VerticalClassifier(**SMALL), cn.VerticalRegressor(**SMALL)],
    expected_failed_checks=lambda estimator: CANNOT,
)
def test_what_scikit_learn_asks_of_an_estimator_holds(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def people():
    return bank_and_telco()


@pytest.fixture(scope="module")
def fitted(people):
    bank, telco, good = people
    return cn.VerticalClassifier(epochs=4).fit({"bank": bank, "telco": telco}, good)


def test_rows_are_matched_by_id_and_it_says_how_many_are_common(people, fitted):
    bank, telco, _ = people
    assert fitted.n_rows_ == {"bank": ROWS, "telco": len(telco)}
    assert fitted.n_common_ == len(bank.index.intersection(telco.index)) < len(telco)
    rows = fitted.run_.parties["bank"].card.rows
    assert sum(rows.values()) == fitted.n_common_
    assert rows["test"] == 0 and rows["validation"] == round(fitted.n_common_ / 10)


def test_columns_of_the_partner_help(people, fitted):
    bank, telco, good = people
    both = bank.index.intersection(telco.index)
    rows = {"bank": bank.loc[both], "telco": telco}
    empty = telco.iloc[:0]
    alone = clone(fitted).set_params(missing="mean").fit({"bank": bank, "telco": telco}, good)
    alone_score = alone.score({"bank": bank.loc[both], "telco": empty}, good[both])
    assert fitted.score(rows, good[both]) > max(0.75, alone_score + 0.05)


def test_what_is_learnt_of_columns_is_learnt_from_training_rows_only(people, fitted):
    bank, telco, _ = people
    common = bank.loc[bank.index.intersection(telco.index)].sort_index()
    train = split_rows(len(common), 0.0, 0.1, 0, pa.array(common.index)).train
    known = pa.Table.from_pandas(common.iloc[train], preserve_index=False)
    expected = Preprocessor.fit(known, np.arange(len(train)), auto=True)
    assert Preprocessor.from_json(fitted.run_.parties["bank"].preprocessing) == expected


def test_a_row_that_a_party_lacks_teaches_nothing(people, fitted):
    bank, telco, good = people
    odd = bank.copy()
    odd.loc[odd.index.difference(telco.index), "income"] = 1e12
    again = clone(fitted).fit({"bank": odd, "telco": telco}, good)
    rows = {"bank": bank, "telco": telco}
    assert np.array_equal(again.predict_proba(rows), fitted.predict_proba(rows), equal_nan=True)


def as_polars(frame):
    return pl.from_pandas(frame.reset_index(names="customer"))


def as_arrow(frame):
    return pa.Table.from_pandas(frame.reset_index(names="customer"), preserve_index=False)


@pytest.mark.parametrize("form", [as_polars, as_arrow])
def test_frames_of_every_library_give_the_same(people, fitted, form):
    bank, telco, good = people
    rows = {"bank": form(bank), "telco": form(telco)}
    model = clone(fitted).set_params(id="customer").fit(rows, good.to_numpy())
    expected = fitted.predict_proba({"bank": bank, "telco": telco})
    assert np.array_equal(model.predict_proba(rows), expected, equal_nan=True)
    assert model.parties_ == fitted.parties_


def test_the_order_of_rows_does_not_matter(people, fitted):
    bank, telco, good = people
    mixed = bank.sample(frac=1, random_state=3)
    rows = {"bank": mixed, "telco": telco.sample(frac=1, random_state=4)}
    model = clone(fitted).fit(rows, good)
    expected = fitted.predict_proba({"bank": mixed, "telco": telco})
    assert np.array_equal(model.predict_proba(rows), expected, equal_nan=True)


def test_a_row_that_a_party_lacks_has_no_score_and_the_party_is_named(people, fitted):
    bank, telco, good = people
    rows, lacks = {"bank": bank, "telco": telco}, ~bank.index.isin(telco.index)
    shares = fitted.predict_proba(rows)
    assert np.array_equal(np.isnan(shares).any(axis=1), lacks)
    assert np.isnan(fitted.decision_function(rows)[lacks]).all()
    told = fitted.predict_rows(rows).to_pydict()
    assert told["id"] == bank.index.to_list()
    assert told["lacks"] == ["telco" if lacking else "" for lacking in lacks]
    assert [each is None for each in told["probability_yes"]] == lacks.tolist()
    with pytest.raises(DataError, match=rf"{lacks.sum()} of {ROWS} rows .*telco lacks"):
        fitted.predict(rows)
    with pytest.raises(DataError, match="missing='mean'"):
        fitted.score(rows, good)


def test_the_mean_embedding_stands_in_where_that_is_asked_for(people, fitted):
    bank, telco, _ = people
    rows, lacks = {"bank": bank, "telco": telco}, ~bank.index.isin(telco.index)
    model = copy.deepcopy(fitted).set_params(missing="mean")
    shares = model.predict_proba(rows)
    assert np.isfinite(shares).all()
    assert np.array_equal(shares[~lacks], fitted.predict_proba(rows)[~lacks])
    assert set(model.predict(rows)) <= {"no", "yes"}
    assert model.predict_rows(rows)["lacks"].to_pylist().count("telco") == lacks.sum()


def test_the_label_may_be_a_column_of_the_active_party(people, fitted):
    bank, telco, good = people
    whole = bank.assign(good=good)
    rows = {"telco": telco, "bank": whole}
    model = clone(fitted).set_params(label="good").fit(rows)
    assert model.active_ == "bank" and "good" not in model.parties_["bank"]
    assert clone(fitted).fit(rows, "good").parties_ == model.parties_
    with pytest.raises(DataError, match="give y='good' to leave it out"):
        clone(fitted).fit({"bank": whole, "telco": telco}, whole["good"])
    with pytest.raises(DataError, match="label column at a passive party"):
        clone(fitted).fit({"bank": whole, "telco": telco.assign(good=1)}, "good")


def test_one_frame_is_divided_as_parties_says(people):
    bank, telco, good = people
    both = bank.join(telco, how="inner")
    shares = {"bank": ["income", "since"], "telco": ["plan", "calls"]}
    model = cn.VerticalClassifier(shares, epochs=4).fit(both, good[both.index])
    assert model.feature_names_in_.tolist() == both.columns.to_list()
    assert model.parties_ == shares and model.n_features_in_ == len(both.columns)
    assert model.score(both, good[both.index]) > 0.75
    other = cn.VerticalClassifier({"bank": ["inc*"], "telco": [-1]}, epochs=1)
    assert other.fit(both, good[both.index]).parties_["telco"] == [both.columns[-1]]


def numeric(rows=240):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 6))
    return x, (x[:, 0] + x[:, 5] > 0).astype(int)


def test_it_works_in_the_tools_of_scikit_learn():
    x, y = numeric()
    model = cn.VerticalClassifier(parties=3, epochs=3, batch_size=16, learning_rate=0.02)
    piped = make_pipeline(StandardScaler(), clone(model))
    assert cross_val_score(piped, x, y, cv=2).mean() > 0.8
    grid = {"method": ["fedsgd", "fedbcd:updates=3"], "epochs": [1, 3]}
    search = GridSearchCV(model, grid, cv=2, refit=False).fit(x, y)
    assert search.best_score_ > 0.8
    assert len(set(search.cv_results_["mean_test_score"])) > 1


def test_three_classes_keep_their_names_and_order():
    x, y = numeric()
    names = np.array(["mid", "low", "high"], dtype=object)[y + (x[:, 2] > 1)]
    model = cn.VerticalClassifier(epochs=8).fit(x, names)
    assert model.classes_.tolist() == ["high", "low", "mid"]
    assert model.predict_proba(x).shape == model.decision_function(x).shape == (240, 3)
    assert model.score(x, names) > 0.8
    assert model.run_.classes == ("high", "low", "mid")


def test_quantities_come_out_in_the_units_of_the_targets():
    x, _ = numeric()
    y = 1e6 + 5e4 * (x[:, 0] - x[:, 5])
    model = cn.VerticalRegressor(parties=2, **SMALL | {"epochs": 15}).fit(x, y)
    assert model.score(x, y) > 0.9
    assert abs(model.predict(x).mean() - 1e6) < 2e4
    assert model.predict_rows(x).column_names == ["lacks", "prediction"]


def test_a_party_may_hold_only_the_labels():
    x, y = numeric()
    rows = {"registry": None, "clinic": x[:, :3], "insurer": x[:, 3:]}
    model = cn.VerticalClassifier(epochs=5).fit(rows, y)
    assert model.parties_["registry"] == [] and model.score(rows, y) > 0.8


def test_a_job_says_whatever_else_there_is_to_say():
    x, y = numeric()
    parties = {
        "bank": cn.Party(role="active", columns=["x[0-2]"], model={"name": "linear"}),
        "telco": cn.Party(columns=["x[3-5]"], optimizer={"name": "sgd", "lr": 0.1}),
    }
    job = cn.Job(
        parties=parties, method="fedbcd:updates=2", seed=3, train=cn.Train(rounds=9, batch_size=64)
    )
    model = cn.VerticalClassifier(job=job).fit(x, y)
    assert model.run_.rounds == 9 and model.run_.job.seed == 3
    assert model.run_.job.parties["bank"].model == {"name": "linear"}
    changed = clone(model).set_params(method="fedsgd", epochs=2, learning_rate=0.2).fit(x, y)
    assert changed.run_.job.train.rounds is None and changed.run_.rounds == 2 * 4
    assert changed.run_.job.method == {"name": "fedsgd"}
    assert changed.run_.job.parties["telco"].optimizer == {"name": "sgd", "lr": 0.2}
    with pytest.raises(JobError, match="no party 'shop'"):
        clone(model).fit({"bank": x, "shop": x}, y)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"id": "customer"}, "no id column 'customer'"),
        ({"active": "bnak"}, "did you mean 'bank'"),
        ({"missing": "drop"}, "choose nan or mean"),
        ({"backend": "cloud"}, "choose simulate or launch"),
        ({"validation": 1.5}, "give a share of the rows"),
        ({"job": "digits"}, "job is not a cn.Job"),
    ],
)
def test_a_wrong_argument_is_refused_when_it_is_used(people, change, sentence):
    bank, telco, good = people
    model = cn.VerticalClassifier(**change)
    with pytest.raises(RequestError, match=sentence):
        model.fit({"bank": bank, "telco": telco}, good)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda b, t, y: ({"bank": b, "telco": t.reset_index(drop=True)}, y), "have none"),
        (lambda b, t, y: ({"bank": b, "telco": t.set_axis(range(900, 900 + len(t)))}, y), "no id"),
        (lambda b, t, y: ({"bank": b, "telco": pd.concat([t, t])}, y), "duplicate ids"),
        (lambda b, t, y: ({"bank": b, "telco": t}, y.iloc[:-1]), "different indexes"),
        (lambda b, t, y: ({"bank": b, "telco": t}, y.to_numpy()[:-1]), "unequal row counts"),
        (lambda b, t, y: ({"bank": b}, y), "fewer than two parties"),
        (lambda b, t, y: ({"bank": b.to_numpy(), "telco": t.to_numpy()}, y), "matched by place"),
        (lambda b, t, y: ({"bank": b, "telco": t[[]]}, y), "no columns beside ids"),
        (lambda b, t, y: ({"bank": b.assign(income=[{}] * len(b)), "telco": t}, y), None),
        (lambda b, t, y: ({"bank": b.assign(x=["a", 1] * (len(b) // 2)), "telco": t}, y), "kinds"),
        (lambda b, t, y: ({"bank": b, "telco": t}, y.where(y == "yes")), "label is missing"),
        (lambda b, t, y: ({"bank": b, "telco": t}, ["yes"] * len(b)), "of one class"),
    ],
)
def test_rows_that_do_not_fit_are_refused(people, change, sentence):
    rows, labels = change(*people)
    if sentence is None:
        with pytest.warns(UserWarning, match="leaves out columns"):
            model = cn.VerticalClassifier(epochs=1).fit(rows, labels)
        assert model.n_common_
        return
    with pytest.raises(DataError, match=sentence):
        cn.VerticalClassifier().fit(rows, labels)


def test_predictions_need_the_same_parties_in_the_same_form(people, fitted):
    bank, telco, _ = people
    with pytest.raises(DataError, match="X has nothing for telco"):
        fitted.predict_proba({"bank": bank})
    with pytest.raises(DataError, match="give a mapping"):
        fitted.predict_proba(bank)
    with pytest.raises(DataError, match="telco: the table has no column 'plan'"):
        fitted.predict_proba({"bank": bank, "telco": telco.drop(columns="plan")})
    none = telco.assign(calls=None, plan=None)
    rows = {"bank": bank.loc[bank.index.intersection(telco.index)], "telco": none}
    assert np.isfinite(fitted.predict_proba(rows)).all()
