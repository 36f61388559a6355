"""Reference pages made from the code: every command with its options, every public name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

MARKUP = re.compile(r"\[/?(?:bold|dim|italic|cyan|green|red|yellow)\]")


def command_line() -> str:
    """The page of all commands, as their own parser has them."""
    import typer

    from colonnade.cli import app

    group: Any = typer.main.get_command(app)
    parts = [
        "# Command line",
        "`colonnade --help` lists the commands, and `colonnade COMMAND --help` prints what is on "
        "this page, which is made from the commands themselves. JOB is a TOML file or the name "
        "of a built-in job. Results go to standard output, progress and errors to standard error; "
        "[exit codes](run-folder.md#exit-codes) tell a wrong request from a failed job.",
    ]
    for name, command in group.commands.items():
        parts += _command(f"colonnade {name}", command, 2)
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}"
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    words = " ".join(_argument(p) for p in arguments)
    subcommands = getattr(command, "commands", {})
    rest = "COMMAND …" if subcommands else f"{words} [OPTIONS]".strip()
    yield f"```text\n{name} {rest}\n```"
    yield from _help(command.help or "")
    options = [p for p in command.params if p.name != "help" and not getattr(p, "hidden", False)]
    if options:
        rows = "\n".join(_row(parameter) for parameter in options)
        yield f"| option | default | what |\n|---|---|---|\n{rows}"
    for child, inner in subcommands.items():
        yield from _command(f"{name} {child}", inner, level + 1)


def _argument(parameter: Any) -> str:
    text = _metavar(parameter) or parameter.name.upper()
    return text if parameter.required else f"[{text.strip('[]')}]"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or "")


def _row(parameter: Any) -> str:
    flag = getattr(parameter, "is_flag", False)
    if parameter.param_type_name == "argument":
        name = f"`{_argument(parameter)}`"
    else:
        value = "" if flag else f" {_metavar(parameter) or 'VALUE'}"
        names = [*parameter.opts, *parameter.secondary_opts]
        name = ", ".join(f"`{text}{value}`" for text in names)
    default = parameter.default
    empty = flag or default in (None, "", (), []) or callable(default)
    shown = "" if empty else f"`{default}`"
    return f"| {name} | {shown} | {_plain(parameter.help or '').replace('|', chr(92) + '|')} |"


def _help(text: str) -> Iterator[str]:
    """A command's own words; paragraphs after its mark for verbatim text stay as they are."""
    for paragraph in text.replace("\f", "").split("\n\n"):
        lines = paragraph.strip("\n").splitlines()
        if not lines:
            continue
        words = " ".join(line.strip() for line in lines)
        if lines[0].strip() == "\b":
            yield "```text\n" + "\n".join(MARKUP.sub("", line) for line in lines[1:]) + "\n```"
        elif words.startswith("Example: "):
            yield f"```sh\n{words.removeprefix('Example: ')}\n```"
        else:
            yield _plain(words)


def _plain(text: str) -> str:
    """Help text in Markdown: what one would type is code.

    >>> _plain("Begin with [bold]colonnade demo[/bold], or --set 'parties.*.device=cpu' for all.")
    "Begin with colonnade demo, or `--set 'parties.*.device=cpu'` for all."
    """
    text = MARKUP.sub("", text).replace("\n", " ")
    value = r"'[^']*'|[^\s;()'`]*[=,/:][^\s;()'`]*\w|\d+"
    code = rf"(?<![\w`-])(--?[a-z][\w-]*(?: (?:{value}))?)"
    return re.sub(code, r"`\1`", text).replace("<", "&lt;").replace("[", "\\[")


def api() -> str:
    """The page of all public names, to be filled in from their docstrings."""
    import colonnade

    parts = [
        "# Python API",
        "Every public name of `import colonnade as cn`, from its docstring. "
        "[Colonnade in Python](python.md) explains how they go together.",
    ]
    for title, homes in _SECTIONS.items():
        names = [name for name in colonnade.__all__ if colonnade._HOME[name].startswith(homes)]
        parts.append(f"## {title}")
        parts += [f"::: colonnade.{colonnade._HOME[name]}.{name}\n    options:\n"
                  f"      heading_level: 3\n      heading: {name}\n" for name in names]  # fmt: skip
    return "\n\n".join(parts) + "\n"


_SECTIONS = {
    "Estimators": ("estimators",),
    "Jobs": ("job",),
    "Data": ("data",),
    "Running": ("run.",),
    "Results": ("record",),
    "Following a run": ("tracking",),
    "Methods and extensions": ("methods", "plugins"),
    "Errors": ("errors",),
}
