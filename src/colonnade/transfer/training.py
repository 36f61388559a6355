"""Both parties in one process, in whole numbers and without encryption: quick, and what encryption
must come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scipy.stats import rankdata

from colonnade.transfer.bottom import Floats
from colonnade.transfer.clear import guest_gradients, host_gradients
from colonnade.transfer.rows import Rows
from colonnade.transfer.setting import Setting
from colonnade.transfer.sides import Guest, Host


@dataclass
class Trained:
    """What one party knows at the end."""

    auc: list[float]
    """After each round; at the guest only."""
    digests: list[str]
    """Of its weights, after each round."""

    def rounds_to(self, target: float) -> int | None:
        """The first round after which AUC reached a target; None where none did.

        >>> Trained([0.6, 0.71], []).rounds_to(0.7)
        2
        """
        return next((n for n, auc in enumerate(self.auc, 1) if auc >= target), None)


def auc_of(labels: Floats, scores: Floats) -> float:
    """The area under the ROC curve.

    >>> import numpy as np
    >>> auc_of(np.array([-1.0, 1.0, 1.0]), np.array([0.0, 2.0, 1.0]))
    1.0
    """
    ranks, ones = rankdata(scores), labels > 0
    count = int(ones.sum())
    above = ranks[ones].sum() - count * (count + 1) / 2
    return float(above / (count * (len(labels) - count)))


def train(
    setting: Setting, rows: Rows, tell: Callable[[int, float], None] = lambda round, auc: None
) -> tuple[Trained, Trained]:
    """The guest's training and the host's."""
    guest, host = Guest(setting, rows), Host(setting, rows)
    learnt = Trained([], []), Trained([], [])
    for round in range(setting.rounds):
        ours, theirs = guest.components(), host.components()
        for _ in range(setting.updates):
            slopes = host_gradients(host.factors, ours)
            own = guest_gradients(guest.factors, guest.signs, theirs, guest.bounds)
            guest.learn(own, round)
            host.learn([slopes], round)
        auc = auc_of(rows.test_labels, guest.scores(host.tested()))
        learnt[0].auc.append(auc)
        for bottom, found in zip((guest.bottom, host.bottom), learnt, strict=True):
            found.digests.append(bottom.digest())
        tell(round, auc)
        if setting.target is not None and auc >= setting.target:
            break
    return learnt
