"""A small vertical training, made from a seed: data, modules and a job that the tests share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import torch
from torch import nn

from colonnade.data.vertical import VerticalData, vertical
from colonnade.job.records import Job, Party, Top, Train
from colonnade.models.top import Agg, Dot, Split

ROWS = 64


@dataclass
class Small:
    """A job with data and ready-made modules."""

    job: Job
    data: VerticalData
    modules: dict[str, nn.Module]

    @property
    def parties(self) -> list[str]:
        return list(self.job.parties)

    def x(self, name: str) -> torch.Tensor:
        return torch.as_tensor(self.data.features[name].train)

    def y(self) -> torch.Tensor:
        return torch.as_tensor(self.data.labels.train, dtype=torch.float64).view(-1, 1)

    def has_features(self, name: str) -> bool:
        return self.data.features[name].train is not None


def small(
    parties: int = 3,
    top: str = "split",
    label_only: bool = False,
    optimizer: dict[str, Any] | None = None,
    method: dict[str, Any] | None = None,
    seed: int = 0,
    validation: float = 0.0,
    **train: Any,
) -> Small:
    """Random rows and a binary label; the active party is the second, so that order matters."""
    generator = torch.Generator().manual_seed(seed)
    names = [f"p{i}" for i in range(parties)]
    active = names[1]
    x = {name: torch.randn(ROWS, 3 + i, generator=generator, dtype=torch.float64)
         for i, name in enumerate(names)}  # fmt: skip
    y = (sum(columns[:, 0] for columns in x.values()) > 0).long()
    features: dict[str, Any] = {
        name: None if label_only and name == active else columns.numpy()
        for name, columns in x.items()
    }
    data = vertical(features, y.numpy(), test=0.25, validation=validation)
    width = 1 if top == "agg" else 4
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        modules: dict[str, nn.Module] = {
            name: nn.Sequential(nn.Linear(x[name].shape[1], 5), nn.Tanh(), nn.Linear(5, width))
            for name in names
            if features[name] is not None
        }
        network = nn.Sequential(nn.Linear(width * len(modules), 4), nn.Tanh(), nn.Linear(4, 1))
        tops: dict[str, nn.Module] = {"split": Split(network), "agg": Agg(), "dot": Dot()}
    modules = {name: module.double() for name, module in modules.items()}
    modules["top"] = tops[top].double()
    options = {"rounds": 20, "batch_size": 8, "dtype": "float64", "evaluate_every": "never"} | train
    job = Job(
        parties={
            name: Party(
                role="active" if name == active else "passive",
                optimizer=optimizer or {"name": "sgd", "lr": 0.05},
            )
            for name in names
        },
        method=method or {"name": "fedsgd"},
        train=Train(**options),
        top=Top(kind=top),  # type: ignore[arg-type]
        seed=seed,
    )
    return Small(job, data, modules)


def with_network(job: Job, costs: dict[str, str] | None = None, **link: Any) -> Job:
    """The same job with a network, and the paper's costs in milliseconds."""
    from colonnade.job.records import Compute, Costs, Link, Network

    costs = costs or {"forward": "10ms", "backward": "20ms", "aggregate": "10ms"}
    return msgspec.structs.replace(
        job, network=Network(link=Link(**link)), compute=Compute(costs=Costs(**costs))
    )


def apart(run_weights: dict[str, dict[str, torch.Tensor]], modules: dict[str, nn.Module],
          active: str) -> float:  # fmt: skip
    """The largest difference between a run's weights and those of plain modules."""
    differences = [0.0]
    for party, weights in run_weights.items():
        for name, tensor in weights.items():
            part, _, key = name.partition(".")
            module = modules["top"] if part == "top" else modules[party]
            assert part != "top" or party == active
            differences.append((module.state_dict()[key] - tensor).abs().max().item())
    count = sum(len(weights) for weights in run_weights.values())
    assert count == sum(len(module.state_dict()) for module in modules.values())
    return float(np.max(differences))
