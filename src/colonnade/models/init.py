"""Initial weights, for all models in one place: a job says `init` beside a model's own options.

Fans are those of the layer: for a convolution, its channels times the area of the kernel. Biases
begin at 0, and layers without weight matrices, such as batch norm, as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

from colonnade.errors import JobError

OPTION = "init"
SIGMA = 0.01
"""Of `normal` where it names no other."""
SCHEMES = {
    "default": "as the model has it, which mostly is as torch has it",
    "fedbcd": "filters from N(0, 2/(channels in + channels out)), whatever the area of the kernel; "
    "other matrices as `glorot`",
    "glorot": "N(0, 2/(fan in + fan out))",
    "glorot:uniform": "uniform, of the same deviation",
    "he": "N(0, 2/fan in)",
    "he:uniform": "uniform, of the same deviation",
    "normal": f"N(0, {SIGMA:g}²), vectors of codes too",
    "normal:σ": "the same with another deviation, as in `normal:0.05`",
}
"""What each draws."""


@dataclass(frozen=True)
class Init:
    """How weights are drawn.

    >>> Init.read("he:uniform", "top.init"), Init.read("normal", "top.init").sigma
    (Init(name='he', uniform=True, sigma=None), 0.01)
    """

    name: str
    uniform: bool = False
    sigma: float | None = None

    @classmethod
    def read(cls, text: object, where: str) -> Init | None:
        """What a job says; None for weights as the model has them."""
        if not isinstance(text, str):
            raise JobError(f"{where} is {text!r}: it must be text, as in 'glorot'")
        name, _, rest = text.partition(":")
        if name == "normal":
            return cls(name, sigma=_sigma(rest, where) if text != name else SIGMA)
        if text not in SCHEMES or text == "normal:σ":
            raise JobError(f"{where} is '{text}': choose {', '.join(SCHEMES)}")
        return None if text == "default" else cls(name, bool(rest))

    def draw(self, model: nn.Module, where: str) -> None:
        """Draw a model's weights anew, from torch's generator."""
        drawn = 0
        for layer, matrix in _matrices(model):
            deviation = self._deviation(layer, matrix)
            if deviation is None:
                continue
            if is_lazy(matrix):
                raise JobError(
                    f"{where}: weights cannot be drawn before their shape is known: give the "
                    "layers their widths, or leave init out"
                )
            if self.uniform:
                edge = math.sqrt(3) * deviation
                nn.init.uniform_(matrix, -edge, edge)
            else:
                nn.init.normal_(matrix, std=deviation)
            drawn += 1
        if not drawn:
            raise JobError(
                f"{where} has no effect: {type(model).__name__} has no linear layer, convolution "
                "or LSTM whose weights could be drawn: leave it out"
            )
        _clear_biases(model)

    def _deviation(self, layer: nn.Module, matrix: torch.Tensor) -> float | None:
        """Of the weights of a matrix; None for one that stays."""
        if self.sigma is not None:
            return self.sigma
        if isinstance(layer, nn.Embedding):
            return None  # A row is looked up, so it has no fans.
        if is_lazy(matrix):
            return math.nan
        outputs, inputs = matrix.shape[:2]
        area = 1 if self.name == "fedbcd" else math.prod(matrix.shape[2:])
        fans = inputs * area if self.name == "he" else (inputs + outputs) * area
        return math.sqrt(2 / fans)


def _sigma(text: str, where: str) -> float:
    try:
        sigma = float(text)
    except ValueError:
        sigma = math.nan
    if not 0 < sigma < math.inf:
        raise JobError(
            f"{where} is 'normal:{text}': give the deviation, a number above 0, as in 'normal:0.05'"
        )
    return sigma


def _matrices(model: nn.Module) -> Iterator[tuple[nn.Module, torch.Tensor]]:
    """The weights that are drawn, with their layers, in the model's order."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear | _ConvNd | nn.RNNBase | nn.Embedding):
            for name, tensor in layer.named_parameters(recurse=False):
                if name.startswith("weight"):
                    yield layer, tensor


def _clear_biases(model: nn.Module) -> None:
    for layer in model.modules():
        if isinstance(layer, nn.Linear | _ConvNd | nn.RNNBase):
            for name, tensor in layer.named_parameters(recurse=False):
                if name.startswith("bias"):
                    nn.init.zeros_(tensor)
