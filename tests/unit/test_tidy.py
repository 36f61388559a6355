"""Style that a reader relies on, checked: who may import what, how long things are."""

from __future__ import annotations

import ast
import graphlib
import re
from functools import cache
from pathlib import Path

import pytest

import colonnade

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "colonnade"
FILES = sorted(SOURCE.rglob("*.py"))
NOT_DETERMINISTIC = {"time", "random", "threading", "socket", "grpc", "asyncio", "datetime"}
WITH_CLOCKS = {"sim", "net", "tls", "parallel", "run", "serve", "dashboard", "testing", "tracking"}
"""The rooms that may ask for the time, wait, draw and connect; of `run`, one file. A tracker has a
thread, so that a training never waits for a tool that follows it."""
FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
ROOT_MODULES = {"errors", "formats", "units", "plugins", "packed"}
IMPORTS = re.compile(r"^May import ([a-z, \n]+)\.$|^Imports no other room\.$", re.M)
"""How the docstring of a room ends."""


@cache
def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def rooms() -> dict[str, set[str]]:
    """Every room, and whom it may import beside itself and the modules at the root, as its own
    docstring says."""
    found = {}
    for path in sorted(SOURCE.glob("*/__init__.py")):
        said = IMPORTS.search(ast.get_docstring(ast.parse(path.read_text())) or "")
        assert said is not None, f"{path} does not say whom it may import"
        found[path.parent.name] = set(re.findall("[a-z]+", said[1] or ""))
    return found


ROOMS = rooms()


def folder(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_only_the_worlds_are_not_deterministic(path):
    roots = {module.split(".")[0] for module in imports(path)}
    assert not roots & FORBIDDEN
    if folder(path) not in WITH_CLOCKS or (folder(path) == "run" and path.stem != "processes"):
        assert not roots & NOT_DETERMINISTIC


def test_only_five_modules_are_in_no_room():
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert modules == ROOT_MODULES


def test_no_two_rooms_import_each_other():
    order = graphlib.TopologicalSorter(ROOMS)
    assert set(order.static_order()) == set(ROOMS)


@pytest.mark.parametrize("path", [p for p in FILES if folder(p) in ROOMS], ids=name)
def test_imports_point_one_way(path):
    allowed = {folder(path), *ROOMS[folder(path)], *ROOT_MODULES}
    for module in imports(path):
        if module.startswith("colonnade."):
            assert module.split(".")[1] in allowed, module


DOORS = ("outbound.py", "inbound.py")


@pytest.mark.parametrize(
    "path", [path for path in FILES if folder(path) in ("learn", "party")], ids=name
)
def test_tensors_leave_and_come_by_one_door(path):
    """What is to be done to every tensor that crosses is done there, and cannot be bypassed."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "colonnade.compress"
        ):
            coders = {alias.name for alias in node.names} & {"decode", "plain", "Key", "Encoder"}
            assert not coders or path.name in DOORS, coders
        if isinstance(node, ast.Attribute) and path.name not in DOORS:
            assert node.attr not in ("encoder", "decode"), ast.unparse(node)


@pytest.mark.parametrize("path", [p for p in FILES if folder(p) in ("party", "learn")], ids=name)
def test_programs_do_not_know_in_which_world_they_run(path):
    for node in ast.walk(ast.parse(path.read_text())):
        word = getattr(node, "id", getattr(node, "attr", ""))
        assert not isinstance(word, str) or "simulat" not in word.lower()


@pytest.mark.parametrize("path", FILES, ids=name)
def test_functions_are_short(path):
    for node in ast.walk(ast.parse(path.read_text())):
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
