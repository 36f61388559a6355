"""The names of classes: which is positive, who may choose it, and where it is kept."""

import json

import numpy as np
import pytest
from rich.console import Console

import colonnade as cn
from colonnade.job.party_file import PartyFile, public_job
from colonnade.record.table import run_table

rng = np.random.default_rng(0)
A, B = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
GOOD = A[:, 0] + B[:, 1] > 1.0
WORDS = np.where(GOOD, "good", "bad")
JOB = cn.Job(
    parties={"bank": cn.Party(role="active"), "telco": cn.Party()},
    train=cn.Train(epochs=1, batch_size=40, metric="f1"),
)


def _shown(run):
    console = Console(width=100)
    with console.capture() as shown:
        console.print(run_table(run.summary()))
    return shown.get()


def test_the_word_that_sorts_last_is_positive_and_said_to_be(tmp_path):
    run = cn.simulate(JOB, cn.vertical({"bank": A, "telco": B}, WORDS))
    assert run.classes == ("bad", "good")
    assert run.positive == "good"
    assert "bad, good ('good' is positive)" in _shown(run)
    run.save(tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["classes"], summary["positive"]) == (["bad", "good"], "good")
    assert json.loads((tmp_path / "parties/bank/classes.json").read_text()) == ["bad", "good"]
    assert not (tmp_path / "parties/telco/classes.json").exists()


def test_the_positive_class_can_be_chosen():
    data = cn.vertical({"bank": A, "telco": B}, WORDS, positive="bad")
    other = cn.vertical({"bank": A, "telco": B}, ~GOOD)
    assert np.array_equal(data.labels.train, other.labels.train)
    run = cn.simulate(JOB, data)
    assert run.classes == ("good", "bad")
    assert run.summary()["metric"] == cn.simulate(JOB, other).summary()["metric"]
    numbers = cn.vertical({"bank": A, "telco": B}, GOOD * 2, positive=0)
    assert numbers.labels.names == ("2", "0")


def test_more_classes_are_named_too():
    labels = np.array(["low", "mid", "top", "zen"])[np.arange(200) % 4]
    run = cn.simulate(
        cn.with_sets(JOB, "train.metric=auto"), cn.vertical({"bank": A, "telco": B}, labels)
    )
    assert (run.classes, run.positive) == (("low", "mid", "top", "zen"), None)
    assert "4: low, mid, top, zen" in _shown(run)


def test_a_job_chooses_the_positive_class_of_its_own_data():
    sets = ["train.epochs=1", "train.metric=f1"]
    run = cn.simulate(cn.load("breast-cancer", sets))
    assert run.classes == ("malignant", "benign")
    chosen = cn.load("breast-cancer", [*sets, "parties.hospital.positive=malignant"])
    assert cn.simulate(chosen).classes == ("benign", "malignant")
    assert public_job(chosen).parties["hospital"].positive is None
    assert PartyFile(positive="malignant").positive == "malignant"


def test_a_regression_has_no_classes():
    run = cn.simulate(
        cn.with_sets(JOB, "train.metric=auto"), cn.vertical({"bank": A, "telco": B}, A[:, 0])
    )
    assert (run.classes, run.positive, run.summary()["classes"]) == ((), None, [])


@pytest.mark.parametrize(
    ("labels", "positive", "words"),
    [
        (WORDS, "ugly", "the labels are bad and good: name one of them"),
        (np.arange(200) % 3, 1, "the labels are 3 classes: it is for two classes only"),
        (A[:, 0], "x", "the labels are quantities"),
    ],
)
def test_a_positive_class_that_is_none_is_refused(labels, positive, words):
    with pytest.raises(cn.DataError, match=words):
        cn.vertical({"bank": A, "telco": B}, labels, positive=positive)


def test_a_passive_party_has_no_positive_class():
    with pytest.raises(cn.JobError, match="telco is passive and cannot have a positive"):
        cn.Job(parties={"bank": cn.Party(role="active"), "telco": cn.Party(positive="x")})
    job = cn.with_sets(JOB, "parties.bank.positive=bad")
    with pytest.raises(
        cn.JobError, match=r"the classes are bad, good: give positive to cn\.vertical"
    ):
        cn.simulate(job, cn.vertical({"bank": A, "telco": B}, WORDS))
