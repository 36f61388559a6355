"""The papers' models: their layers, the shapes they are for, and what they refuse."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from colonnade.errors import JobError
from colonnade.models import build
from colonnade.models.multiview import modelnet_cnn
from colonnade.models.resnet import Residual

CATEGORICAL = {"name": "wide_deep_categorical", "buckets": 1000}
AS_LOGITS = {"classifier": True}
CLASSIFIER = 2 * (512 * 512 + 512) + 512 * 10 + 10
# What each model is, the rows it reads, the width of its embedding, its weights counted by hand.
CASES = [
    ({"name": "mlp2"}, (1, 14, 28), 10, 392 * 32 + 32 + 32 * 10 + 10),
    ({"name": "mlp2", "embedding": 5}, (634,), 5, 634 * 32 + 32 + 32 * 5 + 5),
    ({"name": "mlp2", "embedding": 5}, (1000,), 5, 1000 * 32 + 32 + 32 * 5 + 5),
    ({"name": "fmnist_cnn"}, (1, 14, 28), 10, 9 * 16 + 32 + 16 * 32 * 9 + 64 + 3840 + 20),
    ({"name": "vgg13"}, (3, 16, 32), 512, 9410880),
    ({"name": "vgg13"} | AS_LOGITS, (3, 16, 32), 10, 9410880 + CLASSIFIER),
    ({"name": "vgg13"}, (3, 32, 32), 512, 9410880),
    ({"name": "vgg_small"}, (3, 16, 16), 512, 4689216),
    ({"name": "vgg_small"} | AS_LOGITS, (3, 16, 16), 10, 4689216 + CLASSIFIER),
    ({"name": "vgg_tiny"}, (3, 4, 32), 512, 9 * (192 + 4096 + 2 * 32768) + 3 * 704),
    ({"name": "vgg_tiny"} | AS_LOGITS, (3, 4, 32), 10, 630528 + CLASSIFIER),
    ({"name": "modelnet_cnn", "embedding": 8}, (3, 71, 71), 8, 7808 + 147712 + 256 * 8 + 8),
    ({"name": "modelnet_cnn", "embedding": 8}, (1, 3, 80, 71), 8, 23296 + 147712 + 2056),
    ({"name": "modelnet_cnn", "embedding": 8, "large_images": False}, (3, 48, 48), 8,
     64 * 26 + 147712 + 6400 * 8 + 8),
    ({"name": "resnet18"}, (3, 16, 16), 16, 11173962 - 5130 + 512 * 16 + 16),
    ({"name": "resnet18"}, (3, 4, 32), 16, 11177040),
    ({"name": "resnet18", "large_images": True, "embedding": 128}, (3, 56, 56), 128,
     11689512 - 513000 + 512 * 128 + 128),
    ({"name": "resnet50"}, (3, 56, 56), 128, 25557032 - 2049000 + 2048 * 128 + 128),
    ({"name": "lstm"}, (48, 19), 16, 4 * (16 * (19 + 16) + 2 * 16)),
    (CATEGORICAL, (26,), 256, 1000 * 128 + 3328 * 256 + 256 * 256),
    ({"name": "wide_deep_dense"}, (13,), 256, 13 * 256 + 2 * 256 * 256),
    ({"name": "dssm", "buckets": 1000}, (14,), 256, 1000 * 128 + 1792 * 256 + 256 * 256),
    ({"name": "dssm", "buckets": 1000}, (8,), 256, 1000 * 128 + 1024 * 256 + 256 * 256),
]  # fmt: skip
NAMES = [f"{table['name']}-{shape}-{width}" for table, shape, width, _ in CASES]


def made(table, shape, seed=0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(table, shape, "parties.bank.model")


def rows(table, shape, count=4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    if "buckets" in table:
        return torch.randint(0, 2**24, (count, *shape), generator=generator).float()
    return torch.randn(count, *shape, generator=generator)


def kinds(model, *wanted) -> list[nn.Module]:
    return [layer for layer in model.modules() if isinstance(layer, wanted)]


@pytest.mark.parametrize(("table", "shape", "width", "weights"), CASES, ids=NAMES)
def test_width_and_number_of_weights(table, shape, width, weights):
    model = made(table, shape)
    assert sum(p.numel() for p in model.parameters()) == weights
    with torch.no_grad():
        assert model.eval()(rows(table, shape, 2)).shape == (2, width)


@pytest.mark.parametrize(
    ("table", "shape", "words"),
    [
        ({"name": "fmnist_cnn"}, (392,), r"needs images .* the shape \(392,\)"),
        ({"name": "fmnist_cnn"}, (1, 3, 28), "3×28 are too small for fmnist_cnn: .* 4×6"),
        ({"name": "vgg13"}, (16, 32), "the model vgg13 needs images"),
        ({"name": "vgg13"}, (3, 16, 16), "16×16 are too small for vgg13: it needs 32 columns"),
        ({"name": "vgg_small"}, (3, 4, 32), "4×32 are too small for vgg_small: it needs 16×16"),
        ({"name": "vgg_tiny"}, (3, 3, 32), "3×32 are too small for vgg_tiny: it needs 4×4"),
        ({"name": "vgg13", "embedding": 64}, (3, 16, 32), "512 numbers .* classifier = true"),
        ({"name": "vgg13", "embedding": "ten"} | AS_LOGITS, (3, 16, 32), "a positive whole"),
        ({"name": "vgg13", "dropout": 1}, (3, 16, 32), "a share from 0 to below 1"),
        ({"name": "resnet18"}, (3, 16), "the model resnet18 needs images"),
        ({"name": "resnet50"}, (1024,), "the model resnet50 needs images"),
        ({"name": "modelnet_cnn"}, (224, 224), r"needs views \[views, height, width\]"),
        (
            {"name": "modelnet_cnn"},
            (3, 224, 70),
            "224×70 are too small for modelnet_cnn: it needs "
            "views of at least 71×71, or large_images = false",
        ),
        ({"name": "modelnet_cnn", "large_images": False}, (3, 13, 12), "at least 13×13"),
        ({"name": "lstm"}, (19,), r"needs rows \[steps, features\], .* \(19,\)"),
        (CATEGORICAL, (26, 1), "needs rows of categorical codes, one a column"),
        ({"name": "dssm"}, (1, 14, 28), "the model dssm needs rows of categorical codes"),
        ({"name": "wide_deep_dense"}, (2, 13), "needs rows of numbers, one a column"),
        ({"name": "dssm", "buckets": 0}, (14,), "buckets is 0: it must be a positive whole"),
        ({"name": "resnet18", "large_images": 1}, (3, 16, 16), "it must be true or false"),
        ({"name": "vgg14"}, (3, 16, 32), "there is no model 'vgg14'"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(table, shape, words):
    with pytest.raises(JobError, match=words) as caught:
        made(table, shape)
    assert "\n" not in str(caught.value)


def test_layers_of_the_fmnist_cnn():
    model = made({"name": "fmnist_cnn"}, (1, 14, 28))
    block = [nn.Conv2d, nn.ReLU, nn.BatchNorm2d, nn.MaxPool2d, nn.Dropout]
    last = [nn.Flatten, nn.Linear, nn.ReLU, nn.BatchNorm1d, nn.Dropout]
    assert [type(layer) for layer in model] == [*block, *block, *last]
    assert [layer.kernel_size for layer in kinds(model, nn.MaxPool2d)] == [(2, 2), (2, 3)]
    assert [layer.p for layer in kinds(model, nn.Dropout)] == [0.25, 0.25, 0.5]
    assert model[:11](torch.zeros(1, 1, 14, 28)).shape == (1, 384)


@pytest.mark.parametrize(
    ("name", "shape", "channels", "left"),
    [
        ("vgg13", (3, 16, 32), [64, 64, 128, 128, 256, 256, 512, 512, 512, 512],
         [(10, 16), (7, 8), (4, 4), (2, 2), (1, 1)]),
        ("vgg_small", (3, 16, 16), [64, 64, 128, 128, 256, 256, 512, 512],
         [(8, 8), (4, 4), (2, 2), (1, 1)]),
        ("vgg_tiny", (3, 4, 32), [64, 64, 512, 64], [(2, 16), (1, 8)]),
    ],
)  # fmt: skip
def test_layers_of_the_vggs(name, shape, channels, left):
    model = made({"name": name}, shape)
    convolutions = kinds(model, nn.Conv2d)
    assert [layer.out_channels for layer in convolutions] == channels
    assert {layer.kernel_size for layer in convolutions} == {(3, 3)}
    assert all(not layer.bias.any() for layer in convolutions)
    assert len(kinds(model, nn.BatchNorm2d)) == len(channels)
    assert isinstance(model[-1], nn.Dropout)
    x, sizes = torch.zeros(2, *shape), []
    for layer in model:
        x = layer(x)
        if isinstance(layer, nn.MaxPool2d):
            sizes.append(tuple(x.shape[2:]))
    assert sizes == left


def test_rows_are_padded_only_while_they_are_fewer_than_columns():
    paddings = [layer.padding[0] for layer in kinds(made({"name": "vgg13"}, (3, 16, 32)),
                                                    nn.Conv2d)]  # fmt: skip
    assert paddings == [2, 2, 2, 2, 2, 1, 1, 1, 1, 1]
    whole = made({"name": "vgg13"}, (3, 32, 32))
    assert {layer.padding for layer in kinds(whole, nn.Conv2d)} == {(1, 1)}


def test_the_classifier_of_aggvfl():
    model = made({"name": "vgg_tiny", "classifier": True, "dropout": 0.3}, (3, 4, 32))
    tail = [nn.Dropout, nn.Linear, nn.ReLU, nn.Dropout, nn.Linear, nn.ReLU, nn.Linear]
    assert [type(layer) for layer in model[-7:]] == tail
    assert [layer.out_features for layer in kinds(model, nn.Linear)] == [512, 512, 10]
    assert {layer.p for layer in kinds(model, nn.Dropout)} == {0.3}
    bare = made({"name": "vgg_tiny", "classifier": True, "dropout": 0, "embedding": 3}, (3, 4, 32))
    assert not kinds(bare, nn.Dropout)
    assert bare[-1].out_features == 3


def test_layers_of_the_resnets():
    small, large = made({"name": "resnet18"}, (3, 16, 16)), made({"name": "resnet50"}, (3, 56, 56))
    assert (len(kinds(small, Residual)), len(kinds(large, Residual))) == (8, 16)
    # The ways around are convolutions too: three in a ResNet18, four in a ResNet50.
    assert (len(kinds(small, nn.Conv2d)), len(kinds(large, nn.Conv2d))) == (17 + 3, 49 + 4)
    assert small[0].kernel_size == (3, 3) and large[0].kernel_size == (7, 7)
    assert not kinds(small, nn.MaxPool2d)
    assert small[:-3](torch.zeros(2, 3, 16, 16)).shape == (2, 512, 2, 2)
    assert large[:-3](torch.zeros(2, 3, 112, 112)).shape == (2, 2048, 4, 4)


def test_views_are_pooled_in_any_order():
    model = modelnet_cnn((3, 80, 80), embedding=8).eval()
    x = torch.randn(2, 3, 80, 80)
    with torch.no_grad():
        assert torch.equal(model(x), model(x[:, [2, 0, 1]]))
        torch.testing.assert_close(model(x[:, [0, 0, 0]]), model(x[:, :1]))
        torch.testing.assert_close(model(x), model(x.unsqueeze(2)))
        assert not torch.equal(model(x), model(x[:, :1]))
    assert modelnet_cnn((3, 224, 224)).head.in_features == 256 * 5 * 5


def test_the_lstm_returns_its_last_state():
    model, x = made({"name": "lstm"}, (6, 3)), torch.randn(4, 6, 3)
    with torch.no_grad():
        states, (last, _) = model.lstm(x)
        assert torch.equal(model(x), last[0])
        assert model(x).abs().max() < 1
        torch.testing.assert_close(model(x[:, :5]), states[:, 4])
