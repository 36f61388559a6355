"""Jobs: the contract of one training, as records and as TOML files.

May import methods, policies, compress, wire.
"""

from colonnade.job.files import dumps, load, loads, with_sets

__all__ = ["dumps", "load", "loads", "with_sets"]
