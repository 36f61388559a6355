"""How a run looks on terminals of any size: what matters is there, and nothing is too wide."""

from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from colonnade.cli.frame import BLOCKS, PLAIN_BLOCKS, Frame, sparkline
from colonnade.cli.runs import RunsFrame, RunsWatch
from colonnade.cli.watching import Watch
from colonnade.record.events import (
    Evaluated,
    Finished,
    Notice,
    RoundDone,
    Started,
    Waited,
    Worked,
)
from colonnade.run.beacon import UnderWay
from tests.anything import ANY

S = 10**9


def run(parties=("bank", "telco", "shop"), virtual=True):
    """A run of which everything is known, after half of its rounds."""
    watch = Watch(parties, "bank", "credit, pasta, seed 0, simulated", virtual=virtual)
    watch.moment(0.0)
    for round in range(50):
        for name in parties:
            at, peer = round * S, "bank" if name != "bank" else "telco"
            watch(Worked(name, at, "forward", at + S // 4))
            watch(Waited(name, at + S // 4, "wait", at + S, peer=peer))
            loss = 0.25 if name == "bank" else None
            figures = {"local": 2 * round, "fresh": round, "bytes_up": round * 1000}
            watch(RoundDone(name, at + S, round, 100, loss, 4, 3, 2, 3, **figures))
        if round % 10 == 0:
            watch(Evaluated("bank", 0, round, {"auc": 0.5 + round / 100}, True, 0, 0))
        moment = watch.moment(round / 10)
    return watch, moment


def shown(text, width, height=40):
    console = Console(file=StringIO(), width=width, height=height, color_system=None)
    console.print(text, end="")
    return console.file.getvalue()


def test_everything_worth_watching_is_shown():
    _, moment = run()
    text = shown(Frame(110, 40).live(moment), 110)
    for piece in (
        *("credit, pasta, seed 0, simulated", "round 50/100", "50%", "0:05 gone, 0:05 left"),
        *("auc 0.9000", "best 0.9000 (round 41)", "▁", "█", "loss 0.25", "10 rounds/s"),
        *("virtual time 50 s", "10 s of it in a second", "↑ 49 kB (1 kB/s)"),
        *("in flight", "3 of 4", "stale", "local:fresh", "2:1"),
        *("waits for telco 75%, forward 25%", "waits for bank 75%, forward 25%"),
    ):
        assert piece in text, piece


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize("height", [1, 4, 8, 10, 60])
@pytest.mark.parametrize("plain", [False, True])
def test_it_fits_terminals_of_any_size(width, height, plain):
    _, moment = run([*("bank", "telco", "shop"), *(f"party-{number}" for number in range(20))])
    for text in (
        Frame(width, height, plain).live(moment),
        Frame(width, height, plain).last(moment),
    ):
        assert all(cell_len(line) <= max(20, width) for line in text.plain.split("\n"))
        if plain:
            assert text.plain.isascii()
    assert Frame(width, height).live(moment).plain.count("\n") < max(4, height)
    assert "round" in Frame(width, height).live(moment).plain.split("\n")[1]


def test_a_narrow_terminal_has_what_matters_most():
    _, moment = run()
    text = Frame(60, 24).live(moment).plain
    assert "0:05 left" in text and "auc 0.9000" in text and "waits for telco 75%" in text
    assert "local:fresh" not in text


def test_a_short_terminal_says_how_many_parties_it_leaves_out():
    names = ["bank", *(f"party-{number}" for number in range(20))]
    _, moment = run(names)
    text = Frame(100, 15).live(moment).plain
    left_out = int(text.rpartition("and ")[2].partition(" more")[0])
    assert sum(name in text for name in names) + left_out == len(names)


def test_what_stays_is_a_summary():
    watch, _ = run()
    watch(Finished("bank", 0, "end"))
    watch.ended("interrupted")
    text = Frame(100, 40).last(watch.moment(9.0)).plain
    assert text.startswith("interrupted, 50 of 100 rounds in 4.9 s\nauc 0.9000")
    assert "telco" not in text and "left" not in text


def test_a_party_that_only_answers_counts_no_rounds():
    watch = Watch(["bank", "telco"], "bank", "credit, prediction, as telco", me="telco")
    watch(Started("telco", 0))
    seen = watch.moment(0.0)
    assert Frame(100, 30).live(seen).plain.splitlines()[-1].split() == ["telco", "starts"]
    watch(Worked("telco", 0, "score", S))
    watch.moment(1.0)
    watch.ended("")
    assert Frame(100, 30).last(watch.moment(3.0)).plain.startswith("done, 3 s in all")


def test_an_alignment_has_begun_before_it_can_count_its_rounds():
    watch = Watch(["bank", "telco"], "bank", "credit, alignment, as telco", me="telco")
    watch.moment(0.0)
    assert "starting, 0:00 gone" in Frame(100, 30).live(watch.moment(0.0)).plain
    watch(Worked("telco", 0, "align", S))
    assert "begun, 0:01 gone" in Frame(100, 30).live(watch.moment(1.0)).plain


def test_what_a_party_does_is_not_cut_in_the_middle_of_a_share():
    _, moment = run()
    for width in range(40, 120):
        for line in Frame(width, 30).live(moment).plain.splitlines()[-3:]:
            assert "…" not in line or line.count("%") == 0, line


def test_runs_that_have_not_begun_say_so():
    frame = RunsFrame(100, 30)
    watch = RunsWatch()
    watch.plan("digits, 2 runs", 2, 0.0)
    assert "are starting" in frame.runs(watch, [], 20.0).plain


def test_without_colours_there_are_no_escapes():
    _, moment = run()
    console = Console(file=StringIO(), force_terminal=True, width=80, _environ={"NO_COLOR": "1"})
    console.print(Frame(80, 40).live(moment))
    assert "\x1b[3" not in console.file.getvalue(), "no colour"


@given(st.lists(ANY, max_size=20), st.integers(1, 120), st.integers(1, 40), st.booleans())
def test_whatever_happens_the_frame_fits_and_is_inert(events, width, height, plain):
    watch = Watch(["bank", "telco", "\x1b[2J日本"], "bank", "a\x1btitle\n")
    for each in events:
        watch(each)
    for text in (
        Frame(width, height, plain).live(watch.moment(1.0)),
        Frame(width, height, plain).last(watch.moment(2.0)),
    ):
        for line in text.plain.split("\n"):
            assert line.isprintable() and cell_len(line) <= max(20, width)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=300), st.integers(0, 60))
def test_a_sparkline_has_the_width_and_shows_the_highest_and_the_lowest(values, width):
    line = sparkline(values, width)
    assert len(line) == min(len(values), width) and set(line) <= set(BLOCKS)
    if line and max(values) > min(values) and len(values) <= width:
        assert BLOCKS[0] in line and BLOCKS[-1] in line
    assert sparkline(values, width, PLAIN_BLOCKS).isascii()


def test_markup_in_a_sentence_is_only_text():
    watch, _ = run()
    watch(Notice("bank", 0, "[bold red]hot[/bold red]"))
    fresh = Watch(["bank"], "bank")
    fresh(Notice("bank", 0, "[bold red]hot[/bold red]"))
    assert "[bold red]hot[/bold red]" in Frame(80, 20).live(fresh.moment(0.0)).plain


@given(
    st.lists(
        st.builds(
            UnderWay,
            st.text(max_size=60),
            st.integers(0, 10**6),
            st.integers(-5, 10**9),
            st.integers(-5, 10**9),
            st.text(max_size=30),
            st.none() | st.floats(),
        ),
        max_size=12,
    ),
    st.lists(st.text(max_size=80), max_size=9),
    st.none() | st.integers(0, 100),
    st.integers(20, 120),
    st.integers(4, 30),
)
def test_many_runs_fit_too(under_way, ended, total, width, height):
    watch = RunsWatch(total, "a race")
    for text in ended:
        watch.ended(text)
    text = RunsFrame(width, height).runs(watch, under_way, 10.0)
    lines = text.plain.split("\n")
    assert len(lines) < max(5, height)
    assert all(line.isprintable() and cell_len(line) <= width for line in lines)


def test_runs_are_counted_with_the_parts_of_those_under_way():
    watch = RunsWatch(4, "digits")
    watch.ended("fedsgd, seed 0, auc 0.9")
    going = [UnderWay("fedbcd", 1, 50, 100, "auc", 0.8), UnderWay("pasta", 0)]
    assert watch.left_s(15.0, going) == pytest.approx(25.0)
    text = RunsFrame(100, 20).runs(watch, going, 15.0).plain
    for piece in ("runs 1/4", "0:15 gone, 0:25 left", "fedbcd, seed 1", "50%", "auc 0.8000"):
        assert piece in text
    assert "pasta, seed 0" in text and "starts" in text and "ended  fedsgd, seed 0" in text
