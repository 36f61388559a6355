"""The terminal is given back, whenever Ctrl-C comes."""

from __future__ import annotations

import io
import signal
import sys

import pytest
from rich.console import Console
from rich.live import Live

import colonnade.cli as cli
from colonnade.cli import screen
from colonnade.cli.display import Display
from colonnade.cli.watching import Watch

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def press_ctrl_c(*words: object, **options: object) -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), force_terminal=True, width=80, height=24)


@pytest.fixture(autouse=True)
def default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    screen.give_back_terminal()


def shown(console: Console) -> str:
    return console.file.getvalue()


@pytest.mark.parametrize("when", ["start", "stop"])
def test_ctrl_c_waits_until_a_display_has_begun_or_ended_whole(console, monkeypatch, when):
    display = Live("moving", console=console)
    whole = getattr(Live, when)

    def interrupted(self):
        press_ctrl_c()
        whole(self)

    monkeypatch.setattr(Live, when, interrupted)
    with pytest.raises(KeyboardInterrupt), screen.moving(display):
        assert when == "stop", "a display that was interrupted as it began is not used"
    screen.give_back_terminal()
    assert not display.is_started
    assert shown(console).rindex(SHOW) > shown(console).rindex(HIDE)


def test_what_moves_is_ended_with_the_command_where_nobody_could_end_it_before(
    console, monkeypatch, capsys
):
    display = Display(console, Watch(["bank", "telco"], "bank"))

    def join(**options):
        display.start()
        press_ctrl_c()

    monkeypatch.setattr(cli, "app", join)
    assert cli.main(["join"]) == 130
    assert capsys.readouterr().err == "colonnade: interrupted\n"
    assert shown(console).rindex(SHOW) > shown(console).rindex(HIDE)


def test_a_sentence_is_said_whole(monkeypatch, capsys):
    def halting(*words, **options):
        press_ctrl_c()
        before(*words, **options)

    before = print
    monkeypatch.setattr("builtins.print", halting)
    monkeypatch.setattr(cli, "app", press_ctrl_c)
    assert cli.main(["join"]) == 130
    assert capsys.readouterr().err == "colonnade: interrupted\n"


def test_a_second_ctrl_c_while_the_first_is_answered_is_no_traceback(monkeypatch):
    monkeypatch.setattr(cli, "app", press_ctrl_c)
    monkeypatch.setattr(screen, "complain", press_ctrl_c)
    assert cli.main(["join"]) == 130


def test_a_process_that_is_about_to_end_ends_at_once(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["colonnade", "join"])
    monkeypatch.setattr(cli, "app", lambda **options: 0)
    monkeypatch.setattr(screen, "close_log", press_ctrl_c)
    assert cli.main() == 0, "what comes while the terminal is given back is passed over"
    assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL


def test_one_that_comes_as_the_command_is_left_is_no_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["colonnade", "join"])
    monkeypatch.setattr(cli, "app", lambda **options: 0)
    leave, times = screen.leave, []

    def interrupted(ends_process):
        times.append(1)
        if len(times) == 1:
            press_ctrl_c()
        leave(ends_process)

    monkeypatch.setattr(screen, "leave", interrupted)
    assert cli.main() == 0
    assert len(times) == 2


def test_a_command_in_python_leaves_signals_as_they_were(monkeypatch):
    monkeypatch.setattr(cli, "app", lambda **options: 0)
    before = signal.getsignal(signal.SIGINT)
    assert cli.main(["methods"]) == 0
    assert signal.getsignal(signal.SIGINT) is before
