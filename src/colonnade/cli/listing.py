"""`colonnade methods` and `colonnade jobs`: what there is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from colonnade.cli import completing, screen
from colonnade.cli.options import Json
from colonnade.job.files import builtin_names, builtin_text
from colonnade.record.table import facts_table


def methods(as_json: Json = False) -> None:
    """List the methods: what each is, its composition, and its options.

    Example: colonnade methods
    """
    from rich.padding import Padding
    from rich.text import Text

    from colonnade import methods as package

    found = [_describe(name, function) for name, function in package.known().items()]
    if as_json:
        screen.show_json(found)
        return
    for method in found:
        screen.show(Text(method["name"], style="bold"))
        parts = [f"{axis}={policy}" for axis, policy in method["composition"].items()]
        lines = [method["about"], f"composition: {', '.join(parts) or 'plain split training'}"]
        options = [f"{key}={value['default']}" for key, value in method["options"].items()]
        lines.append(f"options: {', '.join(options) or 'none'}")
        screen.show(Padding(Text("\n".join(lines)), (0, 0, 1, 4)))


def _describe(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    options = {
        key: {"default": parameter.default, "type": str(parameter.annotation)}
        for key, parameter in inspect.signature(function).parameters.items()
    }
    required = [
        key for key, option in options.items() if option["default"] is inspect.Parameter.empty
    ]
    return {
        "name": name,
        "about": (inspect.getdoc(function) or "").partition("\n")[0],
        "composition": {} if required else function().composition(),
        "options": options,
    }


def jobs(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=completing.built_in,
            help="Print this job's TOML, to copy and change.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the built-in jobs, or print one.

    Example: colonnade jobs digits > mine.toml
    """
    if name is not None:
        print(builtin_text(name), end="")
        return
    about = {each: _first_comment(builtin_text(each)) for each in builtin_names()}
    if as_json:
        screen.show_json(about)
        return
    screen.show(facts_table(about))


def _first_comment(text: str) -> str:
    return next((line[1:].strip() for line in text.splitlines() if line.startswith("#")), "")
