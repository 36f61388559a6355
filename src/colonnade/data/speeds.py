"""How fast machines are while they do other things: traces of CPU use, and what they cost.

The file is Google's cluster trace of 2011, CPU use of one job and day in steps of five minutes,
below a data folder as `google_cluster/gcd_vm_usage.parquet`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from colonnade.data.named import folders
from colonnade.errors import DataError, RequestError
from colonnade.job.records import Costs
from colonnade.units import duration_ns

FILE = "google_cluster/gcd_vm_usage.parquet"


def cpu_loads(count: int, seed: int = 0) -> npt.NDArray[np.float64]:
    """Return so many traces, drawn by a seed: a row each of the CPU's use, from 0 to below 1."""
    for folder in folders():
        path = folder / FILE
        if path.is_file():
            table = pq.read_table(path, columns=["job_id", "day", "step", "cpu_pct"])
            ordered = table.sort_by([(key, "ascending") for key in ("job_id", "day", "step")])
            used = ordered["cpu_pct"].to_numpy().astype(np.float64) / 100
            steps = int(np.max(ordered["step"].to_numpy())) + 1
            traces = used.reshape(-1, steps)
            if count > len(traces):
                raise RequestError(f"there are {len(traces)} traces, not {count}: take fewer")
            chosen = np.random.default_rng(seed).choice(len(traces), count, replace=False)
            return np.asarray(traces[np.sort(chosen)])
    raise DataError(f"there are no CPU traces here: set COLONNADE_DATA to a folder with {FILE}")


def costs_under(load: Sequence[float] | npt.NDArray[np.float64], update: str, step: str) -> Costs:
    """What a party's updates cost on a machine that is also used by others.

    An update takes `update`·(1 − c)⁻¹ where the CPU is used to the share c, which changes every
    `step`; the last value stays. All of it is charged to the backward pass and none to the
    forward pass, so that a round of Flex-VFL takes the round trip and the timeout.

    >>> costs_under([0.0, 0.5], update="10ms", step="1s").backward
    [('0ns', '10000000ns'), ('1000000000ns', '20000000ns')]
    """
    if any(not 0 <= share < 1 for share in load):
        raise RequestError("a CPU is used to a share from 0 to below 1")
    free_ns, step_ns = duration_ns(update), duration_ns(step)
    backward = [
        (f"{number * step_ns}ns", f"{int(free_ns / (1 - share))}ns")
        for number, share in enumerate(load)
    ]
    return Costs(forward="0ms", backward=backward, aggregate="0ms")
