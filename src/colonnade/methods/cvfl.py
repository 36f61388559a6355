"""C-VFL: compressed embeddings, several local updates, every party with the whole loss."""

from __future__ import annotations

from typing import Literal

from colonnade import compress
from colonnade.errors import RequestError
from colonnade.methods.method import Method
from colonnade.policies.exchange import gradients, snapshot
from colonnade.policies.local import repeat


def cvfl(
    q: int = 10,
    compressor: str = "scalar:4",
    exchange: Literal["snapshot", "gradients"] = "snapshot",
    both: bool = False,
) -> Method:
    """C-VFL: exchange compressed embeddings, then Q updates everywhere against that snapshot.

    Castiglia et al., *Compressed-VFL: Communication-Efficient Learning with Vertically Partitioned
    Data*, ICML 2022, Algorithm 1. In a round that began at Θ^{t₀}, with C the compressor, each
    party k does Q times

        θ_k ← θ_k − η ∇_k F(h_k(θ_k), C(h_{−k}(θ_{−k}^{t₀})), C(θ_0^{t₀}); y)

    with its own embedding as it is and the others', and the top model θ_0, as they were sent; the
    active party moves θ_0 itself, uncompressed, against everybody's compressed embeddings. The
    passive parties need the labels (`train.labels = "shared"`). Plain split training sends
    gradients back, and needs none: that is `exchange="gradients"`, with Q = 1 the paper's
    Algorithm 2, with Q > 1 FedBCD with compression. Gradients are sent as they are, as in the
    paper, unless `both` ways are to be compressed.

    Args:
        q: Q, all updates on one exchange.
        compressor: how embeddings and the top model are encoded: `plain`, `scalar:4`, `lattice:3`,
            `topk:0.25`, `half`, … With `topk:…:importance` the top model is sent as it is.
        exchange: what comes back, `snapshot` (Algorithm 1) or `gradients`.
        both: with `gradients`, whether they are compressed as well.

    Example:
        >>> sorted(cvfl(q=5).composition())
        ['compress', 'exchange', 'local']
    """
    codec = compress.parse(compressor)
    if both and exchange != "gradients":
        raise RequestError(
            "both=true compresses gradients, and with snapshots none cross: leave it out, or "
            "choose exchange=gradients"
        )
    if exchange == "gradients":
        roles = compress.Compress(embedding=codec, gradient=codec if both else compress.plain())
        return Method(exchange=gradients(), local=repeat(q), compress=roles)
    roles = compress.Compress(embedding=codec, top=compress.without_importance(codec))
    return Method(exchange=snapshot(), local=repeat(q), compress=roles)
