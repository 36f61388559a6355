"""For those who build on this package: checks of a new method, policy, encoding, model or world, a
world whose links lose messages, and a store of checkpoints in memory.

Each check raises an `AssertionError` that says what does not hold; no test runner is needed.

May import run, net, sim, party, learn, record, models, data, job, methods, policies, compress,
protect, wire.
"""

from colonnade.testing.encodings import check_encoding, check_processes
from colonnade.testing.lossy import LossySimulator, LossyWorld
from colonnade.testing.methods import check_method
from colonnade.testing.models import check_model
from colonnade.testing.policies import check_policy
from colonnade.testing.stores import MemoryStore
from colonnade.testing.worlds import check_world

__all__ = [
    "LossySimulator",
    "LossyWorld",
    "MemoryStore",
    "check_encoding",
    "check_method",
    "check_model",
    "check_policy",
    "check_processes",
    "check_world",
]
