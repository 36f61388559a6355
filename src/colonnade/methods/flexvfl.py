"""Flex-VFL: each party as many updates as its speed allows."""

from __future__ import annotations

from typing import Literal

from colonnade.party.method import Method
from colonnade.policies.exchange import ExchangePolicy, gradients, snapshot
from colonnade.policies.local import until
from colonnade.policies.rate import constant, speed_adaptive
from colonnade.policies.step import local_momentum

EXCHANGES: dict[str, ExchangePolicy] = {"snapshot": snapshot(), "gradients": gradients()}


def flexvfl(
    timeout: str = "100ms",
    momentum: float = 0.0,
    adaptive: bool = False,
    first: float = 1.0,
    exchange: Literal["snapshot", "gradients"] = "snapshot",
) -> Method:
    """Flex-VFL: after every exchange each party trains until a common timeout.

    Castiglia et al., *Flexible Vertical Federated Learning with Heterogeneous Parties*, IEEE TNNLS
    2023, Algorithms 1 and 2. In round r party k does τ_k^r updates against the snapshot Φ^r of
    all embeddings and the top model,

        θ_k ← θ_k − η_k^r D_k(Φ_{−k}^r; θ_k)        (Eq. 6)

    as many as fit before the timeout, at least one; the server has its own τ_0. The time runs from
    when a party has the snapshot. Plain split training does one update whatever a party's speed.
    The passive parties need the labels (`train.labels = "shared"`) unless gradients come back.

    Args:
        timeout: how long each party trains on an exchange.
        momentum: ρ of local momentum, which starts anew in every round; 0 for plain SGD.
        adaptive: Adaptive Flex-VFL: η_k = A_k/(τ_k·w̄_k) with τ_k and w̄_k of the round before
            and A_k the rate of the party's optimizer.
        first: τ·w̄ of the first round, from prior knowledge.
        exchange: what comes back, `snapshot` as in the paper, or `gradients`.

    Example:
        >>> sorted(flexvfl("50ms").composition())
        ['exchange', 'local']
    """
    return Method(
        exchange=EXCHANGES[exchange],
        local=until(timeout),
        step=local_momentum(momentum),
        rate=speed_adaptive(first) if adaptive else constant(),
    )


def pbcd() -> Method:
    """P-BCD: parallel block coordinate descent, one update on each snapshot.

    The synchronous baseline of Castiglia et al., *Flexible Vertical Federated Learning with
    Heterogeneous Parties*, IEEE TNNLS 2023: every party does

        θ_k ← θ_k − η ∇_k F(Θ)

    once for each exchange. It differs from plain split training only in what crosses: snapshots
    instead of gradients, and the labels.

    >>> pbcd().composition()
    {'exchange': 'snapshot()'}
    """
    return Method(exchange=snapshot())
