"""Ctrl-C while an event loop ends."""

from __future__ import annotations

import asyncio
import signal

import pytest

from colonnade.net.signals import run_hearing


async def nothing():
    return 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("when", ["_close_self_pipe", "close", "shutdown_asyncgens"])
def test_a_signal_while_the_loop_is_closed_calls_its_function_and_prints_nothing(
    monkeypatch, capfd, number, when
):
    loop, heard = asyncio.SelectorEventLoop, []
    own = getattr(loop, when)

    def interrupted(self):
        result = own(self)
        signal.raise_signal(number)
        return result

    monkeypatch.setattr(loop, when, interrupted)
    before = signal.getsignal(number)
    assert run_hearing(nothing(), {number: lambda: heard.append(number)}) == 7
    assert heard == [number]
    assert signal.getsignal(number) is before
    assert capfd.readouterr().err == ""


def test_handlers_are_handed_back_where_the_coroutine_fails():
    async def failing():
        raise ValueError

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError):
        run_hearing(failing(), {signal.SIGTERM: lambda: None})
    assert signal.getsignal(signal.SIGTERM) is before
