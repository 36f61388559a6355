"""The parts of a race: a target that is held, halving, the grid that grows, and who is chosen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade import methods as known_methods
from colonnade.errors import ColonnadeError, RequestError
from colonnade.job import load, with_sets
from colonnade.record.metrics import METRICS
from colonnade.run.entrants import BASELINE, MAIN_OPTIONS, entrants
from colonnade.run.halving import EVALUATIONS_MIN, check_factor, rungs, survivors
from colonnade.run.ladder import FACTORS, Ladder
from colonnade.run.points import Measured, Outcome
from colonnade.run.standings import Race
from colonnade.run.steady import HELD_MIN, steady_from
from colonnade.run.tuning import Judge, Tuned, Tuning

ACCURACY, MAE = METRICS["accuracy"], METRICS["mae"]
JOB = load("digits")
shares = st.floats(0, 1)
curves = st.lists(st.none() | shares, max_size=30)


def reached(values, target, metric):
    found = [place for place, value in enumerate(values)
             if value is not None and metric.reaches(value, target)]  # fmt: skip
    return found[0] if found else None


@given(curves, shares, st.sampled_from([ACCURACY, MAE]), st.none() | st.integers(HELD_MIN, 10))
def test_a_target_is_held_from_a_touch_on_and_never_before_the_first(values, target, metric, count):
    place = steady_from(values, target, metric, count)
    first = reached(values, target, metric)
    if place is None:
        return
    assert first is not None and place >= first
    held = values[place:] if count is None else values[place : place + count]
    assert len(held) >= (count or HELD_MIN)
    assert all(value is not None and metric.reaches(value, target) for value in held)
    before = values[place - 1] if place else None
    assert before is None or not metric.reaches(before, target)


@given(curves, shares, shares, st.none() | st.integers(HELD_MIN, 10))
def test_a_harder_target_is_never_held_sooner(values, one, other, count):
    easy, hard = sorted((one, other))
    sooner, later = (steady_from(values, target, ACCURACY, count) for target in (easy, hard))
    assert later is None or (sooner is not None and sooner <= later)


@given(curves, shares, st.integers(HELD_MIN, 9))
def test_holding_longer_takes_no_less(values, target, count):
    brief, long = (steady_from(values, target, ACCURACY, each) for each in (count, count + 1))
    assert long is None or (brief is not None and brief <= long)


def test_a_metric_that_falls_is_held_below():
    assert steady_from([3.0, 1.0, 2.0, 1.0, 0.5], 1.0, MAE) == 3
    assert steady_from([3.0, 1.0, 1.0, 2.0, 0.5], 1.0, MAE, count=2) == 1
    assert steady_from([3.0, 1.0], 1.0, MAE) is None, "the last evaluation alone is a touch"


@given(st.integers(1, 100_000), st.integers(1, 500), st.none() | st.integers(2, 10))
def test_rungs_grow_to_the_full_length_by_whole_evaluations(rounds, period, factor):
    found = rungs(rounds, period, factor)
    assert found[-1] == rounds and found == sorted(set(found))
    for short in found[:-1]:
        assert short % period == 0 and short // period >= EVALUATIONS_MIN
        assert factor is not None


@given(st.lists(st.integers(), max_size=60), st.integers(2, 10))
def test_nobody_is_halved_away(settings, factor):
    kept = survivors(settings, factor)
    assert kept == settings[: len(kept)]
    assert bool(kept) == bool(settings)


@pytest.mark.parametrize("factor", [0, 1, -3, True])
def test_a_factor_that_halves_nothing_is_refused(factor):
    with pytest.raises(RequestError, match="--halving 3"):
        check_factor(factor)


def test_a_grid_grows_by_its_own_steps_and_not_for_ever():
    ladder = Ladder.of(FACTORS)
    assert ladder.rates == (0.25, 0.5, 1.0, 2.0, 4.0)
    higher = ladder.grown("highest")
    assert higher.rates[-1] == 8.0 and higher.grown("lowest").rates[0] == 0.125
    assert higher.grown("highest", most=1) is None
    assert higher.grown("lowest", most=1) is not None
    assert Ladder.of([0.1]).grown("lowest").rates == (0.05, 0.1)
    assert ladder.ends(4.0) == ["highest"] and ladder.ends(1.0) == []


@pytest.mark.parametrize(
    "rates", [[], [0], ["-1x"], ["fast"], ["nan"], ["inf"], [0.1, "2x"], [True], "0.1", 0.1]
)
def test_what_is_no_grid_of_rates_is_refused_with_the_cure(rates):
    with pytest.raises(RequestError, match=r"as in 0\.01,0\.03,0\.1"):
        Ladder.of(rates)


def test_a_multiple_keeps_what_parties_differ_by_and_a_rate_does_not():
    job = with_sets(JOB, "parties.lab.optimizer.lr=0.5", "top.optimizer={name='adam'}")
    twice, same = Ladder.of(["2x"]), Ladder.of([0.3])
    made = twice.apply(job, 2.0)
    assert [made.parties[name].optimizer["lr"] for name in ("clinic", "lab")] == [0.1, 1.0]
    assert made.top.optimizer == {"name": "adam", "lr": 0.002}, "torch's own rate is 0.001"
    assert twice.text(job, 2.0) == "2×"
    made = same.apply(job, 0.3)
    assert {party.optimizer["lr"] for party in made.parties.values()} == {0.3}
    assert made.top.optimizer["lr"] == 0.3 and same.text(job, 0.3) == "0.3"
    assert same.apply(JOB, 0.3).top.optimizer is None


def test_the_main_options_are_options_that_exist():
    for name, (option, values) in MAIN_OPTIONS.items():
        for value in values:
            known_methods.build({"name": name, option: value})
    unknown = known_methods.known().keys() - MAIN_OPTIONS.keys()
    assert unknown == {"auto", "fedsgd", "vafl", "pbcd"}, "say what a new method is tuned by"


def test_fedsgd_is_always_in_and_an_option_that_is_written_is_not_tuned():
    first, fixed, free = entrants(["fedbcd:updates=5", "celu:w=3"], {})
    assert first.is_baseline and first.label == BASELINE and first.options == {}
    assert fixed.options == {} and free.options == {"r": (2, 5, 10)}
    settings = free.settings([0.5, 1.0])
    assert len(settings) == 2 * 3 * 2
    assert settings[0].method == {"name": "celu", "w": 3, "r": 2}
    assert settings[1].method == {"name": "celu", "w": 3, "r": 2, "average": "ema:0.999"}
    (_, averaged) = entrants(["fedbcd:average=ema:0.9"], {})
    assert {each.average for each in averaged.settings([1.0])} == {None}
    assert len(entrants(["fedsgd", {"name": "vafl"}], {})) == 2


@pytest.mark.parametrize(
    ("methods", "options", "average", "word"),
    [
        ([], {}, ["none"], "name some"),
        (["fedbdc"], {}, ["none"], "fedbcd"),
        (["fedbcd", "fedbcd"], {}, ["none"], "twice"),
        (["fedbcd"], {"fedbcd.update": [2]}, ["none"], "'updates'"),
        (["fedbcd"], {"fedbcd.updates": ["two"]}, ["none"], "int"),
        (["fedbcd"], {"celu.r": [2]}, ["none"], "not in the race"),
        (["fedbcd"], {"updates": [2]}, ["none"], "METHOD.OPTION"),
        (["fedbcd"], {"fedbcd.updates": []}, ["none"], "METHOD.OPTION"),
        (["fedbcd:updates=5"], {"fedbcd.updates": [2]}, ["none"], "leave out"),
        (["fedbcd"], {}, [], "none,ema"),
        (["fedbcd"], {}, ["ema:2"], "decay"),
    ],
)
def test_what_cannot_race_is_refused(methods, options, average, word):
    with pytest.raises(ColonnadeError, match=word):
        entrants(methods, options, average)


def run(seed, values, seconds=1.0, status="end", label="a run"):
    history = [Measured(place + 1, (place + 1) * seconds, 100 * (place + 1), value)
               for place, value in enumerate(values)]  # fmt: skip
    return Outcome(label, seed, status, metric="accuracy", history=history, test=0.5)


def test_misses_are_worse_than_any_hit_and_are_ranked_by_their_best():
    judge = Judge(ACCURACY, 0.9)
    slow, fast = run(0, [0.1, 0.9, 0.9], 100), run(0, [0.9, 0.95, 0.9])
    high, low = run(0, [0.95, 0.8, 0.8]), run(0, [0.5, 0.5, 0.5])
    diverged = run(0, [0.99, 0.99], status="diverged")
    order = sorted([[low], [diverged], [slow], [high], [fast]], key=judge.rank)
    assert order == [[fast], [slow], [high], [low], [diverged]]
    assert judge.rank([fast, low]) > judge.rank([slow, slow]), "one miss outweighs any time"
    assert judge.rank([fast, low]) < judge.rank([high, low])


def test_without_time_rounds_decide_and_without_a_target_the_last_value():
    judge = Judge(ACCURACY, 0.9)
    assert judge.rank([run(0, [0.9, 0.9], 0.0)]) < judge.rank([run(0, [0.1, 0.9, 0.9], 0.0)])
    low, high = run(0, [0.9, 0.9]), run(0, [0.9, 0.95])
    assert judge.rank([high]) < judge.rank([low]), "as fast, and better in the end"
    peak, end = run(0, [0.99, 0.5]), run(0, [0.6, 0.7])
    assert Judge(ACCURACY).rank([end]) < Judge(ACCURACY).rank([peak])
    assert Judge(MAE).rank([peak]) < Judge(MAE).rank([end])


class Course:
    """Stands in for training: how soon a setting holds the target follows from its rate."""

    def __init__(self, peaks, evaluations=40):
        self.peaks, self.evaluations, self.asked = peaks, evaluations, []
        self.trained = 0

    def train(self, title, jobs):
        self.asked.append((title, [job for _, job in jobs]))
        return [self._run(job) for _, job in jobs]

    def _run(self, job):
        rate, peak = job.parties["lab"].optimizer["lr"], self.peaks[job.method["name"]]
        far = max(rate / peak, peak / rate)
        count = job.train.rounds or self.evaluations
        values = [0.95 if (place + 1) > 3 * far else 0.1 + 0.01 / far for place in range(count)]
        return run(job.seed, values)


def tuning(course, growth=4, lengths=(14, 40)):
    return Tuning(JOB, [100], list(lengths), 3, course, growth)


def test_the_grid_grows_for_everybody_while_anybodys_best_is_at_its_edge():
    course = Course({"fedsgd": 1.6, "fedbcd": 0.05})
    field = entrants(["fedbcd"], {}, ["none"])
    found, ladder = tuning(course).tune(field, Ladder.of([0.1, 0.2, 0.4]), Judge(ACCURACY, 0.9))
    assert ladder.rates == (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
    assert found["fedsgd"].best.rate == 1.6 and found["fedbcd"].best.rate == 0.05
    assert found["fedsgd"].ends == found["fedbcd"].ends == []
    for own, options in ((found["fedsgd"], 1), (found["fedbcd"], 3)):
        tried = sorted({setting.rate for setting, _, _ in own.tried})
        assert tried == list(ladder.rates), "one grid for all"
        assert len(own.tried) == options * len(ladder.rates)


def test_a_best_rate_at_the_bound_of_the_grid_is_said_to_be_there():
    course = Course({"fedsgd": 100.0})
    field = entrants(["fedsgd"], {}, ["none"])
    found, ladder = tuning(course, growth=2).tune(
        field, Ladder.of([0.1, 0.2]), Judge(ACCURACY, 0.9)
    )
    assert ladder.rates == (0.1, 0.2, 0.4, 0.8)
    assert found["fedsgd"].ends == ["highest"]


@given(st.sampled_from([0.05, 0.1, 0.2, 0.8]), st.sampled_from([0.05, 0.2, 0.4]), st.booleans())
def test_every_method_has_runs_in_every_rung_and_survivors_are_trained_at_length(one, other, whole):
    course = Course({"fedsgd": one, "celu": other})
    lengths = [40] if whole else [14, 40]
    field = entrants(["celu"], {}, ["none"])
    race = tuning(course, growth=0, lengths=lengths)
    found, _ = race.tune(field, Ladder.of([0.05, 0.1, 0.2, 0.4, 0.8]), Judge(ACCURACY, 0.9))
    assert len(course.asked) == len(lengths)
    for _, jobs in course.asked:
        assert {job.method["name"] for job in jobs} == {"fedsgd", "celu"}
    for label, peak in (("fedsgd", one), ("celu", other)):
        assert found[label].best.rate == peak
        setting, rounds, rank = found[label].tried[0]
        assert (setting, rounds) == (found[label].best, 40) and rank[0] == 0
        full = [rank for _, length, rank in found[label].tried if length == 40]
        assert full == sorted(full) and len(full) >= 2
    last = course.asked[-1][1]
    assert all(job.train.rounds is None and job.train.epochs == 80 for job in last)


def test_where_all_diverge_the_grid_grows_downwards():
    class Diverges(Course):
        def _run(self, job):
            rate = job.parties["lab"].optimizer["lr"]
            return run(job.seed, [0.9] * 3, 1 / rate, "end" if rate < 0.03 else "diverged")

    field = entrants(["fedsgd"], {}, ["none"])
    found, ladder = tuning(Diverges({})).tune(field, Ladder.of([0.1, 0.2]), Judge(ACCURACY, 0.9))
    assert found["fedsgd"].best.rate == 0.025 and ladder.rates[:2] == (0.0125, 0.025)


def finished(outcomes, target=0.9, **more):
    """A race as it has ended, with these runs of the table."""
    field = entrants(list(outcomes), {}, ["none"])
    tuned = {each.label: Tuned(each.settings([0.1])[0], [], [], []) for each in field}
    rest = {"share": None, "steady": None, "seeds": [0, 1], "tuning_seeds": [7], "rungs": [9]}
    return Race(JOB, None, "accuracy", target, ladder=Ladder.of([0.1, 0.2]), tuned=tuned,
                outcomes=outcomes, **rest | more)  # fmt: skip


def test_the_table_has_misses_as_misses_and_ratios_on_common_seeds():
    result = finished(
        {
            "fedsgd": [run(0, [0.1, 0.9, 0.9], 4), run(1, [0.1, 0.1, 0.9, 0.9], 4)],
            "fedbcd:updates=2": [run(0, [0.9, 0.9], 4), run(1, [0.9, 0.1])],
            "pasta:b_max=2": [run(0, [0.1] * 3), run(1, [], status="failed")],
        }
    )
    first, second, third = result.rows()
    assert (first["reached"], second["reached"], third["reached"]) == (2, 1, 0)
    assert first["time_s_mean"] == 10 and first["speed_up"] == 1
    assert second["speed_up"] == 8 / 4 and second["bytes_ratio"] == 100 / 200
    assert third["time_s_mean"] is None and third["speed_up"] is None and third["failed"] == 1
    lines = result.markdown().splitlines()
    assert "| 2/2 | 10 s ± 3 | 1.00× |" in lines[2]
    assert "| 1/2 | 4 s | 2.00× | 100 B | 0.50× |" in lines[3]
    assert "| 0/2 | missed | – | missed | – | 0.500 (1/2) |" in lines[4]
    assert "pasta:b_max=2, seed 1: failed" in lines
    assert result.table(80).row_count == 3


def test_without_fedsgd_at_the_target_there_is_no_speed_up():
    result = finished(
        {"fedsgd": [run(0, [0.1] * 3)], "fedbcd:updates=2": [run(0, [0.9] * 3)]}, seeds=[0]
    )
    assert [row["speed_up"] for row in result.rows()] == [None, None]
    assert "FedSGD at its best missed the target, so no speed-up can be told." in result.notes()
