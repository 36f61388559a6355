"""Initial weights: each scheme against its formula, for every model alike, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import colonnade as cn
from colonnade.errors import JobError
from colonnade.job.files import dumps, load, loads, with_sets
from colonnade.learn.saved import read_saved
from colonnade.models import build, known
from colonnade.models.init import SCHEMES
from colonnade.models.top import build_top
from colonnade.run.naming import check_names
from tests.contract.test_models import CASES

IMAGE = (1, 20, 16)
ALL = [name for name in SCHEMES if name != "normal:σ"]


def made(init=None, seed=0, shape=IMAGE, **table) -> nn.Module:
    table = table or {"name": "cnn", "embedding": 8}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(table if init is None else table | {"init": init}, shape, "here")


def of_scheme(init: str, outputs: int, inputs: int, area: int) -> float:
    """The deviation of a layer's weights, written out."""
    if init.startswith("normal"):
        return float(init.partition(":")[2] or 0.01)
    if init == "fedbcd" or init.startswith("glorot"):
        area = 1 if init == "fedbcd" else area
        return math.sqrt(2 / (inputs * area + outputs * area))
    assert init.startswith("he")
    return math.sqrt(2 / (inputs * area))


@pytest.mark.parametrize("init", [*ALL[1:], "normal:0.3"])
def test_weights_have_the_deviation_of_the_formula_and_biases_are_0(init):
    layers = [layer for layer in made(init) if isinstance(layer, nn.Conv2d | nn.Linear)]
    assert len(layers) == 4
    for layer in layers:
        weight = layer.weight.detach()
        outputs, inputs, area = *weight.shape[:2], weight[0, 0].numel()
        wanted, count = of_scheme(init, outputs, inputs, area), weight.numel()
        assert weight.std().item() == pytest.approx(wanted, rel=4 / math.sqrt(2 * count))
        assert abs(weight.mean().item()) < 4 * wanted / math.sqrt(count)
        furthest = math.sqrt(3) * wanted
        assert (weight.abs().max().item() <= furthest * (1 + 1e-6)) == init.endswith("uniform")
        assert layer.bias is None or not layer.bias.any()


def test_filters_of_the_fedbcd_code_do_not_get_smaller_with_their_area():
    """A 3×3 filter is three times as far from 0 as Glorot's, dense layers are the same."""
    code, glorot = made("fedbcd"), made("glorot")
    ratios = [
        (mine.weight.std() / theirs.weight.std()).item()
        for mine, theirs in zip(code, glorot, strict=True)
        if hasattr(mine, "weight")
    ]
    assert ratios == pytest.approx([3, 3, 1, 1], rel=0.1)


@pytest.mark.parametrize(
    ("table", "shape"), [case[:2] for case in CASES if case[0]["name"] not in ("vgg13", "resnet50")]
)
def test_every_model_begins_as_its_function_makes_it_unless_it_is_told(table, shape):
    options = {key: value for key, value in table.items() if key != "name"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        bare = known()[table["name"]](shape, **options).state_dict()
    for init in (None, "default"):
        weights = made(init, seed=3, shape=shape, **table).state_dict()
        assert all(torch.equal(bare[name], weights[name]) for name in bare)
    drawn = made("glorot", seed=3, shape=shape, **table).state_dict()
    moved = {name for name in bare if not torch.equal(bare[name], drawn[name])}
    assert {name for name in bare if name.endswith("weight") and bare[name].dim() > 1} - moved <= {
        "0.table.weight"
    }


def test_the_same_seed_draws_the_same_weights():
    for init in ALL:
        one, again, other = (made(init, seed).state_dict() for seed in (1, 1, 2))
        assert all(torch.equal(one[name], again[name]) for name in one)
        assert not all(torch.equal(one[name], other[name]) for name in one)


def test_a_partys_seed_draws_its_weights_whatever_the_jobs():
    sets = ["train.rounds=1", "parties.*.model.init=he", "parties.*.optimizer={name='sgd', lr=0}"]
    job = load("digits", [*sets, "parties.lab.seed=5"])
    first, second = (cn.simulate(with_sets(job, f"seed={seed}")).weights for seed in (0, 1))
    other = next(name for name in job.parties if name != "lab")
    name = next(name for name in first["lab"] if name.startswith("bottom") and "weight" in name)
    assert torch.equal(first["lab"][name], second["lab"][name])
    assert not torch.equal(first[other][name], second[other][name])


def test_norms_stay_and_vectors_of_codes_are_drawn_by_normal_alone():
    for init in ("glorot", "normal:0.2"):
        model = made(init, name="fmnist_cnn", shape=(1, 14, 28))
        norms = [layer for layer in model if isinstance(layer, nn.BatchNorm2d)]
        assert norms and all((norm.weight == 1).all() for norm in norms)
    codes = {"name": "dssm", "buckets": 400, "shape": (3,)}
    vectors = [made(init, **codes)[0].table.weight for init in (None, "fedbcd", "normal:0.2")]
    assert torch.equal(vectors[0], vectors[1])
    assert vectors[2].std().item() == pytest.approx(0.2, rel=0.02)


def test_the_matrices_of_an_lstm_are_drawn_and_its_biases_are_0():
    lstm = made("glorot", name="lstm", embedding=32, shape=(4, 24)).lstm
    for weight in (lstm.weight_ih_l0, lstm.weight_hh_l0):
        assert weight.std().item() == pytest.approx(math.sqrt(2 / sum(weight.shape)), rel=0.1)
    assert not lstm.bias_ih_l0.any() and not lstm.bias_hh_l0.any()


def test_layers_of_a_top_model_are_drawn_too():
    def weights(init, **options):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            top = build_top(cn.Top(init=init, **options), {"bank": 40, "telco": 40}, outputs=10)
        return [weight for weight in top.parameters() if weight.dim() > 1]

    for options in ({"hidden": [50]}, {"kind": "agg", "hidden": [50]}):
        for weight in weights("normal:0.3", **options):
            assert weight.std().item() == pytest.approx(0.3, rel=0.15)
        assert all(map(torch.equal, weights(None, **options), weights("default", **options)))


WRONG = [
    ("glort", "is 'glort': choose default, fedbcd, glorot, glorot:uniform, he"),
    ("fedbcd:uniform", "choose default"),
    ("normal:σ", "give the deviation"),
    ("normal:0", "give the deviation"),
    ("normal:inf", "give the deviation"),
    ("normal:", "give the deviation"),
    (3, "must be text"),
]


@pytest.mark.parametrize(("init", "words"), WRONG)
def test_a_wrong_name_is_refused_with_the_choices_before_data_is_read(init, words):
    text = repr(init)
    with pytest.raises(JobError, match=rf"parties\.lab\.model\.init.*{words}"):
        check_names(load("digits", [f"parties.lab.model.init={text}"]))
    if isinstance(init, str):
        with pytest.raises(JobError, match=rf"top\.init.*{words}"):
            check_names(load("digits", [f"top.init={text}"]))
    else:
        with pytest.raises(JobError, match="init"):
            load("digits", [f"top.init={text}"])


def test_where_there_are_no_layers_it_is_refused():
    for kind in ("agg", "dot", "module"):
        with pytest.raises(JobError, match=r"top\.init has no effect"):
            cn.Top(kind=kind, init="glorot")
    with pytest.raises(JobError, match=r"here\.init has no effect: Flatten has no linear layer"):
        build({"name": "tests.unit.test_init:no_layers", "init": "he"}, (5,), "here")
    with pytest.raises(JobError, match="before their shape is known"):
        build({"name": "tests.unit.test_init:lazy", "init": "he"}, (5,), "here")


@cn.extension("model")
def no_layers(row_shape):
    return nn.Flatten()


@cn.extension("model")
def lazy(row_shape):
    return nn.LazyLinear(3)


@cn.extension("model")
def ours(row_shape, width: int = 4):
    return nn.Linear(row_shape[0], width)


@cn.extension("model")
def theirs(row_shape, init: str = "ones"):
    layer = nn.Linear(row_shape[0], 2)
    getattr(nn.init, f"{init}_")(layer.weight)
    return layer


def test_a_model_of_ones_own_is_drawn_too_unless_it_has_an_option_of_that_name():
    table = {"name": "tests.unit.test_init:ours", "width": 300, "init": "normal:0.3"}
    assert build(table, (300,), "here").weight.std().item() == pytest.approx(0.3, rel=0.02)
    own = build({"name": "tests.unit.test_init:theirs", "init": "zeros"}, (5,), "here")
    assert not own.weight.any()


def test_a_job_file_keeps_it_and_another_model_does_too():
    job = load("mnist-3v8", ["parties.*.model.init=fedbcd", "parties.left.model.name=mlp"])
    assert job.parties["left"].model == {"name": "mlp", "embedding": 1, "init": "fedbcd"}
    assert loads(dumps(job)) == job
    assert "init" not in dumps(load("digits"))


def test_a_model_with_it_is_saved_loaded_and_gone_on_from_whatever_it_says(tmp_path):
    job = load("breast-cancer", ["train.epochs=1", "parties.*.model.init=glorot", "top.init=he"])
    run = cn.simulate(job)
    folder = run.save(tmp_path / "run")
    still = ["parties.*.optimizer={name='sgd', lr=0}", "top.init=normal", "train.rounds=1"]
    for init in ("he", "default"):
        again = cn.simulate(with_sets(job, *still, f"parties.*.model.init={init}"), start=folder)
        for name, weights in run.weights.items():
            kept = read_saved(folder, name).tensors
            assert weights.keys() == kept.keys()
            assert all(torch.equal(kept[key], again.weights[name][key]) for key in kept)
    assert np.isfinite(run.test["auc"])
