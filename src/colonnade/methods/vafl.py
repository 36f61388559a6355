"""VAFL: every passive party at its own pace."""

from __future__ import annotations

from typing import Literal

from colonnade.methods.method import Method
from colonnade.policies.quorum import anyone


def vafl(start: Literal["zeros", "upload"] = "zeros") -> Method:
    """VAFL: the active party answers each passive party by itself, without waiting for others.

    Chen et al., *VAFL: a Method of Vertical Asynchronous Federated Learning*, 2020; the baseline
    of Flex-VFL. When the embedding h_k of a batch comes from party k, the active party takes for
    every other party j what it last sent of those rows, h̄_j, and does one update

        θ_0 ← θ_0 − η ∇_0 ℓ(θ_0, h_k, h̄_{−k}; y)        h̄_k ← h_k

    and party k, when it has the derivative, θ_k ← θ_k − η ∇_k ℓ. In plain split training all
    parties send the same batch and wait for the slowest; here a fast party goes on, and a slow
    one's embeddings grow old. A round of the job is as many such turns as there are passive
    parties. All walk through the batches in the job's order, each by itself. With one passive
    party it is plain split training.

    Args:
        start: what stands for a row that a party has not sent yet: `zeros`, or `upload`, which
            has all parties send the embeddings of all rows first, and counts them.

    Example:
        >>> vafl().composition()
        {'quorum': "anyone(start='zeros')"}
    """
    return Method(quorum=anyone(start))
