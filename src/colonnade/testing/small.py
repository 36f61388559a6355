"""A small vertical training, made from a seed: data, modules and a job, quick enough for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import torch
from torch import nn

from colonnade.data.vertical import VerticalData, vertical
from colonnade.job.records import Compute, Costs, Job, Link, Network, Party, Top, Train
from colonnade.models.top import Agg, Dot, Split

ROWS = 64


@dataclass
class Small:
    """A job with data and ready-made modules."""

    job: Job
    data: VerticalData
    modules: dict[str, nn.Module]


def small(
    parties: int = 3,
    top: Literal["split", "agg", "dot"] = "split",
    label_only: bool = False,
    optimizer: dict[str, Any] | None = None,
    method: dict[str, Any] | None = None,
    seed: int = 0,
    validation: float = 0.0,
    **train: Any,
) -> Small:
    """Random rows and a binary label; the active party is the second, so that order matters.

    >>> from colonnade import simulate
    >>> case = small(2, method={"name": "fedbcd"}, rounds=3)
    >>> simulate(case.job, case.data, case.modules).rounds
    3
    """
    generator = torch.Generator().manual_seed(seed)
    names = [f"p{i}" for i in range(parties)]
    active = names[1]
    x = {name: torch.randn(ROWS, 3 + i, generator=generator, dtype=torch.float64)
         for i, name in enumerate(names)}  # fmt: skip
    first = torch.zeros(ROWS, dtype=torch.float64)
    y = (sum((columns[:, 0] for columns in x.values()), start=first) > 0).long()
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
    options: dict[str, Any] = {"rounds": 20, "batch_size": 8, "dtype": "float64"}
    options |= {"evaluate_every": "never"} | train
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
        top=Top(kind=top),
        seed=seed,
    )
    return Small(job, data, modules)


def with_network(job: Job, costs: dict[str, str] | None = None, **link: Any) -> Job:
    """The same job with a network, and costs in milliseconds.

    >>> with_network(small().job, latency="50ms").network.link.latency
    '50ms'
    """
    costs = costs or {"forward": "10ms", "backward": "20ms", "aggregate": "10ms"}
    return msgspec.structs.replace(
        job, network=Network(link=Link(**link)), compute=Compute(costs=Costs(**costs))
    )
