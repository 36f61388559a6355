"""The models of CELU-VFL: how codes find their place in a table."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from colonnade import Job, Party, Top, Train, simulate, vertical
from colonnade.errors import JobError
from colonnade.models.recommender import HashEmbedding
from tests.unit.test_models import CATEGORICAL, made


def test_the_recommenders_have_no_biases_and_small_weights():
    for table, shape in ((CATEGORICAL, (26,)), ({"name": "wide_deep_dense"}, (13,)),
                         ({"name": "dssm", "buckets": 500}, (14,))):  # fmt: skip
        for name, weight in made(table, shape).named_parameters():
            assert weight.dim() == 2, name
            assert weight.std().item() == pytest.approx(0.01, rel=0.05), name
            assert abs(weight.mean().item()) < 0.001, name
    layers = made({"name": "wide_deep_dense"}, (13,))
    assert [type(layer) for layer in layers] == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]


def test_hashing_spreads_codes_evenly():
    table = HashEmbedding(fields=26, buckets=1000, width=1)
    codes = torch.arange(20_000.0).view(-1, 1).expand(-1, 26)
    places = table.places(codes)
    assert places.min() >= 0 and places.max() < 1000
    for counts in (torch.bincount(places[:, 0], minlength=1000),
                   torch.bincount(places.flatten(), minlength=1000)):  # fmt: skip
        mean = counts.sum() / 1000
        # Chi-square with 999 degrees of freedom has mean 999 and deviation 45.
        assert ((counts - mean) ** 2 / mean).sum().item() == pytest.approx(999, abs=6 * 45)


def test_hashing_knows_columns_apart():
    places = HashEmbedding(2, 1_000_000, 1).places(torch.arange(5000.0).view(-1, 1).expand(-1, 2))
    assert (places[:, 0] == places[:, 1]).float().mean() < 0.001
    assert (places[1:, 0] == places[:-1, 1]).float().mean() < 0.001
    assert places[:, 0].unique().numel() > 4950


def plain_mix(word: int) -> int:
    word ^= word >> 16
    word = word * 0x21F0AAAD % 2**32
    word ^= word >> 15
    word = word * 0x735A2D97 % 2**32
    return word ^ word >> 15


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hashing_is_the_same_everywhere_and_always(dtype):
    """Weights that were saved are of use only where a code finds the same place again."""
    codes = [[0, 1, 2**24], [77, 2**24 - 1, 5], [-1, -2, 3]]
    table = HashEmbedding(3, 1_000_000, 1).to(dtype=dtype)
    wanted = [
        [plain_mix((plain_mix(code % 2**32) + field) % 2**32) % 1_000_000
         for field, code in enumerate(row)]
        for row in codes
    ]  # fmt: skip
    assert table.places(torch.tensor(codes, dtype=dtype)).tolist() == wanted
    assert wanted[0] == [0, 986018, 763335]
    assert "fields" not in table.state_dict()


def test_codes_survive_float32_up_to_two_to_the_24():
    codes = torch.arange(2**24 - 500, 2**24 + 1)
    table = HashEmbedding(1, 2**20, 1)
    assert torch.equal(table.places(codes.float().view(-1, 1)), table.places(codes.view(-1, 1)))
    assert (torch.tensor([2.0**24 + 1]) == 2.0**24).all(), "the next one does not"


def test_scaled_codes_are_refused_before_training():
    model = made(CATEGORICAL, (26,)).eval()
    with pytest.raises(JobError, match="not whole: give the codes as arrays"):
        model(torch.full((2, 26), 0.5))


def test_a_scaled_column_of_codes_is_refused_when_the_job_starts():
    party = {"model": {"name": "dssm", "buckets": 500}}
    job = Job(
        parties={"bank": Party(role="active", **party), "telco": Party(**party)},
        top=Top(kind="dot"),
        train=Train(rounds=2, batch_size=8),
    )
    x = np.random.default_rng(0).normal(size=(24, 5))
    with pytest.raises(JobError, match="not whole"):
        simulate(job, vertical({"bank": x, "telco": x}, np.arange(24) % 2, test=8 / 24))
