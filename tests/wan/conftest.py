"""`wan` as a fixture: skips with a reason where no namespaces can be made."""

from __future__ import annotations

import pytest

from tests.wan import net
from tests.wan.spaces import why_not


@pytest.fixture
def wan():
    if why_not():
        pytest.skip(why_not())
    return net.wan
