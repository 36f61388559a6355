"""Settings for all tests."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

# Several threads for each of several test processes on two cores are many times slower than one.
# What a test starts has it from here; NumPy's library reads it as it is loaded, below.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import torch
from hypothesis import settings

from tests import loop, warm

# gRPC reads this as it is first imported; see colonnade.net.grpc.
os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-PSK-CHACHA20-POLY1305"

# What runs in the background of a shell ignores Ctrl-C, and so would all processes that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests over the network have several parties, each with a compute thread, in one process. Torch
# holds the lock of its generator and Python's at once when it hands out its state: should it let go
# of the latter meanwhile, as for a garbage collection, another thread that asks for the state waits
# for ever.
_get_rng_state, _one_at_a_time = torch.random.get_rng_state, threading.Lock()


def _guarded_rng_state() -> torch.Tensor:
    with _one_at_a_time:
        return _get_rng_state()


torch.random.get_rng_state = torch.get_rng_state = _guarded_rng_state

settings.register_profile("colonnade", deadline=None, print_blob=True)
settings.register_profile("quick", settings.get_profile("colonnade"), max_examples=40)


def pytest_configure(config: pytest.Config) -> None:
    """Fewer examples of a property where the slow tests are left out."""
    settings.load_profile("quick" if config.option.markexpr == "not slow" else "colonnade")


@pytest.fixture(scope="session", autouse=True)
def _one_loop() -> Iterator[None]:
    yield
    loop.runner().close()


@pytest.fixture
def stood_in() -> Iterator[None]:
    """Processes that the test starts begin with the libraries loaded."""
    with warm.stood_in():
        yield
