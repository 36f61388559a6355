"""The way out: every tensor that leaves a party passes one of these stages, and nothing else may
encode one (`tests/unit/test_tidy.py` holds `learn` and `party` to that).

A stage has the encoding that the method has for its tensors, and is the place for whatever else is
done to them before they leave: to clip them, to add noise or a mask, to encrypt them. Its mirror
image is `inbound`.
"""

from __future__ import annotations

from typing import Literal

import torch

from colonnade.compress import Encoding, Key, Occasion, decode, plain
from colonnade.record.tree import Tree
from colonnade.wire.messages import Packed

Purpose = Literal["embedding", "evaluation", "upload", "gradient", "top", "labels"]
"""What a tensor is for: an embedding of a training batch, of rows to evaluate on, or of all
training rows before the first round; a gradient; a parameter of the top model; labels, or weights
of rows."""


class Stage:
    """What one kind of a party's tensors passes on its way out, by an encoder of its own; `to`
    tells it from others of its purpose.

    >>> Stage(0, "lab", "embedding").pack(torch.ones(2, 3)).shape
    (2, 3)
    """

    def __init__(
        self,
        job_seed: int,
        me: str,
        purpose: Purpose,
        encoding: Encoding | None = None,
        to: str = "",
    ) -> None:
        self.is_plain = encoding in (None, plain())
        self._encoder = (encoding or plain()).encoder(Key(job_seed, me, purpose, to))

    def pack(self, tensor: torch.Tensor, use: Occasion | None = None) -> Packed:
        """The tensor as it leaves; it may share memory with the one that is given."""
        return self._encoder.encode(tensor, use or Occasion())

    def pack_shown(self, tensor: torch.Tensor, use: Occasion) -> tuple[Packed, torch.Tensor]:
        """The tensor as it leaves, and as everybody reads it, on its own device."""
        packed = self.pack(tensor, use)
        return packed, decode(packed).to(tensor.device)

    def pack_frozen(self, tensor: torch.Tensor, use: Occasion) -> tuple[Packed, torch.Tensor]:
        """The same for a tensor that is about to change: both are copies of what it is now."""
        packed = self.pack(tensor, use)
        copy = decode(packed).clone()
        # Only plain encodings show the live tensor.
        return plain().encode(copy) if packed.codec == "plain" else packed, copy.to(tensor.device)

    def state(self) -> Tree:
        return self._encoder.state()

    def restore(self, state: Tree) -> None:
        self._encoder.restore(state)
