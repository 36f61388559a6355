"""A folder holds one run, one comparison or one sweep, and never parts of two."""

import shutil

import pytest

import colonnade as cn
from colonnade.cli import main
from colonnade.run.launch import claim

SHORT = ["--set", "train.rounds=1", "--quiet"]


@pytest.fixture(scope="module")
def run():
    return cn.simulate(cn.load("digits", ["train.rounds=1"]))


@pytest.fixture
def folder(run, tmp_path):
    """The folder of a simulated run."""
    return run.save(tmp_path / "run")


def test_simulate_refuses_a_folder_with_another_run(folder, capsys):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(["simulate", "digits", "--seed", "1", *SHORT, "--out", str(folder)]) == 2
    said = capsys.readouterr().err
    assert f"{folder} holds a run of another job: choose another folder, or simulate" in said
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_job_may_be_simulated_again(folder, capsys):
    assert main(["simulate", "digits", *SHORT, "--out", str(folder)]) == 0


def test_a_run_in_python_is_not_saved_over_another(run, folder):
    other = cn.simulate(cn.load("digits", ["train.rounds=2"]))
    with pytest.raises(cn.RequestError, match="holds a run of another job"):
        other.save(folder)
    assert run.save(folder) == folder


def test_a_launch_and_a_simulation_do_not_share_a_folder(run, folder):
    with pytest.raises(cn.RequestError, match="this job as it was simulated"):
        claim(folder, run.job)
    (folder / "parties" / "lab" / "ledger.chain").write_text("")
    claim(folder, run.job)
    with pytest.raises(cn.RequestError, match="this job as it was launched"):
        run.save(folder)


@pytest.mark.parametrize(
    ("setting", "goes_on"),
    [
        ("timeouts.absence=1min", True),
        ("recovery.restarts=3", True),
        ("limits.queue_messages=7", True),
        ("train.checkpoint_every=9", False),
        ("seed=1", False),
        ("data=mnist", False),
        ("method.name=vafl", False),
        ("parties.lab.optimizer.lr=9", False),
    ],
)
def test_a_begun_run_goes_on_with_other_timeouts_but_not_with_another_training(
    setting, goes_on, run, tmp_path
):
    claim(tmp_path, run.job)
    (tmp_path / "parties" / "lab").mkdir(parents=True)
    (tmp_path / "parties" / "lab" / "ledger.chain").write_text("")
    changed = cn.with_sets(run.job, setting)
    if goes_on:
        claim(tmp_path, changed)
        assert cn.load(tmp_path / "job.toml") == changed
        return
    with pytest.raises(cn.RequestError, match="holds a run of another job"):
        claim(tmp_path, changed)


def test_a_run_folder_whose_job_file_is_damaged_is_not_taken(run, folder):
    for damaged in (b"seed = ", b"\xff"):
        (folder / "job.toml").write_bytes(damaged)
        with pytest.raises(cn.RequestError, match="holds a run of another job"):
            run.save(folder)


def test_a_comparison_keeps_to_its_folder(tmp_path, folder):
    job, out = cn.load("digits", ["train.rounds=1"]), tmp_path / "compare"
    cn.compare(job, ["fedsgd"], [0], workers=1, out=out)
    cn.compare(job, ["fedsgd", "fedbcd:updates=2"], [0], workers=1, out=out)
    with pytest.raises(cn.RequestError, match="holds another comparison, with a run in"):
        cn.compare(job, ["fedsgd"], [0], workers=1, out=out)
    with pytest.raises(cn.RequestError, match="holds another comparison, with a run in"):
        changed = cn.with_sets(job, "train.batch_size=32")
        cn.compare(changed, ["fedsgd", "fedbcd:updates=2"], [0], workers=1, out=out)
    with pytest.raises(cn.RequestError, match="holds a run: choose another folder"):
        cn.compare(job, ["fedsgd"], [0], workers=1, out=folder)
    with pytest.raises(cn.RequestError, match="holds a comparison"):
        cn.sweep(job, {"train.batch_size": [32]}, out=out, workers=1)
    shutil.rmtree(folder)
    cn.sweep(job, {"train.batch_size": [32]}, out=folder, workers=1)
    with pytest.raises(cn.RequestError, match="holds a sweep"):
        cn.compare(job, ["fedsgd"], [0], workers=1, out=folder)
