"""Systems that lack something of Unix."""

from __future__ import annotations

import importlib
import sys

import pytest

from colonnade import RequestError

FOLDER = "colonnade.record.lock"


def test_a_system_without_file_locks_is_told_what_runs_there(monkeypatch):
    """Whatever takes part in a network imports this module first."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.delitem(sys.modules, FOLDER, raising=False)
    with pytest.raises(RequestError, match=r"Linux and macOS only.*simulate the job"):
        importlib.import_module(FOLDER)
