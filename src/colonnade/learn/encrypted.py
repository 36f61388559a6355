"""Learners whose training embeddings and gradients cross as ciphertexts.

The active party has labels and no columns, its top model is the sum of the embeddings, and the loss
is quadratic in it. So the derivative is the sum, less what the labels want it to be, times a factor
that everybody knows: the active party adds it up under a key that it does not have, and sees
neither embeddings nor loss. Evaluations cross under masks, and are scored as they always are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from colonnade.cipher.paillier import InvalidCipher
from colonnade.cipher.slots import Whole
from colonnade.errors import BreachError, FailedError, JobError
from colonnade.learn.active import TorchActive
from colonnade.learn.contents import Forward
from colonnade.learn.inbound import received
from colonnade.learn.learner import Aggregate, Reply
from colonnade.learn.objective import QUADRATIC, Objective
from colonnade.learn.passive import TorchPassive
from colonnade.policies.view import Exchange
from colonnade.protect.base import SumProtection
from colonnade.protect.masks import Keys, Masks
from colonnade.wire.messages import Gradient, Packed


def check_encrypted(objective: Objective, width: int) -> None:
    """Refuse a training that cannot be computed under encryption: the active party's embedding is
    of this width, 0 where it has none."""
    if objective.name not in QUADRATIC:
        fits = "mse" if objective.task == "regression" else "taylor"
        raise JobError(
            "method.protect.cipher computes the gradient under encryption, which only adds up, and "
            f"the loss is {objective.name}: set train.loss = '{fits}', which is quadratic"
        )
    if width:
        raise JobError(
            "with method.protect.cipher the active party has labels only, and here it has columns "
            "too, whose gradients it could not read: give them to a passive party of their own, or "
            "leave out method.protect.cipher"
        )


def targets(objective: Objective, labels: torch.Tensor, protection: SumProtection) -> Whole:
    """Where the derivative of each row is 0, in fixed point."""
    try:
        words = protection.to_fixed(objective.centre(labels).double(), 1)
    except FailedError:
        raise JobError(
            f"a label is too large for the fixed point of method.protect.sum = "
            f"'{protection.text}': scale the labels, or give more bits, as in pairwise:64:20"
        ) from None
    return words.view(f"i{words.itemsize}").astype(np.int64)


class EncryptedActive(TorchActive):
    """An active party that adds up what it cannot read."""

    def __init__(self, *common: Any, keys: Keys) -> None:
        super().__init__(*common)
        protection = self._method.protect.sum
        assert protection is not None and keys.cipher is not None
        self._cipher = keys.cipher
        self._centres = targets(self._objective, self._labels["train"], protection)

    def gather(self, exchange: Exchange) -> Any:
        """The derivative under encryption, once all that came can be ciphertexts."""
        centres = self._centres[exchange.rows]
        adder, cells = self._cipher.adder, self._cipher.scheme.cells(centres.size)
        parts = []
        for peer, packed in exchange.packed.items():
            tensor = received(packed, cells, torch.uint8, peer, finite=False)
            try:
                parts.append(adder.received(tensor.numpy(), centres.shape))
            except InvalidCipher as fault:
                raise BreachError(peer, f"{peer} sent what is no ciphertext: {fault}") from None
        return torch.from_numpy(adder.total(parts, -centres).copy())

    def aggregate(
        self, exchange: Exchange, own: Forward | None, wanted: bool, stale: bool = False
    ) -> Aggregate:
        """Nothing is left to compute, and the loss stays unknown."""
        answer = dict.fromkeys(self._widths, exchange.others)
        return Aggregate(loss=None, answer=answer if wanted else None)


class EncryptedPassive(TorchPassive):
    """A passive party that reads gradients with the key of all passive parties."""

    def __init__(self, *common: Any, masks: Masks, objective: Objective) -> None:
        super().__init__(*common, masks)
        assert masks.private is not None
        self._cipher, self._slope = masks.private, QUADRATIC[objective.name]

    def unpack(self, exchange: Exchange, reply: Reply) -> None:
        assert isinstance(reply, Gradient)
        gradient = self._opened(reply.tensor, len(exchange.rows))
        exchange.gradient = gradient
        self._note(self._party.job.active, "gradient", exchange.round, exchange.rows, gradient)

    def _opened(self, packed: Packed, rows: int) -> torch.Tensor:
        """The gradient of the mean loss of a batch."""
        active, shape = self._party.job.active, (rows, self.width)
        cells = self._cipher.scheme.cells(rows * self.width)
        tensor = received(packed, cells, torch.uint8, active, finite=False)
        try:
            difference = self._cipher.decrypt(tensor, shape)
        except InvalidCipher as fault:
            raise BreachError(active, f"{active} sent what is no ciphertext: {fault}") from None
        gradient = difference * (self._slope / rows)
        return gradient.to(dtype=self._party.dtype, device=self._device)
