"""A metric that the held-out rows cannot give is refused before anything is trained or sent."""

from __future__ import annotations

import numpy as np
import pytest

import colonnade as cn
from colonnade.data.vertical import vertical
from colonnade.errors import DataError
from colonnade.run.setup import participant, prepare

RNG = np.random.default_rng(0)
X, X_TEST = RNG.normal(size=(60, 4)), RNG.normal(size=(20, 4))


def ready(labels, test_labels, task=None, **train):
    parties = {"bank": cn.Party(role="active"), "telco": cn.Party()}
    job = cn.Job(parties=parties, train=cn.Train(**({"rounds": 3, "batch_size": 16} | train)))
    features = {name: X[:, i : i + 2] for name, i in (("bank", 0), ("telco", 2))}
    held = {name: X_TEST[:, i : i + 2] for name, i in (("bank", 0), ("telco", 2))}
    data = vertical(features, labels, test_features=held, test_labels=test_labels, task=task,
                    validation=train.get("validation", 0.0))  # fmt: skip
    return prepare(job, data)["bank"]


ALL, ONE = np.arange(60) % 2, np.zeros(20, np.int64)
WORDS = np.array(["bad", "good"])


def test_auc_with_one_class_among_the_rows_of_choice_is_refused():
    with pytest.raises(
        DataError,
        match=r"auc cannot be measured on the 20 test rows, which have no row of the class good: "
        r"raise train.test, choose another train.split_seed, or set train.metric = 'accuracy'",
    ):
        ready(WORDS[ALL], WORDS[ONE])


def test_test_rows_that_are_looked_at_once_at_the_end_are_looked_at_beforehand_too():
    with pytest.raises(DataError, match="the 20 test rows, which have no row of the class 1"):
        ready(ALL, ONE, validation=0.3)


def test_a_rare_class_that_no_validation_row_has_is_named():
    labels = np.r_[np.arange(59) % 2, 2]
    with pytest.raises(DataError, match="validation rows, which have no row of the class 2"):
        ready(labels, np.arange(20) % 3, metric="auc", validation=0.2)


def test_extra_metrics_are_tried_too():
    with pytest.raises(DataError, match=r"pr_auc .*, or leave pr_auc out of train.extra_metrics"):
        ready(ALL, ONE, metric="accuracy", extra_metrics=["pr_auc"])


def test_r2_of_targets_that_are_all_the_same_is_refused():
    with pytest.raises(DataError, match=r"whose targets are all the same: .*metric = 'rmse'"):
        ready(RNG.normal(size=60), np.ones(20), task="regression", metric="r2")


@pytest.mark.parametrize(
    "train", [{"metric": "accuracy"}, {"metric": "log_loss"}, {"evaluate_every": "never"}]
)
def test_what_needs_no_class_or_is_never_measured_is_no_obstacle(train):
    assert ready(ALL, ONE, **train).metrics


def test_an_active_party_finds_out_in_its_dry_run(tmp_path):
    rows = [f"{i},{i % 7},{int(i == 3)}" for i in range(40)]
    (tmp_path / "bank.csv").write_text("id,a,y\n" + "\n".join(rows))
    job = cn.Job(
        parties={
            "bank": cn.Party(role="active", table=str(tmp_path / "bank.csv"), id="id", label="y"),
            "telco": cn.Party(),
        },
        train=cn.Train(rounds=3, batch_size=16),
    )
    with pytest.raises(DataError, match="auc cannot be measured on the"):
        participant(job, "bank")
