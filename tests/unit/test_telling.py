"""What a job tells whom is said before it runs, and follows from its method and its protections."""

from __future__ import annotations

import pytest

from colonnade import methods
from colonnade.cli import main
from colonnade.cli.dry_run import Line, look_ahead
from colonnade.job import load
from colonnade.job.party_file import PartyFile
from colonnade.party.training import Training
from colonnade.run.setup import prepare
from colonnade.run.telling import what_it_tells

SNAPSHOT = ("method.exchange=snapshot", "train.labels=shared")


def told(*sets, job="digits"):
    read = load(job, list(sets))
    return what_it_tells(read, methods.build(read.method))


def test_gradients_tell_labels_and_embeddings_tell_columns_whatever_the_top():
    for sets in ((), ("top.hidden=[32,16]",), ("top.hidden=[]",), ("method.name=fedbcd",)):
        said = told(*sets)
        assert "tell them nearly every label;" in said
        assert "their embeddings tell clinic most of their columns, if it knows some rows" in said
        assert 'to reduce that: method.protect.labels = "flip:2"' in said
    assert "through the top's hidden layers too" in told("top.hidden=[32,16]")
    assert "hidden" not in told("top.hidden=[]")


def test_one_passive_party_is_spoken_of_as_one():
    said = told(job="credit")
    assert "the gradients that partner receives" in said and "tell it nearly every label" in said


def test_a_snapshot_sends_the_labels_themselves():
    said = told(*SNAPSHOT)
    assert "lab and insurer are sent every label, and the top model" in said
    assert "everybody is shown everybody's embeddings" in said
    assert 'or method.exchange = "gradients"' in said


@pytest.mark.parametrize(
    ("sets", "words", "gone"),
    [
        (("method.protect.labels=flip:2",), "as flip:2 has left it", "method.protect.labels ="),
        (("method.protect.labels=flip:2", *SNAPSHOT), "every label, as flip:2", "labels ="),
        (("method.protect.embedding=gauss:1:4",), "what gauss:1:4 lets through", "narrower"),
        (("method.protect.embedding=gauss:1:4", *SNAPSHOT), "gauss:1:4 lets through", "narrower"),
        (("method.protect.embedding=dcor:0.1",), "most of their columns", "lets through"),
        (("method.protect.gradient=max_norm",), "max_norm hides it in one round, not", "left it"),
    ],
)
def test_what_is_protected_is_said_and_not_recommended_again(sets, words, gone):
    said = told(*sets)
    assert words in said and gone not in said


def test_what_lowers_an_inversion_is_said_and_that_it_guarantees_nothing():
    lowered = "dcor:0.1 lowers what a linear inversion gets"
    alone = told("method.protect.embedding=dcor:0.1")
    assert f"some rows ({lowered}, and guarantees nothing)" in alone
    assert 'method.protect.embedding = "gauss:1:4"' in alone, "noise would still change something"
    both = told("method.protect.embedding=dcor:0.1+gauss:1:4")
    assert f"what gauss:1:4 lets through ({lowered}, and guarantees nothing)" in both
    # A snapshot shows the active party's embeddings too, and only passive parties train under it.
    shown = told("method.protect.embedding=dcor:0.1", *SNAPSHOT)
    assert f"({lowered} of the columns of lab and insurer, and guarantees nothing)" in shown
    summed = ("method.protect.sum=pairwise:32", "top.kind=agg", "top.hidden=[16]")
    assert f"no single one ({lowered}" in told("method.protect.embedding=dcor:0.1", *summed)
    assert "linear inversion" not in told("method.protect.embedding=gauss:1:4")


def test_with_everything_chosen_nothing_is_recommended():
    both = "method.protect.labels=flip:2", "method.protect.embedding=gauss:1:4"
    assert "to reduce that" not in told(*both)


def test_the_dry_run_and_the_start_of_a_simulation_say_it(capfd):
    words = ["digits", "--set", "train.rounds=1"]
    for command in (["simulate", *words], ["join", *words, "--me", "lab", "--dry-run"]):
        assert main(command) == 0
        captured = capfd.readouterr()
        assert (captured.err + captured.out).count(
            "what others can learn: the gradients that lab"
        ) == 1
    assert main(["simulate", *words, "--quiet"]) == 0
    assert "what others can learn" not in capfd.readouterr().err


def test_the_weights_of_classes_are_told_only_where_the_loss_is_computed():
    for sets, told in (((), False), (SNAPSHOT, True)):
        job = load("digits", ["train.class_weights=balanced", *sets])
        parties = prepare(job)
        heard = {name: parties[name].hello for name in job.passives}
        welcome = Training.of(parties["clinic"]).welcome(heard)
        assert bool(welcome.class_weights) == told
        notes = look_ahead(job, "lab", PartyFile(), Line())["notes"]
        assert any("how many rows each class has" in note for note in notes) == told


@pytest.mark.parametrize("weights", [(1.0,), (1.0, -1.0), (1.0, float("nan")), (1.0,) * 11])
def test_weights_that_fit_no_classes_are_refused_with_the_senders_name(weights):
    from msgspec.structs import replace

    from colonnade.errors import RequestError

    job = load("digits", list(SNAPSHOT))
    parties = prepare(job)
    heard = {name: parties[name].hello for name in job.passives}
    welcome = Training.of(parties["clinic"]).welcome(heard)
    with pytest.raises(RequestError, match="clinic has weights of classes that are not one"):
        Training.of(parties["lab"])._objective(replace(welcome, class_weights=weights))


def test_of_sums_under_masks_nobody_is_told_single_embeddings():
    top = ("top.kind=agg", "top.hidden=[16]")
    said = told("method.protect.sum=pairwise:32", *top)
    assert "clinic sees the sum of the embeddings of lab and insurer and no single one" in said
    assert "narrower" not in said
