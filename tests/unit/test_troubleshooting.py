"""Every sentence that the documentation explains is still one that the program says."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from scripts.docs_site import DOCS, ROOT

SOURCE = ROOT / "src" / "colonnade"
GAP = "…"
QUOTED = re.compile(r"^\| `([^`]+)` \|", re.M)
EXPLAINED = QUOTED.findall((DOCS / "troubleshooting.md").read_text())


def plain(text):
    """A sentence with one mark for each run of parts that differ from case to case."""
    return re.sub(rf"{GAP}+", GAP, re.sub(r"\{\w*\}", GAP, text))


def said(node):
    """A text of the program, with a mark where it puts something in; None for other code."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else GAP for part in node.values]
        return plain("".join(parts))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return plain(node.value)
    return None


@cache
def sentences():
    """Every text of the program but its docstrings."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = None if id(node) in notes else said(node)
            if text is not None:
                found.append(text)
    return "\n".join(found)


def test_as_many_sentences_are_explained_as_users_meet():
    assert len(EXPLAINED) >= 40 and len(set(EXPLAINED)) == len(EXPLAINED)


@pytest.mark.parametrize("sentence", EXPLAINED)
def test_a_sentence_that_is_explained_is_one_that_is_said(sentence):
    # What is put in at the end of a sentence, or left away there, may be a sentence of its own.
    assert plain(sentence).rstrip(GAP).rstrip() in sentences(), "no such sentence in the source"
