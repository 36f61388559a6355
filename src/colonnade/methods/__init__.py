"""The methods, one file a paper; found by looking, so that a new one touches one file.

A method's name is the name of a public function in one of these files that returns a `Method`.
From outside the package it is `package.module:function`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

from colonnade.errors import JobError, nearest
from colonnade.outside import import_function
from colonnade.party.method import Method

MethodFunction = Callable[..., Method]


def known() -> dict[str, MethodFunction]:
    """Every method that comes with the package, by name.

    >>> sorted(known())[:2]
    ['fedbcd', 'fedsgd']
    """
    found: dict[str, MethodFunction] = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            own = function.__module__ == module.__name__ and not name.startswith("_")
            if own and get_type_hints(function).get("return") is Method:
                found[name] = function
    return dict(sorted(found.items()))


def find(name: str) -> MethodFunction:
    """The function of a method: one of ours, or `package.module:function`."""
    if ":" in name:
        return import_function(name, "method")
    methods = known()
    if name not in methods:
        raise JobError(
            f"there is no method '{name}': {nearest(name, methods)} "
            "(one of your own is 'package.module:function')"
        )
    return methods[name]


def build(table: Mapping[str, Any]) -> Method:
    """The method of a job's `[method]` table: its name and its options.

    >>> build({"name": "fedbcd", "updates": 5}).composition()
    {'local': 'repeat(updates=5)'}
    """
    options = dict(table)
    name = options.pop("name", "fedsgd")
    if not isinstance(name, str):
        raise JobError(f"method.name is {name!r}: it must be text")
    function = find(name)
    parameters = _parameters(function, name)
    hints = get_type_hints(function)
    for key, value in options.items():
        if key not in parameters:
            hint = nearest(key, parameters) if parameters else "it has none"
            raise JobError(f"the method {name} has no option '{key}': {hint}")
        options[key] = _checked(name, key, value, hints.get(key))
    method = function(**options)
    if not isinstance(method, Method):
        raise JobError(f"{name} returned {type(method).__name__}: it must return a Method")
    return method


def _parameters(function: MethodFunction, name: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:
        raise JobError(f"{name} does not tell its options: write a function in Python") from None


def _checked(name: str, key: str, value: Any, hint: Any) -> Any:
    """Hold an option against its annotation, so that a slip is a sentence and not a traceback."""
    option = f"the option {key} of {name} is {value!r}"
    if hint is float and type(value) is int:
        return float(value)
    if isinstance(hint, type) and type(value) is not hint:
        raise JobError(f"{option}: it must be of type {hint.__name__}")
    choices = get_args(hint)
    words = choices and all(isinstance(choice, str) for choice in choices)
    if words and value not in choices:
        raise JobError(f"{option}: choose {' or '.join(choices)}")
    return value
