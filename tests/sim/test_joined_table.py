"""Rows that lie apart give what a plain calculation on the joined table gives.

The weights of a run are applied to the joined rows with pandas and torch alone, and must score what
the run says. Rows that were matched wrongly in the training would show in the score itself.
"""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import accuracy_score, mean_absolute_error, roc_auc_score
from torch.nn.functional import linear, relu

import colonnade as cn

ROWS, HELD_OUT = 400, 100
FORMS = ("{:05d}", "C {}", "aB{}", "Ab{}", "Zürich-{}", "{}", "x,{}", 'q"{}"')


def people(draw):
    """Odd ids with gaps; what the bank knows, what the telco knows, and a score."""
    ids = [FORMS[i % len(FORMS)].format(3 * i) for i in range(ROWS)]
    bank = pd.DataFrame(draw.normal(size=(ROWS, 3)), columns=["a", "b", "const"], index=ids)
    telco = pd.DataFrame(draw.normal(size=(ROWS, 2)), columns=["c", "d"], index=ids)
    return bank.assign(const=7.0), telco, bank.a + telco.c


@pytest.fixture(scope="module")
def world():
    return people(np.random.default_rng(5))


def layers(x, weights, prefix):
    """A network of linear layers with ReLU between them."""
    names = sorted({key.rpartition(".")[0] for key in weights if key.startswith(prefix)})
    for number, name in enumerate(names):
        x = linear(relu(x) if number else x, weights[f"{name}.weight"], weights[f"{name}.bias"])
    return x


def scores(weights, parts):
    """What a run's weights make of rows that were joined by hand."""
    tensors = {name: torch.tensor(part, dtype=torch.float32) for name, part in parts.items()}
    hidden = [layers(x, weights[name], "bottom") for name, x in tensors.items()]
    return layers(torch.cat(hidden, 1), weights["bank"], "top").numpy()


def shuffled(frame, seed):
    return frame.sample(frac=1, random_state=seed)


LABELS = {
    "good/bad": lambda score: score.gt(0).map({True: "good", False: "bad"}),
    "True/False": lambda score: score.gt(0),
    "classes": lambda score: pd.cut(score, [-99, -0.7, 0.7, 99], labels=["low", "mid", "high"]),
    "targets": lambda score: score * 2.5,
}


@pytest.mark.parametrize("multi", [False, True], ids=["flat", "multi"])
@pytest.mark.parametrize("kind", LABELS)
def test_frames_in_any_order_score_as_the_joined_table_does(kind, multi, world):
    bank, telco, score = world
    labels = LABELS[kind](score)
    if multi:
        index = pd.MultiIndex.from_tuples([(key[:2], key[2:]) for key in bank.index])
        bank, telco, labels = (each.set_axis(index) for each in (bank, telco, labels))
    train, test = slice(None, -HELD_OUT), slice(-HELD_OUT, None)
    data = cn.vertical(
        {"bank": bank[["a", "b"]].iloc[train], "telco": shuffled(telco.iloc[train], 1)},
        shuffled(labels.iloc[train], 2),
        test_features={"bank": shuffled(bank[["b", "a"]].iloc[test], 3), "telco": telco.iloc[test]},
        test_labels=shuffled(labels.iloc[test], 4),
    )
    parties = {"bank": cn.Party(role="active"), "telco": cn.Party()}
    run = cn.simulate(cn.Job(parties=parties, train=cn.Train(epochs=8, batch_size=32)), data)
    joined = bank[["a", "b"]].join(telco).join(labels.rename("y")).iloc[test]
    parts = {"bank": joined[["a", "b"]].to_numpy(), "telco": joined[["c", "d"]].to_numpy()}
    found = scores(run.best_weights, parts)
    if kind == "targets":
        plain = mean_absolute_error(joined.y, found[:, 0])
        assert plain < 0.4
    elif kind == "classes":
        plain = accuracy_score(joined.y, np.array(run.classes)[found.argmax(1)])
        assert plain > 0.85
    else:
        plain = roc_auc_score(joined.y.astype(str) == run.positive, found[:, 0])
        assert plain > 0.98
    assert run.tested() == pytest.approx(plain, abs=1e-4)


def write(path, rows, bom=False):
    """A file as a spreadsheet under Windows writes it; the order is one of its own."""
    rows = shuffled(rows, len(path.name))
    with path.open("w", newline="", encoding="utf-8-sig" if bom else "utf-8") as file:
        table = csv.writer(file, lineterminator="\r\n" if bom else "\n")
        table.writerow(["key", *rows.columns])
        for key, *values in rows.itertuples():
            table.writerow([key, *("" if pd.isna(value) else value for value in values)])


def plainly(column, train):
    """A column as docs/data.md says that it becomes numbers."""
    if not pd.api.types.is_numeric_dtype(column):
        counts = column[train].value_counts()
        known = sorted(counts.index, key=lambda word: (-counts[word], word))
        return np.stack([~column.isin(known), *(column == word for word in known)], 1)
    mean, deviation = column[train].mean(), column[train].std(ddof=0)
    scaled = ((column - mean) / deviation if deviation else column * 0).fillna(0)
    return np.stack([scaled, column.isna()] if column[train].isna().any() else [scaled], 1)


def test_files_with_odd_ids_score_as_the_joined_table_does(world, tmp_path):
    bank, telco, score = world
    draw = np.random.default_rng(6)
    towns = np.array([f"town {draw.integers(30)}, north" for _ in range(ROWS)], dtype=object)
    bank = bank.mask(draw.random(bank.shape) < [0.05, 0.0, 0.0])
    telco = telco.mask(draw.random(telco.shape) < [0.0, 0.1]).assign(town=towns)
    labels = LABELS["good/bad"](score).rename("y")
    for part, rows in (("", slice(None, -HELD_OUT)), ("_test", slice(-HELD_OUT, None))):
        write(tmp_path / f"bank{part}.csv", bank.join(labels).iloc[rows], bom=True)
        write(tmp_path / f"telco{part}.csv", telco.iloc[rows])
    (tmp_path / "job.toml").write_text(
        "[train]\nepochs = 8\nbatch_size = 32\nvalidation = 0\n"
        '[parties.bank]\nrole = "active"\ntable = "bank.csv"\ntable_test = "bank_test.csv"\n'
        'id = "key"\nlabel = "y"\ncolumns = ["*"]\npreprocessing = "plain"\n'
        '[parties.telco]\ntable = "telco.csv"\ntable_test = "telco_test.csv"\nid = "key"\n'
        'preprocessing = "plain"\n'
    )
    run = cn.simulate(tmp_path / "job.toml")
    train = bank.index[:-HELD_OUT]
    parts = {
        name: np.concatenate([plainly(table[column], train) for column in table], 1)
        for name, table in (("bank", bank), ("telco", telco))
    }
    named = json.loads(run.parties["telco"].preprocessing)["columns"][2]["values"]
    assert parts["telco"].shape[1] == 1 + 2 + 1 + len(named)
    found = scores(run.best_weights, {name: part[-HELD_OUT:] for name, part in parts.items()})
    plain = roc_auc_score(labels[-HELD_OUT:] == "good", found[:, 0])
    assert plain > 0.97
    assert run.summary()["metric"]["best"] == pytest.approx(plain, abs=1e-4)
