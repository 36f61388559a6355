"""A party on several ranks, started by torchrun as people start it, against one process."""

import json
import os
import subprocess
from pathlib import Path

from tests.warm import python

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("parallel_script.py")
EXACT = 1e-10
PATIENCE_S = 250
"""Shorter than ranks wait for one another in the script: an end before it is one that was noticed,
on however busy a machine."""


def ranks(count, out, *cases):
    """Run cases on so many ranks; the exit code, what was said, and what each rank found."""
    launcher = [python(), "-m", "torch.distributed.run", "--standalone"]
    process = subprocess.run(
        [*launcher, f"--nproc-per-node={count}", SCRIPT, out, *cases],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHON_EXEC": python()},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    found = {
        rank: json.loads(path.read_text())
        for rank in range(count)
        if (path := Path(out, f"{rank}.json")).exists()
    }
    return process.returncode, process.stderr, found


MODULES = [
    "mlp", "convolution", "split top", "in flight", "top alone", "idle", "copied", "dropout",
    "half", "bfloat16",
]  # fmt: skip
METHODS = ["fedsgd", "pasta", "celu", "cvfl", "agg", "averaged"]


def test_two_ranks_compute_what_one_process_does(tmp_path):
    code, said, found = ranks(2, tmp_path, *MODULES, *METHODS, "batch norm")
    assert code == 0, said
    cases = found[0]
    refusal = cases.pop("batch norm")
    assert "layer '2' of the m model is a BatchNorm1d" in refusal, refusal
    assert "use group norm, or leave torchrun out" in refusal
    assert list(cases) == [*MODULES, *METHODS]
    assert {name: case["apart"] for name, case in cases.items() if case["apart"] > EXACT} == {}
    for name in METHODS:
        assert cases[name]["orders"] > 70, f"{name} was not spread"
    # A forward pass is repeated in the first backward pass of a model, and where another came
    # between: 6 of 6 in flight, none else under FedSGD with its 3 bottom models and the top.
    again = {name: cases[name]["again"] for name in ("mlp", "in flight", "fedsgd", "agg")}
    assert again == {"mlp": 1, "in flight": 6, "fedsgd": 4, "agg": 3}
    assert cases["pasta"]["again"] > 4
    # A thread of torch that is still there when Python ends may end the process with SIGABRT.
    for rank in range(2):
        left = json.loads(Path(tmp_path, f"{rank}.threads").read_text())
        assert not [name for name in left if "gloo" in name], left


def test_three_ranks_compute_it_too_and_name_the_one_that_is_killed(tmp_path):
    code, said, found = ranks(3, tmp_path, "mlp", "split top", "in flight", "killed")
    assert code == 1
    *computed, reason = found[0].values()
    assert len(computed) == 3 and all(case["apart"] < EXACT for case in computed)
    assert reason.startswith("rank 1 of this party ended without a word"), said
    assert found[2]["killed"].startswith(("rank 0 of this party has ended", "rank 2 of this party"))


def test_rank_0_says_who_failed_and_why(tmp_path):
    code, said, found = ranks(2, tmp_path, "another model")
    assert code == 1
    reason = "rank 1 of this party failed: JobError: another model than that of rank 0"
    assert found[0]["another model"].startswith(reason), said


def test_the_others_end_when_rank_0_is_killed(tmp_path):
    code, said, found = ranks(2, tmp_path, "rank 0 killed")
    assert code == 1
    assert list(found) == [1]
    assert found[1]["rank 0 killed"].startswith("rank 1 of this party lost the others"), said
