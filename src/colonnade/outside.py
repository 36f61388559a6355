"""Functions from outside the package, named `package.module:function` in a job."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from colonnade.errors import JobError


def import_function(name: str, what: str) -> Callable[..., Any]:
    """Import a function by name; `what` says in an error what it should have been.

    >>> import_function("math:sqrt", "method")(4)
    2.0
    """
    module_name, _, function_name = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        # The console script does not put the current folder on the path as `python -m` does.
        sys.path.append(here)
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except ModuleNotFoundError as error:
        raise JobError(f"the {what} {name} cannot be imported: {error}") from None
    except AttributeError:
        raise JobError(
            f"the module {module_name} has no function '{function_name}' for the {what}"
        ) from None
    if not callable(function):
        raise JobError(f"the {what} {name} is not a function")
    return function  # type: ignore[no-any-return]
