"""The way out: every tensor that leaves a party passes one of these stages, and nothing else may
encode one (`tests/unit/test_tidy.py` holds `learn` and `party` to that).

A stage knows what its tensors are for, the encoding that the method has for them, and the party's
secret randomness. So it is the place for whatever is done to a tensor before it leaves: to clip it,
to add noise or a mask, to encrypt it. Its mirror image is `inbound`.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
import torch

from colonnade.compress import Encoding, Key, Occasion, decode, plain
from colonnade.record.tree import Tree
from colonnade.wire.messages import Packed

Purpose = Literal["embedding", "evaluation", "upload", "prediction", "gradient", "top", "labels"]
"""What a tensor is for: an embedding of a training batch, of rows to evaluate on, of all training
rows before the first round, or of rows to score after the training; a gradient; a parameter of the
top model; labels, or weights of rows."""


class Secret:
    """A party's secret randomness. What is drawn from it nobody else can foresee or repeat, unlike
    the dither of an encoding, whose key travels with the message.

    >>> one, again = (Secret(7).stream("noise", 3).integers(1000, size=9) for _ in range(2))
    >>> bool((one == again).all())
    True
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def stream(self, *use: str | int) -> np.random.Generator:
        """A stream of its own for each use; a party that begins again draws the same for it."""
        text = repr((self._seed, *use))
        return np.random.default_rng(np.frombuffer(hashlib.sha256(text.encode()).digest(), "<u4"))


class Stage:
    """What one kind of tensor passes on its way out."""

    def __init__(self, purpose: Purpose, encoding: Encoding, key: Key, secret: Secret) -> None:
        self.purpose = purpose
        self.secret = secret
        self.is_plain = encoding == plain()
        self._encoder = encoding.encoder(key)

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


class Outbound:
    """All stages of a party.

    >>> out = Outbound(job_seed=0, me="lab", secret=Secret(7))
    >>> out.stage("embedding", plain()).pack(torch.ones(2, 3)).shape
    (2, 3)
    """

    def __init__(self, job_seed: int, me: str, secret: Secret) -> None:
        self._job_seed = job_seed
        self._me = me
        self._secret = secret

    def stage(self, purpose: Purpose, encoding: Encoding | None = None, to: str = "") -> Stage:
        """A stage with an encoder of its own, plain if no encoding is given; `to` tells it from
        others of its purpose."""
        key = Key(self._job_seed, self._me, purpose, to)
        return Stage(purpose, encoding or plain(), key, self._secret)
