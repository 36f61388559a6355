"""Code from outside the package: functions that are named as `package.module:function`.

Importing a module runs it. So a name that a job file gives counts only where the user allowed its
module (`--allow`), which is checked before anything is imported; what the user writes on the
command line, in a party file or in Python is allowed already. And a function is called only if it
says by a decorator what it is for, so that no name leads to just any function.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

from colonnade.errors import JobError, RequestError

Kind = Literal["method", "model", "top"]
_KINDS = {"method": "method", "model": "model", "top": "top model"}
_MARK = "__colonnade__"
F = TypeVar("F", bound=Callable[..., Any])


def extension(kind: Kind) -> Callable[[F], F]:
    """Declare a function as a method, a bottom model (`"model"`) or a top model (`"top"`), so that
    a job may name it.

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
        raise JobError(
            f"{name} does not say that it is a {what}: if it is, write "
            f'@colonnade.extension("{kind}") above it'
        )
    return function  # type: ignore[no-any-return]


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
