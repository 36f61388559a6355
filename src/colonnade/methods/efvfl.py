"""EF-VFL: only the compressed change of each row crosses."""

from __future__ import annotations

from typing import Literal

from colonnade import compress
from colonnade.errors import RequestError
from colonnade.methods.method import Method
from colonnade.policies.exchange import gradients, snapshot


def efvfl(
    compressor: str = "scalar:2",
    both: bool = False,
    exchange: Literal["gradients", "snapshot"] = "gradients",
) -> Method:
    """EF-VFL: both ends remember every row, and only its compressed difference crosses.

    Valdeira et al., *Communication-Efficient Vertical Federated Learning via Compressed Error
    Feedback*, IEEE TSP 2025. With C the compressor and G_k what both ends have of party k's rows,
    zero at first, a party that has the embedding h_k of a batch sends C(h_k − G_k), and both do

        G_k ← G_k + C(h_k − G_k)

    for the rows of the batch. The loss is that of the G in the place of the embeddings,
    ℓ(top(G_1, …, G_K), y), and each party does

        θ_k ← θ_k − η (∂h_k/∂θ_k)ᵀ ∂ℓ/∂G_k

    where plain split training has h_k in the place of G_k. The error of C need not vanish, since
    what it lost is part of the next difference. Derivatives come back as they are: the paper's form
    with private labels. With `exchange="snapshot"` everybody gets all G and the labels instead
    (`train.labels = "shared"`), and uses its own h_k as it is.

    Args:
        compressor: C: `scalar:2`, `topk:0.1`, `lattice:2`, … With `plain` it is FedSGD.
        both: with `gradients`, whether derivatives cross in the same way, by a memory of theirs;
            the paper sends them as they are.
        exchange: what comes back, `gradients` or `snapshot`, in which the top model crosses as a
            compressed difference as well.

    Example:
        >>> efvfl().composition()
        {'compress': 'compress(embedding=ef21+scalar:2)'}
    """
    codec = compress.differences(compress.parse(compressor))
    rest = compress.without_importance(codec)
    if both and exchange != "gradients":
        raise RequestError(
            "both=true compresses gradients, and with snapshots none cross: leave it out, or "
            "choose exchange=gradients"
        )
    if exchange == "gradients":
        down = rest if both else compress.plain()
        return Method(exchange=gradients(), compress=compress.Compress(codec, gradient=down))
    return Method(exchange=snapshot(), compress=compress.Compress(codec, top=rest))
