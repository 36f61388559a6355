"""FedBCD, Table I, MNIST-CNN: rounds to an AUC of 99.7 % on MNIST 3 versus 8.

The paper's protocol: left and right halves, its CNN, batch 256, rate η₀/√(r+1) with η₀ tuned. It
does not name the optimizer. We take Adam: with plain SGD FedSGD needs η₀ = 0.8 (about 210 rounds),
and at 0.5 every run with 3 or 5 updates diverged. η₀ is tuned for FedSGD, by the fewest rounds,
and the same for all.

Two more settings drop the decay. The authors' published code has a constant rate of 1e-4, at which
FedSGD is slow and local updates help most. And of everything that we tried FedSGD was fastest with
a constant 1e-3, at which they help least. All that was tried is in `docs/reproductions/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.job.files import load
from colonnade.job.records import Job
from colonnade.record.table import show_found
from colonnade.reproduce import Reproduction, Say
from colonnade.run.compare import compare

PAPER = {
    ("parallel", 1): 46,
    ("parallel", 3): 16,
    ("parallel", 5): 8,
    ("sequential", 1): 48,
    ("sequential", 3): 15,
    ("sequential", 5): 9,
}
RATES = (0.001, 0.002, 0.004, 0.008)
BEST_RATE = 0.004
"""What the tuning found; the quick form takes it as given."""
CODE_RATE = 1e-4
CONSTANT_RATES = (CODE_RATE, 1e-3)
"""The authors' code's, and the one with which FedSGD was fastest of all that we tried."""
SEEDS = (0, 1, 2, 3, 4)
TUNING_SEEDS = 3
ROUNDS_MAX = 200


def reproduce(out: Path | None, seeds: list[int] | None, quick: bool, say: Say) -> Reproduction:
    """Rounds to AUC 99.7 % for Q = 1, 3, 5, ours beside the paper's.

    The quick form takes one seed, the tuned rate as known, and leaves out FedBCD-s and the
    constant rates. Parties compute on a GPU if there is one.
    """
    chosen = seeds or list(SEEDS[:1] if quick else SEEDS)
    rate = BEST_RATE if quick else _tune(chosen[:TUNING_SEEDS], say)
    orders = ("parallel",) if quick else ("parallel", "sequential")
    say(f"rounds to target with {rate:g}/√(r+1)")
    tuned = _rounds(rate, "sqrt", orders, chosen, out and out / "tuned")
    settings = {f"ours, {rate:g}/√(r+1)": tuned}
    if not quick:
        for constant in CONSTANT_RATES:
            say(f"rounds to target with a constant rate of {constant:g}")
            folder = out and out / f"constant-{constant:g}"
            found = _rounds(constant, "none", orders, chosen, folder)
            settings[f"ours, constant {constant:g}"] = found
    return _table(settings, orders, chosen)


def _job(rate: float) -> Job:
    """The built-in job, evaluated after every round."""
    import torch

    sets = [
        f"train.rounds={ROUNDS_MAX}",
        "train.stop=target",
        "train.evaluate_every=1 round",
        "train.validation=0",
        f"parties.*.optimizer={{ name = 'adam', lr = {rate} }}",
    ]
    if torch.cuda.is_available():
        sets.append("parties.*.device=cuda")
    return load("mnist-3v8", sets)


def _tune(seeds: Sequence[int], say: Say) -> float:
    """The rate with which FedSGD needs the fewest rounds."""
    means: dict[float, float] = {}
    for rate in RATES:
        found = _rounds(rate, "sqrt", ("parallel",), seeds, None, (1,))["parallel", 1]
        means[rate] = sum(ROUNDS_MAX if r is None else r for r in found) / len(found)
        say(f"FedSGD with {rate:g}/√(r+1): {means[rate]:.0f} rounds")
    return min(means, key=means.__getitem__)


def _rounds(
    rate: float,
    decay: str,
    orders: Sequence[str],
    seeds: Sequence[int],
    out: Path | None,
    updates: Sequence[int] = (1, 3, 5),
) -> dict[tuple[str, int], list[int | None]]:
    """Rounds to target by order and Q, a figure for each seed; None is a miss."""
    cases = [(order, q) for order in orders for q in updates]
    methods = [
        {"name": "fedbcd", "updates": q, "order": order, "decay": decay} for order, q in cases
    ]
    by_method = compare(_job(rate), methods, seeds, out=out).methods().values()
    rounds = [
        [trial.summary["rounds_to_target"] if trial.summary else None for trial in trials]
        for trials in by_method
    ]
    return dict(zip(cases, rounds, strict=True))


def _table(
    settings: dict[str, dict[tuple[str, int], list[int | None]]],
    orders: Sequence[str],
    seeds: Sequence[int],
) -> Reproduction:
    names = {"parallel": "FedBCD-p", "sequential": "FedBCD-s"}
    rows = []
    for order in orders:
        for q in (1, 3, 5):
            name = "FedSGD" if (order, q) == ("parallel", 1) else names[order]
            ours = [_cell(found.get((order, q))) for found in settings.values()]
            rows.append([name, str(q), str(PAPER[order, q]), *ours])
    figures: dict[str, Any] = {
        setting: {f"{order} Q={q}": found for (order, q), found in by_case.items()}
        for setting, by_case in settings.items()
    }
    return Reproduction(
        title="FedBCD Table I, MNIST 3 vs 8: rounds to AUC 99.7 %",
        columns=["method", "Q", "paper", *settings],
        rows=rows,
        notes=[
            f"mean ± deviation over seeds {', '.join(map(str, seeds))}; "
            f"a seed that needs more than {ROUNDS_MAX} rounds is a miss"
        ],
        data={"rounds": figures, "seeds": list(seeds)},
    )


def _cell(found: list[int | None] | None) -> str:
    return "–" if found is None else show_found(found, "{:.0f}".format)
