"""What delay does to descent, on a noisy quadratic: `python -m benchmarks.staleness`.

The argument of docs/methods/fullpipe.md in numbers. The loss is ½ Σ λ_i x_i², its gradient comes s
steps late and with noise:

    m ← β m + (1 − β) (λ x_{t−s} + σ ξ)        x ← x − η m

The argument would be refuted if the largest stable rate did not fall as 1/s, if momentum did not
make that worse, or if the loss of averaged iterates grew with s at the rate of `rate=stale`.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from rich.console import Console
from rich.table import Table

from colonnade.policies.momentum import shared
from colonnade.policies.rate import stale

CURVATURES = np.logspace(-2, 0, 40)
DELAYS = (0, 1, 3, 7, 15, 31)
NOISE, MOMENTUM, RATE, TAU, DECAY = 1.0, 0.9, 0.1, 12.0, 0.999
BLOWN_UP = 1e6


def descend(
    delay: int, rate: float, momentum: float, steps: int, noise: float, seed: int = 0
) -> tuple[float, float]:
    """The loss of the iterates and of their average, mean over the last tenth of the steps."""
    draw = np.random.default_rng(seed)
    past = [np.ones_like(CURVATURES)] * (delay + 1)
    x, m = past[-1].copy(), np.zeros_like(CURVATURES)
    average, losses, averaged = x.copy(), [], []
    for step in range(steps):
        gradient = CURVATURES * past[0] + noise * draw.standard_normal(len(x))
        m = momentum * m + (1 - momentum) * gradient
        x = x - rate * m
        if not np.abs(x).max() < BLOWN_UP:
            return math.inf, math.inf
        past = [*past[1:], x]
        average += (1 - min(DECAY, (1 + step) / (10 + step))) * (x - average)
        if step >= 0.9 * steps:
            losses.append(0.5 * CURVATURES @ x**2)
            averaged.append(0.5 * CURVATURES @ average**2)
    return float(np.mean(losses)), float(np.mean(averaged))


def largest_rate(delay: int, momentum: float) -> float:
    """The largest stable rate without noise, to a part in a hundred."""
    low, high = 1e-3, 8.0
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        steps = 400 * (delay + 1)
        stable = descend(delay, middle, momentum, steps, noise=0.0)[0] < 0.5 * CURVATURES.sum()
        low, high = (middle, high) if stable else (low, middle)
    return low


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="two delays and few steps")
    smoke = parser.parse_args().smoke
    delays, steps = ((0, 3), 2_000) if smoke else (DELAYS, 40_000)
    table = Table(title="A noisy quadratic, gradients s steps late")
    for column in ("s", "largest rate", "2 sin(π/(4s+2))", f"with β = {MOMENTUM:g}", "β′",
                   "with β′", "rate of stale:12", "loss", "of the average",
                   "of the average, full rate and β"):  # fmt: skip
        table.add_column(column, justify="right")
    for delay in delays:
        left = shared().left(MOMENTUM, delay)
        rate = RATE * stale(TAU).factor(0, 2, staleness=delay)
        loss, averaged = descend(delay, rate, left, steps, NOISE)
        _, untamed = descend(delay, RATE, MOMENTUM, steps, NOISE)
        table.add_row(
            str(delay),
            f"{largest_rate(delay, 0.0):.3f}",
            f"{2 * math.sin(math.pi / (4 * delay + 2)):.3f}",
            f"{largest_rate(delay, MOMENTUM):.3f}",
            f"{left:.2f}",
            f"{largest_rate(delay, left):.3f}",
            f"{rate:.3f}",
            f"{loss:.3f}",
            f"{averaged:.4f}",
            f"{untamed:.4f}" if math.isfinite(untamed) else "diverged",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
