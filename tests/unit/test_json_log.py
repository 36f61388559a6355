"""`--log json`: a line for each event, which every program can read and no terminal obeys."""

from __future__ import annotations

import json
import stat
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.cli import main
from colonnade.cli.log import JsonLog, SaidAsJson
from colonnade.record.events import Busy, Evaluated, Notice, Refused, RoundDone, Worked
from tests.anything import ANY

SECOND = 10**9


class Clock:
    now_ns = 0

    def __call__(self):
        return self.now_ns


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_a_line_with_its_time_its_kind_its_sentence_and_its_fields():
    stream = StringIO()
    log = JsonLog(stream, stamp=lambda: "now")
    log(Evaluated("bank", 5, 3, {"auc": 0.5}, True, 10, 20))
    log(Refused("bank", 6, "eve", "it has no certificate"))
    evaluated, refused = lines(stream)
    assert evaluated == {
        "time": "now",
        "level": "info",
        "type": "Evaluated",
        "text": "round 4, auc 0.5000",
        "party": "bank",
        "time_ns": 5,
        "round": 3,
        "measured": {"auc": 0.5},
        "best": True,
        "bytes_up": 10,
        "bytes_down": 20,
    }
    assert (refused["level"], refused["text"]) == ("warning", "refused eve: it has no certificate")


def test_rounds_are_told_once_a_second_and_the_last_one_at_the_end():
    stream, clock = StringIO(), Clock()
    log = JsonLog(stream, now_ns=clock)
    for round in range(100):
        clock.now_ns = round * SECOND // 40
        log(RoundDone("bank", 0, round, 100))
        log(Worked("bank", 0, "forward", 1))
        log(Busy("bank", 0, {}, {}))
    log.close()
    assert [line["round"] for line in lines(stream)] == [0, 40, 80, 99]


@given(st.lists(ANY, max_size=20))
def test_whatever_happens_every_line_is_json_and_plain_ascii(told):
    stream = StringIO()
    log = JsonLog(stream)
    for event in told:
        log(event)
    log.close()
    text = stream.getvalue()
    assert text.isascii() and all(line.isprintable() for line in text.splitlines())
    for line in text.splitlines():
        found = json.loads(line, parse_constant=pytest.fail)
        assert {"time", "level", "type", "party"} <= set(found)


def test_what_is_printed_becomes_notices():
    stream = StringIO()
    out = SaidAsJson(JsonLog(stream))
    out.write("one\ntw")
    out.write("o\n\n")
    assert [line["text"] for line in lines(stream)] == ["one", "two"]


def test_a_log_that_nobody_reads_any_more_ends_nothing():
    class Closed(StringIO):
        def write(self, text):
            raise BrokenPipeError

    JsonLog(Closed())(Notice("bank", 0, "hello"))


@pytest.mark.parametrize("text", ["xml", "json:", "json=x"])
def test_another_form_is_refused(text, capsys):
    assert main(["simulate", "digits", "--log", text]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"colonnade: --log {text} is not a log: write --log json, or --log json")


def test_a_file_that_cannot_be_written_is_refused(tmp_path, capsys):
    assert main(["simulate", "digits", "--log", f"json:{tmp_path}"]) == 2
    assert "cannot be written" in capsys.readouterr().err


SHORT = ["--set", "train.rounds=4", "--set", "train.evaluate_every=2 rounds"]


def test_on_standard_error_there_is_nothing_but_the_log(capsys):
    assert main(["simulate", "digits", *SHORT, "--log", "json", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rounds"] == 4
    told = [json.loads(line) for line in err.splitlines()]
    assert {"Notice", "RoundDone", "Evaluated", "Tested"} == {each["type"] for each in told}
    assert told[0]["text"].startswith("what others can learn: ")


def test_what_is_wrong_is_in_the_log_too(capsys):
    assert main(["simulate", "nowhere.toml", "--log", "json"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["type"], told["level"], told["exit_code"]) == ("Error", "error", 2)
    assert main(["simulate", "nowhere.toml"]) == 2
    assert capsys.readouterr().err.startswith("colonnade: "), "the next command has no log"


def test_a_file_has_the_log_for_its_owner_alone_and_a_person_has_lines(tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    for _ in range(2):
        assert main(["simulate", "digits", *SHORT, "--log", f"json:{path}"]) == 0
        assert "round 4 of 4" in capsys.readouterr().err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert [each["type"] for each in told].count("Tested") == 2, "it is added to"


def test_runs_of_a_comparison_are_told_one_by_one(capsys):
    words = ["compare", "digits", "--methods", "fedsgd", "--seeds", "0,1", "--workers", "1"]
    assert main([*words, *SHORT, "--log", "json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(each["type"], each["label"], each["seed"]) for each in told] == [
        ("RunDone", "fedsgd", 0),
        ("RunDone", "fedsgd", 1),
    ]
