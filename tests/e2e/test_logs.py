"""What a good run says: no line that sounds like a fault, none twice, each of a known shape.

And where a run does not end well, the log says why, as the terminal does.
"""

from __future__ import annotations

import re
import signal
from collections import Counter

import pytest

from colonnade.cli import main
from colonnade.record.chain import Chain
from tests.alliance import ACTIVE, PARTIES, Alliance, new_keys

WORD = r"[\w.-]+"
NEWS = (
    r"what others can learn: .+; to reduce that: .+",
    rf"{WORD} starts",
    r"listens at 127\.0\.0\.1:\d+",
    rf"connected with {WORD}",
    r"takes part in the run [0-9a-f]{12}",
    r"saved the checkpoint of round \d+",
    r"ends: all rounds are done",
)
FIGURES = (
    rf"round \d+(, {WORD} -?[\d.]+)+",
    rf"test rows, with the weights of round \d+(, {WORD} -?[\d.]+)+",
)
SLOW = (
    rf"waiting for {WORD}(, {WORD})*: .+, (not heard yet|last heard \d+ s ago), gives up in \d+ s",
    r"round \d+ of \d+.*",
    rf"127\.0\.0\.1:\d+: nobody listens at the address of {WORD}: see whether {WORD} has started",
)
"""Only where the machine is busy; such lines may come again, with other figures."""
RETURN = (
    rf"{WORD} wants to stop: Ctrl-C",
    rf"{WORD} left: stopped as planned after round \d+: Ctrl-C",
    rf"meets the others again: {WORD} (started again|calls all together)",
    r"goes on from the end of round \d+",
)
RESULT = r"end after \d+ rounds; the run folder is .+"
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "


def odd(lines, *shapes):
    """Lines of no known shape, and lines that come again."""
    known = [re.compile(shape) for shape in (*NEWS, *SLOW, *shapes)]
    strange = [line for line in lines if not any(shape.fullmatch(line) for shape in known)]
    slow = [re.compile(shape) for shape in SLOW]
    news = [line for line in lines if not any(shape.fullmatch(line) for shape in slow)]
    return strange + [line for line, times in Counter(news).items() if times > 1]


def log(alliance, name):
    lines = alliance.log(name).splitlines()
    assert all(re.match(STAMP, line) for line in lines)
    return [re.sub(STAMP, "", line, count=1) for line in lines]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return new_keys(tmp_path_factory.mktemp("keys") / "alliance")


def test_the_log_of_a_good_run_by_hand_has_no_line_that_sounds_like_a_fault(tmp_path, keys):
    with Alliance(tmp_path, emulate=None, keys=keys) as alliance:
        alliance.start()
        alliance.complete()
        for name in PARTIES:
            assert not odd(log(alliance, name), *FIGURES), alliance.said()
            # The active party's table of results comes between.
            shown = alliance.output(name).splitlines()
            said = [
                line for line in shown if not re.match(r"accuracy|in all|classes|party| |─|$", line)
            ]
            table = rf"{ACTIVE} +\d+ +0 .*"
            assert not odd(said, RESULT, table), alliance.said()
            assert re.fullmatch(RESULT, shown[-1])


def test_the_log_of_a_stop_and_a_return_has_no_line_that_sounds_like_a_fault(tmp_path, keys):
    with Alliance(tmp_path, "train.rounds=100", emulate="latency=5ms", keys=keys) as alliance:
        alliance.start()
        alliance.wait_for_round(10)
        alliance.signal("lab", signal.SIGINT)
        assert alliance.codes_of("lab", 40) == 130
        last = "stopped as planned after round"
        assert last in log(alliance, "lab")[-1], "the log says why the party ended"
        assert not odd(
            log(alliance, "lab"), "stops at the next barrier: Ctrl-C", rf"{last} \d+: Ctrl-C"
        )
        alliance.start("lab")
        alliance.complete()
        for name in (ACTIVE, "insurer"):
            lines = [line for line in log(alliance, name) if line != "connected with lab"]
            assert not odd(lines, *FIGURES, *RETURN), alliance.said()


@pytest.mark.usefixtures("stood_in")
def test_the_output_of_a_good_launch_has_no_line_that_sounds_like_a_fault(tmp_path, capfd):
    words = ["launch", "breast-cancer", "--out", str(tmp_path / "run")]
    assert main([*words, "--set", "train.epochs=2", "--set", "train.checkpoint_every=10"]) == 0
    lines = capfd.readouterr().err.splitlines()
    parted = [line.partition(": ") for line in lines]
    for party in ("hospital", "lab"):
        assert not odd([text for name, _, text in parted if name == party]), lines
        kept = (tmp_path / "run" / "parties" / party / "log.txt").read_text().splitlines()
        assert not odd([re.sub(STAMP, "", line, count=1) for line in kept], *FIGURES), kept
    first = [
        "what others can learn: ",
        "the parties' secret seeds are derived from the job's seed, ",
    ]
    assert [line[: len(start)] for line, start in zip(lines, first, strict=False)] == first
    assert {name for name, *_ in parted[2:]} == {"hospital", "lab"}, lines


def test_the_log_says_why_a_party_gave_up(tmp_path, keys):
    with Alliance(tmp_path, "timeouts.join=3s", keys=keys) as alliance:
        alliance.start("lab")
        assert alliance.codes_of("lab", 60) == 1
        (sentence,) = re.findall(r"colonnade: (.+)", alliance.output("lab"))
        assert log(alliance, "lab")[-1] == sentence
        assert sentence.startswith("clinic was awaited for 3 s and did not come")
        assert sentence.endswith(": see to clinic, then start the same command again")


@pytest.mark.parametrize("complete", [False, True], ids=["begun", "complete"])
@pytest.mark.parametrize(
    ("party", "whose"), [("lab", "another job"), ("bank", "the party bank")], ids=["job", "party"]
)
def test_a_folder_with_another_run_is_refused(complete, party, whose, tmp_path, keys, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    Chain.open(folder / "ledger.chain", party, "another digest", 0).close()
    if complete:
        (folder / "complete").touch()
    words = ["join", "digits", "--me", "lab", "--connect", "127.0.0.1:1", "--out", str(folder)]
    assert main([*words, "--keys", str(keys / "lab")]) == 2
    said = capsys.readouterr().err
    assert f"the folder {folder} holds a run of {whose}" in said
    assert "choose another --out, or begin anew with --restart, at all parties" in said


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("--listen", "127.0.0.1"),
        ("--listen", ":99999"),
        ("--listen", ":https"),
        ("--connect", "bank.example"),
        ("--connect", ":7443"),
        ("--connect", "https://bank.example:7443"),
    ],
)
def test_an_address_without_a_port_is_refused(option, place, capsys):
    assert main(["join", "digits", "--me", "lab", option, place]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"colonnade: {option} {place} is no address: write a host and a port")
