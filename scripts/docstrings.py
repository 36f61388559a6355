"""Docstrings as the site shows them: their examples are blocks of code."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any

import griffe

EXAMPLE = re.compile(
    r"^(?:Examples?:\n)?(?P<code>(?P<indent> *)>>> .*(?:\n(?P=indent)(?! *\w+:\n).+)*)", re.M
)


def with_blocks(text: str) -> str:
    """A docstring whose interactive examples stand between fences.

    >>> with_blocks("Add one.\\n\\nExample:\\n    >>> 1 + 1\\n    2")
    'Add one.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```'
    """

    def fenced(match: re.Match[str]) -> str:
        return f"```pycon\n{dedent(match['code'])}\n```"

    return EXAMPLE.sub(fenced, text)


class Examples(griffe.Extension):
    """Changes every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = with_blocks(obj.docstring.value)
