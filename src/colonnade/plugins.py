"""Code from outside the package: functions that are named as `package.module:function`.

Importing a module runs it. So a name that a job file gives counts only where the user allowed its
module (`--allow`), which is checked before anything is imported; what the user writes on the
command line, in a party file or in Python is allowed already. And a function is called only if it
says by a decorator what it is for, so that no name leads to just any function.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Literal, TypeVar, get_type_hints

from colonnade.errors import JobError, RequestError

Kind = Literal["method", "model", "top", "encoding"]
_KINDS = {"method": "method", "model": "model", "top": "top model", "encoding": "encoding"}
_MARK = "__colonnade__"
_TRUTH = {"true": True, "false": False}
F = TypeVar("F", bound=Callable[..., Any])


def extension(kind: Kind) -> Callable[[F], F]:
    """Declare a function as a method, a bottom model (`"model"`), a top model (`"top"`) or a
    tensor encoding, so that a job may name it.

    >>> @extension("method")
    ... def mine(updates: int = 2): ...
    """
    if kind not in _KINDS:
        raise JobError(f"'{kind}' is no kind of extension: choose {' or '.join(_KINDS)}")

    def declare(function: F) -> F:
        setattr(function, _MARK, kind)
        return function

    return declare


def import_function(name: str, kind: Kind) -> Callable[..., Any]:
    """Import a function that declares itself to be of a kind.

    >>> import_function("math:sqrt", "method")
    Traceback (most recent call last):
    colonnade.errors.JobError: math:sqrt does not say that it is a method: if it is, write \
@colonnade.extension("method") above it
    """
    what = _KINDS[kind]
    module_name, _, function_name = name.partition(":")
    if not (_is_module(module_name) and function_name.isidentifier()):
        raise JobError(f"'{name}' names no {what}: write 'package.module:function'")
    _reach(module_name)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise JobError(f"the {what} {name} cannot be imported: {error}") from None
    function = getattr(module, function_name, None)
    if function is None:
        raise JobError(f"the module {module_name} has no function '{function_name}' for the {what}")
    # Neither inherited nor made up, but set on this very object.
    declared = callable(function) and getattr(function, "__dict__", {}).get(_MARK) == kind
    if not declared:
        article = "an" if what.startswith("e") else "a"
        raise JobError(
            f"{name} does not say that it is {article} {what}: if it is, write "
            f'@colonnade.extension("{kind}") above it'
        )
    return function  # type: ignore[no-any-return]


def own_functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The public functions that a module defines itself, by name; of a package, those of all its
    modules.

    >>> import colonnade.policies.window
    >>> sorted(own_functions(colonnade.policies.window))
    ['bandwidth_delay', 'fixed', 'lockstep', 'pipelined']
    """
    if hasattr(module, "__path__"):
        names = [f"{module.__name__}.{each.name}" for each in iter_modules(module.__path__)]
        parts = [own_functions(importlib.import_module(name)) for name in names]
        return {name: function for part in parts for name, function in part.items()}
    return {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


def call(function: Callable[..., Any], name: str, words: Sequence[str]) -> Any:
    """Call a function with arguments that are words, in order or by name, and are read by its
    annotations.

    >>> def power(base: float, exponent: int = 2) -> float:
    ...     return base**exponent
    >>> call(power, "power", ["1.5", "exponent=3"])
    3.375
    """
    text, hints = ":".join([name, *words]), get_type_hints(function)
    signature = inspect.signature(function)
    parameters = list(signature.parameters)
    values: dict[str, Any] = {}
    for position, word in enumerate(words):
        key, equals, value = word.partition("=")
        if not equals:
            key, value = (parameters[position] if position < len(parameters) else ""), word
        if key not in parameters:
            hint = f"its arguments are {', '.join(parameters)}" if parameters else "it takes none"
            raise JobError(f"'{text}' gives {name} an argument it does not know: {hint}")
        values[key] = _read(value, hints.get(key), f"the argument {key} of '{text}'")
    try:
        signature.bind(**values)
    except TypeError:
        needed = [each for each in parameters if each not in values]
        raise JobError(f"'{text}' lacks an argument: give {', '.join(needed)}") from None
    return function(**values)


def _read(value: str, hint: Any, what: str) -> Any:
    readers: dict[Any, Callable[[str], Any]] = {int: int, float: float, bool: _TRUTH.__getitem__}
    try:
        return readers.get(hint, str)(value)
    except (ValueError, KeyError):
        raise JobError(f"{what} is '{value}': it must be of type {hint.__name__}") from None


def check_allowed(names: Mapping[str, str], allow: Collection[str]) -> None:
    """Refuse names that a file gives, by field, unless their modules are allowed; a package allows
    its modules.

    >>> check_allowed({"method.name": "mine.methods:twice"}, ["mine"])
    >>> check_allowed({"method.name": "mine.methods:twice"}, ["min"])
    Traceback (most recent call last):
    colonnade.errors.JobError: method.name of the job file is code from outside, \
mine.methods:twice: read it, and if you trust it give --allow mine.methods (in Python \
allow=["mine.methods"])
    """
    for module in allow:
        if not _is_module(module):
            raise RequestError(f"--allow {module} names no module: write --allow package.module")
    for field, name in names.items():
        module = name.partition(":")[0]
        if not any(module == each or module.startswith(f"{each}.") for each in allow):
            raise JobError(
                f"{field} of the job file is code from outside, {name}: read it, and if you trust "
                f'it give --allow {module} (in Python allow=["{module}"])'
            )


def _is_module(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _reach(module_name: str) -> None:
    """Let a module of the current folder be found; the console script does not put that folder on
    the path, as `python -m` does.

    It goes there only for a module that is nowhere else, and last: whatever else lies in the folder
    must not take the place of a library, nor of one that is missing.
    """
    here, top = Path.cwd(), module_name.partition(".")[0]
    is_here = (here / f"{top}.py").is_file() or (here / top).is_dir()
    if is_here and str(here) not in sys.path and find_spec(top) is None:
        sys.path.append(str(here))
