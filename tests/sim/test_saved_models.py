"""A model after its training: from memory or from a folder it scores rows as the training did."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from torch import nn

import colonnade as cn
from colonnade.cli import main
from colonnade.errors import ColonnadeError, RequestError
from colonnade.job import load
from colonnade.learn.saved import Bottom, Head, read_saved, saved_of
from colonnade.run.setup import prepare

EPOCHS = ["train.epochs=2"]


@pytest.fixture(scope="module", params=["breast-cancer", "digits"])
def trained(request, tmp_path_factory):
    job = load(request.param, EPOCHS)
    run = cn.simulate(job)
    folder = tmp_path_factory.mktemp("runs") / "run"
    run.save(folder)
    return run, folder


def scores_of(parties, saved, split="test"):
    embeddings = {
        name: Bottom(saved(name)).embed(party.data.columns.part(split))
        for name, party in parties.items()
        if party.width
    }
    active = next(name for name, party in parties.items() if party.leads)
    return Head(saved(active)).scores(embeddings)


def test_test_rows_get_the_scores_that_the_training_measured(trained):
    run, folder = trained
    parties = prepare(run.job)
    active = parties[run.job.active]
    from_memory = scores_of(parties, lambda name: saved_of(run, name))
    from_disk = scores_of(parties, lambda name: read_saved(folder, name))
    assert np.array_equal(from_memory, from_disk)
    labels, metric = active.data.labels.part("test"), active.metrics[0]
    assert metric.measure(from_memory, labels) == run.test[metric.name]


def test_a_card_survives_its_file_and_names_what_all_parties_share(trained):
    run, folder = trained
    cards = [party.card for party in run.parties.values()]
    for name, party in run.parties.items():
        written = read_saved(folder, name).card
        assert replace(written, hashes={}) == party.card
        assert f"{written.weights}.safetensors" in written.hashes
    assert len({card.version for card in cards}) == 1
    assert len({card.order for card in cards}) == 1
    assert [card.task for card in cards].count(None) == len(cards) - 1


def test_probabilities_are_calibrated_on_validation_rows(trained):
    run, _ = trained
    fitted = run.parties[run.job.active].card.calibration
    assert fitted.split == "validation" and fitted.rows > 0


def test_a_module_of_ones_own_must_be_given_again(tmp_path):
    torch.manual_seed(0)
    x, y = torch.randn(200, 4), (torch.randn(200) > 0).long()
    job = cn.Job(
        parties={"bank": cn.Party(role="active"), "telco": cn.Party()},
        train=cn.Train(epochs=1, batch_size=32),
    )
    models = {"bank": nn.Linear(4, 3), "telco": nn.Linear(4, 3)}
    run = cn.simulate(job, cn.vertical({"bank": x, "telco": x}, y), models=models)
    saved = saved_of(run, "telco")
    with pytest.raises(RequestError, match="a module of one's own"):
        Bottom(saved)
    assert Bottom(saved, module=models["telco"]).embed(x.numpy()).shape == (200, 3)


def test_loading_a_model_runs_no_code_that_its_folder_names(trained, tmp_path):
    run, folder = trained
    name = run.job.passives[0]
    own = tmp_path / "own"
    (folder / "parties" / name).rename(own)
    try:
        card = json.loads((own / "model.json").read_text())
        for hostile in ("os:system", "subprocess:getoutput"):
            changed = card | {"model": {"name": hostile, "cmd": "true"}}
            (own / "model.json").write_text(json.dumps(changed))
            with pytest.raises(ColonnadeError, match="code from outside"):
                Bottom(read_saved(own, name))
    finally:
        (own / "model.json").write_text(json.dumps(card))
        own.rename(folder / "parties" / name)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 9}, "has format 9, written by a newer"),
        ({"widths": {}}, "names widths"),
        ({"widths": {"x": 2**40}}, "names widths"),
        ({"party": "nobody"}, "names widths"),
        ({"run": 7}, "does not describe a model"),
        ({"row_shape": [1, 2, 3]}, "do not fit|belong to different"),
    ],
)
def test_a_card_that_is_none_is_refused(trained, tmp_path, change, said):
    run, folder = trained
    name = run.job.passives[0]
    source, own = folder / "parties" / name, tmp_path / "own"
    own.mkdir()
    for file in source.iterdir():
        (own / file.name).write_bytes(file.read_bytes())
    card = json.loads((own / "model.json").read_text()) | change
    (own / "model.json").write_text(json.dumps(card))
    with pytest.raises(ColonnadeError, match=said):
        Bottom(read_saved(own, name))


def test_rows_are_scored_with_as_many_threads_as_they_were_trained_with(trained, tmp_path, capsys):
    """Two threads would add up in another order, and the scores would differ in their last bits."""
    run, folder = trained
    words = ["predict", run.job.name, "--run", str(folder), "--rows", "test", "--quiet"]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert main([*words, "--to", str(tmp_path / "scores.csv")]) == 0
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert main([*words, "--to", str(tmp_path / "no.csv"), "--threads", "0"]) == 2
    assert "--threads is 0" in capsys.readouterr().err
