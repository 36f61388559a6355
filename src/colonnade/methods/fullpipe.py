"""Full pipe: as many exchanges in flight as the path holds, with their staleness tamed."""

from __future__ import annotations

from colonnade.methods.method import Method
from colonnade.policies.average import ema
from colonnade.policies.momentum import shared
from colonnade.policies.rate import stale
from colonnade.policies.version import recompute
from colonnade.policies.weight import compensate
from colonnade.policies.window import SHARE, bandwidth_delay


def fullpipe(
    most: int = 16, share: float = SHARE, tau: float = 12.0, decay: float = 0.999
) -> Method:
    """Full pipe: no stage of the pipeline waits, and late gradients do no harm.

    Ours, 2026, after the window of BBR (Cardwell et al., 2016), the pipeline of PipeDream
    (Narayanan et al., 2019) and the implicit momentum of stale gradients (Mitliagkas et al., 2016).
    With one exchange in flight, as in plain split training, a round takes the whole way there and
    back. Here a passive party has as many in flight as keep the slowest stage busy (W, measured
    while it trains), so that a round takes as long as that stage. The price is staleness: a
    gradient g of the loss by the embedding h comes back when s ≤ W − 1 updates of the party's own
    have come between. So a passive party goes forward again with its present weights θ, as long as
    it has time for that. It then knows how far each row's embedding has moved, and by that what
    its gradient would be by now (K parties, B rows in a batch); and it takes smaller steps with
    less momentum β the staler they are:

        wᵢ = 1 + K ⟨B gᵢ, hᵢ(θ) − hᵢ⟩, within 0 and 2
        m ← β′ m + (1 − β′) (∂h(θ)/∂θ)ᵀ (w ⊙ g)        1/(1−β′) = max(1, 1/(1−β) − s)
        θ ← θ − η/(1 + s/τ) · step(m)

    The active party's own models are never stale, and train as they always do. What is evaluated
    and handed over is the average of each party's weights over its updates. With one exchange in
    flight (`most=1`, or where the way is short) this is FedSGD with averaged weights.

    Args:
        most: the most exchanges in flight.
        share: the most exchanges in flight as a share of an epoch.
        tau: the staleness at which a passive party's rate is halved.
        decay: of the averaged weights; 0 for none.

    Example:
        >>> sorted(fullpipe().composition())
        ['average', 'momentum', 'rate', 'version', 'weight', 'window']
    """
    if most == 1:
        return Method(average=ema(decay))
    return Method(
        window=bandwidth_delay(most, share),
        version=recompute("idle"),
        weight=compensate(),
        rate=stale(tau),
        momentum=shared(),
        average=ema(decay),
    )
