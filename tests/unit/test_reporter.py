"""What a party says while it takes part."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from colonnade.cli.join import show
from colonnade.cli.reporter import Reporter
from colonnade.errors import FailedError
from colonnade.record.events import Notice
from colonnade.run.join import Joined
from colonnade.wire.fault import Fault


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_log_that_cannot_be_written_is_said_once_and_harms_nobody():
    screen = StringIO()
    told = Reporter(Console(file=screen, width=200), Path("/dev/full"), quiet=False)
    told(Notice("lab", 0, "one"))
    told(Notice("lab", 0, "two"))
    told.close()
    said = screen.getvalue().splitlines()
    assert said == ["/dev/full cannot be written: No space left on device", "one", "two"]


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
