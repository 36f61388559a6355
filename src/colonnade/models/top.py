"""Top models: how the active party turns embeddings into a prediction."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import nn

from colonnade.errors import JobError
from colonnade.job.records import Top
from colonnade.models.init import Init
from colonnade.models.shapes import check_size
from colonnade.plugins import import_function


class Split(nn.Module):
    """Concatenation, then a network of its own."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, embeddings: Sequence[torch.Tensor]) -> torch.Tensor:
        joined: torch.Tensor = self.network(torch.cat(list(embeddings), dim=1))
        return joined


class Agg(nn.Module):
    """The sum of the parties' embeddings: their logits, or what a network makes logits of."""

    def __init__(self, network: nn.Module | None = None) -> None:
        super().__init__()
        self.network = network

    def forward(self, embeddings: Sequence[torch.Tensor]) -> torch.Tensor:
        total = reduce(torch.add, embeddings)
        if self.network is None:
            return total
        prediction: torch.Tensor = self.network(total)
        return prediction


class Dot(nn.Module):
    """The sum over dimensions of the element-wise product of the embeddings; no parameters."""

    def forward(self, embeddings: Sequence[torch.Tensor]) -> torch.Tensor:
        return reduce(torch.mul, embeddings).sum(dim=1, keepdim=True)


def build_top(top: Top, widths: dict[str, int], outputs: int) -> nn.Module:
    """The top model of a job for embeddings of these widths.

    >>> build_top(Top(kind="agg"), {"bank": 1, "telco": 1}, outputs=1)
    Agg()
    """
    if top.kind == "agg":
        return _agg(top, widths, outputs)
    if top.kind == "dot":
        _one_width(top, widths)
        if outputs != 1:
            raise JobError(
                f"top.kind = 'dot' predicts one number, this task needs {outputs}: use 'split'"
            )
        return Dot()
    if top.kind == "module":
        return _from_outside(top, widths, outputs)
    return Split(_network(top, sum(widths.values()), outputs))


def _agg(top: Top, widths: dict[str, int], outputs: int) -> nn.Module:
    if top.layers:
        return Agg(_network(top, _one_width(top, widths), outputs))
    for party, width in widths.items():
        if width != outputs:
            raise JobError(
                f"with top.kind = 'agg' and no top.hidden every embedding is as wide as the "
                f"prediction, but {party} has {width} and not {outputs}: set "
                f"parties.{party}.model.embedding"
            )
    return Agg()


def _one_width(top: Top, widths: dict[str, int]) -> int:
    """The width that all embeddings have."""
    if len(set(widths.values())) > 1:
        listed = ", ".join(f"{party} has {width}" for party, width in widths.items())
        raise JobError(f"with top.kind = '{top.kind}' all embeddings have one width, but {listed}")
    return next(iter(widths.values()))


def _network(top: Top, width: int, outputs: int) -> nn.Module:
    """Hidden layers and a linear one, once they are known to be small enough."""
    check_size(lambda: _layers(top, width, outputs), "top.hidden")
    network = _layers(top, width, outputs)
    if (drawn := find_init(top)) is not None:
        drawn.draw(network, "top.init")
    return network


def _layers(top: Top, width: int, outputs: int) -> nn.Module:
    layers: list[nn.Module] = []
    for size in top.layers:
        layers += [nn.Linear(width, size, bias=top.bias), nn.ReLU()]
        if top.dropout:
            layers.append(nn.Dropout(top.dropout))
        width = size
    return nn.Sequential(*layers, nn.Linear(width, outputs, bias=top.bias))


def find_init(top: Top) -> Init | None:
    """How the weights of its layers are drawn; None for as torch has it."""
    return None if top.init is None else Init.read(top.init, "top.init")


def find_top(top: Top) -> Callable[..., Any]:
    """The function of a top model of one's own."""
    if top.module is None:
        raise JobError("top.kind = 'module' needs top.module = 'package.module:function'")
    function = import_function(top.module, "top")
    try:
        inspect.signature(function).bind([], 1)
    except TypeError as error:
        raise JobError(
            f"{top.module} is called with the list of embedding widths and the number of outputs: "
            f"{error}"
        ) from None
    return function


def _from_outside(top: Top, widths: dict[str, int], outputs: int) -> nn.Module:
    module = find_top(top)(list(widths.values()), outputs)
    if not isinstance(module, nn.Module):
        raise JobError(f"{top.module} returned {type(module).__name__}, not a torch module")
    return module
