"""What a shell offers when somebody presses Tab: methods with their options, jobs, parties.

A shell asks anew at every Tab, so nothing that loads slowly is imported: the methods and
reproductions are found in their files, without running them.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

import colonnade
from colonnade.errors import ColonnadeError
from colonnade.job.files import builtin_names, read_source

ROOMS = Path(colonnade.__file__).parent


def methods() -> dict[str, list[str]]:
    """The methods with their options, as their files declare them.

    >>> methods()["pasta"]
    ['b_max', 's_max', 'decay']
    """
    found = {}
    for path in sorted((ROOMS / "methods").glob("[a-z]*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if (
                isinstance(node, ast.FunctionDef)
                and not node.name.startswith("_")
                and isinstance(node.returns, ast.Name)
                and node.returns.id == "Method"
            ):
                arguments = [*node.args.args, *node.args.kwonlyargs]
                found[node.name] = [argument.arg for argument in arguments]
    return found


def method(incomplete: str) -> list[str]:
    """A method, or the next of its options.

    >>> method("pas"), method("pasta:b_max=2:")
    (['pasta'], ['pasta:b_max=2:s_max=', 'pasta:b_max=2:decay='])
    """
    known = methods()
    begun, colon, last = incomplete.rpartition(":")
    if not colon:
        return [each for each in known if each.startswith(last)]
    name, *options = begun.split(":")
    given = {each.partition("=")[0] for each in options}
    free = [each for each in known.get(name, []) if each not in given]
    return [f"{begun}:{each}=" for each in free if each.startswith(last)]


def method_list(incomplete: str) -> list[str]:
    """The last of several methods between commas.

    >>> method_list("fedsgd,fedb")
    ['fedsgd,fedbcd']
    """
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{each}" for each in method(last)]


def job(incomplete: str) -> list[str]:
    """A built-in job, or a job file.

    >>> job("breast")
    ['breast-cancer']
    """
    return built_in(incomplete) + _files(incomplete, ".toml")


def built_in(incomplete: str) -> list[str]:
    """A built-in job."""
    return [name for name in builtin_names() if name.startswith(incomplete)]


def party(incomplete: str) -> list[str]:
    """A party of the job that the line names."""
    # What comes before an option that has no value yet is not parsed, so the line is looked at.
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    named = [word for word in line.split() if word.endswith(".toml") or word in builtin_names()]
    try:
        parties = read_source(named[0]).tables["parties"] if named else {}
    except (ColonnadeError, OSError, KeyError):
        return []
    found = list(parties) if isinstance(parties, dict) else []
    return [name for name in found if name.startswith(incomplete)]


def reproduction(incomplete: str) -> list[str]:
    """A table that can be reproduced.

    >>> reproduction("pasta-ti")
    ['pasta-timing']
    """
    stems = [path.stem for path in sorted((ROOMS / "reproduce").glob("[a-z]*.py"))]
    names = [stem.replace("_", "-") for stem in stems]
    return [name for name in names if name.startswith(incomplete)]


def _files(incomplete: str, ending: str) -> list[str]:
    """Files with an ending, and folders on the way to them."""
    folder, _, begun = incomplete.rpartition("/")
    place = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".")
    found = []
    try:
        for path in sorted(place.iterdir()):
            if path.name.startswith(begun) and not path.name.startswith("."):
                shown = str(path) if folder else path.name
                if path.is_dir():
                    found.append(f"{shown}/")
                elif path.name.endswith(ending):
                    found.append(shown)
    except OSError:
        pass
    return found
