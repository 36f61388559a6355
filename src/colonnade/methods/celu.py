"""CELU-VFL: a cache of stale statistics, used in turn and weighed."""

from __future__ import annotations

from colonnade.errors import RequestError
from colonnade.methods.method import Method
from colonnade.policies.local import workset
from colonnade.policies.weight import cosine, uniform

THRESHOLD = 0.5


def celu(
    w: int = 5, r: int = 5, threshold: float = THRESHOLD, weigh: bool = True, overlap: bool = True
) -> Method:
    """CELU-VFL: local updates on the W newest exchanges in turn, each instance weighed.

    Fu et al., *Towards Communication-efficient Vertical Federated Learning Training via
    Cache-enabled Local Updates*, PVLDB 2022, Algorithms 1 and 2. While a message is on its way,
    each party takes its cached exchanges round-robin, every one for at most R updates. A stale
    instance i counts by how much what was exchanged still agrees with what it would be now:

        w_i = cos(s_i, s̃_i) if that is at least ξ, else 0

    with s the embeddings at a passive party and the derivatives by the passives' embeddings, side
    by side, at the active party. A passive party then does θ ← θ − η (∂h/∂θ)ᵀ (w ⊙ ∂ℓ/∂h), the
    active party minimises (1/N) Σ w_i ℓ_i. Plain split training caches nothing: `r=1` is FedSGD.
    The paper has one passive party; here each has its own workset.

    Args:
        w: the size of the workset, W.
        r: all updates on one exchange, R, the fresh one included.
        threshold: ξ, a cosine; 0.5 is the paper's 60°.
        weigh: whether instances are weighed at all.
        overlap: whether local updates run while the party waits, or hold back its next batch
            (with W = 1 and no weights that is FedBCD).

    Example:
        >>> from colonnade.methods.fedsgd import fedsgd
        >>> celu(r=1) == fedsgd()
        True
    """
    if not weigh and threshold != THRESHOLD:
        raise RequestError(
            f"threshold={threshold} is of the weights, and weigh=false leaves them out: leave out "
            "one of the two"
        )
    local = workset(w, r, overlap)
    return Method(local=local, weight=cosine(threshold) if weigh and r > 1 else uniform())
