"""A trace keeps the rules of the Trace Event Format, whatever is in a folder."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from colonnade import simulate
from colonnade.cli import main
from colonnade.record.several import read_together
from colonnade.record.timeline import Timeline
from colonnade.record.timeline_file import save_timeline
from colonnade.record.trace import trace_events, write_trace
from tests.small import small, with_network

HOSTILE = '</script><img src=x onerror="alert(1)">\x1b[2J\u202e'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    case = small(3, method={"name": "pasta"}, rounds=12)
    job = with_network(case.job, latency="30ms", bandwidth="1mbit")
    run = simulate(job, case.data, case.modules)
    return run.save(tmp_path_factory.mktemp("trace") / "run")


def check(events):
    """The rules: known phases, their fields, slices of a thread that do not overlap, arrows that
    begin and end in slices."""
    slices, ends, named = defaultdict(list), Counter(), set()
    for event in events:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["name"], str) and event["name"].isprintable()
        match event["ph"]:
            case "M":
                assert event["name"] in ("process_name", "process_sort_index", "thread_name")
                named.add((event["pid"], event["tid"] if event["name"] == "thread_name" else 0))
            case "X":
                assert event["ts"] >= 0 and event["dur"] >= 0
                assert (event["pid"], event["tid"]) in named and (event["pid"], 0) in named
                slices[event["pid"], event["tid"]].append(event)
            case "s" | "f":
                assert isinstance(event["id"], int) and event["id"] < 2**53
                last = slices[event["pid"], event["tid"]][-1]
                assert last["ts"] <= event["ts"] < last["ts"] + last["dur"]
                assert event["ph"] == "s" or event["bp"] == "e"
                ends[event["id"], event["ph"]] += 1
            case "C":
                assert event["ts"] >= 0 and event["args"]
                assert all(isinstance(value, int) for value in event["args"].values())
            case other:
                raise AssertionError(other)
    for own in slices.values():
        own.sort(key=lambda event: event["ts"])
        for one, other in pairwise(own):
            assert round(1000 * (one["ts"] + one["dur"])) <= round(1000 * other["ts"])
    assert set(ends.values()) <= {1}
    return slices, ends


def test_a_run_becomes_a_valid_trace(folder, tmp_path, capsys):
    out = tmp_path / "run.json"
    assert main(["trace", str(folder), "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    trace = json.loads(out.read_text())
    slices, ends = check(trace["traceEvents"])
    found = read_together([folder])
    spans = sum(len(timeline) for timeline in found.timelines.values())
    assert sum(map(len, slices.values())) == spans
    began, ended = ({i for i, phase in ends if phase == which} for which in "sf")
    assert began == ended and len(began) > 20
    counters = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert {event["name"] for event in counters} == {"window", "staleness"}
    assert max(event["args"].get("allowed", 0) for event in counters) > 1
    assert out.stat().st_mode & 0o777 == 0o600


def test_a_compressed_trace_is_the_same_and_lies_in_the_folder_unless_told(folder, tmp_path):
    assert main(["trace", str(folder)]) == 0
    assert main(["trace", str(folder), "--out", str(tmp_path / "plain.json")]) == 0
    packed = gzip.decompress((folder / "trace.json.gz").read_bytes())
    assert packed == (tmp_path / "plain.json").read_bytes()
    (folder / "trace.json.gz").unlink()


def test_messages_that_overlap_get_threads_of_their_own():
    lab = Timeline()
    for start in range(5):
        lab.add("send", start, start + 3, bytes=4, peer="bank", message="Embedding")
    slices, _ = check(list(trace_events({"lab": lab}, {})))
    assert sorted(map(len, slices.values())) == [1, 2, 2]


def test_what_a_hostile_folder_says_is_text(tmp_path):
    lab = Timeline()
    lab.add(HOSTILE, -5, 3, 2**62, 2**62, HOSTILE, HOSTILE)
    lab.add("send", 2, 9, 1, 1, HOSTILE, HOSTILE)
    lab.add("receive", 2**50, 0, -7, -9, HOSTILE * 99, HOSTILE * 99)
    (tmp_path / "run").mkdir()
    save_timeline(tmp_path / "run" / "timeline.parquet", {HOSTILE: lab})
    found = read_together([tmp_path / "run"])
    write_trace(tmp_path / "trace.json", found.timelines, found.exchanges)
    text = (tmp_path / "trace.json").read_text()
    assert "\x1b" not in text and "\u202e" not in text and len(text) < 10_000
    check(json.loads(text)["traceEvents"])


def test_no_link_in_a_folder_is_written_through(folder, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / "trace.json.gz").symlink_to(precious)
    assert main(["trace", str(folder)]) == 0
    assert precious.read_text() == "mine" and not (folder / "trace.json.gz").is_symlink()
    (folder / "trace.json.gz").unlink()


WRONG = {
    "no folder": (["nowhere"], "has no timeline.parquet"),
    "twice the same": (["{run}", "{run}"], "is in several of the folders"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_folders_are_refused_in_a_sentence(folder, capsys, case):
    words, sentence = WRONG[case]
    assert main(["trace", *(word.format(run=folder) for word in words)]) == 2
    assert sentence in capsys.readouterr().err
