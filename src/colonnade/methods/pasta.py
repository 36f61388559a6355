"""PASTA: adaptive pipelining with staleness control."""

from __future__ import annotations

from colonnade.methods.method import Method
from colonnade.policies.local import while_waiting
from colonnade.policies.window import pipelined


def pasta(b_max: int = 3, s_max: int = 4, decay: bool = True) -> Method:
    """PASTA: several exchanges in flight, steered by feedback, and local updates while waiting.

    Wu et al., *PASTA: Training Acceleration for Vertical Federated Learning via Adaptive Pipeline
    Parallelism*, 2025, Algorithms 1 and 2. A passive party may have B ≤ B_max embeddings in
    flight. With every reply the active party says whether it had to wait for that party (C = +1),
    found just its embedding (0) or more than one (−1), and B follows. A reply that comes while the
    party is busy lets the next batch leave before it is used. Each batch goes backward with the
    weights that made its embedding, and the gradient is applied to the present ones:

        θ ← θ − η (∂h(θ_then)/∂θ)ᵀ ∂ℓ/∂h

    Between replies a party trains locally, at most s_e/B times (the active party s_e), with
    s_e = ⌊s_max/√(e+1)⌋ after e finished epochs (Eq. 4), and stops when a reply is there. Plain
    split training has B = 1 and no local updates. The falling rate η₀/√e is the job's: give each
    party `schedule = { name = "inverse-sqrt" }`.

    Args:
        b_max: the most embeddings in flight, B_max.
        s_max: local updates on one exchange in the first epoch (the fresh one not counted).
        decay: whether s_e falls with the epochs.

    Example:
        >>> sorted(pasta().composition())
        ['local', 'window']
    """
    return Method(window=pipelined(b_max), local=while_waiting(s_max, decay))
