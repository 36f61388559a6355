"""Whole races: what is trained, kept and chosen, and what the command says."""

from __future__ import annotations

import json

import pytest

from colonnade.cli import main
from colonnade.errors import JobError, RequestError
from colonnade.job import load, with_sets
from colonnade.run.race import race
from colonnade.run.simulate import simulate

SHORT = load("digits", ["train.rounds=4", "train.evaluate_every=1 round", "train.batch_size=256"])
BRIEF = {"rates": [0.1, 0.4], "average": ["none"], "growth": 0, "tuning_seeds": [100], "workers": 1}


def go(out, methods=("fedbcd:updates=2",), job=SHORT, seeds=(0,), **more):
    plans, done = [], []
    told = {"on_plan": lambda *plan: plans.append(plan), "on_done": done.append}
    result = race(job, list(methods), list(seeds), out=out, **BRIEF | told | more)
    return result, plans, done


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    out = tmp_path_factory.mktemp("race")
    return out, *go(out, target=0.05)


def test_a_race_tunes_on_seeds_of_its_own_and_leaves_a_table(raced):
    out, result, plans, done = raced
    assert [title for title, _, _ in plans] == [
        "tuning, rung 1 of 1, 4 rounds",
        "the table, each method at its best",
    ]
    assert [counts for _, *counts in plans] == [[4, 4], [2, 2]]
    assert [trial.job.seed for trial in done] == [100] * 4 + [0] * 2
    assert {trial.job.train.target for trial in done} == {None}
    tables = json.loads((out / "race.json").read_text())
    assert tables == result.to_dict() and [row["method"] for row in tables["methods"]] == [
        "fedsgd",
        "fedbcd:updates=2",
    ]
    assert all(len(tried) == 2 for tried in tables["tried"].values())
    assert (out / "race.md").read_text() == result.markdown()
    assert len(list((out / "points").iterdir())) == result.trained == 6


def test_a_second_call_trains_nothing_and_says_the_same(raced):
    out, first, _, _ = raced
    again, plans, done = go(out, target=0.05)
    assert (done, again.trained) == ([], 0)
    assert [missing for _, missing, _ in plans] == [0, 0]
    assert again.to_dict() == first.to_dict()


def test_what_is_missing_or_half_written_is_trained_again_to_the_same_bits(raced, tmp_path):
    out, first, _, _ = raced
    (tmp_path / "points").mkdir()
    for file in (out / "points").iterdir():
        (tmp_path / "points" / file.name).write_text(file.read_text())
    one, two, *_ = sorted((tmp_path / "points").iterdir())
    one.unlink()
    two.write_text(two.read_text()[:50])
    again, _, done = go(tmp_path, target=0.05)
    assert len(done) == 2 and again.to_dict() == first.to_dict()
    for file in (out / "points").iterdir():
        assert (tmp_path / "points" / file.name).read_text() == file.read_text()


def test_an_interrupted_race_goes_on_from_what_was_done(tmp_path):
    done = []

    def interrupt(trial):
        done.append(trial.label)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, ["fedsgd"], target=0.05, on_done=interrupt)
    assert not (tmp_path / "race.json").exists()
    _, plans, rest = go(tmp_path, ["fedsgd"], target=0.05)
    assert plans[0][1:] == (1, 2)
    assert not {trial.label for trial in rest} & set(done)


def test_another_target_and_more_rates_take_what_is_there(raced):
    out, _, _, _ = raced
    result, _, done = go(out, target="50%", rates=[0.1, 0.2, 0.4])
    tuned = {trial.job.parties["lab"].optimizer["lr"] for trial in done if trial.job.seed == 100}
    assert tuned == {0.2}
    assert result.share == "50%" and f"{result.target:.4g} on the validation" in result.notes()[0]


def test_no_run_stops_at_the_target_or_for_lack_of_patience(tmp_path):
    job = with_sets(SHORT, "train.target=0.01", "train.stop=target", "train.patience=1")
    result, _, done = go(tmp_path, ["fedsgd"], job, rates=[1e-9])
    assert result.target == 0.01
    assert [trial.summary["rounds"] for trial in done] == [4, 4]
    assert [trial.status for trial in done] == ["end", "end"]


def test_a_run_that_diverges_is_a_miss_and_the_rest_goes_on(tmp_path):
    result, _, done = go(tmp_path, ["fedsgd"], rates=[0.1, 1e12], target=0.05)
    assert [trial.status for trial in done] == ["end", "diverged", "end"]
    assert result.rows()[0]["rate"] == "0.1"


def test_a_method_that_averages_by_itself_has_its_own_average_in_the_table(tmp_path):
    job = with_sets(SHORT, "train.rounds=2")
    result, _, _ = go(tmp_path, ["fullpipe:most=2"], job, rates=[0.1], target=0.05)
    assert [row["average"] for row in result.rows()] == ["none", "ema(decay=0.999)"]
    assert "| ema(decay=0.999) |" in result.markdown()


def test_what_is_learnt_in_a_short_rung_is_the_beginning_of_the_whole_run():
    """Its time too, but for what is in flight when a pipeline runs dry."""
    for method in ("fedsgd", "fedbcd:updates=2", "celu", "pasta", "efvfl"):
        job = load("digits", ["train.batch_size=256", "train.evaluate_every=2 rounds"], method)
        job = with_sets(job, *(f"parties.{name}.schedule={{name='inverse-sqrt'}}"
                               for name in job.parties))  # fmt: skip
        brief, whole = (simulate(with_sets(job, f"train.rounds={n}")).history for n in (8, 14))
        learnt = [{k: v for k, v in row.items() if k != "time_s"} for row in brief]
        assert learnt == [{k: v for k, v in row.items() if k != "time_s"} for row in whole[:4]]
        times = [row["time_s"] for row in brief], [row["time_s"] for row in whole[:4]]
        assert times[0][:3] == times[1][:3], method
        assert times[0][3] == pytest.approx(times[1][3], rel=0.1)


@pytest.mark.parametrize(
    ("sets", "more", "word"),
    [
        (["train.validation=0"], {}, r"train\.validation=0\.1"),
        (["train.evaluate_every=never"], {}, "evaluate_every"),
        ([], {"seeds": (0, 100)}, "--tuning-seeds"),
        ([], {"seeds": ()}, "a seed for the table"),
        ([], {"target": "most"}, "98%"),
        ([], {"target": "120%"}, "98%"),
        ([], {"steady": 1}, "a touch"),
        ([], {"steady": 0}, "steady is 0"),
        ([], {"growth": -1}, "growth"),
        ([], {"halving": 1}, "--halving 3"),
        ([], {"rates": [-1]}, "above 0"),
        ([], {"methods": ["cvfl"]}, "train.labels"),
        ([], {"on": "ray"}, "one of --workers and --on"),
        ([], {"on": "spark://here", "workers": None}, "ray://HOST"),
    ],
)
def test_a_wrong_race_is_refused_before_anything_is_trained(sets, more, word, tmp_path):
    with pytest.raises((JobError, RequestError), match=word):
        go(tmp_path, **{"job": with_sets(SHORT, *sets), **more})
    assert list(tmp_path.iterdir()) == []


def test_a_race_and_a_sweep_do_not_share_a_folder(raced, tmp_path, capsys):
    out, _, _, _ = raced
    grid = ["--grid", "train.batch_size=32,64", "--out", str(out)]
    assert main(["sweep", "digits", *grid]) == 2
    assert "holds a race: choose another folder" in capsys.readouterr().err
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(RequestError, match="holds a sweep"):
        go(tmp_path)


WORDS = ["race", "digits", "--methods", "fedbcd:updates=2", "--rates", "0.1,0.4", "--growth", "0",
         "--average", "none", "--tuning-seeds", "100", "--seeds", "0", "--workers", "1", "--set",
         "train.rounds=4", "--set", "train.evaluate_every=1 round", "--set",
         "train.batch_size=256"]  # fmt: skip


def test_the_command_prints_a_table_or_nothing_but_json(raced, capsys):
    out, result, _, _ = raced
    words = [*WORDS, "--out", str(out), "--target", "0.05"]
    assert main(words) == 0
    shown, said = capsys.readouterr()
    assert said.splitlines() == [
        "tuning, rung 1 of 1, 4 rounds: 0 runs to do, and 4 are there already",
        "the table, each method at its best: 0 runs to do, and 2 are there already",
    ]
    assert "Target: accuracy 0.05 on the validation rows, held for the rest of the run." in shown
    assert main([*words, "--json", "--quiet"]) == 0
    shown, said = capsys.readouterr()
    assert (json.loads(shown), said) == (result.to_dict(), "")


@pytest.mark.parametrize(
    ("words", "key_word"),
    [
        (["--methods", "fedbdc"], "'fedbcd'"),
        (["--rates", ""], "no rate"),
        (["--rates", "0,1"], "above 0"),
        (["--rates", "fast"], "not a number"),
        (["--options", "fedbcd.updates"], "--options"),
        (["--options", "fedbdc.mu=0"], "not in the race"),
        (["--seeds", "100"], "--tuning-seeds"),
        (["--set", "method.updates=3"], "--methods"),
        (["--set", "train.validation=0"], "train.validation=0.1"),
        (["--average", "ema"], "decay"),
    ],
)
def test_a_wrong_command_is_one_sentence_and_exit_code_2(
    words, key_word, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    assert main([*WORDS, *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("colonnade: ") and err.count("\n") == 1
    assert key_word in err
    assert list(tmp_path.iterdir()) == []
