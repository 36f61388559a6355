"""What trainings over parties are held against."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from colonnade import load, simulate
from colonnade.data.named import load as load_data
from colonnade.data.party import assemble, assemble_party, together
from colonnade.data.splits import Parts, split_rows
from colonnade.run import baselines
from colonnade.run.baselines import boost, train_joint

SETS = ["train.epochs=4", "train.batch_size=64", "train.dtype=float64"]


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setitem(baselines.BOOSTING, "max_iter", 20)


@pytest.mark.parametrize(
    "schedule", [None, {"name": "StepLR", "step_size": 3, "gamma": 0.5, "every": "round"}]
)
def test_the_pooled_network_is_fedsgd_without_messages(schedule):
    """From the same seed: the same weights are best, and score the same."""
    job = load("breast-cancer", [*SETS, "parties.*.optimizer={ name = 'adam', lr = 0.01 }"])
    parties = {
        name: msgspec.structs.replace(party, schedule=schedule)
        for name, party in job.parties.items()
    }
    job = msgspec.structs.replace(job, parties=parties)
    run, pooled = simulate(job), train_joint(job, assemble(job))
    assert pooled.validation == pytest.approx(run.best(), abs=1e-12)
    assert pooled.test == pytest.approx(run.tested(), abs=1e-12)


def test_a_party_alone_learns_from_its_own_columns():
    job = load("breast-cancer", SETS)
    alone = together(job, {"hospital": assemble_party(job, "hospital")})
    assert list(alone.features) == ["hospital"]
    assert 0.9 < train_joint(job, alone).test < 1


def table_of(count: int) -> tuple[pa.Table, np.ndarray]:
    """Labels follow from a category, which as a number says nothing."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 8, count)
    labels = (codes % 2 == 1).astype(np.int64)
    columns = {"code": codes, "noise": rng.normal(size=count), "word": [f"w{c}" for c in codes]}
    return pa.table(columns), labels


def test_boosting_reads_text_and_codes_as_categories_and_missing_values():
    table, labels = table_of(600)
    parts = split_rows(600, 0.2, 0.2, 0)
    holes = pa.array([None if at % 7 == 0 else "x" for at in range(600)])
    for column, coded in (("word", []), ("code", ["code"])):
        chosen = table.select([column, "noise"]).append_column("holes", holes)
        assert boost(chosen, labels, parts, coded).test == 1.0


def test_test_rows_decide_nothing():
    data = load_data("breast-cancer")
    parts = split_rows(569, 0.2, 0.1, 0)
    turned = data.labels.copy()
    turned[parts.test] = 1 - turned[parts.test]
    right, wrong = (boost(data.table, labels, parts) for labels in (data.labels, turned))
    assert (right.validation, right.at) == (wrong.validation, wrong.at)
    assert wrong.test == pytest.approx(1 - right.test)
    fewer = Parts(parts.train, parts.validation, parts.test[:50])
    assert boost(data.table, data.labels, fewer).at == right.at
