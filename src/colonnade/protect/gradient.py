"""Protections of gradients: noise that hides the class of a row. What they hide they hide in one
round; who adds up many rounds sees through them (`colonnade privacy` measures that)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from colonnade.errors import JobError
from colonnade.protect.secret import Stream

_TINY = 1e-30


@dataclass(frozen=True)
class MaxNorm:
    """Every row's gradient looks as long as the longest of its batch, on average (Li et al. 2022,
    section 4.1): with z from N(0, 1),

        g ← g + z · g · √(‖g_max‖² / ‖g‖² − 1)

    *No guarantee*: the direction of a gradient stays on its line, and norms are hidden in one round
    only.
    """

    text = "max_norm"
    binary = False

    def leaving(self, gradient: torch.Tensor, labels: torch.Tensor, random: Stream) -> torch.Tensor:
        squares = (gradient * gradient).sum(dim=1, keepdim=True)
        # A row without any gradient has no line to stay on.
        ratio = torch.where(squares > 0, squares.max() / squares.clamp(min=_TINY), 1.0)
        z = torch.from_numpy(random.normal(len(gradient), 1)).to(gradient)
        return gradient + z * (ratio - 1).clamp(min=0).sqrt() * gradient


@dataclass(frozen=True)
class Marvell:
    """Noise of another covariance for each class, with the least power that makes the classes of a
    batch as hard to tell as asked for (Li et al. 2022, section 4.2). With both classes' gradients
    taken as normal around their means, of variances u and v in each of d dimensions, and Δ between
    the means, the noise has the variances λ₁ along Δ and λ₂ across, for each class its own. It
    minimises p tr Σ₁ + (1 − p) tr Σ₀ under

        sumKL = ½ [(d−1)(a₀/a₁ + a₁/a₀ − 2) + (b₀+‖Δ‖²)/b₁ + (b₁+‖Δ‖²)/b₀ − 2] ≤ (2 − 4·error)²

    where a, b are the variances with noise. By Pinsker's inequality no test then errs in less than
    the share `error` of rows of a batch, both classes counted alike. *Guarantee*: that, of one
    round, as far as gradients are normal. *No guarantee* over rounds: a row comes in every
    epoch.
    """

    error: float
    binary = True

    @property
    def text(self) -> str:
        return f"marvell:{self.error:g}"

    def leaving(self, gradient: torch.Tensor, labels: torch.Tensor, random: Stream) -> torch.Tensor:
        positive = (labels.reshape(-1) > 0.5).cpu().numpy()
        g = gradient.detach().double().cpu().numpy()
        if positive.all() or not positive.any():
            return MaxNorm().leaving(gradient, labels, random)
        gap = g[positive].mean(axis=0) - g[~positive].mean(axis=0)
        spread = [
            float(((g[rows] - g[rows].mean(axis=0)) ** 2).mean()) for rows in (~positive, positive)
        ]
        share, square = float(positive.mean()), float(gap @ gap)
        across, along = _variances(spread, square, g.shape[1], share, (2 - 4 * self.error) ** 2)
        own = positive.astype(np.int64)
        noise = np.sqrt(across)[own, None] * random.normal(*g.shape)
        more = np.sqrt(np.maximum(along - across, 0))[own] * random.normal(len(g))
        noise += np.outer(more, gap / math.sqrt(max(square, _TINY)))
        return gradient + torch.from_numpy(noise).to(gradient)


def _variances(
    spread: list[float], square: float, width: int, share: float, most: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The variances of the noise across and along the gap, each for class 0 and class 1."""
    base = np.array([*spread, *spread])
    prices = np.array([1 - share, share])
    weights = np.concatenate([(width - 1) * prices, prices])
    # Equal variances everywhere, large enough along the gap: always good enough, seldom the best.
    even = max(*spread, _TINY)
    start = np.array([even, even, *[max(even, square / most)] * 2])
    scale = start.max()

    def divergence(x: NDArray[np.float64]) -> float:
        a0, a1, b0, b1 = x
        across = (width - 1) * (a0 / a1 + a1 / a0 - 2)
        return float(across + (b0 + square) / b1 + (b1 + square) / b0 - 2) / 2

    found = minimize(
        lambda x: float(weights @ x),
        start / scale,
        bounds=[(max(low / scale, 1e-12), None) for low in base],
        constraints=[
            {"type": "ineq", "fun": lambda x: most - divergence(x * scale)},
            {"type": "ineq", "fun": lambda x: x[2:] - base[2:] / scale - x[:2] + base[:2] / scale},
        ],
        method="SLSQP",
    )
    best = np.maximum(found.x * scale, base)
    if not np.isfinite(best).all() or divergence(best) > most * (1 + 1e-6):
        best = start
    noise = best - base
    return noise[:2], noise[2:]


def max_norm() -> MaxNorm:
    """Every row's gradient as long as the longest of its batch, on average.

    >>> max_norm().text
    'max_norm'
    """
    return MaxNorm()


def marvell(error: float) -> Marvell:
    """The least noise with which a test of one round errs in at least the share `error`.

    >>> marvell(0.3).text
    'marvell:0.3'
    """
    if not 0 < error < 0.5:
        raise JobError(
            f"marvell:{error:g} is no error: give a share over 0 and under 0.5, which is guessing, "
            "as in marvell:0.3"
        )
    return Marvell(float(error))
