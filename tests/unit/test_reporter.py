"""What a party says while it takes part."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from colonnade.cli import screen
from colonnade.cli.display import Display
from colonnade.cli.join import show
from colonnade.cli.reporter import Relay, Reporter
from colonnade.cli.watching import Watch
from colonnade.errors import FailedError
from colonnade.record.events import Evaluated, Finished, Notice, RoundDone
from colonnade.run.join import Joined
from colonnade.wire.fault import Fault


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_log_that_cannot_be_written_is_said_once_and_harms_nobody():
    written = StringIO()
    told = Reporter(Console(file=written, width=200), Path("/dev/full"), quiet=False)
    told(Notice("lab", 0, "one"))
    told(Notice("lab", 0, "two"))
    told.close()
    said = written.getvalue().splitlines()
    assert said == ["/dev/full cannot be written: No space left on device", "one", "two"]


def test_what_is_said_while_a_display_is_shown_goes_above_it(monkeypatch):
    """On a console of its own it would be drawn over, and the display would leave a part behind."""
    drawn = StringIO()
    console = Console(file=drawn, width=60, height=20, force_terminal=True)
    display = Display(console, Watch(["bank", "telco"], "bank", "credit"))
    other = StringIO()
    monkeypatch.setattr(screen, "stderr", lambda: Console(file=other, width=60))
    display.start()
    screen.say("mlflow no longer follows the run")
    display.close()
    assert "mlflow no longer follows the run" in drawn.getvalue() and not other.getvalue()
    screen.say("afterwards")
    assert other.getvalue() == "afterwards\n"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("lab sent NaN", sender="lab"), " (lab sent NaN): see to what that party sends"),
        (Fault("what lab sent gave no loss"), " (what lab sent gave no loss): lower the learning"),
        (None, ": lower the learning rates"),
    ],
)
def test_the_cure_goes_by_who_is_to_blame_and_not_by_the_words(fault, said):
    with pytest.raises(FailedError) as error:
        show(Joined("diverged", Path("run"), 3, fault=fault), as_json=False, quiet=True)
    assert str(error.value).startswith(f"the training diverged{said}")


@pytest.mark.parametrize(
    "after",
    [Evaluated("lab", 9, 2, {"accuracy": 0.9}, True, 10, 10), Finished("lab", 9, "target")],
    ids=["evaluated", "finished"],
)
def test_how_far_a_party_is_is_told_before_what_stands_beside_it(after):
    told: list[object] = []
    relay = Relay(told.append)
    rounds = [RoundDone("lab", time_ns, time_ns, 99) for time_ns in range(3)]
    for each in (*rounds, after):
        relay(each)
    assert told == [rounds[0], rounds[2], after]
