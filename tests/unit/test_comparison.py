"""Comparisons: how methods are named, what the rows say of misses and failures, what is saved."""

import json
import os

import pytest
from rich.console import Console

from colonnade.errors import JobError, RequestError
from colonnade.job import load, loads, with_sets
from colonnade.job.texts import parse_method
from colonnade.record.table import show_spread, spread
from colonnade.run.compare import Comparison, compare, run_folder
from colonnade.run.naming import method_text
from colonnade.run.pool import Trial
from colonnade.run.sweep import Point, Sweep
from colonnade.units import show_seconds

SHORT = load("digits", ["train.epochs=1"])


def trial(label, seed, time_s, *, status="end", accuracy=0.9):
    summary = {
        "status": status,
        "clock": "virtual",
        "metric": {
            "name": "accuracy",
            "final": accuracy,
            "best": accuracy,
            "test": accuracy,
            "chosen_on": "validation",
        },
        "time_to_target_s": time_s,
        "rounds_to_target": None if time_s is None else int(time_s * 2),
        "bytes_to_target": None if time_s is None else int(time_s * 1000),
        "time_s": 200.0,
        "rounds": 400,
        "bytes": {"total": 10**6},
    }
    return Trial(label, load("digits", seed=seed), summary, [])


def printed(comparison, width=120):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(comparison.table(width))
    return capture.get()


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("fedsgd", {"name": "fedsgd"}),
        ("fedbcd:updates=5", {"name": "fedbcd", "updates": 5}),
        ("fedbcd:order=sequential:mu=0.1", {"name": "fedbcd", "order": "sequential", "mu": 0.1}),
        ("mine.methods:twice", {"name": "mine.methods:twice"}),
        ("mine.methods:twice:k=[1, 2]", {"name": "mine.methods:twice", "k": [1, 2]}),
        ("fedbcd:codec=mine.codecs:half", {"name": "fedbcd", "codec": "mine.codecs:half"}),
    ],
)
def test_methods_as_text_and_as_tables(text, table):
    assert parse_method(text) == table
    assert method_text(table) == text


def test_an_option_without_a_value_is_refused():
    with pytest.raises(JobError, match="fedbcd:updates=value"):
        parse_method("fedbcd:updates")


def test_rows_give_mean_and_sample_deviation_and_count_misses():
    slow = [trial("slow", seed, time) for seed, time in enumerate((100.0, 120.0, 140.0))]
    fast = [trial("fast", 0, 50.0), trial("fast", 1, None), trial("fast", 2, 70.0)]
    first, second = Comparison([*slow, *fast]).rows()
    assert (first["time_to_target_s_mean"], first["time_to_target_s_deviation"]) == (120.0, 20.0)
    assert (first["reached"], first["speed_up"]) == (3, 1.0)
    assert (second["runs"], second["reached"], second["time_to_target_s_mean"]) == (3, 2, 60.0)
    # On the seeds with which both reached the target: 0 and 2.
    assert second["speed_up"] == (100 + 140) / (50 + 70)


def test_the_table_shows_misses_as_misses():
    trials = [trial("first", 0, 134.0), trial("first", 1, 134.0), trial("first", 2, None)]
    trials += [trial("never", seed, None) for seed in range(3)]
    text = printed(Comparison(trials))
    assert "134 s ± 0 (2/3)" in text
    assert next(line for line in text.splitlines() if "never" in line).count("missed") == 3


def test_a_run_that_diverged_or_failed_is_a_miss_and_is_named():
    failed = Trial("bad", load("digits", seed=1), None, [], "everybody waits")
    comparison = Comparison([trial("bad", 0, 10.0, status="diverged"), failed])
    (row,) = comparison.rows()
    assert (row["failed"], row["reached"], row["final_mean"]) == (2, 0, None)
    text = printed(comparison)
    assert "bad, seed 0: diverged" in text
    assert "bad, seed 1: failed: everybody waits" in text


def test_the_table_fits_a_narrow_terminal():
    trials = [trial("fedbcd:updates=10", seed, 62.9 + seed) for seed in range(2)]
    trials.append(trial("fedbcd:updates=10", 2, None))
    lines = printed(Comparison(trials), 80).splitlines()
    assert "62.9" not in lines[3] and "63.4 s ± 0.7" in lines[3] and "1.00×" in lines[3]
    assert lines[4].split() == ["(2/3)", "(2/3)", "(2/3)"]


def test_deviations():
    assert spread([2.0]) == (2.0, 0.0)
    assert spread([]) == (None, None)
    assert show_spread(0.5, 0.0123, "{:.3f}".format, 2, 2) == "0.500 ± 0.012"
    assert show_spread(1344, 187.4, "{:.0f}".format, 2, 2) == "1344 ± 187"
    assert show_spread(0.25, 0.01, show_seconds, 2, 3) == "250 ms ± 10 (2/3)"


def test_compare_in_this_process_saves_every_run(tmp_path):
    seen = []
    result = compare(
        SHORT,
        ["fedsgd", {"name": "fedbcd", "updates": 2}],
        [0, 1],
        workers=1,
        out=tmp_path,
        on_done=seen.append,
    )
    assert [trial.label for trial in seen] == ["fedsgd"] * 2 + ["fedbcd:updates=2"] * 2
    assert result.trials == seen
    folder = run_folder(tmp_path, "fedbcd:updates=2", 1)
    names = {path.name for path in folder.iterdir()}
    assert {"job.toml", "history.parquet", "summary.json", "ledger.json", "parties"} <= names
    job = loads((folder / "job.toml").read_text())
    assert (job.method, job.seed) == ({"name": "fedbcd", "updates": 2}, 1)
    assert json.loads((tmp_path / "comparison.json").read_text()) == result.to_dict()
    assert "fedbcd:updates=2" in (tmp_path / "table.txt").read_text(encoding="utf-8")
    frame = result.frame()
    assert set(frame["method"]) == {"fedsgd", "fedbcd:updates=2"}
    assert len(result.plot("bytes").data) == 4


def test_no_line_of_a_table_in_a_file_ends_with_blanks(tmp_path):
    job = with_sets(SHORT, "train.rounds=1", "train.validation=0")
    compare(job, ["fedsgd"], [0], workers=1, out=tmp_path)
    text = (tmp_path / "table.txt").read_text(encoding="utf-8")
    assert "chosen on the test rows" in text
    assert text.splitlines() == [line.rstrip() for line in text.splitlines()]


@pytest.mark.usefixtures("stood_in")
def test_workers_give_the_same_as_this_process():
    alone = compare(SHORT, ["fedsgd"], [0, 1], workers=1)
    apart = compare(SHORT, ["fedsgd"], [0, 1], workers=2)
    assert apart.to_dict() == alone.to_dict()
    assert [trial.history for trial in apart.trials] == [trial.history for trial in alone.trials]


def test_in_this_process_the_threads_of_torch_are_put_back():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        compare(SHORT, ["fedsgd"], [0], workers=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("methods", [[], ["fedsgd", "fedsgd"], ["fedsgd", "nope"], ["fedbcd:q=1"]])
def test_every_method_is_checked_before_anything_is_trained(methods, monkeypatch):
    monkeypatch.setattr("colonnade.run.compare.train_all", lambda *_: pytest.fail("trained"))
    with pytest.raises(JobError):
        compare(SHORT, methods, [0])


def test_a_job_that_is_refused_raises_once():
    with pytest.raises(RequestError, match="batch_size"):
        compare(load("digits", ["train.batch_size=100000"]), ["fedsgd"], [0, 1], workers=1)


def measured(value):
    metric = {"name": "mae", "best": value, "chosen_on": "validation"}
    return {"loss": value, "status": "end", "metric": metric}


def tuned_sweep(*points):
    return Sweep(
        "digits",
        [
            Point(settings, method, composition, {0: measured(loss)})
            for settings, method, composition, loss in points
        ],
        folder=os.devnull,
    )


def test_tuned_takes_the_best_of_the_same_method_or_of_all(monkeypatch):
    jobs = []
    monkeypatch.setattr(
        "colonnade.run.compare.train_all",
        lambda tasks, *_: jobs.extend(job for _, job, _ in tasks) or [],
    )
    rate = "parties.*.optimizer.lr"
    sgd, bcd = {"name": "fedsgd"}, {"name": "fedbcd", "updates": 2}
    repeat = {"local": "repeat(updates=2)"}
    best = tuned_sweep(
        ({rate: 0.5, "method.updates": 2}, bcd, repeat, 0.3),
        ({rate: 0.4, "method.updates": 2}, bcd, repeat, 0.2),
        ({rate: 0.3}, sgd, {}, 0.1),
        ({rate: 9.0}, sgd, {}, None),
    )
    compare(SHORT, ["fedsgd", "fedbcd:updates=2", "fedbcd:updates=7"], [0], tuned=best)
    assert [job.parties["lab"].optimizer["lr"] for job in jobs] == [0.3, 0.4, 0.3]
    assert jobs[2].method == {"name": "fedbcd", "updates": 7}


def test_a_network_on_which_nothing_takes_time_has_no_speed_up():
    rows = Comparison([trial("a", 0, 0.0), trial("b", 0, 0.0)]).rows()
    assert [row["speed_up"] for row in rows] == [None, None]
