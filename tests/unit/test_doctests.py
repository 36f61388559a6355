"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import colonnade

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(colonnade.__path__, "colonnade.")
    if not info.name.endswith("__main__")
)


@pytest.mark.usefixtures("stood_in")
@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
