"""Jobs: the contract of one training, as records and as TOML files.

May import methods, policies, compress, wire.
"""

from colonnade.job.files import (
    apply_sets,
    builtin_names,
    builtin_text,
    dumps,
    from_tables,
    load,
    loads,
    to_tables,
    with_sets,
)
from colonnade.job.records import (
    Compute,
    Costs,
    Job,
    Limits,
    Link,
    Network,
    Party,
    Recovery,
    Timeouts,
    Top,
    Train,
)

__all__ = [
    "Compute",
    "Costs",
    "Job",
    "Limits",
    "Link",
    "Network",
    "Party",
    "Recovery",
    "Timeouts",
    "Top",
    "Train",
    "apply_sets",
    "builtin_names",
    "builtin_text",
    "dumps",
    "from_tables",
    "load",
    "loads",
    "to_tables",
    "with_sets",
]
