"""What is known of a job without its data: the size of its tensors, and the kind of its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from colonnade.data.splits import Split
from colonnade.wire.messages import Hello, Welcome


@dataclass(frozen=True)
class Known:
    """What the parties say of rows and labels in the handshake, beside their number."""

    fingerprint: str = ""
    task: str = ""
    classes: int = 0
    class_weights: tuple[float, ...] = ()

    def welcome(self, hello: Hello, widths: Mapping[str, int]) -> Welcome:
        """The active party's answer, when all are there and begin at the beginning."""
        return Welcome(
            hello.party,
            hello.digest,
            0,
            dict(widths),
            task=self.task,
            classes=self.classes,
            class_weights=self.class_weights,
        )


@dataclass(frozen=True)
class Sizes:
    """How large a job's tensors are."""

    widths: Mapping[str, int]
    """Of the parties that hold an embedding, in the order of the job."""
    rows: Mapping[Split, int]
    dtype: torch.dtype = torch.float32
    top: Sequence[tuple[int, ...]] = ()
    """The shapes of the top model's parameters."""
    labels: torch.dtype = torch.float32
    weighted: bool = False
    """Whether rows count differently."""
    evaluates_plain: bool = False
    """Whether embeddings for evaluations are sent as they are."""
    known: Known = field(default_factory=Known)
    """What the parties say of rows and labels in the handshake."""
