"""Where a party's learner computes, and for whom."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Place:
    """Whose learner this is, and where it computes."""

    party: str
    job_seed: int
    """Common to all parties."""
    secret_seed: int
    """The party's own."""
    device: torch.device
    dtype: torch.dtype
    """Of the job's tensors."""
    active: str = "the active party"
    """Its name."""
    evaluates_plain: bool = False
    """Whether embeddings for evaluations are sent as they are."""
