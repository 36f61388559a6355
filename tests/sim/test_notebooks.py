"""Runs and comparisons in a notebook: the page about them, cell by cell as a notebook runs them,
and that nothing of a hostile job is ever executed there."""

from __future__ import annotations

import ast
import json
import math
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.record.gantt import BARS_MAX, bars
from colonnade.record.html import sparkline, text
from colonnade.record.timeline import Timeline
from colonnade.run.compare import Comparison
from colonnade.run.pool import Trial
from tests.documented import ROOT
from tests.notebook import NOTEBOOKS
from tests.small import small, with_network

PAGE = ROOT / "docs" / "guides" / "notebook.md"


def shown(cell, names):
    """Run a cell as a notebook does; the value of its last expression."""
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, cell["id"], "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "last", "eval"), names)


def test_the_cells_of_the_page_run_and_show_something(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "notebook"}
    cells = [cell for cell in json.loads(NOTEBOOKS[PAGE].read_text())["cells"]
             if cell["cell_type"] == "code"]  # fmt: skip
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    values = [shown(cell, names) for cell in cells]
    run, comparison = names["run"], names["comparison"]
    assert values[0] is run and any(value is comparison for value in values)
    for value in values:
        assert value is not None and value._repr_html_()
    table = values[2]
    assert table.loc["clinic"].drop("wait").sum() > 0 and set(table.index) == set(run.parties)
    timeline = next(value for value in values if hasattr(value, "data") and len(value.data) > 3)
    assert {each.name for each in timeline.data} >= {"forward", "send", "wait"}
    totals = names["spans"].groupby(["party", "kind"], observed=True)["seconds"].sum()
    assert totals["clinic", "wait"] == pytest.approx(run.parties["clinic"].idle_s)


def test_links_of_the_notebook_lead_somewhere():
    path = NOTEBOOKS[PAGE]
    for link in re.findall(r"\]\(([^)#]+)", path.read_text()):
        assert (path.parent / link).exists(), link


class Tags(HTMLParser):
    """What there is in a piece of HTML."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.words = set(), [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        self.words.append(data)


PLAIN = {"div", "p", "b", "span", "svg", "polyline", "title", "table", "thead", "tbody", "tr",
         "th", "td"}  # fmt: skip
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[2J"


@pytest.fixture(scope="module")
def run():
    case = small(2, rounds=4, evaluate_every="1 round", validation=0.25)
    return cn.simulate(with_network(case.job, latency="5ms"), case.data, case.modules)


def inert(html):
    found = Tags(html)
    assert found.tags <= PLAIN, found.tags - PLAIN
    assert not [name for name in found.attributes if name.startswith("on") or name == "href"]
    assert "<script" not in html and "\x1b" not in html
    return " ".join(found.words)


def test_a_run_shows_its_metric_its_costs_and_its_parties(run):
    words = inert(run._repr_html_())
    for expected in ("p0", "p1", "4 rounds", run.metric.name, "fresh updates"):
        assert expected in words
    assert "<polyline" in run._repr_html_()


def test_names_that_look_like_markup_are_shown_as_text(run):
    trial = Trial(HOSTILE, run.job, run.summary() | {"positive": HOSTILE}, run.history)
    broken = Trial("fedsgd", run.job, None, [], error=HOSTILE)
    words = inert(Comparison([trial, broken])._repr_html_())
    assert "<script>alert(1)</script>" in words


def test_a_comparison_of_which_nothing_came_is_shown_too(run):
    words = inert(Comparison([Trial("fedsgd", run.job, None, [], error="no data")])._repr_html_())
    assert "failed" in words


@given(st.text())
def test_any_text_stays_text(words):
    found = Tags(f"<p>{text(words)}</p>")
    assert found.tags == {"p"} and "".join(found.words).isprintable()


numbers = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(st.lists(st.tuples(st.text(max_size=5), st.lists(st.tuples(numbers, numbers), max_size=9)),
                max_size=4))  # fmt: skip
def test_a_sparkline_stays_within_its_frame(lines):
    drawn = sparkline(lines, "metric over time")
    places = [float(number) for each in re.findall(r'points="([^"]*)"', drawn)
              for pair in each.split() for number in pair.split(",")]  # fmt: skip
    assert all(0 <= place <= 280 for place in places)
    known = any(math.isfinite(x) and math.isfinite(y) for _, points in lines for x, y in points)
    assert bool(drawn) == known


spans = st.lists(
    st.tuples(st.sampled_from(["forward", "send", "wait", "receive"]), st.integers(0, 50),
              st.integers(0, 50), st.integers(0, 9)), max_size=60,
)  # fmt: skip


@given(spans, st.integers(1, 20))
def test_bars_keep_the_seconds_and_the_bytes_of_all_spans(told, most):
    timeline, at = Timeline(), 0
    for kind, gap, took, size in told:
        peer = "bank" if kind in ("send", "receive") else ""
        timeline.add(kind, at + gap, at + gap + took, 1, bytes=size, peer=peer)
        at += gap
    drawn = bars({"lab": timeline}, most)
    kept = [span for span in timeline if span.kind != "receive"]
    assert sum(bar.busy_ns for bar in drawn) == sum(span.end_ns - span.start_ns for span in kept)
    assert sum(bar.bytes for bar in drawn) == sum(span.bytes for span in kept)
    assert sum(bar.spans for bar in drawn) == len(kept)
    assert all(any(bar.start_ns <= span.start_ns and span.end_ns <= bar.end_ns for bar in drawn
                   if bar.kind == span.kind) for span in kept)  # fmt: skip


def test_a_long_run_is_drawn_with_few_bars():
    timeline = Timeline()
    for number in range(30_000):
        timeline.add("forward", 10 * number, 10 * number + 4)
    assert len(bars({"lab": timeline})) <= BARS_MAX + 1
    from colonnade.record.gantt import gantt

    assert sum(len(each.x) for each in gantt({"lab": timeline}, "wall").data) <= BARS_MAX + 1


@pytest.mark.parametrize("against", ["time_s", "round", "epoch", "bytes", "timeline"])
def test_a_run_is_plotted_against_what_there_is(run, against):
    assert run.plot(against).data
    with pytest.raises(cn.RequestError, match="did you mean 'timeline'"):
        run.plot("time-line")
