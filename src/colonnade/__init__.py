"""Train one neural network across organisations that hold different columns of the same rows.

The public names are imported when they are first used, so that `colonnade --help` need not wait
for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colonnade.data.vertical import VerticalData as VerticalData
    from colonnade.data.vertical import vertical as vertical
    from colonnade.errors import ColonnadeError as ColonnadeError
    from colonnade.errors import DataError as DataError
    from colonnade.errors import DeadlockError as DeadlockError
    from colonnade.errors import FailedError as FailedError
    from colonnade.errors import JobError as JobError
    from colonnade.errors import PartyError as PartyError
    from colonnade.errors import RequestError as RequestError
    from colonnade.errors import WireError as WireError
    from colonnade.estimators.classifier import VerticalClassifier as VerticalClassifier
    from colonnade.estimators.regressor import VerticalRegressor as VerticalRegressor
    from colonnade.job import load as load
    from colonnade.job import with_sets as with_sets
    from colonnade.job.records import Compute as Compute
    from colonnade.job.records import Costs as Costs
    from colonnade.job.records import Job as Job
    from colonnade.job.records import Limits as Limits
    from colonnade.job.records import Link as Link
    from colonnade.job.records import Network as Network
    from colonnade.job.records import Party as Party
    from colonnade.job.records import Recovery as Recovery
    from colonnade.job.records import Timeouts as Timeouts
    from colonnade.job.records import Top as Top
    from colonnade.job.records import Train as Train
    from colonnade.methods.fedbcd import fedbcd as fedbcd
    from colonnade.methods.fedsgd import fedsgd as fedsgd
    from colonnade.methods.method import Method as Method
    from colonnade.plugins import extension as extension
    from colonnade.record.run import Run as Run
    from colonnade.run.audit import audit as audit
    from colonnade.run.clock import reclock as reclock
    from colonnade.run.clock import simulate_clock as simulate_clock
    from colonnade.run.compare import Comparison as Comparison
    from colonnade.run.compare import compare as compare
    from colonnade.run.launch import launch as launch
    from colonnade.run.plan import Plan as Plan
    from colonnade.run.plan import plan as plan
    from colonnade.run.race import race as race
    from colonnade.run.simulate import simulate as simulate
    from colonnade.run.standings import Race as Race
    from colonnade.run.sweep import Sweep as Sweep
    from colonnade.run.sweep import sweep as sweep
    from colonnade.tracking.tracker import track as track

# No module may be called like a public name: importing it would put the module in its place.
_NAMES = {
    "data.vertical": ("VerticalData", "vertical"),
    "errors": (
        *("ColonnadeError", "DataError", "DeadlockError", "FailedError", "JobError", "PartyError"),
        *("RequestError", "WireError"),
    ),
    "estimators.classifier": ("VerticalClassifier",),
    "estimators.regressor": ("VerticalRegressor",),
    "job": ("load", "with_sets"),
    "job.records": (
        *("Compute", "Costs", "Job", "Limits", "Link", "Network", "Party", "Recovery", "Timeouts"),
        *("Top", "Train"),
    ),
    "methods.fedbcd": ("fedbcd",),
    "methods.fedsgd": ("fedsgd",),
    "methods.method": ("Method",),
    "plugins": ("extension",),
    "record.run": ("Run",),
    "run.audit": ("audit",),
    "run.clock": ("reclock", "simulate_clock"),
    "run.compare": ("Comparison", "compare"),
    "run.launch": ("launch",),
    "run.plan": ("Plan", "plan"),
    "run.race": ("race",),
    "run.simulate": ("simulate",),
    "run.standings": ("Race",),
    "run.sweep": ("Sweep", "sweep"),
    "tracking.tracker": ("track",),
}
_HOME = {name: home for home, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'colonnade' has no attribute '{name}'")
    return getattr(importlib.import_module(f"colonnade.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
