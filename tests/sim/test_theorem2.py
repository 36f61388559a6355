"""Theorem 2 of the FedBCD paper: the messages of a linear party do not determine its data.

If U is orthogonal and keeps the party's initial weights, U θ⁰ = θ⁰, then the party with data X U
sends, for ever, exactly the messages of the party with data X (Appendix B). Each optimizer whose
step commutes with rotations keeps this; Adam's does not, so there the messages do tell the two
apart.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from colonnade import Job, Party, Top, Train, simulate, vertical
from colonnade.learn.passive import TorchPassive
from colonnade.models.top import Agg

ROWS, ROUNDS, TOLERANCE = 40, 16, 1e-9


def householder(theta: torch.Tensor) -> torch.Tensor:
    """P with P θ = ‖θ‖ e₁, symmetric and orthogonal."""
    axis = torch.zeros_like(theta)
    axis[0] = theta.norm()
    normal = theta - axis
    if normal.norm() < 1e-12:
        return torch.eye(len(theta), dtype=theta.dtype)
    normal = normal / normal.norm()
    return torch.eye(len(theta), dtype=theta.dtype) - 2 * torch.outer(normal, normal)


def keeps(theta: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """An orthogonal U ≠ I with U θ = θ: the reflection for d = 2, else P [1 0; 0 V] P."""
    size = len(theta)
    inner = -torch.ones(1, 1, dtype=theta.dtype)
    if size > 2:
        noise = torch.randn(size - 1, size - 1, generator=generator, dtype=theta.dtype)
        inner, _ = torch.linalg.qr(noise)
    first = torch.block_diag(torch.ones(1, 1, dtype=theta.dtype), inner)
    mirror = householder(theta)
    return mirror @ first @ mirror


def messages_of(x, other, y, theta, optimizer, updates) -> list[torch.Tensor]:
    """Every embedding that the linear passive party sends in a training."""
    sent: list[torch.Tensor] = []
    original = TorchPassive.pack

    def record(self, exchange):
        sent.append(exchange.forward.embedding.detach().clone())
        return original(self, exchange)

    passive, own = nn.Linear(len(theta), 1, bias=False), nn.Linear(3, 1, bias=False)
    passive.weight.data = theta.view(1, -1).clone()
    own.weight.data = torch.full((1, 3), 0.1, dtype=torch.float64)
    job = Job(
        parties={
            "active": Party(role="active", optimizer={"name": "sgd", "lr": 0.1}),
            "passive": Party(optimizer=optimizer),
        },
        method={"name": "fedbcd", "updates": updates},
        train=Train(rounds=ROUNDS, batch_size=8, dtype="float64", evaluate_every="never"),
        top=Top(kind="agg"),
    )
    data = vertical({"active": other, "passive": x}, y, test=0.2)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(TorchPassive, "pack", record)
        simulate(job, data, {"active": own, "passive": passive.double(), "top": Agg()})
    return sent


def differences(size: int, seed: int, optimizer, updates: int) -> tuple[float, float]:
    """How far messages are apart for X and X U, and how far the data are apart."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, size, generator=generator, dtype=torch.float64)
    other = torch.randn(ROWS, 3, generator=generator, dtype=torch.float64)
    theta = torch.randn(size, generator=generator, dtype=torch.float64)
    y = (x[:, 0] + other[:, 0] > 0).long().numpy()
    turn = keeps(theta, generator)
    assert torch.allclose(turn @ theta, theta, atol=1e-12)
    assert torch.allclose(turn @ turn.T, torch.eye(size, dtype=torch.float64), atol=1e-12)
    runs = [
        messages_of(columns.numpy(), other.numpy(), y, theta, optimizer, updates)
        for columns in (x, x @ turn)
    ]
    assert len(runs[0]) == len(runs[1]) == ROUNDS
    apart = max((a - b).abs().max().item() for a, b in zip(*runs, strict=True))
    return apart, (x - x @ turn).abs().max().item()


COMMUTING = [
    {"name": "sgd", "lr": 0.1},
    {"name": "sgd", "lr": 0.1, "weight_decay": 0.01},
    {"name": "sgd", "lr": 0.05, "momentum": 0.9},
]


@settings(max_examples=12)
@given(
    size=st.integers(2, 8),
    seed=st.integers(0, 10_000),
    optimizer=st.sampled_from(COMMUTING),
    updates=st.sampled_from([1, 5]),
)
def test_all_messages_are_the_same_for_other_data(size, seed, optimizer, updates):
    apart, data_apart = differences(size, seed, optimizer, updates)
    assert apart <= TOLERANCE
    assert data_apart > 1e-3


@pytest.mark.parametrize("size", [2, 3, 6])
def test_adam_tells_the_data_apart(size):
    adam = {"name": "adam", "lr": 0.05}
    apart, _ = differences(size, 1, adam, 1)
    assert apart > 1e-3


def test_the_messages_depend_on_the_data_at_all():
    """A rotation that moves the initial weights is seen at once."""
    generator = np.random.default_rng(0)
    x, other = generator.normal(size=(ROWS, 2)), generator.normal(size=(ROWS, 3))
    y = (x[:, 0] > 0).astype(int)
    theta = torch.tensor([1.0, 0.5], dtype=torch.float64)
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    runs = [messages_of(columns, other, y, theta, COMMUTING[0], 1) for columns in (x, x @ swap)]
    assert (runs[0][0] - runs[1][0]).abs().max() > 0.1
