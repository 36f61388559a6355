"""Systems that lack something: of Unix, or of the packages that only a training needs."""

from __future__ import annotations

import importlib
import subprocess
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


def test_an_alignment_needs_nothing_of_what_trains():
    """With torch a process takes 200 MiB more; here importing it fails."""
    script = """
import importlib, pkgutil, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "sklearn", "scipy", "pandas", "plotly", "safetensors.torch"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import colonnade.align
for found in pkgutil.iter_modules(colonnade.align.__path__, "colonnade.align."):
    importlib.import_module(found.name)
import colonnade.cli.align, colonnade.cli.reporter, colonnade.run.align, colonnade.net.link
import colonnade.tls.signature
"""
    subprocess.run([sys.executable, "-c", script], check=True)
