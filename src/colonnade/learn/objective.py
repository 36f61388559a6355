"""The loss that the active party minimises, chosen by name to fit the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log
from typing import Literal

import msgspec
import torch
from torch.nn import functional as F

from colonnade.errors import JobError
from colonnade.job.records import Train
from colonnade.record.sizes import Known

Task = Literal["binary", "multiclass", "regression"]
TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


def signs(labels: torch.Tensor, outputs: int) -> torch.Tensor:
    """Which classes a row has, 1, and which it has not, −1.

    >>> signs(torch.tensor([[0.0], [1.0]]), 1).tolist(), signs(torch.tensor([1]), 3).tolist()
    ([[-1.0], [1.0]], [[-1, 1, -1]])
    """
    return 2 * (labels if outputs == 1 else F.one_hot(labels, outputs)) - 1


def taylor_loss(
    prediction: torch.Tensor, labels: torch.Tensor, reduction: str = "mean"
) -> torch.Tensor:
    """The logistic loss to second order, ln 2 − ½yz + ⅛z² with y = ±1 (Hardy et al. 2017); of
    several classes the sum over all, each against the rest.

    >>> round(taylor_loss(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [1.0]])).item(), 4)
    0.4431
    """
    y = signs(labels, prediction.shape[1])
    losses = (log(2) - y * prediction / 2 + prediction.square() / 8).sum(dim=1)
    return losses.mean() if reduction == "mean" else losses


FITS: dict[str, tuple[Task, ...]] = {
    "bce": ("binary",),
    "cross_entropy": ("multiclass", "binary"),
    "mse": ("regression",),
    "l1": ("regression",),
    "huber": ("regression",),
    "taylor": ("binary", "multiclass"),
}
LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "bce": F.binary_cross_entropy_with_logits,
    "cross_entropy": F.cross_entropy,
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "huber": F.huber_loss,
    "taylor": taylor_loss,
}
QUADRATIC = {"mse": 2.0, "taylor": 0.25}
"""The losses whose derivative by the prediction z of a row is linear in it, a·(z − c), with their
a; c is what `Objective.centre` gives."""
DEFAULT: dict[Task, str] = {"binary": "bce", "multiclass": "cross_entropy", "regression": "mse"}


class Objective:
    """A loss over a batch; `outputs` is how wide the prediction must be.

    >>> objective = Objective(Train(), "binary", classes=2, labels=torch.tensor([0, 1]))
    >>> objective.name, objective.outputs
    ('bce', 1)
    """

    def __init__(self, train: Train, task: Task, classes: int, labels: torch.Tensor) -> None:
        self.task = task
        self.classes = classes
        self.name = DEFAULT[task] if train.loss == "auto" else train.loss
        if task not in FITS[self.name]:
            fitting = [name for name, tasks in FITS.items() if task in tasks]
            raise JobError(
                f"train.loss = '{self.name}' does not fit a {task} task: "
                f"choose {' or '.join(fitting)}"
            )
        if train.pos_weight is not None and self.name != "bce":
            raise JobError("train.pos_weight is for the loss 'bce': use class_weights instead")
        several = self.name == "cross_entropy" or task == "multiclass"
        self.outputs = classes if several else 1
        self.pos_weight = None if train.pos_weight is None else torch.tensor(train.pos_weight)
        self.class_weights = _class_weights(train, task, classes, labels)

    @classmethod
    def told(
        cls, train: Train, task: Task, classes: int, class_weights: Sequence[float]
    ) -> Objective:
        """The objective at a party that has no labels yet, from what the active party says."""
        known = msgspec.structs.replace(train, class_weights="none")
        objective = cls(known, task, classes, torch.empty(0))
        if class_weights:
            objective.class_weights = torch.tensor(class_weights, dtype=torch.float64)
        return objective

    def known(self, fingerprint: str, shares: bool) -> Known:
        """What the active party says of its rows and labels. The weights of the classes may tell
        how many rows each has, so they are said only where everybody computes the loss (`shares`),
        and is sent the labels too."""
        said = self.class_weights if shares else None
        weights = () if said is None else tuple(said.tolist())
        return Known(fingerprint, self.task, self.classes, weights)

    def prepare(self, labels: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Labels in the form that the loss takes."""
        return labels.long() if self.whole_labels else labels.to(dtype).view(-1, 1)

    @property
    def whole_labels(self) -> bool:
        """Whether the loss takes the numbers of classes."""
        return self.outputs > 1 or self.name == "cross_entropy"

    def centre(self, labels: torch.Tensor) -> torch.Tensor:
        """The predictions at which the derivative of a quadratic loss is 0, as `prepare` gives the
        labels.

        >>> objective = Objective(Train(loss="taylor"), "binary", 2, torch.tensor([0, 1]))
        >>> objective.centre(torch.tensor([[0.0], [1.0]])).tolist()
        [[-2.0], [2.0]]
        """
        assert self.name in QUADRATIC
        return labels if self.name == "mse" else 2 * signs(labels, self.outputs)

    def __call__(
        self,
        prediction: torch.Tensor,
        labels: torch.Tensor,
        weights: torch.Tensor | None = None,
        factors: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The mean loss of a batch; with weights, Σ wᵢ lossᵢ / Σ wᵢ.

        `factors` scale rows down without the others making up for it: Σ fᵢ wᵢ lossᵢ / Σ wᵢ.
        """
        if self.class_weights is not None:
            by_class = self.class_weights.to(prediction)[labels.view(-1).long()]
            weights = by_class if weights is None else weights * by_class
        if weights is None and factors is None:
            return self._loss(prediction, labels, "mean")
        losses = self._loss(prediction, labels, "none").view(-1)
        if factors is not None:
            losses = losses * factors
        return losses.mean() if weights is None else (losses * weights).sum() / weights.sum()

    def _loss(self, prediction: torch.Tensor, labels: torch.Tensor, how: str) -> torch.Tensor:
        weight = self.pos_weight
        options = {} if weight is None else {"pos_weight": weight.to(prediction)}
        return LOSSES[self.name](prediction, labels, reduction=how, **options)


def _class_weights(
    train: Train, task: Task, classes: int, labels: torch.Tensor
) -> torch.Tensor | None:
    if train.class_weights == "none":
        return None
    if task == "regression":
        raise JobError("train.class_weights needs classes, this task is a regression")
    if train.class_weights == "balanced":
        counts = torch.bincount(labels.long().view(-1), minlength=classes).clamp(min=1)
        return labels.numel() / (classes * counts.double())
    fitting = [weight for weight in train.class_weights if 0 <= weight < inf]
    if not len(train.class_weights) == len(fitting) == classes or not any(fitting):
        raise JobError(
            f"train.class_weights needs {classes} numbers of 0 or more, one for each class and "
            f"not all 0, and has {train.class_weights}"
        )
    return torch.tensor(train.class_weights, dtype=torch.float64)
