"""Style that a reader relies on, checked: who may import what, how long things are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import colonnade

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "colonnade"
FILES = sorted(SOURCE.rglob("*.py"))
NOT_DETERMINISTIC = {"time", "random", "threading", "socket", "grpc", "asyncio", "datetime"}
FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
OURS_ALLOWED = {
    "policies": {"policies", "errors", "longlist", "units"},
    "methods": {"methods", "policies", "party.method", "errors", "outside", "compress"},
    "wire": {"wire", "errors"},
    "compress": {"compress", "wire", "errors"},
}
"""What the files of a folder may import of our own; the arrows point one way."""
PARTY_FORBIDDEN = {"world.simulator", "world.network", "simulation", "cli", "comparison"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def folder(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_only_the_world_is_not_deterministic(path):
    roots = {module.split(".")[0] for module in imports(path)}
    assert not roots & FORBIDDEN
    if folder(path) != "world":
        assert not roots & NOT_DETERMINISTIC


@pytest.mark.parametrize("path", [p for p in FILES if folder(p) in OURS_ALLOWED], ids=name)
def test_imports_point_one_way(path):
    allowed = OURS_ALLOWED[folder(path)]
    for module in imports(path):
        if module.startswith("colonnade."):
            inner = module.removeprefix("colonnade.")
            assert any(inner == a or inner.startswith(f"{a}.") for a in allowed), module


@pytest.mark.parametrize("path", [p for p in FILES if folder(p) == "party"], ids=name)
def test_parties_see_the_outside_only_through_a_world(path):
    for module in imports(path):
        inner = module.removeprefix("colonnade.")
        assert not any(inner == f or inner.startswith(f"{f}.") for f in PARTY_FORBIDDEN), module
    for node in ast.walk(ast.parse(path.read_text())):
        word = getattr(node, "id", getattr(node, "attr", ""))
        assert not isinstance(word, str) or "simulat" not in word.lower()


@pytest.mark.parametrize("path", FILES, ids=name)
def test_functions_and_files_stay_short(path):
    source = path.read_text()
    assert source.count("\n") <= 300
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            length = node.end_lineno - node.lineno + 1 - docstring.count("\n")
            assert length <= 70, f"{node.name} has {length} lines"


CHANGES = {"append", "add", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft",
           "remove", "send", "setdefault", "update", "write", "close", "next"}  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=name)
def test_an_assertion_changes_nothing(path):
    """`python -O` leaves assertions out, and the program must do the same without them."""
    for node in ast.walk(ast.parse(path.read_text())):
        for inside in ast.walk(node) if isinstance(node, ast.Assert) else ():
            assert not isinstance(inside, ast.NamedExpr | ast.Await), ast.unparse(node)
            if isinstance(inside, ast.Call):
                called = getattr(inside.func, "attr", getattr(inside.func, "id", ""))
                assert called not in CHANGES, ast.unparse(node)


def test_public_names_are_complete_and_sorted():
    assert colonnade.__all__ == sorted(colonnade.__all__)
    for public in colonnade.__all__:
        assert getattr(colonnade, public).__doc__, public
    assert set(colonnade._HOME) == set(colonnade.__all__)
    modules = {path.stem for path in SOURCE.iterdir()}
    assert not modules & set(colonnade.__all__), "a module hides a public name"


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = colonnade.nothing


def test_no_comment_is_left_to_do():
    for path in FILES:
        for word in ("TODO", "FIXME", "XXX", "HACK"):
            assert word not in path.read_text(), f"{path}: {word}"
