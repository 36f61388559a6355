"""On a real terminal: what is seen while a run goes on, what stays, and what Ctrl-C leaves."""

from __future__ import annotations

import json
import re

import pytest

from colonnade.run.processes import free_port
from tests.alliance import new_keys
from tests.terminal import Terminal

LONG = ["--set", "train.epochs=100000", "--set", "network.latency=1ms"]
SHORT = ["--set", "train.epochs=3"]


def test_a_simulation_is_shown_as_it_goes_and_ctrl_c_gives_the_terminal_back(tmp_path):
    words = ["simulate", "digits", "--method", "pasta", *LONG, "--out", tmp_path / "run"]
    with Terminal(*words) as terminal:
        terminal.until(
            r"round [\d,]+/2,100,000 +━*─+ +\d+%  \d+:\d\d gone, .+ left",
            *("digits, pasta, seed 0, simulated", "virtual time", "rounds/s", r"accuracy 0\."),
            *(rf"^{party} +[\d,]+ .*%" for party in ("clinic", "lab", "insurer")),
        )
        assert terminal.screen.cursor.hidden
        terminal.interrupt()
        assert terminal.end() == 130
        assert terminal.is_usable
        assert re.search(r"^[\d,]+ of 2,100,000 rounds in ", terminal.text, re.M)
        assert "colonnade: interrupted after " in terminal.text
        assert " gone" not in terminal.text, "of the display a summary stays"


def test_a_narrow_terminal_without_colours_is_served_too():
    with Terminal("simulate", "digits", *LONG, width=60, height=12,
                  environment={"NO_COLOR": "1"}) as terminal:  # fmt: skip
        terminal.until("rounds/s", r"accuracy 0\.")
        terminal.interrupt()
        assert terminal.end() == 130
        assert terminal.is_usable
        assert not re.search(rb"\x1b\[[\d;]*3\dm", terminal.raw), "no colour"


def test_a_launch_shows_a_line_for_each_party_and_leaves_the_result():
    words = ["launch", "digits", "--emulate", "latency=5ms", "--set", "train.epochs=20"]
    with Terminal(*words) as terminal:
        terminal.until(
            *("rounds/s", r"waits.* \d+%", r"round \d+/420"),
            *(rf"^{party} +\d+ " for party in ("clinic", "lab", "insurer")),
        )
        assert terminal.end() == 0
        assert terminal.is_usable
        assert re.search(r"^420 rounds in ", terminal.text, re.M), terminal.text
        assert "in all " in terminal.text and "NoneType" not in terminal.text


def test_a_refused_launch_leaves_one_sentence():
    with Terminal("launch", "digits", "--keys", "nowhere") as terminal:
        assert terminal.end() == 2
        assert terminal.is_usable
        assert terminal.text.startswith("colonnade: there is no certificate of clinic")


def test_a_comparison_shows_the_runs_that_are_under_way():
    words = ["compare", "digits", "--methods", "fedsgd,fedbcd:updates=900", "--seeds", 0, *LONG]
    with Terminal(*words, "--workers", 1) as terminal:
        terminal.until(r"accuracy 0\.", "runs 0/2", "now    fedsgd, seed 0")
        terminal.interrupt()
        assert terminal.end() == 130
        assert terminal.is_usable
        assert terminal.text == "colonnade: interrupted"


def test_quiet_shows_the_result_and_nothing_else():
    with Terminal("simulate", "digits", *SHORT, "--quiet") as terminal:
        assert terminal.end() == 0
        assert terminal.text.startswith("digits, fedsgd, seed 0\n\naccuracy ")
        assert b"\x1b[?25l" not in terminal.raw, "the cursor was never hidden"


@pytest.mark.usefixtures("stood_in")
def test_a_launch_logs_json_line_by_line_and_no_secret(tmp_path, capfd):
    from colonnade.cli import main

    out, seeds = tmp_path / "run", ["--set", "parties.lab.seed=918273645546372819"]
    words = ["launch", "digits", *SHORT, "--out", str(out), "--log", "json", "--json"]
    assert main([*words, *seeds]) == 0
    shown, err = capfd.readouterr()
    assert json.loads(shown)["rounds"] == 63
    told = [json.loads(line) for line in err.splitlines()]
    assert {each.get("party") for each in told} == {None, "clinic", "lab", "insurer"}
    types = {each["type"] for each in told}
    assert types >= {"Started", "Connected", "RoundDone", "Evaluated", "Finished"}
    assert all(each["level"] == "info" for each in told), (
        "in a good run nothing sounds like a fault"
    )
    assert "918273645546372819" not in err and "PRIVATE KEY" not in err


def test_ctrl_c_twice_ends_a_party_at_once_and_gives_the_terminal_back(tmp_path):
    keys = new_keys(tmp_path / "alliance")
    words = ["join", "digits", "--me", "lab", "--connect", f"127.0.0.1:{free_port()}"]
    with Terminal(*words, "--keys", keys / "lab", "--out", tmp_path / "run") as terminal:
        terminal.until(r"^clinic +not connected yet", r"^lab +waiting for clinic")
        terminal.interrupt()
        terminal.until("Ctrl-C")
        if terminal.process.poll() is None:
            terminal.interrupt()
        assert terminal.end() != 0
        assert terminal.is_usable, terminal.raw[-500:]
        assert b"Traceback" not in terminal.raw
