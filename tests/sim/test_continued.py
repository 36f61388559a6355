"""Going on from an earlier run: it begins where that ended, and what does not fit is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import colonnade as cn
from colonnade.errors import ColonnadeError, RefusedError
from colonnade.learn.saved import read_saved, saved_of
from colonnade.party.training import Training
from colonnade.run.setup import participant, prepare
from colonnade.run.simulate import origins_of, run_parties, simulate_prepared
from colonnade.sim.kernel import Simulator

STILL = ["parties.*.optimizer.lr=0", "parties.*.optimizer.name=sgd", "train.epochs=1"]


PLANS = ("7", "12", "A")


def files(folder, seed, rows=160, classes=("no", "yes", "maybe"), plans=PLANS):
    """Tables of two parties with the same ids: numbers, some of them missing, and codes."""
    draw = np.random.default_rng(seed)
    age, calls = draw.normal(40, 10, rows), draw.normal(size=rows)
    plan = [plans[code] for code in draw.integers(0, len(plans), rows)]
    wanted = np.digitize(age / 10 + calls, [3.6, 4.4])
    label = [classes[each % len(classes)] for each in wanted]
    ids = [f"r{seed}-{row:04d}" for row in range(rows)]
    spend = pa.array(draw.lognormal(3, 1, rows), mask=draw.random(rows) < 0.1)
    bank = pa.table({"id": ids, "age": age, "spend": spend, "label": label})
    telco = pa.table({"id": ids, "calls": calls, "plan": plan})
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(bank, folder / "bank.parquet")
    with (folder / "telco.csv").open("w") as file:
        file.write("id,calls,plan\n")
        file.writelines(f"{row['id']},{row['calls']},{row['plan']}\n" for row in telco.to_pylist())
    return cn.Job(
        name="credit",
        train=cn.Train(epochs=2, batch_size=16, metric="accuracy"),
        parties={
            "bank": cn.Party(
                role="active",
                table=str(folder / "bank.parquet"),
                id="id",
                label="label",
                columns=["age", "spend"],
            ),
            "telco": cn.Party(table=str(folder / "telco.csv"), id="id"),
        },
    )


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run on tables, and its folder."""
    place = tmp_path_factory.mktemp("first")
    run = cn.simulate(files(place / "data", seed=1))
    return run, run.save(place / "run")


def card(run, party="bank"):
    return run.parties[party].card


def test_before_any_update_the_model_is_the_old_one(first):
    run, folder = first
    for start in (run, folder):
        still = cn.simulate(cn.with_sets(run.job, *STILL), start=start)
        for name, party in still.parties.items():
            old = saved_of(run, name).tensors
            assert all(torch.equal(old[key], party.weights[key]) for key in old)
        assert still.test["accuracy"] == run.test["accuracy"]
        assert still.test["test_loss"] == run.test["test_loss"]


def test_a_continued_run_is_a_new_run_that_names_its_parent(first):
    run, folder = first
    still = cn.simulate(cn.with_sets(run.job, *STILL), start=folder)
    assert card(still).parent == card(still, "telco").parent == card(run).version
    assert card(still).run != card(run).run
    again = cn.simulate(cn.with_sets(run.job, *STILL), start=still)
    assert card(again).parent == card(still).version


def test_new_rows_are_read_as_the_old_ones_were(first, tmp_path):
    run, folder = first
    job = files(tmp_path, seed=2, classes=("yes", "no"))
    more = cn.simulate(job, start=folder)
    for name in job.parties:
        assert more.parties[name].preprocessing == run.parties[name].preprocessing
        assert card(more, name).types == card(run, name).types
    assert card(run, "telco").types["plan"] == "string"
    assert card(more).classes == card(run).classes == ("maybe", "no", "yes")
    assert card(more).outputs == 3
    alone = cn.simulate(job)
    assert alone.parties["telco"].preprocessing != run.parties["telco"].preprocessing


def test_codes_of_a_csv_file_that_are_all_digits_stay_text(first, tmp_path):
    """By itself the file would have numbers there."""
    _, folder = first
    job = files(tmp_path, seed=3, plans=PLANS[:2])
    assert prepare(job)["telco"].data.columns.types["plan"] == "int64"
    columns = prepare(job, origins=origins_of(job, folder))["telco"].data.columns
    assert columns.types["plan"] == "string"
    codes = columns.preprocessor.transform(pa.table({"calls": [0.0] * 2, "plan": ["7", "12"]}))
    assert set(np.unique(columns.train[:, 1])) == set(codes[:, 1])


CHANGES = [
    (["parties.telco.model.hidden=[8]"], "parties.telco.model is"),
    (["parties.bank.model.embedding=4"], "parties.bank.model is"),
    (["top.hidden=[4]"], r"\[top\] is"),
    (["train.dtype=float64"], "train.dtype is float64, and was float32"),
    (["parties.telco.columns=['calls']"], "no column 'plan', which was there"),
    (["parties.bank.columns=['age', 'spend']", "parties.bank.positive=yes"], "positive is"),
]


@pytest.mark.parametrize(("sets", "said"), CHANGES, ids=[str(each[0]) for each in CHANGES])
def test_a_job_that_does_not_fit_is_refused(first, sets, said):
    run, folder = first
    with pytest.raises(ColonnadeError, match=said):
        cn.simulate(cn.with_sets(run.job, *sets), start=folder)


def test_data_that_does_not_fit_is_refused(first, tmp_path):
    _, folder = first
    job = files(tmp_path / "classes", seed=4, classes=("no", "yes", "never"))
    with pytest.raises(ColonnadeError, match="'never' is no class of the earlier run"):
        cn.simulate(job, start=folder)
    job = files(tmp_path / "types", seed=4)
    table = pq.read_table(tmp_path / "types" / "bank.parquet")
    words = pa.array([f"{age:.0f} years" for age in table["age"].to_pylist()])
    pq.write_table(table.set_column(1, "age", words), tmp_path / "types" / "bank.parquet")
    said = "column 'age' of the table of bank is string, and was double in training"
    with pytest.raises(ColonnadeError, match=said):
        cn.simulate(job, start=folder)
    job = files(tmp_path / "more", seed=4)
    table = pq.read_table(tmp_path / "more" / "bank.parquet").append_column("new", [[1.0] * 160])
    pq.write_table(table, tmp_path / "more" / "bank.parquet")
    with pytest.raises(ColonnadeError, match="the earlier run had no column 'new'"):
        cn.simulate(cn.with_sets(job, "parties.bank.columns=['*']"), start=folder)


def test_other_parties_or_other_arrays_are_refused(first):
    run, folder = first
    renamed = {"bank": run.job.parties["bank"], "shop": run.job.parties["telco"]}
    job = cn.Job(name="credit", parties=renamed, train=run.job.train)
    for start in (run, folder):
        with pytest.raises(ColonnadeError, match="shop"):
            cn.simulate(job, start=start)
    x, y = np.zeros((80, 2)), np.array(["no", "yes", "maybe", "no"] * 20)
    with pytest.raises(ColonnadeError, match="not those of the earlier run"):
        cn.simulate(run.job, cn.vertical({"bank": x, "telco": x}, y), start=folder)
    with pytest.raises(ColonnadeError, match="start is of type int"):
        cn.simulate(run.job, start=7)


def sessions(parties, job):
    simulator = Simulator(job)
    return run_parties(simulator, {name: Training.of(own) for name, own in parties.items()})


def test_who_begins_with_another_version_or_none_is_refused(first):
    """The version is part of the terms, so that both sides notice, and neither takes another's
    word for it."""
    run, folder = first
    job = run.job
    parties = prepare(job, origins=origins_of(job, folder))
    fresh = dataclasses.replace(parties["telco"], origin=None)
    with pytest.raises(RefusedError, match=f'from is not set at telco and "{card(run).version}"'):
        sessions(parties | {"telco": fresh}, job)
    with pytest.raises(RefusedError, match="from is"):
        sessions(
            {"bank": dataclasses.replace(parties["bank"], origin=None)}
            | {"telco": parties["telco"]},
            job,
        )
    other = cn.simulate(cn.with_sets(job, "train.epochs=1"))
    mixed = dataclasses.replace(parties["telco"], origin=saved_of(other, "telco").origin)
    with pytest.raises(RefusedError, match=f'"{card(other).version}"'):
        sessions(parties | {"telco": mixed}, job)


def test_no_job_says_from_where_to_begin():
    with pytest.raises(ColonnadeError, match="from"):
        cn.load("digits", ["from=runs/other"])


def test_a_party_alone_begins_with_the_same_weights(first):
    run, folder = first
    alone = participant(run.job, "telco", origin=read_saved(folder, "telco").origin)
    together = prepare(run.job, origins=origins_of(run.job, folder))["telco"]
    assert alone.hello == together.hello
    assert alone.parent == card(run).version


def test_a_module_of_ones_own_goes_on_where_it_is_given_again():
    torch.manual_seed(0)
    x, y = torch.randn(200, 4), (torch.randn(200) > 0).long()
    job = cn.Job(
        parties={"bank": cn.Party(role="active"), "telco": cn.Party()},
        train=cn.Train(epochs=1, batch_size=32),
    )
    data = cn.vertical({"bank": x, "telco": x}, y)
    models = {"bank": torch.nn.Linear(4, 3), "telco": torch.nn.Linear(4, 3)}
    run = cn.simulate(job, data, models)
    still = cn.simulate(cn.with_sets(job, *STILL), data, models, start=run)
    assert still.test == run.test | {"round": still.test["round"]}
    wider = models | {"telco": torch.nn.Linear(4, 5)}
    with pytest.raises(ColonnadeError, match=r"not those of the earlier run|do not fit"):
        cn.simulate(job, data, wider, start=run)


def test_label_only_and_snapshots_go_on_too():
    job = cn.load("digits", ["train.epochs=1", "parties.clinic.view=", "train.labels=shared"])
    job = cn.with_sets(job, "method={name='cvfl', q=2}")
    run = cn.simulate(job)
    assert run.parties["clinic"].card.width == 0
    again = simulate_prepared(prepare(cn.with_sets(job, *STILL), origins=origins_of(job, run)))
    assert again.test["accuracy"] == run.test["accuracy"]
