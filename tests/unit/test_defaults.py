"""What a job has that says nothing, and who must not rest on it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from colonnade.job.files import builtin_names, builtin_text, load
from colonnade.reproduce import cvfl_bytes, flexvfl_fixed, flexvfl_optimizers, flexvfl_stragglers

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PUBLISHED = {name: builtin_text(name) for name in builtin_names()} | {
    path.name: path.read_text() for path in BENCHMARKS.glob("*.toml")
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_job_states_its_models_and_optimizers(name):
    """So that a better default moves no figure that was published."""
    tables = tomllib.loads(PUBLISHED[name])
    for party in tables["parties"].values():
        assert {"model", "optimizer"} <= party.keys()
        assert "name" in party["optimizer"] and "lr" in party["optimizer"]
    assert tables["top"]["kind"] != "split" or "hidden" in tables["top"]


def test_the_papers_with_a_linear_top_keep_it():
    settings = (*cvfl_bytes.STUDY.settings, cvfl_bytes.BRIEF)
    jobs = [load(cvfl_bytes.STUDY.job, setting.sets) for setting in settings]
    for study in (flexvfl_stragglers.STUDY, flexvfl_fixed.STUDY, flexvfl_optimizers.STUDY):
        jobs += [load(study.job, [*study.sets, *setting.sets]) for setting in study.settings]
    assert all(job.top.kind == "split" and job.top.hidden == [] for job in jobs)
