"""PASTA at a long latency: how much sooner than FedSGD it reaches the same accuracy.

A unit is 10 ms: forward 10 units, backward 20, aggregate 10, latency 1000 units one-way, links of
300 Mbit. Two models on Fashion-MNIST:

- the MLPs of the job `fmnist`, with plain SGD, to the job's own target of 85 %. At the rate
  that suits FedSGD best all other methods diverge. So every method is trained at every rate of one
  grid, and compared with FedSGD twice: at the same rate, and with FedSGD at its best;
- the paper's CNNs, data split and settings, the job `fmnist-pasta`, to its 90 %. The paper has its
  speed-ups in Table II.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec.structs import replace

from colonnade.job.files import load
from colonnade.job.records import Job
from colonnade.record.table import COSTS, show_found
from colonnade.reproduce import Reproduction, Say, figures, ratio, slow_network, train
from colonnade.run.compare import Comparison
from colonnade.run.pool import Trial
from colonnade.units import show_seconds

UNIT_MS = 10
LATENCY = 1000
METHODS: dict[str, dict[str, Any]] = {
    "FedSGD": {"name": "fedsgd"},
    "FedBCD, Q=5": {"name": "fedbcd", "updates": 5},
    "CELU, W=5, R=5": {"name": "celu", "w": 5, "r": 5},
    "PASTA, B=3, s=4": {"name": "pasta", "b_max": 3, "s_max": 4},
}
PASTA = "PASTA, B=3, s=4"
PAPER = {"FedSGD": "1×", "FedBCD, Q=5": "1.1×", PASTA: "4.6×"}
"""Table II, Fashion-MNIST, SplitVFL, to 90 %."""
RATES = (0.05, 0.1, 0.2, 0.4, 0.8)
EPOCHS = 30
SEEDS = (0, 1, 2, 3, 4)
PAPER_SEEDS = (97, 98, 99, 100, 101)


@dataclass(frozen=True)
class Group:
    """The runs of all methods in one setting."""

    model: str
    rate: str
    trials: dict[str, list[Trial]]

    def time(self, method: str) -> float | None:
        """Mean time to the target; None if a seed missed it."""
        times = figures(self.trials[method], "time_to_target_s")
        known = [time for time in times if time is not None]
        return fmean(known) if len(known) == len(times) else None

    def save(self, out: Path) -> None:
        """Every run, in a folder of the group's own."""
        trials = [trial for each in self.trials.values() for trial in each]
        Comparison(trials).save(out / (f"mlp-{self.rate}" if self.model == "MLP" else "cnn"))


def reproduce(out: Path | None, seeds: list[int] | None, quick: bool, say: Say) -> Reproduction:
    """Time to the target of every method, and how much sooner than FedSGD, the paper's beside.

    The quick form takes the job `digits`, one seed and one rate, and leaves out the CNNs. These
    compute on a GPU if there is one; the MLPs are too small for it.
    """
    name, rates = ("digits", (0.05,)) if quick else ("fmnist", RATES)
    chosen = seeds or list(SEEDS[:1] if quick else SEEDS)
    say(f"{name}, MLPs, SGD {', '.join(map(str, rates))}")
    trained = _train([_mlp_job(name, rate) for rate in rates], chosen)
    groups = [Group("MLP", f"{rate:g}", each) for rate, each in zip(rates, trained, strict=True)]
    rows = [row for group in groups for row in _rows(group, _best(groups), {})]
    if not quick:
        say("fmnist-pasta, CNNs")
        (trials,) = _train([_cnn_job()], seeds or list(PAPER_SEEDS))
        groups.append(Group("CNN", "Adam 0.005/√e", trials))
        rows += _rows(groups[-1], None, PAPER)
    if out is not None:
        for group in groups:
            group.save(out)
    return Reproduction(
        title=f"Time to target at {LATENCY} units of {UNIT_MS} ms, one-way",
        columns=[
            "model",
            "rate",
            "method",
            "time",
            "epochs",
            "reached",
            "accuracy",
            "faster",
            "faster than FedSGD at its best",
            "paper",
        ],
        rows=rows,
        notes=[
            f"mean ± deviation over {len(chosen)} seeds, of those that reached the target",
            "accuracy: the best of a run; the MLPs' runs end at the target",
            "faster: FedSGD's time over the method's at the same rate, on the seeds that reached "
            "the target with both",
            *_readings([group for group in groups if group.model == "MLP"]),
        ],
        data={"groups": [_figures(group) for group in groups]},
    )


def _mlp_job(name: str, rate: float) -> Job:
    return load(
        name,
        [
            f"parties.*.optimizer={{ name = 'sgd', lr = {rate} }}",
            *([] if name == "digits" else [f"train.epochs={EPOCHS}"]),
            "train.stop=target",
            "train.evaluate_every=10 rounds",
            "train.validation=0",
            *slow_network(LATENCY, UNIT_MS),
        ],
    )


def _cnn_job() -> Job:
    """The paper's job, evaluated after every epoch as the paper has it, and never ended early."""
    import torch

    sets = ["parties.*.device=cuda"] if torch.cuda.is_available() else []
    return load("fmnist-pasta", sets)


def _train(jobs: Sequence[Job], seeds: Sequence[int]) -> list[dict[str, list[Trial]]]:
    """Every job with every method and seed, all at once; the runs by method, for each job."""
    groups = [{n: replace(job, method=method) for n, method in METHODS.items()} for job in jobs]
    return [trained.methods() for trained in train(groups, seeds)]


def _best(groups: Sequence[Group], method: str = "FedSGD") -> Group | None:
    """The rate at which all seeds of a method reach the target, and soonest."""
    times = [(group.time(method), group) for group in groups]
    known = [(time, group) for time, group in times if time is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def _readings(groups: Sequence[Group]) -> list[str]:
    """PASTA against FedSGD at one rate for all, and with each at its best rate."""
    sound = [g for g in groups if all(g.time(method) is not None for method in METHODS)]
    notes = []
    if sound:
        times = _faster(sound[-1].trials["FedSGD"], sound[-1].trials[PASTA])
        notes.append(f"PASTA at {sound[-1].rate}, the highest rate at which nobody misses: {times}")
    ours, theirs = _best(groups, PASTA), _best(groups)
    if ours and theirs:
        times = _faster(theirs.trials["FedSGD"], ours.trials[PASTA])
        notes.append(f"PASTA at {ours.rate}, FedSGD at {theirs.rate}, their best: {times}")
    return notes


def _rows(group: Group, best: Group | None, paper: dict[str, str]) -> list[list[str]]:
    rows = []
    for method, trials in group.trials.items():
        known = [time for time in figures(trials, "time_to_target_s") if time]
        rows.append(
            [
                group.model,
                group.rate,
                method,
                show_found(known, show_seconds),
                _epochs(trials),
                f"{len(known)}/{len(trials)}",
                _accuracy(trials),
                _faster(group.trials["FedSGD"], trials),
                _faster(best.trials["FedSGD"], trials) if best else "–",
                paper.get(method, "–"),
            ]
        )
    return rows


def _faster(slow: Sequence[Trial], fast: Sequence[Trial]) -> str:
    """The ratio of the times to the target, on the seeds that reached it with both."""
    found = ratio(figures(slow, "time_to_target_s"), figures(fast, "time_to_target_s"))
    return "–" if found is None else f"{found:.2f}×"


def _epochs(trials: Sequence[Trial]) -> str:
    found = []
    for trial in trials:
        rounds = trial.figure("rounds_to_target")
        if rounds is not None and trial.summary is not None:
            found.append(rounds * trial.summary["epochs"] / trial.summary["rounds"])
    return f"{fmean(found):.1f}" if found else "missed"


def _accuracy(trials: Sequence[Trial]) -> str:
    """The best of each run; runs that diverged are only counted."""
    bests = [None if t.bad or t.summary is None else t.summary["metric"]["best"] for t in trials]
    return "diverged" if not any(bests) else show_found(bests, "{:.4f}".format)


def _figures(group: Group) -> dict[str, Any]:
    fields = [name for name, _, _ in COSTS]
    runs = {
        method: [
            {
                "seed": trial.job.seed,
                "status": trial.status,
                "metric": trial.summary["metric"] if trial.summary else None,
                **{field: trial.figure(field) for field in fields},
            }
            for trial in trials
        ]
        for method, trials in group.trials.items()
    }
    return {"model": group.model, "rate": group.rate, "runs": runs}
