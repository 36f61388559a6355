"""FedSGD: plain split training."""

from __future__ import annotations

from colonnade.methods.method import Method


def fedsgd() -> Method:
    """FedSGD: one exchange, one update, in lock step.

    The baseline of all five papers (for example Liu et al., *FedBCD: A Communication-Efficient
    Collaborative Learning Framework for Distributed Features*, IEEE TSP 2022, Eq. 8). With
    embeddings h_k = f_k(x_k; θ_k) and the loss ℓ(top(h_1, …, h_K), y), in every round each
    party does

        θ_k ← θ_k − η (∂h_k/∂θ_k)ᵀ ∂ℓ/∂h_k

    which is ordinary backpropagation through the joint model, cut at the embeddings. Every other
    method is described as its difference from this one.

    >>> fedsgd().composition()
    {}
    """
    return Method()
