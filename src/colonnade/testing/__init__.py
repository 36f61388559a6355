"""For those who build on this package: checks of a new method, policy, encoding, model or world.

Each check raises an `AssertionError` that says what does not hold; no test runner is needed.

May import run, party, learn, record, models, data, job, methods, policies, compress, wire.
"""

from colonnade.testing.encodings import check_encoding, check_processes
from colonnade.testing.methods import check_method
from colonnade.testing.models import check_model
from colonnade.testing.policies import check_policy
from colonnade.testing.worlds import check_world

__all__ = [
    "check_encoding",
    "check_method",
    "check_model",
    "check_policy",
    "check_processes",
    "check_world",
]
