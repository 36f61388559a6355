"""Models as programs: equal to what they were exported from, for any number of rows."""

from __future__ import annotations

import io
import json
import stat

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.cli import main
from colonnade.errors import RequestError
from colonnade.learn.export import export
from colonnade.learn.saved import Bottom, Head, read_saved, saved_of
from tests.sim.test_continued import files


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One with codes, bins and missing values in its rows, and one of images."""
    place = tmp_path_factory.mktemp("exported")
    table = files(place / "data", seed=1)
    images = cn.load("digits", ["train.epochs=1"])
    return {name: cn.simulate(job).save(place / name) for name, job in
            (("credit", table), ("digits", images))}  # fmt: skip


CASES = [("credit", "bank"), ("credit", "telco"), ("digits", "lab")]


def rows_of(card, count, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, (count, *card.row_shape)).astype("float32")


@pytest.mark.parametrize(("run", "party"), CASES)
def test_a_bottom_model_is_equal_to_the_bit(runs, run, party):
    saved = read_saved(runs[run], party)
    program = torch.export.load(io.BytesIO(export(saved).content)).module()
    for count in (1, 2, 700):
        rows = rows_of(saved.card, count)
        assert torch.equal(program(torch.as_tensor(rows)), Bottom(saved).embed(rows)), count


@pytest.mark.parametrize(("run", "party"), CASES)
def test_onnx_gives_the_same(runs, run, party):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    saved = read_saved(runs[run], party)
    session = runtime.InferenceSession(export(saved, format="onnx").content)
    for count in (1, 700):
        rows = rows_of(saved.card, count)
        (found,) = session.run(None, {"rows": rows})
        assert np.allclose(found, Bottom(saved).embed(rows).numpy(), atol=1e-6), count


@pytest.mark.parametrize("form", ["torch-export", "onnx"])
def test_a_top_model_takes_every_partys_embedding(runs, form):
    saved = read_saved(runs["credit"], "bank")
    widths = saved.card.widths
    made = {name: torch.randn(5, width) for name, width in widths.items()}
    if form == "onnx":
        pytest.importorskip("onnxscript")
        runtime = pytest.importorskip("onnxruntime")
        session = runtime.InferenceSession(export(saved, "top", form).content)
        (found,) = session.run(None, {name: each.numpy() for name, each in made.items()})
    else:
        program = torch.export.load(io.BytesIO(export(saved, "top").content)).module()
        found = program(*made.values()).numpy()
    assert np.allclose(found, Head(saved).scores(made), atol=1e-6)


def test_the_command_writes_files_for_their_owner_and_no_place_of_this_host(runs, tmp_path, capsys):
    for form in ("torch-export", "onnx"):
        if form == "onnx":
            pytest.importorskip("onnxscript")
        to = tmp_path / f"telco.{form}"
        words = ["export", runs["credit"], "--party", "telco", "--to", to, "--format", form]
        assert main([str(word) for word in words]) == 0
        assert "bottom model of telco" in capsys.readouterr().out
        beside = to.with_name(f"{to.name}.json")
        for path in (to, beside):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for place in (b"/saved.py", b"site-packages", str(tmp_path).encode()):
            assert place not in to.read_bytes()
        told = json.loads(beside.read_text())
        assert told["inputs"] == [{"name": "rows", "shape": ["rows", 2]}]
        assert told["features"] == ["calls", "plan"]
        assert told["preprocessing"]["columns"][0]["name"] == "calls"
        assert main([str(word) for word in words]) == 2
        assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--party", "telco", "--part", "top"], "only bank can score rows"),
        (["--party", "nobody"], "holds no model of nobody"),
        ([], "models of several parties: give --party bank"),
        (["--party", "bank", "--format", "pickle"], "choose torch-export or onnx"),
        (["--party", "bank", "--part", "middle"], "choose bottom or top"),
    ],
)
def test_what_cannot_be_exported_is_refused(runs, tmp_path, capsys, words, said):
    to = tmp_path / "out.pt2"
    assert main(["export", str(runs["credit"]), "--to", str(to), *words]) == 2
    assert said in capsys.readouterr().err
    assert not to.exists()


def test_a_module_of_ones_own_is_not_in_the_folder():
    x, y = torch.randn(100, 4), (torch.randn(100) > 0).long()
    job = cn.Job(
        parties={"bank": cn.Party(role="active"), "telco": cn.Party()},
        train=cn.Train(epochs=1, batch_size=32),
    )
    models = {"bank": torch.nn.Linear(4, 3), "telco": torch.nn.Linear(4, 3)}
    run = cn.simulate(job, cn.vertical({"bank": x, "telco": x}, y), models=models)
    with pytest.raises(RequestError, match="a module of one's own"):
        export(saved_of(run, "telco"))


def test_without_onnx_the_sentence_says_what_to_install(runs, monkeypatch):
    monkeypatch.setattr("colonnade.learn.export.find_spec", lambda name: None)
    with pytest.raises(RequestError, match=r"pip install 'colonnade\[onnx\]'"):
        export(read_saved(runs["credit"], "telco"), format="onnx")
