"""The papers' models train through a job: two rounds, two parties, random rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colonnade import Job, JobError, Party, Top, Train, simulate, vertical
from colonnade.models import build
from tests.unit.test_models import undone

ROWS = 24
AS_LOGITS = {"classifier": True}


def job(table, top, method="fedsgd", lr=0.05) -> Job:
    optimizer = {"name": "sgd", "lr": lr}
    return Job(
        parties={
            "bank": Party(role="active", model=table, optimizer=optimizer),
            "telco": Party(model=table, optimizer=optimizer),
        },
        method={"name": method},
        top=top,
        train=Train(rounds=2, batch_size=8, evaluate_every="1 round"),
    )


def counters(model) -> set[str]:
    return {name for name, _ in model.named_buffers() if name.endswith("num_batches_tracked")}


def random_rows(table, shape, classes):
    generator = np.random.default_rng(0)
    size = (ROWS, *shape)
    codes = "buckets" in table
    draw = (lambda: generator.integers(0, 10**6, size)) if codes else (
        lambda: generator.normal(size=size))  # fmt: skip
    labels = np.arange(ROWS) % classes
    return vertical({"bank": draw(), "telco": draw()}, labels, test=8 / ROWS)


LINEAR = Top(hidden=[])
CASES = [
    ({"name": "mlp2"}, (1, 14, 28), LINEAR, 10),
    ({"name": "mlp2"}, (1, 14, 28), Top(kind="agg"), 10),
    ({"name": "fmnist_cnn"}, (1, 14, 28), LINEAR, 10),
    ({"name": "vgg_tiny"}, (3, 4, 32), Top(hidden=[512, 512], dropout=0.5), 10),
    ({"name": "vgg_tiny"} | AS_LOGITS, (3, 4, 32), Top(kind="agg"), 10),
    ({"name": "vgg_small"}, (3, 16, 16), LINEAR, 10),
    ({"name": "modelnet_cnn", "embedding": 8}, (2, 71, 71), LINEAR, 10),
    ({"name": "lstm"}, (6, 3), LINEAR, 2),
    ({"name": "wide_deep_categorical", "buckets": 500}, (5,), Top(hidden=[], bias=False), 2),
    ({"name": "wide_deep_dense"}, (13,), Top(hidden=[], bias=False), 2),
    ({"name": "dssm", "buckets": 500}, (5,), Top(kind="dot"), 2),
]
IDS = [f"{table['name']}-{top.kind}" for table, _, top, _ in CASES]


@pytest.mark.parametrize("method", ["fedsgd", "pasta"])
@pytest.mark.parametrize(("table", "shape", "top", "classes"), CASES, ids=IDS)
def test_two_rounds_move_every_weight(table, shape, top, classes, method):
    """`pasta` runs the models with copies of their weights, which no layer may pass by."""
    data = random_rows(table, shape, classes)
    run, again = (simulate(job(table, top, method), data) for _ in range(2))
    still = simulate(job(table, top, method, lr=0.0), data)
    bottom = build(table, shape, "here")
    resting = {f"bottom.{name}" for name in undone(bottom, table) | counters(bottom)}
    assert (run.rounds, run.status) == (2, "end")
    assert all(np.isfinite(row["validation_loss"]) for row in run.history)
    for party, weights in run.weights.items():
        for name, tensor in weights.items():
            assert torch.isfinite(tensor).all(), name
            assert torch.equal(tensor, again.weights[party][name]), name
            if name not in resting:
                assert not torch.equal(tensor, still.weights[party][name]), name


def test_a_scaled_column_of_codes_is_refused_when_the_job_starts():
    table = {"name": "dssm", "buckets": 500}
    data = random_rows({"name": "mlp2"}, (5,), 2)
    with pytest.raises(JobError, match="not whole"):
        simulate(job(table, Top(kind="dot")), data)
