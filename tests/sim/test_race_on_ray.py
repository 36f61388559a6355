"""The same race on a Ray cluster, where Ray is installed; without it, one sentence."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from colonnade.cli import main
from tests.sim.test_race import WORDS, go


def test_without_ray_one_sentence_says_how_to_have_it(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    words = [word for word in WORDS if word != "--workers"]
    words.remove("1")
    assert main([*words, "--on", "ray://nowhere:10001", "--quiet"]) == 2
    err = capsys.readouterr().err
    cure = "--on ray://nowhere:10001 needs Ray: pip install 'colonnade[ray]'"
    assert err == f"colonnade: {cure}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_a_cluster_of_this_host_comes_to_the_same(tmp_path):
    there, plans, done = go(tmp_path / "there", target=0.05, workers=None, on="ray")
    here, _, _ = go(tmp_path / "here", target=0.05)
    assert [missing for _, missing, _ in plans] == [4, 2] and len(done) == 6
    assert there.to_dict() == here.to_dict()
    assert {file.name: file.read_text() for file in (tmp_path / "there" / "points").iterdir()} == {
        file.name: file.read_text() for file in (tmp_path / "here" / "points").iterdir()
    }
