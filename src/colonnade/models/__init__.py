"""Bottom models, one file a family; a job names a function in one of them.

A model function takes the shape of one row of the party's features and its options, among them
`embedding`, the width of what comes out. How its initial weights are drawn (`init`) is no option of
its own: it is the same for all models (`init.py`).

May import job.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints

from torch import nn

from colonnade.errors import JobError, nearest
from colonnade.job.bounds import LAYERS_MAX
from colonnade.models import init
from colonnade.models.shapes import check_size
from colonnade.plugins import import_function, own_functions

ModelFunction = Callable[..., nn.Module]


@cache
def known() -> dict[str, ModelFunction]:
    """Every bottom model that comes with the package, by name.

    >>> "mlp" in known()
    True
    """
    return {
        name: function
        for name, function in sorted(own_functions(sys.modules[__name__]).items())
        if "row_shape" in inspect.signature(function).parameters
    }


def build(table: Mapping[str, Any], row_shape: tuple[int, ...], where: str) -> nn.Module:
    """The model of a `model = { name = …, … }` table for rows of a shape.

    >>> build({"name": "linear", "embedding": 3}, (5,), "parties.bank.model")
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): Linear(in_features=5, out_features=3, bias=True)
    )
    """
    function, options = find(table, where)
    if function.__module__.startswith(f"{__name__}."):
        check_size(lambda: function(row_shape, **options), where)
    model = function(row_shape, **options)
    if not isinstance(model, nn.Module):
        name = table.get("name", "mlp")
        raise JobError(f"{where}: {name} returned {type(model).__name__}, not a torch module")
    if (drawn := _drawn(table, options, where)) is not None:
        drawn.draw(model, f"{where}.{init.OPTION}")
    return model


def find(table: Mapping[str, Any], where: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function that a model's table names, and its own options, which it takes.

    >>> find({"name": "linear", "embedding": 3}, "parties.bank.model")[1]
    {'embedding': 3}
    """
    options = dict(table)
    name = options.pop("name", "mlp")
    if not isinstance(name, str):
        raise JobError(f"{where}.name is {name!r}: it must be text")
    if ":" in name:
        function = import_function(name, "model")
    elif name in known():
        function = known()[name]
    else:
        raise JobError(f"{where}: there is no model '{name}': {nearest(name, known())}")
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters if p != "row_shape"]
    if init.OPTION not in parameters:
        options.pop(init.OPTION, None)
    for key in options:
        if key not in parameters:
            known_keys = {*parameters, init.OPTION}
            raise JobError(f"{where}: {name} has no option '{key}': {nearest(key, known_keys)}")
    _drawn(table, options, where)
    _check_types(function, options, where)
    try:
        signature.bind((), **options)
    except TypeError as error:
        raise JobError(
            f"{where}: {name} is called with the shape of a row and its options: {error}"
        ) from None
    return function, options


def _drawn(table: Mapping[str, Any], options: Mapping[str, Any], where: str) -> init.Init | None:
    """How a model's weights are drawn; None where it draws them itself."""
    if init.OPTION not in table or init.OPTION in options:
        return None
    return init.Init.read(table[init.OPTION], f"{where}.{init.OPTION}")


def _check_types(function: ModelFunction, options: Mapping[str, Any], where: str) -> None:
    hints = get_type_hints(function)
    for key, value in options.items():
        hint = hints.get(key)
        if hint == list[int] | None:
            good = isinstance(value, list) and all(type(v) is int and v > 0 for v in value)
            good = good and len(value) <= LAYERS_MAX
            wanted = f"a list of positive whole numbers, up to {LAYERS_MAX}"
        elif hint is int:
            good, wanted = type(value) is int and value > 0, "a positive whole number"
        elif hint is float:
            good, wanted = type(value) in (int, float), "a number"
        elif hint is bool:
            good, wanted = type(value) is bool, "true or false"
        else:
            continue
        if not good:
            raise JobError(f"{where}.{key} is {value!r}: it must be {wanted}")
