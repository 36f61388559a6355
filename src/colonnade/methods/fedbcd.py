"""FedBCD: several local updates per exchange."""

from __future__ import annotations

from typing import Literal, get_args

from colonnade.errors import RequestError
from colonnade.methods.method import Method
from colonnade.policies.local import repeat
from colonnade.policies.order import parallel, sequential
from colonnade.policies.rate import RatePolicy, constant, inverse_sqrt
from colonnade.policies.step import proximal

Order = Literal["parallel", "sequential"]
DECAYS: dict[str, RatePolicy] = {
    "none": constant(),
    "sqrt": inverse_sqrt(),
    "sqrt-parties": inverse_sqrt(by_parties=True),
}


def fedbcd(
    updates: int = 5,
    order: Order = "parallel",
    reply: Literal["after", "last"] = "after",
    mu: float = 0.0,
    decay: Literal["none", "sqrt", "sqrt-parties"] = "none",
) -> Method:
    """FedBCD: every party does Q updates on each exchange before the next.

    Liu et al., *FedBCD: A Communication-Efficient Collaborative Learning Framework for
    Distributed Features*, IEEE Transactions on Signal Processing 2022. In the round that began at
    weights Θ^{r₀}, for q = 0 … Q−1 each party does (Eq. 9, Algorithm 1)

        θ_k ← θ_k − η ∇_k f([Θ_{−k}^{r₀}, θ_k]; S)

    A passive party goes forward anew and applies the gradient ∂ℓ/∂h_k it received; the active
    party goes forward anew through its own bottom model and the top model, with the others'
    embeddings as they came. Plain split training does one such update: `updates=1` is FedSGD.

    Args:
        updates: Q, all updates on one exchange, the fresh one included.
        order: `parallel` (FedBCD-p): the reply leaves with the active party's first update.
            `sequential` (FedBCD-s): the active party does its Q updates, then replies.
        reply: for `sequential`, the gradient that is sent: taken `after` the last update, at the
            updated weights (Gauss–Seidel), or the one of the `last` update, taken before it.
        mu: the proximal term μ(θ_k − θ_k^{r₀}) of FedPBCD (Eq. 13); 0 for none.
        decay: the rate falls as η/√(r+1) (`sqrt`) or η/√((r+1)K) (`sqrt-parties`) over rounds r.

    Example:
        >>> fedbcd(updates=5).composition()
        {'local': 'repeat(updates=5)'}
        >>> from colonnade.methods.fedsgd import fedsgd
        >>> fedbcd(updates=1) == fedsgd()
        True
    """
    if order not in get_args(Order):
        raise RequestError(f"order is {order!r}: choose {' or '.join(get_args(Order))}")
    if decay not in DECAYS:
        raise RequestError(f"decay is {decay!r}: choose {', '.join(DECAYS)}")
    if order == "parallel" and reply != "after":
        raise RequestError("reply='last' needs order='sequential': a parallel reply leaves first")
    return Method(
        local=repeat(updates),
        order=sequential(reply) if order == "sequential" else parallel(),
        step=proximal(mu),
        rate=DECAYS[decay],
    )
