"""What newcomers give to the public functions: taken where it is clear, else one sentence."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import colonnade as cn
from colonnade.job import dumps, load, loads

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
LABELS = (X[:, 0] > 0).astype(int)
FRAME = pd.DataFrame(X, columns=list("abc"))
DATA = cn.vertical({"bank": X, "telco": Y}, LABELS)
TRAIN = cn.Train(rounds=2, batch_size=8)
DIGITS = load("digits", ["train.rounds=1"])
WIDTHS = {"clinic": 4, "lab": 4, "insurer": 4}


def job(**bank):
    return cn.Job(
        parties={"bank": cn.Party(role="active", **bank), "telco": cn.Party()}, train=TRAIN
    )


@pytest.fixture(scope="module")
def run():
    return cn.simulate(DIGITS)


def test_the_public_names_can_be_listed():
    shown = [name for name in dir(cn) if not name.startswith("_")]
    assert shown == cn.__all__


def test_a_run_and_the_like_are_shown_in_a_line(run):
    assert repr(run).startswith("<Run of digits, fedsgd, seed 0: end after 1 rounds, accuracy 0.")
    assert len(repr(run)) < 120
    assert repr(DATA) == (
        "<VerticalData binary: 43 training, 5 validation and 12 test rows; bank (3,), telco (2,)>"
    )
    compared = cn.compare(DIGITS, ["fedsgd"], [0], workers=1)
    assert repr(compared) == "<Comparison on digits: fedsgd; 1 runs>"
    assert len(repr(compared.trials)) < 200


def test_a_job_may_be_named(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(dumps(DIGITS))
    assert cn.simulate(path).rounds == cn.simulate(str(path)).rounds == 1
    assert cn.simulate_clock("digits", rows=64, widths=WIDTHS).rounds == 80
    assert cn.compare(str(path), ["fedsgd"], (0,), workers=1).trials[0].job.name == "digits"
    cn.sweep(path, {"train.batch_size": np.array([32])}, out=tmp_path / "sweep", workers=1)
    tuned = cn.compare(path, ["fedsgd"], [0], workers=1, tuned=tmp_path / "sweep")
    assert tuned.trials[0].job.train.batch_size == 32


def test_the_name_of_an_optimizer_or_a_model_is_enough():
    assert job(optimizer="adam") == job(optimizer={"name": "adam"})
    assert job(model="linear", schedule="inverse-sqrt").parties["bank"].model == {"name": "linear"}
    assert cn.simulate(job(optimizer="adam"), DATA).status == "end"
    method = cn.Job(parties=job().parties, method="fedbcd:updates=2").method
    assert method == {"name": "fedbcd", "updates": 2}


def test_foreign_types_with_one_meaning_are_taken():
    party = cn.Party(
        table=Path("a.csv"),
        device=torch.device("cpu"),
        optimizer={"name": "sgd", "lr": np.float32(1)},
    )
    assert (party.table, party.device, party.optimizer["lr"]) == ("a.csv", "cpu", 1.0)
    train = cn.Train(epochs=np.int64(3), dtype=torch.float64)
    assert (train.epochs, train.dtype, type(train.epochs)) == (3, "float64", int)
    made = cn.Job(
        parties={"bank": {"role": "active"}, "telco": {}},
        train={"epochs": 1},
        network=cn.Link(latency="1ms"),
        compute=cn.Costs(forward="1ms"),
    )
    assert made.network.of("telco").latency == made.compute.of("bank").forward == "1ms"
    assert loads(dumps(made)) == made


def test_settings_may_be_one_text_or_a_list():
    assert load("digits", "train.epochs=2") == load("digits", ["train.epochs=2"])
    assert cn.with_sets(DIGITS, ["seed=1"], "train.rounds=2").seed == 1


def test_tensors_that_are_being_trained_are_data_too():
    tensor = torch.ones(60, 3, requires_grad=True)
    assert cn.vertical({"bank": tensor, "telco": Y}, LABELS).features["bank"].shape == (3,)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cn.simulate("digit"), "no built-in job 'digit': did you mean 'digits'"),
        (lambda: cn.simulate(None), "the job is None: give a cn.Job, a job file"),
        (lambda: cn.simulate(job()), "the job names no data"),
        (lambda: cn.simulate(job(), {"bank": X}), "data is of type dict: make it with cn.vertical"),
        (lambda: cn.simulate(job(), FRAME), "the data is of type DataFrame"),
        (lambda: cn.simulate(job(), DATA, {"bank": "mlp"}), "bank is the text 'mlp': give a torch"),
        (lambda: cn.simulate(job(), DATA, torch.nn.Linear(3, 2)), "give modules by party"),
        (lambda: cn.simulate(job(), DATA, observers=["x"]), "give a function of an event"),
        (lambda: cn.simulate(job(), DATA, observers=print), "give a list of them"),
        (lambda: cn.simulate(job(), DATA, rules=["x"]), "rules are not functions"),
        (lambda: cn.simulate(job(), DATA, should_stop=True), "give a function"),
        (lambda: cn.simulate(job(), DATA, threads=0), "threads is 0"),
        (lambda: cn.simulate(job(optimizer="adm"), DATA), "did you mean 'adam'"),
        (lambda: cn.launch(None), "the job is None"),
        (lambda: cn.Party(table=FRAME), "Party.table is of type DataFrame: give the path"),
        (lambda: cn.Party(model=torch.nn.Linear(3, 2)), "to cn.simulate as models"),
        (lambda: cn.Party(columns="a"), "Party.columns is 'a', of type str: give a list"),
        (lambda: cn.Party(role="Active"), "did you mean 'active'"),
        (lambda: cn.Party(seed="a"), "give a whole number or None"),
        (lambda: cn.Job(parties=["bank"]), "Job.parties is .'bank'., of type list: give"),
        (lambda: cn.Job(parties=job().parties, method=cn.fedsgd()), "Job.method is of type Method"),
        (lambda: cn.Job(parties=job().parties, data=DATA), "hand data of your own to cn.simulate"),
        (lambda: cn.Job(parties=job().parties, network={"latency": "1ms"}), "give cn.Link"),
        (lambda: cn.Train(epochs="5"), "Train.epochs is '5', of type str: give a whole number"),
        (lambda: cn.Train(loss="ce"), "Choose one of auto, bce, cross_entropy"),
        (lambda: cn.Train(shuffle=True), "choose one of epoch, once, never"),
        (lambda: cn.Link(latency=50), "Link.latency is 50, of type int: write a quantity with its"),
        (lambda: cn.Top(hidden=8), "Top.hidden is 8, of type int: give a list"),
        (lambda: load(None), "a job is read from a file or by its built-in name"),
        (lambda: load("digits", {"train.epochs": 2}), "write them as texts"),
        (lambda: load("digits", method=cn.fedsgd()), "method is of type Method: name it"),
        (lambda: load("digits", ["parties.lab.optimizer=adam"]), "write a table with a name"),
        (lambda: cn.with_sets("digits", "seed=1"), "read it with cn.load first"),
        (lambda: cn.compare(DIGITS, "fedsgd"), "methods is the text 'fedsgd': give a list"),
        (lambda: cn.compare(DIGITS, [cn.fedsgd()]), "a method is of type Method: name it"),
        (lambda: cn.compare(DIGITS, ["fedsgd"], 2), "seeds is 2: give a list of whole numbers"),
        (lambda: cn.sweep(DIGITS, ["a=1"], out="x"), "the grid is of type list"),
        (lambda: cn.sweep(DIGITS, {"seed": 1}, out="x"), "give a list of values to try"),
        (lambda: cn.simulate_clock(DIGITS, 64, 16), "widths is 16: give one for each party"),
        (lambda: cn.simulate_clock(DIGITS, 64, {"lab": 4}), "widths has nothing for clinic"),
        (lambda: cn.simulate_clock(DIGITS, "64", WIDTHS), "rows is '64'"),
        (lambda: cn.reclock(DIGITS, DIGITS), "the run is of type Job"),
        (lambda: cn.fedbcd("5"), "updates is '5'"),
        (lambda: cn.fedbcd(order="seq"), "choose parallel or sequential"),
        (lambda: cn.Method(local="repeat:5"), "the axis local of a method is 'repeat:5'"),
        (lambda: cn.vertical([X, Y], LABELS), "give each party's under its name"),
        (lambda: cn.vertical({}, LABELS), "give each party's under its name"),
        (lambda: cn.vertical({"a": [[1, 2], [3]]}, LABELS), "rows of different length"),
        (lambda: cn.vertical({"a": X}, None), "there are no labels"),
        (lambda: cn.vertical({"a": X}, "y"), "one label per row"),
        (lambda: cn.vertical({"a": X}, LABELS, task="regresion"), "choose one of binary"),
        (lambda: cn.vertical({"a": X}, LABELS, test="0.2"), "give a share of the rows"),
        (lambda: cn.vertical({"a": X}, LABELS, split_seed=-1), "a whole number of 0 or more"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_one_sentence(call, words):
    with pytest.raises(cn.RequestError, match=words):
        call()


def test_what_a_run_cannot_show_is_one_sentence(run, tmp_path):
    with pytest.raises(cn.RequestError, match="plotted against 'nope': known are bytes, epoch"):
        run.plot("nope")
    with pytest.raises(cn.RequestError, match="plotted against 'times': did you mean 'time_s'"):
        cn.Comparison([]).plot("times")
    with pytest.raises(cn.RequestError, match="no bytes of 'nope'"):
        run.bytes("nope")
    (tmp_path / "file").write_text("")
    with pytest.raises(cn.RequestError, match=r"cannot be saved in .*file: not a directory"):
        run.save(tmp_path / "file")


def test_features_far_from_unit_scale_are_said_to_be():
    long = cn.with_sets(job(), "train.rounds=30", "parties.*.optimizer={name='sgd', lr=0.1}")
    far = cn.vertical({"bank": X * 1e4, "telco": Y}, LABELS)
    with pytest.warns(UserWarning) as warned:
        assert cn.simulate(long, far).status == "diverged"
    first, last = (str(each.message) for each in warned)
    assert "features of bank are far from unit scale (3 of 3 columns; the root mean" in first
    assert "the training diverged after" in last and "standardise the data first" in last


@pytest.mark.parametrize(
    ("bank", "labels", "words"),
    [
        (X * 1e-5, LABELS, "the training may learn nothing from them"),
        (X, X[:, 0] * 1e4, "the targets are far from unit scale"),
        (rng.integers(0, 255, size=(60, 1, 4, 4)), LABELS, "their root mean square is 1"),
    ],
)
def test_small_features_images_and_targets_are_looked_at_too(bank, labels, words):
    model = {"name": "linear"} if bank.ndim > 2 else {"name": "mlp"}
    with pytest.warns(UserWarning, match=words):
        cn.simulate(job(model=model), cn.vertical({"bank": bank, "telco": Y}, labels))


def test_rare_ones_and_zeros_are_no_cause_for_a_remark():
    rare = np.zeros((60, 2))
    rare[3, 0] = 1
    cn.simulate(job(), cn.vertical({"bank": rare, "telco": Y * 3}, LABELS))
