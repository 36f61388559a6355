"""What a page is drawn from: shares that add up, spans that come back, texts that stay text."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import itertools
import json
import os
import zlib
from importlib import resources

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade import methods
from colonnade.cli import main
from colonnade.errors import RequestError
from colonnade.job import load
from colonnade.methods.method import AXES
from colonnade.page.curves import bands
from colonnade.page.exchanges import exchanges_of, with_staleness
from colonnade.page.facts import facts_of
from colonnade.page.html import as_json, report_html
from colonnade.page.lanes import Spans, _met, lanes_of, spans_of
from colonnade.page.reading import Names, clean
from colonnade.page.report import report_of, report_on
from colonnade.page.spans import _windows, shares_of, timeline, totals
from colonnade.page.words import composition
from colonnade.units import show_bytes, show_seconds
from tests.pages import ENDS, MARKUP, trained

PARTIES = ["bank", "telco"]


def spans(rows) -> Spans:
    """Spans of `(party, kind, start, end, round, bytes, peer)`."""
    columns = {}
    for place, name in ((0, "party"), (1, "kind"), (6, "peer")):
        found = pa.array([row[place] for row in rows], pa.string()).dictionary_encode()
        columns[name] = Names(found.indices.to_numpy(), found.dictionary.to_pylist())
    for place, name in ((2, "start_ns"), (3, "end_ns"), (4, "round"), (5, "bytes")):
        columns[name] = np.array([row[place] for row in rows], np.int64)
    return spans_of(columns)


@st.composite
def computing(draw):
    """Two parties that compute and wait, without a gap or an overlap within a party."""
    rows = []
    for party in PARTIES:
        clock = draw(st.integers(0, 1000))
        for number in range(draw(st.integers(1, 30))):
            end = clock + draw(st.integers(1, 10**6))
            kind = draw(st.sampled_from(["forward", "backward", "wait"]))
            rows.append((party, kind, clock, end, number + 1, 0, ""))
            clock = end
    return rows


@given(computing(), st.sampled_from([1, 7, 64, 1024]))
@settings(max_examples=50)
def test_shares_add_up_to_the_time_that_was_spent(rows, buckets):
    found = spans(rows)
    kinds, lanes, left_out = lanes_of(found, "bank")
    assert left_out == 0 and [lane.name for lane in lanes] == PARTIES
    first, last = int(found.start.min()), int(found.end.max())
    for lane in lanes:
        for number, kind in enumerate(kinds):
            shares = shares_of(lane, number, first, last - first, buckets)
            spent = sum(end - start for party, what, start, end, *_ in rows
                        if (party, what) == (lane.name, kind))  # fmt: skip
            assert shares.sum() * (last - first) / buckets == pytest.approx(spent, abs=1e-3)
            assert shares.max() <= 1 + 1e-9 and shares.min() >= -1e-9


def unpacked(text: str) -> tuple[list[int], list[np.ndarray]]:
    """What a browser reads: how many spans each lane has, and the columns."""
    raw = zlib.decompress(base64.b64decode(text))
    lanes = int.from_bytes(raw[:4], "little")
    counts = [int.from_bytes(raw[4 * n : 4 * n + 4], "little") for n in range(1, lanes + 1)]
    at, total, columns = 4 + 4 * lanes, sum(counts), []
    while at < len(raw):
        planes, at = raw[at], at + 1
        column = np.zeros(total, np.int64)
        for plane in range(planes):
            column += np.frombuffer(raw, np.uint8, total, at).astype(np.int64) << (8 * plane)
            at += total
        columns.append(column)
    return counts, columns


@given(computing())
@settings(max_examples=50)
def test_spans_come_back_from_the_bytes_that_a_page_carries(rows):
    made = timeline(spans(rows), "bank")
    counts, columns = unpacked(made["detail"]["data"])
    assert made["detail"]["whole"] and sum(counts) == len(rows) == made["detail"]["count"]
    deltas, lengths, kinds, rounds = columns[:4]
    begins = np.cumsum([0, *counts])
    starts = np.concatenate([np.cumsum(deltas[a:b]) for a, b in itertools.pairwise(begins)])
    back = [
        (made["lanes"][lane]["name"], made["kinds"][kinds[row]], starts[row] + made["start_ns"],
         starts[row] + made["start_ns"] + lengths[row], rounds[row])
        for lane in range(len(counts))
        for row in range(begins[lane], begins[lane + 1])
    ]  # fmt: skip
    assert back == [row[:5] for row in rows]


def test_a_message_is_sent_flies_and_waits_in_the_lane_of_its_link():
    rows = [
        ("telco", "send", 0, 10, 1, 40, "bank"),
        ("telco", "send", 10, 20, 2, 40, "bank"),
        ("bank", "receive", 50, 55, 1, 40, "telco"),
        ("bank", "receive", 60, 90, 2, 40, "telco"),
    ]
    kinds, lanes, _ = lanes_of(spans(rows), "bank")
    (lane,) = lanes
    assert (lane.name, lane.link, lane.tracks) == ("telco → bank", True, 2)
    found = [(kinds[k], s, e, t) for k, s, e, t in
             zip(lane.kind, lane.start, lane.end, lane.track, strict=True)]  # fmt: skip
    assert sorted(found, key=lambda each: (each[3], each[1])) == [
        ("send", 0, 10, 0),
        ("flight", 10, 50, 0),
        ("receive", 50, 55, 0),
        ("send", 10, 20, 1),
        ("flight", 20, 60, 1),
        ("receive", 60, 90, 1),
    ]


def test_a_long_timeline_keeps_to_its_bytes_and_says_which_spans_are_there():
    random = np.random.default_rng(0)
    ends = np.cumsum(random.integers(1, 10**9, 40_000))
    starts = np.concatenate([[0], ends[:-1]])
    rows = [("bank", "forward", int(a), int(b), n, 0, "") for n, (a, b) in
            enumerate(zip(starts, ends, strict=True), 1)]  # fmt: skip
    made = timeline(spans(rows), "bank", bytes_max=100_000)
    assert not made["detail"]["whole"] and len(made["detail"]["windows"]) == 3
    assert made["spans"] == 40_000 and 1000 < made["detail"]["count"] < 40_000
    assert len(json.dumps(made)) < 105_000
    assert _windows(0, 90, 0.5) == [(0, 15), (37, 52), (75, 90)]


def test_sums_are_exact_to_the_nanosecond():
    big = 2**53 + 1
    found = totals(
        spans([("bank", "forward", 0, big, 1, 0, ""), ("bank", "forward", 0, 1, 2, 0, "")])
    )
    assert found == [{"party": "bank", "kind": "forward", "ns": big + 1, "spans": 2}]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "pasta-0", "pasta")


@pytest.fixture(scope="module")
def facts(run):
    return facts_of(run)


def test_the_facts_of_a_run_agree_with_its_summary_and_ledger(run, facts):
    summary = json.loads((run / "summary.json").read_text())
    neither = ("wait", "send", "receive", "begin")
    for row in facts["parties"]:
        own = [each for each in facts["time"] if each["party"] == row["party"]]
        assert sum(each["ns"] for each in own if each["kind"] not in neither) / 1e9 == row["busy_s"]
        assert sum(each["ns"] for each in own if each["kind"] == "wait") / 1e9 == row["idle_s"]
        assert row["busy_s"] == summary["busy_s"][row["party"]]
    training = [row for row in facts["flows"] if row["purpose"] in ("training", "control")]
    assert sum(row["bytes"] for row in training) == summary["bytes"]["total"]
    assert facts["timeline"]["traced"] and not facts["problems"]
    assert [row["party"] for row in facts["parties"]] == ["clinic", "lab", "insurer"]
    assert {party["party"] for party in facts["exchanges"]} >= {"lab", "insurer"}


def test_an_old_timeline_of_four_columns_is_drawn_without_messages(run, tmp_path):
    table = pq.read_table(run / "timeline.parquet").replace_schema_metadata(None)
    old = table.filter(pa.compute.invert(pa.compute.is_in(
        table["kind"].cast(pa.string()), pa.array(["send", "receive"]))))  # fmt: skip
    (tmp_path / "parties").mkdir()
    (tmp_path / "summary.json").write_bytes((run / "summary.json").read_bytes())
    pq.write_table(
        old.select(["party", "kind", "start_ns", "end_ns"]), tmp_path / "timeline.parquet"
    )
    made = facts_of(tmp_path)["timeline"]
    assert not made["traced"] and [lane["link"] for lane in made["lanes"]] == [False] * 3


def test_staleness_is_that_of_the_exchange_of_the_same_round():
    rows = [("telco", "backward", 0, 5, 2, 0, ""), ("telco", "wait", 5, 9, 0, 0, "")]
    told = {"party": Names(np.zeros(2, np.int32), ["telco"]), "round": np.array([1, 2]),
            "used_ns": np.array([1, 2]), "staleness": np.array([0.0, 3.0])}  # fmt: skip
    assert with_staleness(spans(rows), told).staleness.tolist() == [4, 0]
    assert exchanges_of(told)[0]["staleness_max"] == [0.0, 3.0]


def test_bands_reach_as_far_as_every_seed_has_been():
    one = {"time_s": [0.0, 10.0], "auc": [0.0, 1.0]}
    two = {"time_s": [5.0, 20.0], "auc": [0.5, 0.5]}
    band = bands([one, two])["auc"]["time_s"]
    assert band["x"] == [5.0, 10.0]
    assert band["low"] == [0.5, 0.5] and band["high"] == [0.5, 1.0]


@pytest.mark.parametrize("name", methods.known())
def test_every_axis_has_a_sentence(name):
    rows = composition(methods.build({"name": name}))
    assert [row["axis"] for row in rows] == list(AXES)
    assert all(row["sentence"].endswith(".") and "(" not in row["sentence"][:12] for row in rows)


@given(st.text() | st.sampled_from([MARKUP, ENDS, "\u2028<!--", "]]>"]))
def test_no_text_of_a_folder_ends_the_element_that_carries_it(text):
    packed = as_json(clean({"name": text}))
    assert "<" not in packed and json.loads(packed) == clean({"name": text})
    page = report_html({"headline": {"title": text, "lead": text}, "version": "1", "runs": []})
    assert page.count("<script") == 6 and page.count("</script>") == 6


def test_the_chart_library_is_the_one_that_was_vendored():
    folder = resources.files("colonnade.page") / "vendor"
    told = json.loads((folder / "echarts.json").read_text())
    content = (folder / "echarts.min.js").read_bytes()
    assert hashlib.sha256(content).hexdigest() == told["sha256"]
    assert told["version"].encode() in content
    assert "Apache License" in (folder / "LICENSE").read_text() and (folder / "NOTICE").is_file()


def refused(capsys, *words):
    code = main(["report", *map(str, words)])
    return code, capsys.readouterr().err


def test_what_is_no_run_is_refused_with_a_sentence(run, tmp_path, capsys):
    assert refused(capsys, tmp_path) == (
        2, f"colonnade: {tmp_path} holds no run: give the folder of a run, as --out named it\n"
    )  # fmt: skip
    (tmp_path / "sweep.json").write_text("{}")
    assert "holds a sweep" in refused(capsys, tmp_path)[1]
    code, said = refused(capsys, run.parent)
    assert code == 2 and "holds runs (pasta-0) and is none" in said
    (tmp_path / "mine.txt").write_text("dear diary")
    assert "is there and is no report" in refused(capsys, run, "--out", tmp_path / "mine.txt")[1]
    assert (tmp_path / "mine.txt").read_text() == "dear diary"


def test_a_run_that_was_interrupted_says_so(facts):
    cut = facts | {"status": "interrupted", "state": "interrupted"}
    told = report_on([cut])["headline"]
    assert any("was interrupted after 126 rounds" in note for note in told["notes"])


def test_the_best_value_of_a_run_is_not_taken_for_its_target(facts):
    """A single run that misses its target is compared to the best that it reached itself."""
    name = facts["metric"]["name"]
    best = max(value for value in facts["history"][name] if value is not None)
    notes = report_on([facts | {"target": best + 0.01}])["headline"]["notes"]
    assert f"The target, {name} {best + 0.01:g}, is not reached." in notes
    notes = report_on([facts | {"target": best - 0.01}])["headline"]["notes"]
    assert any(f"{best - 0.01:g}, is reached after" in note for note in notes)


def test_a_run_that_diverged_says_so_with_the_time_and_bytes_it_took(facts):
    gone = {"name": facts["metric"]["name"], "final": None, "best": None, "test": None,
            "chosen_on": "validation"}  # fmt: skip
    lost = facts | {"status": "diverged", "metric": gone, "history": {}}
    told = report_on([lost])["headline"]
    assert told["title"] == "pasta diverged after 126 rounds"
    boxes = {box["label"]: box["value"] for box in told["figures"]}
    assert boxes["time"] == show_seconds(facts["time_s"])
    assert boxes["training bytes"] == show_bytes(facts["bytes"]["total"])
    assert "no time" not in told["lead"] and "0 B" not in told["lead"]


def test_a_run_that_was_never_written_to_its_end_is_refused(tmp_path, capsys):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "start.json").write_text("{}")
    code, said = refused(capsys, tmp_path)
    assert code == 2 and "interrupted before anything was kept" in said


def test_a_run_that_goes_on_is_shown_by_what_it_has_told(tmp_path):
    events = [
        {"type": "RoundDone", "party": "bank", "time_ns": 10**9, "round": 0, "rounds": 9,
         "loss": 1.0, "window": 1},
        {"type": "Evaluated", "party": "bank", "time_ns": 2 * 10**9, "round": 0,
         "measured": {"auc": 0.7}, "best": True, "bytes_up": 5, "bytes_down": 6},
    ]  # fmt: skip
    path = tmp_path / "live.jsonl"
    path.write_text("\n".join(map(json.dumps, events)) + '\n{"half')
    with path.open() as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        told = report_of([tmp_path])
    assert told["runs"][0]["state"] == "running" and told["metric"] == "auc"
    assert told["runs"][0]["history"]["bytes"] == [11.0]
    assert any("still running" in note for note in told["headline"]["notes"])


def test_runs_of_different_jobs_are_drawn_and_not_compared(facts):
    told = report_on([facts, facts | {"job": "other"}])
    assert not told["comparable"] and told["comparison"] == []
    assert "are of the jobs digits and other" in told["headline"]["lead"]


def test_seeds_of_one_method_are_one_group_and_fedsgd_comes_first(facts):
    base = facts | {"method": "fedsgd", "settings": "plain"}
    told = report_on([facts, facts | {"seed": 1}, base])
    assert [group["label"] for group in told["groups"]] == ["fedsgd", "pasta"]
    assert told["groups"][1]["runs"] == [0, 1] and told["groups"][1]["bands"]
    assert told["comparison"][1]["speed_up"] == 1.0


def test_a_race_says_what_was_gained_at_the_best_rate(tmp_path):
    job = load("digits")
    rows = [
        {"method": name, "composed": {"name": name}, "rate": "0.1", "time_s_mean": seconds,
         "bytes_mean": 1000, "test_mean": 0.9, "speed_up": 40 / seconds, "speed_up_min": 3.0,
         "speed_up_max": 5.0, "bytes_ratio": 1.0, "runs": 1, "reached": 1}
        for name, seconds in (("fedsgd", 40.0), ("pasta", 10.0))
    ]  # fmt: skip
    race = {"job": job.name, "metric": "accuracy", "target": 0.9, "seeds": [0], "methods": rows,
            "notes": ["as tuned"]}  # fmt: skip
    (tmp_path / "race.json").write_text(json.dumps(race))
    (tmp_path / "points").mkdir()
    for number, name in enumerate(("fedsgd", "pasta")):
        point = {"label": name, "seed": 0, "status": "end", "metric": "accuracy", "test": 0.9,
                 "history": [{"round": 1, "time_s": 4.0, "bytes": 9, "value": 0.95}],
                 "job": {"name": "digits", "method": {"name": name}}}  # fmt: skip
        (tmp_path / "points" / f"{number}.json").write_text(json.dumps(point))
        (tmp_path / "points" / f"tuning-{number}.json").write_text(json.dumps(point | {"seed": 9}))
    told = report_of([tmp_path])
    assert told["headline"]["title"] == (
        "pasta reaches accuracy 0.900 in 10 s, 4× as fast as FedSGD at its best rate"
    )
    assert [run["method"] for run in told["runs"]] == ["fedsgd", "pasta"]
    assert report_html(told)


@pytest.mark.parametrize("name", ["timeline.parquet", "history.parquet", "summary.json",
                                  "ledger.json", "exchanges.parquet", "job.toml"])  # fmt: skip
def test_a_damaged_file_takes_its_own_part_away_and_no_other(run, tmp_path, name):
    for path in run.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "parties").mkdir()
    (tmp_path / name).write_bytes(b"PAR1 nothing \x00\xff")
    found = facts_of(tmp_path)
    assert any(name in problem or "job" in problem for problem in found["problems"])
    assert not any(str(tmp_path) in problem for problem in found["problems"]), "a path of the host"
    assert report_html(report_on([found]))


@pytest.mark.parametrize("name", ["summary.json", "privacy.json"])
def test_a_file_of_a_newer_version_is_said_to_be_one(run, tmp_path, name):
    for path in run.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "parties").mkdir()
    (tmp_path / name).write_text('{"format": 2, "rounds": "others than now", "pairs": 1}')
    found = facts_of(tmp_path)
    (said,) = [problem for problem in found["problems"] if name in problem]
    assert "written by a newer Colonnade" in said and "update Colonnade" in said
    assert report_html(report_on([found]))


def test_pipes_links_and_devices_are_not_waited_for(run, tmp_path):
    (tmp_path / "parties").mkdir()
    (tmp_path / "summary.json").write_bytes((run / "summary.json").read_bytes())
    os.mkfifo(tmp_path / "timeline.parquet")
    os.mkfifo(tmp_path / "live.jsonl")
    (tmp_path / "ledger.json").symlink_to("/dev/zero")
    found = facts_of(tmp_path)
    assert sum("no plain file" in problem for problem in found["problems"]) >= 2


def test_too_many_runs_are_refused(monkeypatch, run):
    monkeypatch.setattr("colonnade.page.report.RUNS_MAX", 0)
    with pytest.raises(RequestError, match="a report shows up to 0 runs"):
        report_of([run])


def test_a_report_has_no_path_of_the_host_and_no_secret_seed(run):
    page = report_html(report_of([run]))
    assert str(run.parent) not in page and '"seed"' not in page.replace('"seed":', "")


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=30))
def test_messages_meet_kind_by_kind(one, other):
    from collections import Counter

    here, there = _met(np.array(one, np.int64), np.array(other, np.int64))
    for place, elsewhere in zip(here.tolist(), there.tolist(), strict=True):
        kind = one[place]
        assert other[elsewhere] == kind
        assert one[:place].count(kind) == other[:elsewhere].count(kind)
    both = Counter(one) & Counter(other)
    assert len(here) == both.total() and here.tolist() == sorted(here.tolist())
