"""How much differential privacy is left after so many releases with Gaussian noise.

T releases of one row with noise σ and L2 sensitivity Δ tell as much as one with μ = Δ√T/σ (Dong et
al. 2022), of which Balle and Wang (2018) give the exact curve:

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)

Of releases with different noise the squares add up: μ² is what a row has *spent*.
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr, ndtr

from colonnade.protect.embedding import Gauss

DELTA = 1e-5
"""The δ for which ε is given, where nobody says another."""
_MU_MAX = 1e4
"""Beyond it the second term of the curve is lost in rounding, and left out: δ is then a little too
large, and never too small."""


def mu(noise: Gauss, releases: int) -> float:
    """How far apart two rows are after so many releases, in standard deviations of the noise.

    >>> from colonnade.protect.embedding import gauss
    >>> mu(gauss(1, 4), 16)
    2.0
    """
    return math.sqrt(spent(noise, releases))


def spent(noise: Gauss, releases: int = 1) -> float:
    """The μ² of so many releases, which adds up with that of others.

    >>> from colonnade.protect.embedding import gauss
    >>> spent(gauss(1, 4), 16)
    4.0
    """
    once = 2 * noise.clip / noise.sigma
    return releases * (once * once) if releases else 0.0


def delta_of(epsilon: float, mu: float) -> float:
    """The δ of an ε.

    >>> round(delta_of(1.0, 1.0), 4)
    0.1269
    """
    if mu == 0:
        return 0.0
    if mu > _MU_MAX:
        return float(ndtr(mu / 2 - epsilon / mu))
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def epsilon_of(mu: float, delta: float = DELTA) -> float:
    """The smallest ε with which `delta` holds.

    >>> round(epsilon_of(1.0), 3)
    4.377
    """
    if mu == math.inf:
        return math.inf
    if delta_of(0.0, mu) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_of(high, mu) > delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, mu) > delta else (low, middle)
    return high


def spent_for(epsilon: float, delta: float = DELTA) -> float:
    """The μ² with which an ε is used up.

    >>> round(epsilon_of(math.sqrt(spent_for(2.0))), 6)
    2.0
    """
    low, high = 0.0, 1.0
    while epsilon_of(high, delta) <= epsilon:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        fits = epsilon_of(middle, delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low**2
