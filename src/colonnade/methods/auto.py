"""Auto: speeds and lines are measured, and what fills them best is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from colonnade.compress import Compress, by_link, error_feedback
from colonnade.methods.fullpipe import fullpipe
from colonnade.methods.method import Method
from colonnade.policies.average import ema
from colonnade.policies.local import repeat
from colonnade.policies.rate import stale

Goal = Literal["accuracy_first", "time_first", "bytes_first"]


def auto(
    goal: Goal = "accuracy_first",
    most: int = 16,
    share: float = 0.5,
    bits: int = 0,
    tau: float = 12.0,
    decay: float = 0.999,
) -> Method:
    """Auto: speeds and lines are measured, and what fills them best is chosen.

    Ours, 2026: full pipe (`fullpipe`), with what it leaves to the user chosen within bounds that
    all agree on. Before the first round, and again whenever rounds become a quarter slower or
    faster, the active party measures everybody's speed and line, and chooses each party's window
    wₖ and the bits qₖ of its embeddings and gradients, so that

        round(w) · (1 + ((w − 1)/16)²) is least, and then each qₖ as large as round(w) allows,
        round(w) = max( slowest party, slowest line at qₖ, (once around) / w )

    Passive parties hold what is chosen against the bounds. An update is that of full pipe:

        θ ← θ − η/(1 + s/τ) · step(m)

    with s updates between an embedding and the use of its gradient, and the rate η of the party's
    own optimizer. The goal decides the bounds. `accuracy_first`: 4 to 32 bits. `time_first`: 3 to
    32 bits. `bytes_first`: 3 bits, and on every exchange five updates, which share the rate (η/5),
    one exchange at a time; then nothing is left to choose, and nothing is measured.

    Args:
        goal: what matters most.
        most: the most exchanges in flight.
        share: the most exchanges in flight as a share of an epoch.
        bits: the fewest bits a component; 0 for those of the goal.
        tau: the staleness at which a passive party's rate is halved.
        decay: of the averaged weights; 0 for none.

    Example:
        >>> auto().composition()["compress"]
        'compress(embedding=ef+by_link:4:32, gradient=ef+by_link:4:32)'
        >>> auto("bytes_first").composition()["local"]
        'repeat(updates=5)'
    """
    least = bits or {"accuracy_first": 4}.get(goal, 3)
    if goal == "bytes_first":
        # Nothing is stale where one exchange is in flight, so only the updates count.
        rate = stale(tau, share=True)
        return Method(local=repeat(5), rate=rate, average=ema(decay), compress=_both(least, least))
    return replace(fullpipe(most, share, tau, decay), compress=_both(least))


def _both(least: int, most: int = 32) -> Compress:
    """Embeddings and gradients alike."""
    encoding = error_feedback(by_link(least, most))
    return Compress(embedding=encoding, gradient=encoding)
