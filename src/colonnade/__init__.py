"""Train one neural network across organisations that hold different columns of the same rows.

The public names are imported when they are first used, so that `colonnade --help` need not wait
for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colonnade.data.vertical import VerticalData, vertical
    from colonnade.errors import (
        ColonnadeError,
        DataError,
        DeadlockError,
        FailedError,
        JobError,
        PartyError,
        RequestError,
        WireError,
    )
    from colonnade.job import load, with_sets
    from colonnade.job.records import (
        Compute,
        Costs,
        Job,
        Limits,
        Link,
        Network,
        Party,
        Recovery,
        Timeouts,
        Top,
        Train,
    )
    from colonnade.methods.fedbcd import fedbcd
    from colonnade.methods.fedsgd import fedsgd
    from colonnade.methods.method import Method
    from colonnade.plugins import extension
    from colonnade.record.run import Run
    from colonnade.run.clock import reclock, simulate_clock
    from colonnade.run.compare import Comparison, compare
    from colonnade.run.launch import launch
    from colonnade.run.simulate import simulate
    from colonnade.run.sweep import Sweep, sweep

# No module may be called like a public name: importing it would put the module in its place.
_HOME = {
    "ColonnadeError": "errors",
    "Comparison": "run.compare",
    "Compute": "job.records",
    "Costs": "job.records",
    "DataError": "errors",
    "DeadlockError": "errors",
    "FailedError": "errors",
    "Job": "job.records",
    "JobError": "errors",
    "Limits": "job.records",
    "Link": "job.records",
    "Method": "methods.method",
    "Network": "job.records",
    "Party": "job.records",
    "PartyError": "errors",
    "Recovery": "job.records",
    "RequestError": "errors",
    "Run": "record.run",
    "Sweep": "run.sweep",
    "Timeouts": "job.records",
    "Top": "job.records",
    "Train": "job.records",
    "VerticalData": "data.vertical",
    "WireError": "errors",
    "compare": "run.compare",
    "extension": "plugins",
    "fedbcd": "methods.fedbcd",
    "fedsgd": "methods.fedsgd",
    "launch": "run.launch",
    "load": "job",
    "reclock": "run.clock",
    "simulate": "run.simulate",
    "simulate_clock": "run.clock",
    "sweep": "run.sweep",
    "vertical": "data.vertical",
    "with_sets": "job",
}

__all__ = [
    "ColonnadeError",
    "Comparison",
    "Compute",
    "Costs",
    "DataError",
    "DeadlockError",
    "FailedError",
    "Job",
    "JobError",
    "Limits",
    "Link",
    "Method",
    "Network",
    "Party",
    "PartyError",
    "Recovery",
    "RequestError",
    "Run",
    "Sweep",
    "Timeouts",
    "Top",
    "Train",
    "VerticalData",
    "WireError",
    "compare",
    "extension",
    "fedbcd",
    "fedsgd",
    "launch",
    "load",
    "reclock",
    "simulate",
    "simulate_clock",
    "sweep",
    "vertical",
    "with_sets",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'colonnade' has no attribute '{name}'")
    return getattr(importlib.import_module(f"colonnade.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
