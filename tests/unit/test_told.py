"""What a party says while it takes part."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from colonnade.cli.joined import Told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_log_that_cannot_be_written_is_said_once_and_harms_nobody():
    screen = StringIO()
    told = Told(Console(file=screen, width=200), Path("/dev/full"), quiet=False)
    told.event("one")
    told.event("two")
    told.close()
    said = screen.getvalue().splitlines()
    assert said == ["/dev/full cannot be written: No space left on device", "one", "two"]
