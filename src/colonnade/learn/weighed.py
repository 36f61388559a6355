"""How an update has weighed its rows, in three figures."""

from __future__ import annotations

import torch

from colonnade.record.events import Quantiles

SHARES = (0.1, 0.5, 0.9)


def quantiles(weights: torch.Tensor) -> Quantiles | None:
    """What 10, 50 and 90 % of the rows do not exceed; None of no rows.

    >>> quantiles(torch.arange(11.0))
    (1.0, 5.0, 9.0)
    """
    if not len(weights):
        return None
    ordered = weights.detach().to("cpu").sort().values
    low, middle, high = (ordered[round(share * (len(ordered) - 1))].item() for share in SHARES)
    return low, middle, high
