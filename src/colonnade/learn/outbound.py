"""The way out: every tensor that leaves a party passes one of these stages, and nothing else may
encode one (`tests/unit/test_tidy.py` holds `learn` and `party` to that).

A stage knows what its tensors are for, the encoding that the method has for them, and the party's
secret randomness. So it is the place for whatever is done to a tensor before it leaves, such as to
clip it, add noise or hide it under masks (`protect`). Its mirror image is `inbound`.

An audit wants what others can read. Of a tensor that leaves in a form that nobody reads, a stage
says what it was before (`hidden`), and that is recorded under the name of what hides it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.compress import Encoding, Key, Occasion, choose, plain, remembers, shown
from colonnade.data.splits import Split
from colonnade.protect.base import ENCRYPTED, Protect
from colonnade.protect.masks import Masks
from colonnade.protect.secret import Secret, Stream
from colonnade.record.traffic import Recorder
from colonnade.record.tree import Tree
from colonnade.wire.messages import Packed

Purpose = Literal["embedding", "evaluation", "upload", "prediction", "gradient", "top", "labels"]
"""What a tensor is for: an embedding of a training batch, of rows to evaluate on, of all training
rows before the first round, or of rows to score after the training; a gradient; a parameter of the
top model; labels, or weights of rows."""


OF_ROWS: tuple[Purpose, ...] = ("embedding", "evaluation", "upload", "prediction")
"""The purposes of tensors that a party makes of rows of its columns."""
Hidden = tuple[Literal["summand", "sealed"], torch.Tensor]
"""A tensor as it was before masks, or encryption, made it what nobody reads."""
Part = tuple[Split, NDArray[np.int64]]
"""Rows of a split, by number."""


class Stage:
    """What one kind of tensor passes on its way out."""

    def __init__(
        self,
        purpose: Purpose,
        encoding: Encoding,
        key: Key,
        random: Stream,
        protect: Protect,
        recorder: Recorder | None = None,
        masks: Masks | None = None,
    ) -> None:
        self.purpose = purpose
        self.is_plain = encoding == plain()
        self._remembers = remembers(encoding)
        self._encoder = encoding.encoder(key)
        self._random = random
        self._recorder, self._to = recorder, key.receiver
        # What is made of rows goes to whomever the recorder knows; there, the key names the piece.
        self._peer = "" if purpose in OF_ROWS else key.receiver
        self._embedding = protect.embedding if purpose in OF_ROWS else ()
        self._gradient = protect.gradient if purpose == "gradient" else None
        self._hides, self._masks = protect.sum is not None and purpose in OF_ROWS, masks

    def pack(
        self,
        tensor: torch.Tensor,
        use: Occasion | None = None,
        labels: torch.Tensor | None = None,
        part: Part | None = None,
    ) -> Packed:
        """The tensor as it leaves; it may share memory with the one that is given. A protection of
        gradients needs the labels of their rows. `part` is the rows that it stands for, where they
        are not those of the occasion."""
        use = use or Occasion()
        for protection in self._embedding:
            tensor = protection.leaving(tensor, self._random)
        if self._gradient is not None:
            assert labels is not None
            tensor = self._gradient.leaving(tensor, labels, self._random)
        hidden: Hidden | None = None
        if self._hides:
            assert self._masks is not None
            cipher = self._masks.private
            if cipher is not None and self.purpose in ENCRYPTED:
                hidden = "sealed", tensor
                tensor = cipher.encrypt(tensor)
            else:
                hidden = "summand", tensor
                tensor = self._masks.hide(tensor, use.round, self.purpose, self._to)
        packed = self._encoder.encode(tensor, use)
        if self._recorder is not None and self._recorder.wants(use.round):
            self._note(self._recorder, packed, use, part, hidden)
        return packed

    def _note(
        self,
        recorder: Recorder,
        packed: Packed,
        use: Occasion,
        part: Part | None,
        hidden: Hidden | None,
    ) -> None:
        """Let what the receiver reads be recorded, or else what was hidden from it."""
        split, rows = part or ("train", use.rows)
        if rows is not None:
            kind, tensor = hidden or (self.purpose, shown(self._encoder, packed))
            recorder.note("sent", self._peer, kind, use.round, rows, tensor, split)

    def pack_shown(self, tensor: torch.Tensor, use: Occasion) -> tuple[Packed, torch.Tensor]:
        """The tensor as it leaves, and as everybody reads it, on its own device."""
        packed = self.pack(tensor, use)
        return packed, shown(self._encoder, packed).to(tensor.device)

    def pack_frozen(self, tensor: torch.Tensor, use: Occasion) -> tuple[Packed, torch.Tensor]:
        """The same for a tensor that is about to change: both are copies of what it is now."""
        packed = self.pack(tensor, use)
        copy = shown(self._encoder, packed).clone()
        # Only plain encodings show the live tensor, and a difference is none.
        if packed.codec == "plain" and not self._remembers:
            packed = plain().encode(copy)
        return packed, copy.to(tensor.device)

    def choose(self, bits: int) -> None:
        """So many bits a component from now on, where the encoding has bits to choose."""
        choose(self._encoder, bits)

    def state(self) -> Tree:
        return self._encoder.state()

    def restore(self, state: Tree) -> None:
        self._encoder.restore(state)


class Outbound:
    """All stages of a party.

    >>> out = Outbound(job_seed=0, me="lab", secret=Secret(bytes(32)))
    >>> out.stage("embedding", plain()).pack(torch.ones(2, 3)).shape
    (2, 3)
    """

    def __init__(
        self,
        job_seed: int,
        me: str,
        secret: Secret,
        protect: Protect | None = None,
        recorder: Recorder | None = None,
        masks: Masks | None = None,
    ) -> None:
        """`masks` are those of a party whose embeddings nobody may see but as part of a sum."""
        self._job_seed = job_seed
        self._me = me
        self._secret = secret
        self._protect = protect or Protect()
        self._recorder = recorder
        self._masks = masks
        self._stages = 0

    def stage(self, purpose: Purpose, encoding: Encoding | None = None, to: str = "") -> Stage:
        """A stage with an encoder of its own, plain if no encoding is given; `to` tells it from
        others of its purpose."""
        key = Key(self._job_seed, self._me, purpose, to)
        # By their number, so that no two draw the same noise, whatever they are for.
        self._stages += 1
        random = self._secret.stream(purpose, to, self._stages)
        more = self._recorder, self._masks
        return Stage(purpose, encoding or plain(), key, random, self._protect, *more)
