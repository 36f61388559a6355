"""A page of the documentation as a notebook; `python -m tests.notebook` writes those there are.

One source for both, so that they cannot differ.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.documented import BLOCK, ROOT

NOTEBOOKS = {
    ROOT / "docs" / "guides" / "ten-minutes.md": ROOT / "examples" / "ten-minutes.ipynb",
    ROOT / "docs" / "guides" / "notebook.md": ROOT / "examples" / "notebook.ipynb",
}
_HERE = re.compile(r"This page is also the notebook \[\S+\]\(\S+\)\. ")


def notebook(page: Path) -> dict[str, Any]:
    """The notebook of a page: its Python in cells of code, all else in cells of text."""
    text, cells, place = page.read_text(), [], 0
    for match in BLOCK.finditer(text):
        if match["language"] == "python":
            cells += [_text(text[place : match.start()]), _code(match["text"])]
            place = match.end()
    cells.append(_text(text[place:]))
    named = [cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": named, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _code(text: str) -> dict[str, Any]:
    source = text.strip().splitlines(keepends=True)
    empty: dict[str, Any] = {"execution_count": None, "metadata": {}, "outputs": []}
    return {"cell_type": "code", **empty, "source": source}


def _text(text: str) -> dict[str, Any]:
    # Links are as seen from the folder of the notebooks.
    moved = _HERE.sub("", text).replace("](../", "](../docs/")
    moved = moved.replace("](three-hosts", "](../docs/guides/three-hosts")
    source = moved.strip().splitlines(keepends=True)
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def written(page: Path) -> str:
    """The file of a page's notebook."""
    return json.dumps(notebook(page), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for page, path in NOTEBOOKS.items():
        path.write_text(written(page))
