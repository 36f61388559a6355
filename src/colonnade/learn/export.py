"""A trained model as a program that runs without this package: `torch.export`, or ONNX.

A bottom model reads rows of numbers as preprocessing makes them, and gives embeddings. A top model
reads every party's embeddings, in the order of the job, and gives raw scores. Any number of rows.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from colonnade.errors import RequestError
from colonnade.learn.participant import DTYPES
from colonnade.learn.saved import Bottom, Head, SavedParty

Format = Literal["torch-export", "onnx"]
Part = Literal["bottom", "top"]
_EXAMPLE_ROWS = 3
"""More than one, which torch would take for a size that never changes."""


class Exported(NamedTuple):
    """A program, and what a person needs to know to call it."""

    content: bytes
    description: str
    """As JSON."""


class _Joined(nn.Module):
    """A top model that takes embeddings one by one, as programs have their inputs."""

    def __init__(self, top: nn.Module) -> None:
        super().__init__()
        self.top = top

    def forward(self, *embeddings: torch.Tensor) -> torch.Tensor:
        """What the top model says of them."""
        scores: torch.Tensor = self.top(list(embeddings))
        return scores


def export(
    saved: SavedParty,
    part: Part = "bottom",
    format: Format = "torch-export",
    allow: Collection[str] = (),
) -> Exported:
    """A party's bottom model, or the active party's top model, as a program."""
    card = saved.card
    if part == "bottom":
        model = Bottom(saved, allow=allow).module
        inputs = {"rows": card.row_shape}
    else:
        model = _Joined(Head(saved, allow=allow).module)
        inputs = {name: (width,) for name, width in card.widths.items() if width}
    outputs = "embedding" if part == "bottom" else "scores"
    with _quiet():
        program = _program(model.eval().requires_grad_(False), inputs, DTYPES[card.dtype])
        content = _saved(program) if format == "torch-export" else _onnx(program, inputs, outputs)
    return Exported(content, _description(saved, part, format, inputs, outputs))


def _program(
    model: nn.Module, inputs: dict[str, tuple[int, ...]], dtype: torch.dtype
) -> torch.export.ExportedProgram:
    rows = torch.export.Dim("rows")
    examples = tuple(torch.zeros(_EXAMPLE_ROWS, *shape, dtype=dtype) for shape in inputs.values())
    dynamic: Any = tuple({0: rows} for _ in examples)
    if isinstance(model, _Joined):
        dynamic = (dynamic,)
    with torch.no_grad():
        program = torch.export.export(model, examples, dynamic_shapes=dynamic)
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                # Where our files lie is nobody's business.
                node.meta.pop("stack_trace", None)
    return program


def _saved(program: torch.export.ExportedProgram) -> bytes:
    out = io.BytesIO()
    torch.export.save(program, out)
    return out.getvalue()


def _onnx(
    program: torch.export.ExportedProgram, inputs: dict[str, tuple[int, ...]], outputs: str
) -> bytes:
    for package in ("onnx", "onnxscript"):
        if find_spec(package) is None:
            raise RequestError(
                f"ONNX needs the package {package}: pip install 'colonnade[onnx]', or use "
                "--format torch-export"
            )
    made = torch.onnx.export(
        program, (), dynamo=True, input_names=list(inputs), output_names=[outputs], verbose=False
    )
    assert made is not None
    content: bytes = made.model_proto.SerializeToString()
    return content


def _description(
    saved: SavedParty,
    part: Part,
    format: Format,
    inputs: dict[str, tuple[int, ...]],
    outputs: str,
) -> str:
    """What the program reads and gives, and what it takes to make its rows and read its scores."""
    card, fitted = saved.card, saved.preprocessor
    width = card.width if part == "bottom" else card.outputs
    told: dict[str, Any] = {
        "version": card.version,
        "job": card.job,
        "party": card.party,
        "part": part,
        "format": format,
        "dtype": card.dtype,
        "inputs": [{"name": name, "shape": ["rows", *shape]} for name, shape in inputs.items()],
        "outputs": [{"name": outputs, "shape": ["rows", width]}],
    }
    if part == "bottom" and fitted is not None:
        told["features"] = fitted.feature_names
        told["types"] = card.types
        told["preprocessing"] = json.loads(fitted.to_json())
    if part == "top":
        told["task"], told["classes"] = card.task, list(card.classes)
        fit = card.calibration
        told["calibration"] = None if fit is None else {"scale": fit.scale, "shift": fit.shift}
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the remarks of the exporters, which are for their developers."""
    import logging
    import warnings

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
