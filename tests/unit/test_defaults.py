"""What a job has that says nothing, and who must not rest on it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from colonnade.job.files import builtin_names, builtin_text
from colonnade.reproduce import cvfl_bytes, flexvfl_stragglers

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
    method = flexvfl_stragglers.METHODS["Flex-VFL"]
    jobs = [cvfl_bytes.FULL.job(0.1), cvfl_bytes.QUICK.job(0.1)]
    jobs.append(flexvfl_stragglers._stragglers(1, method, 0.1))
    assert all(job.top.kind == "split" and job.top.hidden == [] for job in jobs)
