"""Trainings with protections: what crosses, what they are neutral to, and what is refused."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade import methods
from colonnade.cli import main
from colonnade.errors import JobError, RequestError
from colonnade.job import load
from colonnade.job.policy import Policy
from colonnade.learn.saved import read_saved
from colonnade.protect.accountant import epsilon_of, mu, spent
from colonnade.protect.embedding import gauss
from colonnade.protect.labels import flip
from colonnade.protect.secret import Derived
from colonnade.record.card import Spent, from_json
from colonnade.record.party_folder import PartyFolder
from colonnade.run.predict_party import PredictParty, read_models
from colonnade.run.protecting import check_batches, protected
from colonnade.run.setup import participant, prepare
from tests.predicting import tables

JOB = "breast-cancer"
SHORT = ["train.epochs=1"]


def trained(*sets, job=JOB):
    return cn.simulate(load(job, [*SHORT, *sets]))


def weights(run, party):
    return run.parties[party].weights


def same(one, other):
    return all(
        torch.equal(mine[key], theirs[key])
        for party in one.parties
        for mine, theirs in [(weights(one, party), weights(other, party))]
        for key in mine
    )


OF_GRADIENTS = ["gradient=marvell:0.2", "gradient=max_norm"]
OF_OTHERS = ["labels=flip:2", "embedding=gauss:2:0.1", "embedding=dcor:0.1"]
BOTH = ["embedding=dcor:0.1+gauss:2:0.1"]


SOME = [
    *(("fedsgd", protect) for protect in (*OF_GRADIENTS, *OF_OTHERS)),
    *((method, BOTH[0]) for method in ("fedbcd", "celu", "pasta", "vafl")),
    ("pasta", "gradient=marvell:0.2"),
]


@pytest.mark.parametrize(("method", "protect"), SOME)
def test_every_method_trains_under_every_protection_and_repeats_itself(method, protect):
    sets = [f"method.name={method}", f"method.protect.{protect}"]
    one, again, plain = trained(*sets), trained(*sets), trained(sets[0])
    assert one.status == "end" and same(one, again) and not same(one, plain)
    assert one.summary()["bytes"] == plain.summary()["bytes"] or method in ("celu", "pasta")


@pytest.mark.parametrize("protect", OF_OTHERS)
def test_snapshots_take_the_protections_that_apply(protect):
    sets = ["method.name=cvfl", "method.q=2", "train.labels=shared"]
    one, plain = trained(*sets, f"method.protect.{protect}"), trained(*sets)
    assert one.status == "end" and not same(one, plain)


def test_no_labels_change_where_epsilon_is_large_and_nothing_else_does():
    assert same(trained(), trained("method.protect.labels=flip:30"))


def test_a_clip_that_clips_nothing_with_next_to_no_noise_changes_next_to_nothing():
    one, plain = trained("method.protect.embedding=gauss:1e9:1e-12"), trained()
    for party in plain.parties:
        for key, tensor in weights(plain, party).items():
            assert torch.allclose(weights(one, party)[key], tensor, atol=1e-5)


def test_labels_that_shape_the_run_are_drawn_and_those_of_the_test_rows_are_true():
    job = load(JOB, [*SHORT, "method.protect.labels=flip:1"])
    plain = prepare(load(JOB, SHORT))["hospital"].data.labels
    own = prepare(job)["hospital"].data.labels
    assert (own.test == plain.test).all()
    for split in ("train", "validation"):
        share = (own.part(split) != plain.part(split)).mean()
        assert 0.1 < share < 0.45
    # Whatever the order of the rows, the split, or the other parties.
    other = prepare(load(JOB, [*SHORT, "method.protect.labels=flip:1", "train.split_seed=5"]))
    drawn = dict(zip(own.row_names("train"), own.train, strict=True))
    again = other["hospital"].data.labels
    pairs = [
        (drawn[name], label)
        for name, label in zip(again.row_names("train"), again.train, strict=True)
        if name in drawn
    ]
    assert len(pairs) > 100 and all(mine == theirs for mine, theirs in pairs)


def test_a_table_with_ids_is_drawn_by_its_ids(tmp_path):
    draw = np.random.default_rng(0)
    rows = [(f"c{n:03d}", draw.standard_normal(), int(draw.integers(2))) for n in range(200)]

    def labels_of(kept):
        lines = "\n".join(f"{id},{x:.3f},{label}" for id, x, label in kept)
        (tmp_path / "bank.csv").write_text(f"id,x,good\n{lines}\n")
        job = cn.Job(
            parties={
                "bank": cn.Party(
                    role="active", table=str(tmp_path / "bank.csv"), id="id", label="good"
                ),
                "telco": cn.Party(),
            },
            method={"name": "fedsgd", "protect": {"labels": "flip:0.5"}},
            train=cn.Train(batch_size=32),
        )
        found = participant(job, "bank", label_key=lambda: bytes(32)).data.labels
        return dict(zip(found.row_names("train"), found.train.tolist(), strict=True))

    whole, some = labels_of(rows), labels_of(rows[50:])
    common = whole.keys() & some.keys()
    assert len(common) > 80 and all(whole[name] == some[name] for name in common)


def test_a_batch_of_which_all_pairs_would_not_fit_is_refused():
    table = {"name": "fedsgd", "protect": {"embedding": "dcor:0.1"}}
    with pytest.raises(JobError, match=r"dcor compares all pairs of the 100,000 rows"):
        check_batches(methods.build(table), cn.Train(batch_size=100_000))
    # A job may come from anybody: it is asked before anything is trained.
    data = cn.vertical({"hospital": np.zeros((6000, 2)), "lab": np.ones((6000, 2))}, [0, 1] * 3000)
    job = cn.Job(
        parties={"hospital": cn.Party(role="active"), "lab": cn.Party()},
        method=table,
        train=cn.Train(batch_size=4200),
    )
    with pytest.raises(JobError, match=r"dcor compares all pairs of the 4,200 rows"):
        prepare(job, data)


def test_labels_that_are_quantities_and_choices_by_test_rows_are_refused():
    with pytest.raises(JobError, match="needs validation rows"):
        trained("method.protect.labels=flip:2", "train.validation=0")
    data = prepare(load(JOB))["hospital"]
    with pytest.raises(JobError, match="the labels are quantities"):
        quantities = replace(data.data, task="regression")
        protected(quantities, flip(2), Derived(0)(32), data.agreement().schedule)
    with pytest.raises(JobError, match="hides one of two classes"):
        cn.simulate(load("digits", ["method.protect.gradient=marvell:0.2"]))


def test_the_summary_says_what_noise_leaves_of_privacy():
    noise = "method.protect.embedding=gauss:2:8"
    run = trained(noise, "train.epochs=3")
    each = {"releases": 3, "epsilon": epsilon_of(mu(gauss(2, 8), 3)), "delta": 1e-5}
    assert run.summary()["epsilon"] == dict.fromkeys(run.job.passives, each)
    assert trained().summary()["epsilon"] == {}
    # A snapshot shows the active party's embeddings too, in every epoch, and in no evaluation.
    shown = ["method.name=cvfl", "method.q=2", "train.labels=shared", "train.epochs=3"]
    found = trained(noise, *shown, "train.full_loss=true").summary()["epsilon"]
    assert {name: of["releases"] for name, of in found.items()} == {"hospital": 3, "lab": 6}
    # Counted is what left, and not what was planned.
    short = trained(noise, "train.epochs=9", "train.target=0.01", "train.stop=target")
    assert short.status == "target"
    # A batch of the second epoch was under way.
    assert short.summary()["epsilon"]["lab"]["releases"] == 2
    again = cn.reclock(run, run.job).summary()["epsilon"]
    assert again == run.summary()["epsilon"]


def test_a_model_says_what_its_rows_have_spent_and_one_that_goes_on_from_it_adds_up(tmp_path):
    noise, more = "method.protect.embedding=gauss:2:8", "method.protect.embedding=gauss:2:16"
    first = trained(noise)
    cards = {name: party.card for name, party in first.parties.items()}
    assert cards["lab"].spent == Spent(1, mu(gauss(2, 8), 1))
    assert cards["hospital"].spent == Spent(0, 0.0), "of an active party nothing leaves"
    first.save(tmp_path / "first")
    job = load(JOB, [more, "train.epochs=4"])
    second = cn.simulate(job, start=tmp_path / "first")
    both = spent(gauss(2, 8), 1) + spent(gauss(2, 16), 4)
    assert second.parties["lab"].card.spent.mu == pytest.approx(both**0.5)
    assert second.summary()["epsilon"]["lab"] == {
        "releases": 4,
        "epsilon": pytest.approx(epsilon_of(both**0.5)),
        "delta": 1e-5,
    }
    # A policy holds for both together.
    origin = read_saved(tmp_path / "first", "lab").origin
    alone, sum_ = epsilon_of(mu(gauss(2, 16), 4)), epsilon_of(both**0.5)
    participant(job, "lab", Policy(epsilon_max=alone))
    with pytest.raises(RequestError, match=f"would cost ε = {sum_:.4g}"):
        participant(job, "lab", Policy(epsilon_max=alone), origin)
    participant(job, "lab", Policy(epsilon_max=sum_ + 1e-6), origin)
    # What left without noise has no bound, whatever comes after it.
    bare = trained()
    assert bare.parties["lab"].card.spent is None
    bare.save(tmp_path / "bare")
    with pytest.raises(RequestError, match="left without noise, or nobody counted"):
        participant(
            job, "lab", Policy(epsilon_max=99.0), read_saved(tmp_path / "bare", "lab").origin
        )
    after = cn.simulate(job, start=tmp_path / "bare")
    assert after.parties["lab"].card.spent is None
    assert after.summary()["epsilon"]["lab"]["epsilon"] is None


def test_a_model_with_noise_is_scored_under_the_job_that_it_was_trained_with(tmp_path):
    """A job that came since cannot have the embeddings without their noise."""
    job = tables(tmp_path)
    noisy = msgspec.structs.replace(
        job, method={"name": "fedsgd", "protect": {"embedding": "gauss:1:0.5"}}
    )
    cn.simulate(noisy).save(tmp_path / "run")
    models = read_models([tmp_path / "run"], "telco")
    with pytest.raises(RequestError, match=r"was trained with method\.protect\.embedding = 'gauss"):
        PredictParty(job, "telco", models, tmp_path / "telco").program()
    PredictParty(noisy, "telco", models, tmp_path / "telco").program()
    counted = PredictParty(noisy, "telco", models, tmp_path / "telco", Policy(epsilon_max=9.0))
    with pytest.raises(RequestError, match=r"and would cost .* if it is scored once: raise it"):
        counted.program()


def test_a_result_that_was_kept_says_when_its_rows_have_told_more(tmp_path, capsys):
    """The parties may begin again after a party has kept its result: what others go on from must
    not say less than what left, whenever the process ends."""
    trained("method.protect.embedding=gauss:2:8").save(tmp_path / "run")
    own = tmp_path / "run" / "parties" / "lab"
    (own / "party.json").write_text('{"rounds": 3}')
    folder = PartyFolder(own)
    for told in (Spent(7, 3.5), Spent(2, 0.5)):
        folder.recount(told, {"releases": 7, "epsilon": 1.0, "delta": 1e-5})
    folder.close()
    assert read_saved(own, "lab").card.spent == Spent(7, 3.5)
    assert json.loads((own / "party.json").read_text()) == {
        "rounds": 3,
        "privacy": {"releases": 7, "epsilon": 1.0, "delta": 1e-5},
    }
    assert main(["inspect", str(tmp_path / "run"), "--party", "lab"]) == 0
    assert f"left up to 7 times with noise: ε = {epsilon_of(3.5):.4g}" in capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "run"), "--party", "hospital"]) == 0
    assert "rows told" not in capsys.readouterr().out


@pytest.mark.parametrize("wrong", ['{"releases": -1, "mu": 1.0}', '{"releases": 1, "mu": -1.0}'])
def test_a_card_that_says_what_no_training_spends_is_refused(tmp_path, wrong):
    run = trained("method.protect.embedding=gauss:2:8")
    text = run.parties["lab"].card.to_json()
    spoilt = json.loads(text) | {"spent": json.loads(wrong)}
    with pytest.raises(RequestError, match="has a spent that no model has"):
        from_json(json.dumps(spoilt).encode(), "model.json")
