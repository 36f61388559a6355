"""How much differential privacy is left after so many releases with Gaussian noise.

T releases of one row with noise σ and L2 sensitivity Δ tell as much as one with μ = Δ√T/σ (Dong et
al. 2022), of which Balle and Wang (2018) give the exact curve:

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr, ndtr

from colonnade.protect.embedding import Gauss

DELTA = 1e-5
"""The δ for which ε is given, where nobody says another."""


def mu(noise: Gauss, releases: int) -> float:
    """How far apart two rows are after so many releases, in standard deviations of the noise.

    >>> from colonnade.protect.embedding import gauss
    >>> mu(gauss(1, 4), 16)
    2.0
    """
    return 2 * noise.clip * math.sqrt(releases) / noise.sigma


def delta_of(epsilon: float, mu: float) -> float:
    """The δ of an ε.

    >>> round(delta_of(1.0, 1.0), 4)
    0.1269
    """
    if mu == 0:
        return 0.0
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def epsilon_of(mu: float, delta: float = DELTA) -> float:
    """The smallest ε with which `delta` holds.

    >>> round(epsilon_of(1.0), 3)
    4.377
    """
    if delta_of(0.0, mu) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_of(high, mu) > delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, mu) > delta else (low, middle)
    return high
