"""Trackers: what they write is read back with the tools' own readers, and whatever becomes of them
the training goes on."""

from __future__ import annotations

import json
import math
import stat
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.cli import main
from colonnade.job import load
from colonnade.record import events
from colonnade.record.events import Evaluated, Notice, Resumed, RoundDone
from colonnade.testing.small import small, with_network
from colonnade.tracking import background, tracker
from colonnade.tracking.background import Background, clause
from colonnade.tracking.facts import HIDDEN, figures_of, parameters_of
from colonnade.tracking.series import POINTS_MAX, Series
from colonnade.tracking.tracker import Tracker, trackers_of

JOB = with_network(
    small(2, rounds=6, evaluate_every="2 rounds", validation=0.25).job, latency="5ms"
)


def case(**train):
    made = small(2, rounds=6, evaluate_every="2 rounds", validation=0.25, **train)
    made.job = with_network(made.job, latency="5ms")
    return made


def read_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return found


def scalars(folder):
    found = read_tensorboard(folder)
    return {tag: [(each.step, each.value) for each in found.Scalars(tag)]
            for tag in found.Tags()["scalars"]}  # fmt: skip


def hparams(folder):
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    kept = read_tensorboard(folder).summary_metadata
    read = {tag: HParamsPluginData.FromString(each.plugin_data.content)
            for tag, each in kept.items() if each.plugin_data.plugin_name == "hparams"}  # fmt: skip
    return read["_hparams_/session_start_info"].session_start_info, read


def test_tensorboard_reads_what_a_simulation_told_it(tmp_path):
    made = case()
    run = cn.simulate(made.job, made.data, made.modules, track=f"tensorboard={tmp_path}")
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    read = scalars(tmp_path)
    losses = [(row["round"], pytest.approx(row["loss"], rel=1e-6)) for row in run.losses]
    assert read["train/loss"] == losses
    metric = run.metric.name
    measured = [(row["round"], pytest.approx(row[metric], rel=1e-6)) for row in run.history]
    assert read[f"evaluation/{metric}"] == measured
    assert read["final/bytes.total"][-1] == (6, run.bytes()["total"])
    assert [step for step, _ in read["window/p0"]] == [1, 2, 3, 4, 5, 6]
    assert {"in flight/p0", "staleness/p0", "bytes/up", "bytes/down"} <= read.keys()
    started, kept = hparams(tmp_path)
    assert started.hparams["train.batch_size"].number_value == 8
    assert started.hparams["method.name"].string_value == "fedsgd"
    assert kept["_hparams_/session_end_info"].session_end_info.status == 1
    # The clock is the job's: so TensorBoard's "relative" axis shows virtual time.
    times = [each.wall_time for each in read_tensorboard(tmp_path).Scalars("train/loss")]
    apart = run.losses[-1]["time_s"] - run.losses[0]["time_s"]
    assert times[-1] - times[0] == pytest.approx(apart, abs=1e-5)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A busy machine is no fault of a tracker's."""
    monkeypatch.setattr(background, "CLOSE_S", 600.0)


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """One store for all: to make one takes longer than to use it."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.mark.filterwarnings("ignore")
def test_mlflow_reads_what_a_simulation_told_it(uri, capfd):
    made = case()
    run = cn.simulate(made.job, made.data, made.modules, track=cn.track("mlflow", uri))
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(made.job.name)
    (kept,) = client.search_runs([experiment.experiment_id])
    assert kept.info.status == "FINISHED" and kept.data.tags["colonnade.status"] == "end"
    assert kept.info.run_name == "job, fedsgd, seed 0"
    assert kept.data.params["train.batch_size"] == "8"
    assert kept.data.metrics["final/time_s"] == pytest.approx(run.time_s)
    losses = client.get_metric_history(kept.info.run_id, "train/loss")
    assert [(each.step, each.value) for each in losses] == [
        (row["round"], pytest.approx(row["loss"])) for row in run.losses
    ]
    assert kept.info.user_id in ("unknown", "")
    said = capfd.readouterr()
    assert not said.out and "INFO" not in said.err


@pytest.mark.filterwarnings("ignore")
def test_a_party_that_is_started_again_goes_on_with_its_run_in_mlflow(uri, tmp_path):
    told, job = [], load("digits")
    for start in (0, 3):
        (own,) = trackers_of(f"mlflow={uri}", tmp_path / "run", told.append, goes_on=True)
        own.begin(job)
        if start:
            own(Resumed("clinic", start, start))
        own(RoundDone("clinic", start, start, 6, 0.5))
        own.end(None, "failed" if not start else "end")
    assert not told
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(job.name)
    (kept,) = client.search_runs([experiment.experiment_id])
    steps = [each.step for each in client.get_metric_history(kept.info.run_id, "train/loss")]
    assert steps == [1, 4] and kept.info.status == "FINISHED"
    path = tmp_path / "run" / "mlflow.run"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_tensorboard_forgets_what_is_done_again_from_a_checkpoint(tmp_path):
    (own,) = trackers_of(f"tensorboard={tmp_path}")
    own.begin(JOB)
    for round in (0, 1, 2):
        own(RoundDone("p1", round, round, 6, 0.1 * round))
    own(Resumed("p1", 3, 1))
    own(RoundDone("p1", 4, 1, 6, 0.7))
    own.end(None, "end")
    assert scalars(tmp_path)["train/loss"] == [(1, 0.0), (2, pytest.approx(0.7))]


def test_a_comparison_gives_every_run_a_folder_of_its_own(tmp_path, capsys):
    words = ["compare", "digits", "--methods", "fedsgd,fedbcd:updates=2", "--seeds", "0"]
    words += ["--set", "train.rounds=4", "--set", "train.evaluate_every=2 rounds"]
    words += ["--workers", "1", "--quiet", "--out", str(tmp_path / "out"), "--track", "tensorboard"]
    assert main(words) == 0, capsys.readouterr().err
    folders = sorted((tmp_path / "out" / "tensorboard").glob("*/*"))
    names = [f"{path.parent.name}/{path.name}" for path in folders]
    assert names == ["fedbcd_updates=2/seed-0", "fedsgd/seed-0"]
    assert [step for step, _ in scalars(folders[0])["evaluation/accuracy"]] == [2, 4]


def test_nothing_of_one_party_alone_is_told(tmp_path):
    job = load("credit", [
        "parties.partner.seed=12345", "parties.bank.device=cuda:3",
        "parties.bank.table=/home/ann/secret.csv", "parties.bank.label=defaulted",
        "parties.bank.id=customer", "parties.bank.optimizer.note='/home/ann/x'",
    ])  # fmt: skip
    told = json.dumps(parameters_of(job))
    for secret in ("12345", "cuda", "ann", "secret", "defaulted", "customer", "PAY_"):
        assert secret not in told
    assert parameters_of(job)["parties.bank.optimizer.note"] == HIDDEN
    assert parameters_of(job)["parties.partner.optimizer.momentum"] == 0.9


def test_figures_without_a_number_are_left_out():
    figures = figures_of({"time_s": None, "loss": math.nan, "metric": {"name": "auc", "best": 1}})
    assert figures.keys() == {"final/loss", "final/auc.best"}


# A tracker that fails.


FULL = OSError(28, "No space left on device")


def broken(monkeypatch, error=FULL):
    def fail(*_args):
        raise error

    monkeypatch.setattr(tracker.TensorBoard, "point", fail)


def test_a_full_disk_is_said_once_and_the_training_goes_on(monkeypatch, tmp_path):
    made = case()
    plain = cn.simulate(made.job, made.data, made.modules)
    broken(monkeypatch)
    with pytest.warns(UserWarning) as told:
        run = cn.simulate(made.job, made.data, made.modules, track=f"tensorboard={tmp_path}")
    (said,) = [str(each.message) for each in told]
    assert said.startswith("tensorboard no longer follows the run, which goes on: ")
    assert "No space left on device" in said
    assert run.summary() == plain.summary()


def test_the_command_line_says_it_once_and_ends_well(monkeypatch, tmp_path, capsys):
    broken(monkeypatch, RuntimeError("the server http://ann:pw@host is gone\nTraceback …"))
    words = ["simulate", "digits", "--set", "train.rounds=4", "--quiet"]
    assert main([*words, "--track", f"tensorboard={tmp_path}"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("no longer follows") == 1 and "http://host is gone" in said
    assert "pw" not in said and "Traceback" not in said


def test_a_tracker_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(background, "WAITING_MAX", 4)
    stuck, told = threading.Event(), []
    worker = Background()
    worker.do(stuck.wait)
    for _ in range(20):
        worker.do(lambda: told.append(1))
    assert worker.close(within_s=0.01) is not None
    stuck.set()


def test_a_server_that_is_not_there_does_not_keep_the_training(monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    told = []
    (own,) = trackers_of("mlflow=http://ann:pw@127.0.0.1:9", None, told.append)
    own.begin(JOB)
    own(RoundDone("p1", 0, 0, 6, 0.5))
    own.end(None, "end")
    (said,) = told
    assert said.startswith("mlflow no longer follows the run") and "pw" not in said


# What is asked for.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tensorbord", "there is no tracker 'tensorbord': did you mean 'tensorboard'"),
        ("tensorboard", "tensorboard needs a folder: give a run folder"),
        ("mlflow,", "there is no tracker ''"),
        ("", "there is no tracker ''"),
    ],
)
def test_what_is_no_tracker_is_refused_before_anything_is_trained(text, said, capsys):
    assert main(["simulate", "digits", "--track", text]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow"])
def test_a_missing_package_is_one_sentence_with_the_cure(kind, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, kind, None)
    monkeypatch.setattr(tracker.importlib.util, "find_spec", lambda name: None)
    words = ["simulate", "digits", "--out", str(tmp_path / "out"), "--track", kind]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert f"pip install 'colonnade[{kind}]'" in said and said.count("\n") == 1


@pytest.mark.parametrize("wrong", [7, {"tensorboard": "a"}, [7]])
def test_what_python_may_give_wrongly_is_refused(wrong):
    with pytest.raises(cn.RequestError):
        cn.simulate("digits", track=wrong)
    with pytest.raises(cn.RequestError, match="needs a folder"):
        cn.track("tensorboard")
    with pytest.raises(cn.RequestError, match="of type int"):
        cn.track("mlflow", 7)


def test_importing_colonnade_loads_no_tracker():
    import subprocess

    code = "import colonnade, sys; colonnade.track; print([m for m in sys.modules if m in " \
           "('tensorboard', 'mlflow', 'sqlalchemy')])"  # fmt: skip
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


# Curves.


@given(st.integers(1, 50_000), st.integers(0, 3))
def test_a_curve_has_about_a_thousand_points_and_the_last(rounds, skip):
    series = Series("bank")
    told = range(0, rounds, 1 + skip)
    points = [series.point(RoundDone("bank", n, n, rounds, 0.5)) for n in told]
    steps = [point.step for point in points if point is not None]
    assert steps[0] == 1 and len(steps) <= 2 * POINTS_MAX + 1
    assert told[-1] != rounds - 1 or steps[-1] == rounds
    assert rounds > POINTS_MAX or len(steps) == len(told)


def test_evaluations_are_all_kept_and_words_are_none():
    series = Series("bank")
    measured = Evaluated("bank", 5, 99_999, {"auc": 0.5}, True, 10, 20)
    assert series.point(measured).values == {
        "evaluation/auc": 0.5,
        "bytes/up": 10,
        "bytes/down": 20,
    }
    assert series.point(measured) == series.point(measured)
    assert series.point(events.Tested("bank", 6, 3, {"auc": 0.4})).values == {"test/auc": 0.4}
    assert series.point(Notice("bank", 0, "listens")) is None


def test_a_loss_that_nobody_can_tell_is_no_point():
    values = Series("bank").point(RoundDone("bank", 0, 0, 9)).values
    assert "train/loss" not in values


@given(st.text())
def test_a_clause_is_one_short_line(text):
    said = clause(ValueError(text))
    assert said and said.isprintable() and len(said) <= 300


def test_a_tracker_that_was_never_begun_ends_quietly():
    Tracker("tensorboard", "nowhere").end(None)
