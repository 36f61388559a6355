"""Flex-VFL: each party as many updates as its speed allows."""

from __future__ import annotations

from typing import Literal

from colonnade.errors import RequestError
from colonnade.methods.method import Method
from colonnade.policies.exchange import ExchangePolicy, gradients, snapshot
from colonnade.policies.local import agreed, deadline, until
from colonnade.policies.rate import constant, speed_adaptive
from colonnade.policies.step import local_momentum

EXCHANGES: dict[str, ExchangePolicy] = {"snapshot": snapshot(), "gradients": gradients()}


def flexvfl(
    timeout: str = "100ms",
    momentum: float = 0.0,
    adaptive: bool = False,
    first: float = 0.0,
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
        first: τ·w̄ of the first round, from prior knowledge; 0 has every party measure it with one
            update that changes nothing.
        exchange: what comes back, `snapshot` as in the paper, or `gradients`.

    Example:
        >>> sorted(flexvfl("50ms").composition())
        ['exchange', 'local']
    """
    if first and not adaptive:
        raise RequestError("first is of the adaptive rate: set adaptive=true, or leave it out")
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


def sync_min(timeout: str = "100ms", momentum: float = 0.0) -> Method:
    """Sync-Min: every party as many updates as the slowest could do before the timeout.

    A baseline of Castiglia et al., *Flexible Vertical Federated Learning with Heterogeneous
    Parties*, IEEE TNNLS 2023: Flex-VFL (Eq. 6) with

        τ_k^r = min_j τ_j^r        for all k

    With each embedding a party reports how many updates would fit, going by its last one, and
    with each snapshot it hears the least of these; one update that changes nothing precedes the
    first round. Plain split training does one update each.

    Args:
        timeout: the time into which the slowest party's updates must fit.
        momentum: ρ of local momentum, which starts anew in every round; 0 for plain SGD.

    Example:
        >>> sorted(sync_min("50ms").composition())
        ['exchange', 'local']
    """
    return Method(exchange=snapshot(), local=agreed(timeout, "min"), step=local_momentum(momentum))


def sync_max(timeout: str = "100ms", momentum: float = 0.0) -> Method:
    """Sync-Max: every party as many updates as the fastest could do before the timeout.

    A baseline of Castiglia et al., *Flexible Vertical Federated Learning with Heterogeneous
    Parties*, IEEE TNNLS 2023: Flex-VFL (Eq. 6) with

        τ_k^r = max_j τ_j^r        for all k

    so that a round takes as long as the slowest party needs for the fastest one's number. The
    number is agreed on as in Sync-Min. Plain split training does one update each.

    Args:
        timeout: the time into which the fastest party's updates must fit.
        momentum: ρ of local momentum, which starts anew in every round; 0 for plain SGD.

    Example:
        >>> sorted(sync_max("50ms").composition())
        ['exchange', 'local']
    """
    return Method(exchange=snapshot(), local=agreed(timeout, "max"), step=local_momentum(momentum))


def flexvfl_s(most: int = 4) -> Method:
    """FlexVFL-s: what the authors of PASTA compare with; gradients, and a deadline for a round.

    Wu et al., *PASTA*, 2025. With u_k the time of an update of party k and L_k its one-way
    latency (0 for the active party), the deadline of a round is

        max( max_k (u_k + 2 L_k), min_k (5 u_k + 2 L_k) )

    and a party does, after the fresh update, as many local ones θ_k ← θ_k − η ∇_k ℓ, with the
    gradient that came, as end before it, at most 4.
    Speeds and latencies must be known, so this can only be simulated. At latencies above a few
    updates nobody but the active party has time for any: a weak baseline. Plain split training
    does no local updates.

    Args:
        most: the most local updates on an exchange (the fresh one not counted).

    Example:
        >>> flexvfl_s().composition()
        {'local': 'deadline(most=4)'}
    """
    return Method(local=deadline(most))
