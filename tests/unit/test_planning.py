import json
import re
from math import inf

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade import methods
from colonnade.cli import main
from colonnade.compress import Compress, scalar
from colonnade.errors import DataError, JobError
from colonnade.methods.method import Method
from colonnade.planning import laws
from colonnade.planning.advice import advice
from colonnade.planning.pace import latest, lockstep
from colonnade.planning.prediction import in_step, time_of
from colonnade.planning.recurrence import FOLLOWED, _stretches, recurrent
from colonnade.planning.stages import stages_of
from colonnade.planning.workload import Line, Member, Speeds, Workload
from colonnade.policies.local import repeat, until, while_waiting
from colonnade.policies.order import sequential
from colonnade.policies.window import lockstep as one_at_a_time
from colonnade.policies.window import pipelined
from tests.planned import Full

MS = 1_000_000
speeds = st.builds(Speeds, *[st.integers(0, 50 * MS)] * 5)
rates = st.integers(10**5, 10**9)
lines = st.builds(Line, st.integers(0, 500 * MS), rates, rates, st.just(0))
IN_STEP = [
    Method(),
    Method(local=repeat(3)),
    Method(local=until("60ms")),
    Method(local=repeat(2), order=sequential("after")),
]


@st.composite
def workloads(draw):
    count = draw(st.integers(1, 3))
    passives = tuple(
        Member(f"p{number}", draw(st.integers(1, 32)), draw(speeds), draw(lines))
        for number in range(count)
    )
    active = Member("a", draw(st.integers(0, 32)), draw(speeds))
    rows = draw(st.integers(40, 400))
    batches = draw(st.sampled_from([8, 20, 40]))
    return Workload(active, passives, rows, batches, draw(st.integers(1, 60)))


def work(**changes):
    passives = (
        Member("p0", 16, Speeds(10 * MS, 20 * MS), Line(100 * MS, 10**8, 10**8)),
        Member("p1", 16, Speeds(10 * MS, 20 * MS), Line(100 * MS, 10**8, 10**8)),
    )
    active = Member("a", 16, Speeds(10 * MS, 20 * MS, 10 * MS))
    return Workload(**{"active": active, "passives": passives, "rows": 640, "batch_size": 64,
                       "rounds": 100} | changes)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(workloads(), st.sampled_from(IN_STEP))
def test_the_closed_form_is_what_the_recurrence_comes_to(workload, method):
    stages = stages_of(method, workload)
    closed, followed = lockstep(stages, workload), recurrent(stages, method, workload)
    assert closed.first_ns == pytest.approx(followed.first_ns)
    if workload.rounds <= 3 * 12 and not stages.active.tried_ns:
        assert closed.total_ns == pytest.approx(followed.total_ns)


BURSTS = Workload(
    active=Member("a", 0),
    passives=(Member("p0", 1, Speeds(), Line(891_583, 218_413_308, 281_569_928)),),
    rows=145, batch_size=8, rounds=1,
)  # fmt: skip
"""Three exchanges come at once, and then nothing for a while."""


@settings(max_examples=20, deadline=None)
@given(workloads(), st.sampled_from(["fedsgd", "celu", "pasta", "vafl", "flexvfl"]))
@example(BURSTS, "pasta")
def test_no_resource_is_needed_longer_than_there_is_time(workload, name):
    longer = Workload(workload.active, workload.passives, workload.rows, workload.batch_size, 500)
    found = time_of(methods.build({"name": name}), longer)
    assert all(0 <= use.share <= 1.05 for use in found.usage)
    assert found.total_ns >= found.first_ns >= 0
    assert found.binds.kind in ("compute", "up", "down", "latency") and found.why


@settings(max_examples=25, deadline=None)
@given(workloads(), st.integers(1, 8))
def test_the_law_of_a_window(workload, window):
    """A wider window never costs, and one that fills the pipe is as fast as any."""
    stages = stages_of(Method(), workload)
    assert laws.round_ns(stages, window + 1) <= laws.round_ns(stages, window)
    enough = laws.window_to_fill(workload)
    assert laws.round_ns(stages, enough) == stages.bottleneck_ns
    if enough > 1:
        assert laws.round_ns(stages, enough - 1) > stages.bottleneck_ns
    assert laws.round_ns(stages, 1) == pytest.approx(
        max(stages.bottleneck_ns, *map(stages.loop_ns, range(len(stages.passives))))
    )


def test_which_windows_are_effective():
    workload = work()
    enough = laws.window_to_fill(workload)
    assert laws.effective_window(one_at_a_time(), workload) == 1
    assert laws.effective_window(pipelined(3), workload) == 3
    assert laws.effective_window(pipelined(900), workload) == enough
    assert laws.effective_window(Full(12), workload) == 12
    narrow = work(passives=(Member("p0", 64, Speeds(), Line(100 * MS, 10**5, 10**5)),))
    assert laws.window_to_fill(narrow) < laws.window_to_fill(narrow, Compress(scalar(4), scalar(4)))


@pytest.mark.parametrize("draws", [1, 2])
def test_the_latest_of_several_messages(draws):
    random = np.random.default_rng(0)
    ways, late = [10.0, 12.0, 5.0], (6, 4, 0)
    drawn = [
        way + sum(random.random(200_000) * most - most / 2 for _ in range(draws))
        for way, most in zip(ways, late, strict=True)
    ]
    expected = np.maximum(11.0, np.maximum.reduce(drawn)).mean()
    found = latest(11.0, ways, [(most,) * draws for most in late])
    assert found == pytest.approx(expected, rel=2e-3)


def test_stretches_are_the_epochs_of_one_budget():
    method = Method(window=pipelined(3), local=while_waiting(4))
    workload = work(rounds=200)
    assert list(_stretches(method, workload)) == [10, 30, 120, 40]
    assert list(_stretches(Method(), workload)) == [200]
    assert FOLLOWED < 200 < inf


def test_local_updates_that_fit():
    stages = stages_of(Method(local=until("100ms")), work())
    assert [each.held for each in stages.passives] == [2, 2] and stages.active.held == 2
    assert stages_of(methods.build({"name": "sync_min"}), work()).passives[0].held == 2
    assert in_step(Method(local=until("100ms"))) and not in_step(methods.build({"name": "pasta"}))


@pytest.mark.parametrize(
    ("changes", "binds", "words"),
    [
        ({}, ("latency", "p0"), "latency binds: a window of 7 would fill the pipe"),
        (
            {"passives": (Member("slow", 64, Speeds(MS, MS), Line(MS, 10**6, 10**9)),)},
            ("up", "slow"),
            r"the line of slow .* \(up\): compress its embeddings \(scalar:4 would make it",
        ),
        (
            {"passives": (Member("slow", 64, Speeds(MS, MS), Line(MS, 10**9, 10**6)),)},
            ("down", "slow"),
            r"the line of slow .* \(down\): compress the gradients to it \(scalar:4",
        ),
        (
            {"active": Member("bank", 16, Speeds(MS, MS, 900 * MS))},
            ("compute", "bank"),
            "compute of bank ",
        ),
    ],
)
def test_what_binds_and_what_to_change(changes, binds, words):
    found = time_of(Method(), work(**changes))
    assert found.binds[:2] == binds
    assert re.match(words, advice(Method(), work(**changes), found))


def test_a_plan_in_python():
    planned = cn.plan("digits", ["fedsgd", {"name": "pasta", "b_max": 2}], rows=1000, check=True)
    assert repr(planned).startswith("<Plan of digits: fedsgd 3.85 s, pasta:b_max=2 ")
    kept = planned.to_dict()
    assert json.loads(json.dumps(kept)) == kept
    assert [row["method"] for row in kept["methods"]] == ["fedsgd", "pasta:b_max=2"]
    assert all(abs(row["ratio"] - 1) < 0.01 for row in kept["methods"])
    assert planned.table().row_count == 2


def test_a_plan_reads_the_data_where_it_is():
    read = cn.plan("digits", ["cvfl"])
    assert read.workload.rows == 1294 and read.workload.top[-1] == (10,)
    assert read.notes == ("Needed for cvfl: train.labels = shared.",)
    every = cn.plan("digits", rows=1000).predictions
    assert set(every) == set(methods.known())


def test_what_a_plan_assumes_is_said():
    job = cn.Job(parties={"bank": cn.Party(role="active"), "telco": cn.Party()})
    planned = cn.plan(job, ["fedsgd"], rows=1000)
    assert planned.workload.active.width == 0
    assert "nothing of its links" in planned.notes[0] and "speeds" in planned.notes[1]
    traced = cn.load("digits", ["network.latency=[['0s', '50ms'], ['10s', '1s']]"])
    assert "as it is when the job begins" in cn.plan(traced, ["fedsgd"], rows=1000).notes[0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["digits", "--rows", "0"], "rows is 0: it must be a whole number of 1 or more"),
        (["digits", "--methods", "fedsdg"], "did you mean 'fedsgd'"),
        (["digits", "--methods", ","], "there are no methods to plan for"),
        (["digits", "--set", "compute.forward=measured"], "a plan runs nothing: give a duration"),
        (["cifar10", "--rows", "100"], "--set parties.lower.width=64"),
        (["nothing"], "there is no built-in job 'nothing'"),
    ],
)
def test_a_wrong_request_is_one_sentence(words, sentence, capsys):
    assert main(["plan", *words]) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err and not shown.out and shown.err.count("\n") == 1


def test_data_that_is_not_here_says_how_to_do_without(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataError, match=r"not on this computer.*--rows N"):
        cn.plan("credit")
    assert main(["plan", "credit", "--rows", "21600", "--methods", "fedsgd,celu"]) == 0
    assert "fedsgd" in capsys.readouterr().out


def test_widths_come_with_rows():
    with pytest.raises(JobError, match="give both, or neither"):
        cn.plan("digits", widths={"clinic": 4, "lab": 4, "insurer": 4})
