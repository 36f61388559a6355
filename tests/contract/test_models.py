"""Every bottom model passes the public checks."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from colonnade import Top
from colonnade.models import build, known
from colonnade.testing import check_model

AS_LOGITS = {"classifier": True}
CODES = {"buckets": 500}
AGG, DOT, NO_BIAS = Top(kind="agg"), Top(kind="dot"), Top(hidden=[], bias=False)
AGG_DEEP = Top(kind="agg", hidden=[8])
WIDE = Top(hidden=[512, 512], dropout=0.5)
ALONE = {"in_job": False}
"""Of the models that take a while, those that are like another one are not trained in a job, or
only among the slow tests."""
CASES = [
    ({"name": "linear"}, (5,), {}),
    ({"name": "mlp"}, (5,), {}),
    ({"name": "mlp"}, (5,), {"classes": 3, "top": AGG_DEEP}),
    ({"name": "cnn", "embedding": 1}, (1, 28, 14), {"top": AGG}),
    ({"name": "mlp2"}, (1, 14, 28), {"classes": 10}),
    ({"name": "mlp2"}, (1, 14, 28), {"classes": 10, "top": AGG}),
    ({"name": "mlp2", "embedding": 5}, (634,), {}),
    ({"name": "fmnist_cnn"}, (1, 14, 28), {"classes": 10}),
    ({"name": "vgg13"}, (3, 16, 32), ALONE),
    ({"name": "vgg_tiny"}, (3, 4, 32), {"classes": 10, "top": WIDE}),
    ({"name": "vgg_tiny"} | AS_LOGITS, (3, 4, 32), {"classes": 10, "top": AGG}),
    ({"name": "vgg_small"}, (3, 16, 16), ALONE),
    ({"name": "vgg_small"} | AS_LOGITS, (3, 16, 16), ALONE),
    ({"name": "modelnet_cnn", "embedding": 8}, (2, 71, 71), {"classes": 10}),
    ({"name": "modelnet_cnn", "embedding": 8}, (1, 3, 80, 71), ALONE),
    ({"name": "modelnet_cnn", "embedding": 8, "large_images": False}, (3, 16, 16), ALONE),
    ({"name": "resnet18", "embedding": 128, "large_images": True}, (3, 56, 56), ALONE),
    ({"name": "resnet50"}, (3, 56, 56), ALONE),
    ({"name": "lstm"}, (6, 3), {}),
    ({"name": "wide_deep_categorical"} | CODES, (5,), {"top": NO_BIAS}),
    ({"name": "wide_deep_dense"}, (13,), {"top": NO_BIAS}),
    ({"name": "dssm"} | CODES, (5,), {"top": DOT}),
]
NAMES = [f"{table['name']}-{shape}-{number}" for number, (table, shape, _) in enumerate(CASES)]


def codes(shape):
    return torch.randint(0, 10**6, shape, generator=torch.Generator().manual_seed(1)).float()


def undone(table, shape):
    """The biases that a batch norm undoes: their gradients are nothing but rounding."""
    layers = build(table, shape, "here").named_modules() if "vgg" in table["name"] else ()
    return {f"{name}.bias" for name, layer in layers if isinstance(layer, nn.Conv2d)}


@pytest.mark.parametrize(("table", "shape", "options"), CASES, ids=NAMES)
def test_it_keeps_the_contract_of_a_model(table, shape, options):
    rows = codes if "buckets" in table else None
    check_model(table, shape, rows=rows, still=undone(table, shape), **options)


@pytest.mark.slow
def test_a_larger_vgg_trains_too():
    table, shape = {"name": "vgg_small"}, (3, 16, 16)
    check_model(table, shape, still=undone(table, shape), classes=10)


def test_every_model_of_the_package_is_among_them():
    assert {table["name"] for table, *_ in CASES} == set(known())
