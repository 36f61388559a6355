"""The fair comparison: every method at its own best, against FedSGD at its own best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from colonnade.errors import FailedError, JobError, RequestError
from colonnade.job.records import Job
from colonnade.record.folder import check_folder
from colonnade.record.metrics import Metric
from colonnade.run.arguments import as_grid, as_job, as_methods, as_seeds, check_count
from colonnade.run.cluster import cluster
from colonnade.run.compare import prepare_all
from colonnade.run.entrants import AVERAGES, Entrant, entrants
from colonnade.run.halving import FACTOR, check_factor, rungs
from colonnade.run.ladder import FACTORS, GROWTH, Ladder
from colonnade.run.points import OnPlan, Outcome, Points
from colonnade.run.pool import OnDone
from colonnade.run.standings import Race
from colonnade.run.steady import HELD_MIN
from colonnade.run.tracked import tracked
from colonnade.run.tuning import Judge, Tuned, Tuning
from colonnade.tracking.tracker import Track, trackers_of

SHARE = "98%"
"""The target of a job without one: this share of FedSGD's best metric."""
SEEDS = (0, 1, 2)
TUNING_SEEDS = (100, 101)
GROWTH_MAX = 20
NO_VALIDATION = (
    "a race chooses on validation rows, and the job has none: set some aside, as with "
    "--set train.validation=0.1"
)


def race(
    job: Job | str | Path,
    methods: Sequence[str | Mapping[str, Any]],
    seeds: Sequence[int] = SEEDS,
    *,
    out: str | Path,
    tuning_seeds: Sequence[int] = TUNING_SEEDS,
    rates: Sequence[float | str] = FACTORS,
    options: Mapping[str, Sequence[Any]] | None = None,
    average: Sequence[str] = AVERAGES,
    target: float | str | None = None,
    steady: int | None = None,
    halving: int | None = FACTOR,
    growth: int = GROWTH,
    workers: int | None = None,
    on: str | None = None,
    on_plan: OnPlan | None = None,
    on_done: OnDone | None = None,
    beacons: Path | None = None,
    track: Track = None,
) -> Race:
    """Tune every method over one grid, then compare each at its best with FedSGD at its own best.

    Settings are chosen on the validation rows, by the time to a target that is held, with seeds
    that are not those of the table. Runs go on to their end: neither the target nor
    `train.patience` stops them. What was trained before is not trained again.

    Args:
        job: the job, or a job file, or a built-in name; its own method plays no part.
        methods: `"fedbcd"`, `"fedbcd:updates=5"`, or tables; FedSGD always takes part.
        seeds: those of the table.
        out: the folder of the race; each finished run is a file in `points/`.
        tuning_seeds: those by which settings are chosen.
        rates: learning rates for all parties, or multiples of each one's own, as in `"2x"`.
        options: values to try by `"method.option"`, in place of the method's main option.
        average: averages of the weights to try, with every method.
        target: a value of the metric, or a share of FedSGD's best, as in `"98%"`; by default the
            job's, else 98 %.
        steady: evaluations for which the target must be held, by default the rest of the run.
        halving: how many times fewer settings go on to the next, longer rung; None trains all of
            them at full length.
        growth: how often the grid of rates may grow at each end, while a best rate is there.
        workers: processes side by side; by default one for each core.
        on: a Ray cluster, `"ray://HOST:PORT"`, or `"ray"` for one of this host.
        on_plan: told before each rung what it is, how many runs are missing, and of how many.
        on_done: told of every run that ends.
        beacons: a folder in which each run of this host that is under way says how far it is.
        track: tools that get every run when it is done, as in `compare`.

    Example:
        >>> import tempfile
        >>> from colonnade.job import load
        >>> job = load("digits", ["train.rounds=2", "train.evaluate_every=1 round"])
        >>> brief = dict(rates=[0.1], average=["none"], growth=0, tuning_seeds=[100], workers=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = race(job, ["fedbcd:updates=2"], [0], out=folder, target=0.01, **brief)
        >>> [(row["method"], row["reached"]) for row in result.rows()]
        [('fedsgd', 1), ('fedbcd:updates=2', 1)]
    """
    job, seeds, tuning_seeds = as_job(job), as_seeds(seeds), as_seeds(tuning_seeds)
    _check_seeds(seeds, tuning_seeds)
    check_factor(halving)
    on_done = tracked(trackers_of(track, Path(out)), on_done)
    _check_counts(steady, growth)
    _check_where(on, workers)
    given = job.train.target if target is None else target
    wanted = _target(SHARE if given is None else given)
    ladder = Ladder.of(rates)
    field = entrants(as_methods(methods), as_grid(options or {}), list(average))
    base = _open_ended(job)
    check_folder(Path(out), "race")
    lengths, metric = _prepare(base, field, ladder, halving)
    with ExitStack() as stack:
        points = Points(
            Path(out) / "points",
            workers=workers,
            spread=None if on is None else stack.enter_context(cluster(on)),
            on_plan=on_plan,
            on_done=on_done,
            beacons=beacons,
        )
        tuning = Tuning(base, tuning_seeds, lengths, halving or 1, points, growth)
        judge, ladder = _judge(tuning, field[0], ladder, wanted, Judge(metric, None, steady))
        tuned, ladder = tuning.tune(field, ladder, judge)
        outcomes = _measure(tuned, base, seeds, ladder, points)
    assert judge.target is not None
    result = Race(
        job=base,
        folder=Path(out),
        metric=judge.metric.name,
        target=judge.target,
        share=wanted if isinstance(wanted, str) else None,
        steady=steady,
        seeds=seeds,
        tuning_seeds=tuning_seeds,
        rungs=lengths,
        ladder=ladder,
        tuned=tuned,
        outcomes=outcomes,
        trained=points.trained,
    )
    result.save()
    return result


def _check_seeds(seeds: Sequence[int], tuning_seeds: Sequence[int]) -> None:
    if not seeds or not tuning_seeds:
        raise RequestError("a race needs a seed for the table, and another one for the tuning")
    shared = sorted(set(seeds) & set(tuning_seeds))
    if shared:
        raise RequestError(
            f"the seed {shared[0]} is one of the table and one of the tuning: what is chosen with "
            "a seed must not be measured with it, so give other --tuning-seeds"
        )


def _check_where(on: str | None, workers: int | None) -> None:
    if on is not None and workers is not None:
        raise RequestError(
            "workers are processes of this host, and the runs are to go to a cluster: give one of "
            "--workers and --on"
        )


def _check_counts(steady: int | None, growth: int) -> None:
    if steady is not None:
        check_count("steady", steady)
        if steady < HELD_MIN:
            raise RequestError(
                f"steady is {steady}, which is a touch: a target is held for {HELD_MIN} "
                "evaluations or more"
            )
    if isinstance(growth, bool) or not 0 <= growth <= GROWTH_MAX:
        raise RequestError(f"growth is {growth}: give 0 to {GROWTH_MAX} steps at each end")


def _target(wanted: float | str) -> float | str:
    """A value of the metric, or a share as text."""
    text = str(wanted).strip()
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    share = text.endswith("%")
    if isinstance(wanted, bool) or not math.isfinite(value) or (share and not 0 < value <= 100):
        raise RequestError(
            f"the target is '{text}': give a value of the metric, as in 0.9, or a share of "
            "FedSGD's best, as in 98%"
        )
    return text if share else value


def _open_ended(job: Job) -> Job:
    """The job without what ends a run early. The target is looked for in what was measured, so
    that another one trains nothing anew."""
    if job.train.evaluation_period() is None:
        raise JobError(
            "a race goes by the metric, and train.evaluate_every is 'never': set it to '1 epoch', "
            "say"
        )
    train = msgspec.structs.replace(job.train, stop="end", target=None, patience=None)
    return msgspec.structs.replace(job, train=train, seed=0)


def _prepare(
    job: Job, field: Sequence[Entrant], ladder: Ladder, halving: int | None
) -> tuple[list[int], Metric]:
    """The rounds of each rung, and the metric, once it is known that everything can be trained."""
    if not job.train.validation:
        raise JobError(NO_VALIDATION)
    settings = [setting for each in field for setting in each.settings(ladder.rates[:1])]
    active = prepare_all([setting.job(job, ladder) for setting in settings])
    schedule = active.agreement().schedule
    if schedule.chosen_on != "validation":
        raise JobError(NO_VALIDATION)
    assert schedule.period is not None
    return rungs(schedule.rounds, schedule.period, halving), active.metrics[0]


def _judge(
    tuning: Tuning, baseline: Entrant, ladder: Ladder, wanted: float | str, judge: Judge
) -> tuple[Judge, Ladder]:
    """The judge with its target; a share of FedSGD's best is known once that is tuned, by its last
    evaluation."""
    if isinstance(wanted, float):
        return replace(judge, target=wanted), ladder
    tuned, ladder = tuning.tune([baseline], ladder, judge)
    bests = [judge.best(each) for each in tuned[baseline.label].outcomes]
    known = [best for best in bests if best is not None]
    if not known:
        raise FailedError(
            f"FedSGD failed or diverged at every rate, so that there is no {wanted} of its best: "
            "give lower rates, or a target"
        )
    share, best = float(wanted.removesuffix("%")) / 100, fmean(known)
    if best <= 0:
        raise JobError(
            f"FedSGD's best {judge.metric.name} is {best:.4g}, of which {wanted} is no target: "
            "give one as a value"
        )
    target = best * share if judge.metric.higher_is_better else best / share
    return replace(judge, target=target), ladder


def _measure(
    tuned: Mapping[str, Tuned], job: Job, seeds: Sequence[int], ladder: Ladder, points: Points
) -> dict[str, list[Outcome]]:
    """Everybody's best setting, with the seeds of the table."""
    jobs = [
        (
            f"{own.best.text(job, ladder)}, seed {seed}",
            msgspec.structs.replace(own.best.job(job, ladder), seed=seed),
        )
        for own in tuned.values()
        for seed in seeds
    ]
    found = iter(points.train("the table, each method at its best", jobs))
    return {label: [next(found) for _ in seeds] for label in tuned}
