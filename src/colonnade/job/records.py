"""A job as typed records: the contract of one training.

The records mirror the tables of a job file (`docs/job-files.md`). They are frozen values: equal
files are equal jobs. Quantities stay as people write them (`"50ms"`); `colonnade.units` reads
them. What a record alone can judge is checked when it is built; what needs the data or the
method is checked where those are known.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from colonnade.errors import nearest
from colonnade.job.bounds import PARTIES_MAX, WIDTH_MAX, check_name, check_seed
from colonnade.job.ids import Ids
from colonnade.job.running import Limits, Recovery, Timeouts
from colonnade.job.tables import Preprocessing, check_table
from colonnade.job.texts import parse_method
from colonnade.job.train import Record, Top, Train, require
from colonnade.job.typed import settle
from colonnade.units import duration_ns, rate_bits

__all__ = [
    "PUBLIC",
    "Compute",
    "Costs",
    "Ids",
    "Job",
    "Limits",
    "Link",
    "Network",
    "Party",
    "Record",
    "Recovery",
    "Steps",
    "Timeouts",
    "Top",
    "Train",
    "first_step",
]

Steps = list[tuple[str, str]]
"""A quantity that changes over time: `[["0s", "50ms"], ["10s", "1s"]]`."""


def _check_steps(value: str | Steps, field: str, read: Any) -> None:
    if isinstance(value, str):
        read(value)
        return
    require(len(value) > 0, f"{field} is an empty list: give one quantity, or [[time, quantity]]")
    times = [duration_ns(time) for time, _ in value]
    for _, quantity in value:
        read(quantity)
    require(times[0] == 0, f"{field} must say what holds from the start: begin its list at '0s'")
    require(times == sorted(set(times)), f"the times of {field} must grow from step to step")


def first_step(value: str | Steps) -> int:
    """The nanoseconds with which a duration that may change begins.

    >>> first_step([("0s", "50ms"), ("10s", "1s")])
    50000000
    """
    return duration_ns(value if isinstance(value, str) else value[0][1])


class Link(Record, frozen=True, kw_only=True):
    """What the simulator assumes of a link between the active party and one passive."""

    latency: str | Steps = "0ms"
    """One-way."""
    bandwidth: str | Steps | None = None
    """Each direction has this much; None is a link without a limit."""
    jitter: str = "0ms"
    """The most by which a message is late, drawn evenly from the job's seed."""

    def __post_init__(self) -> None:
        settle(self)
        _check_steps(self.latency, "network.latency", duration_ns)
        duration_ns(self.jitter)
        if self.bandwidth is not None:
            _check_steps(self.bandwidth, "network.bandwidth", rate_bits)


class Costs(Record, frozen=True, kw_only=True):
    """What the simulator charges a party per mini-batch; `"measured"` charges the real time."""

    forward: str | Steps = "0ms"
    backward: str | Steps = "0ms"
    aggregate: str | Steps = "0ms"
    top: str | Steps = "0ms"
    """The active party's top model in a local update."""
    codec: str | Steps = "0ms"
    """Encoding and decoding of tensors."""

    def __post_init__(self) -> None:
        settle(self)
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if value != "measured":
                _check_steps(value, f"compute.{field}", duration_ns)


class Network(Record, frozen=True, kw_only=True):
    """The links: one for all, and those that differ, by passive party."""

    link: Link = Link()
    overrides: dict[str, Link] = msgspec.field(default_factory=dict)

    def of(self, party: str) -> Link:
        """The link of a passive party."""
        return self.overrides.get(party, self.link)


class Compute(Record, frozen=True, kw_only=True):
    """The costs: one for all, and those that differ, by party."""

    costs: Costs = Costs()
    overrides: dict[str, Costs] = msgspec.field(default_factory=dict)

    def of(self, party: str) -> Costs:
        """The costs of a party."""
        return self.overrides.get(party, self.costs)


class Party(Record, frozen=True, kw_only=True):
    """One organisation: its role, its columns, its bottom model, its optimizer."""

    role: Literal["active", "passive"] = "passive"
    width: int | None = None
    """How wide its embedding is, where the job says so; a party whose model gives another width
    is refused. 0: an active party that holds only the labels."""
    table: str | None = None
    """Its own file: Parquet, CSV, Arrow, `.npy` or idx. Without one, columns of `data`."""
    table_test: str | None = None
    """A file of its own for the held-out rows; without one a share of the rows is held out."""
    id: str | list[str] | None = None
    """The id column of its table; several, where only together they name a row."""
    aligned: str | None = None
    """The folder of an alignment (`colonnade align`): its rows are trained on, in its order."""
    label: str | None = None
    """The label column (or `.npy` file). Active party only."""
    label_test: str | None = None
    """The label file of the held-out rows, where labels come as files."""
    sample_weight: str | None = None
    """A column that says how much each row counts. Active party only."""
    positive: str | int | None = None
    """Of two classes, the one that counts as positive; by default the one that sorts last. Active
    party only."""
    columns: list[str] = msgspec.field(default_factory=list)
    """Names or patterns (`PAY_*`) of its feature columns, and after `!` of those that are none
    (`!opened`); empty: none at the active party, all of its table at a passive one."""
    categorical: list[str] = msgspec.field(default_factory=list)
    """Columns of numbers that are codes, not quantities (text columns always are)."""
    preprocessing: Preprocessing = "auto"
    """How columns become numbers: chosen by what each looks like, or `plain`: every number
    standardised, every category a 0/1 column."""
    treat: dict[str, str] = msgspec.field(default_factory=dict)
    """Columns that are to be treated otherwise: `zip = "category"`, `"PAY_*" = "quantile"`."""
    separator: str | None = None
    """Between the columns of a CSV table; found out where it is not given, like the next two."""
    encoding: str | None = None
    decimal: str | None = None
    view: str | None = None
    """Its part of each image: `left`, `bottom`, `top-left`, `strip 2/8`, `channels 0:3`."""
    model: dict[str, Any] = msgspec.field(default_factory=lambda: {"name": "mlp"})
    optimizer: dict[str, Any] = msgspec.field(default_factory=lambda: {"name": "adam", "lr": 5e-3})
    schedule: dict[str, Any] | None = None
    """A class of `torch.optim.lr_scheduler` and its options; `every` is `epoch` or `round`."""
    step: str | None = None
    """How its updates move the weights, where other than the method says: `local_momentum:0.9`."""
    compress: dict[str, str] = msgspec.field(default_factory=dict)
    """How tensors are written that it sends (`embedding`; the active party also `top`) or gets
    (`gradient`), where other than the method says."""
    device: str = "cpu"
    seed: int | None = None
    """Decides its initial weights and its dropout; a simulation derives it from the job's seed."""

    def __post_init__(self) -> None:
        settle(self)
        check_table(self)


PUBLIC = ("role", "width", "step", "compress")
"""What a job says of a party to all the others; the rest of an entry is the party's own."""


class Job(Record, frozen=True, kw_only=True):
    """The contract of one training: parties, method, data, network.

    >>> job = Job(parties={"bank": Party(role="active"), "telco": Party()})
    >>> job.active, job.passives
    ('bank', ('telco',))
    """

    parties: dict[str, Party]
    name: str = "job"
    seed: int = 0
    data: str | None = None
    method: dict[str, Any] = msgspec.field(default_factory=lambda: {"name": "fedsgd"})
    train: Train = Train()
    network: Network = Network()
    compute: Compute = Compute()
    top: Top = Top()
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    recovery: Recovery = Recovery()
    ids: Ids = Ids()
    alignment: Literal["private", "sorted"] | None = None
    """How the parties come to the same rows: `private`, by an alignment before (`colonnade align`);
    `sorted`, because their tables hold the same ids. Not set: as the alignment says where a party
    has one, and sorted elsewhere."""

    def __post_init__(self) -> None:
        self._unfold()
        settle(self)
        check_name(self.name)
        check_seed(self.seed, "seed")
        require(
            len(self.parties) <= PARTIES_MAX,
            f"the job has {len(self.parties):,} parties: it can have up to {PARTIES_MAX:,}",
        )
        actives = [name for name, party in self.parties.items() if party.role == "active"]
        require(
            len(actives) == 1,
            f"a job has exactly one active party, this one has {len(actives)}"
            f"{' (' + ', '.join(actives) + ')' if actives else ''}: "
            "set role = 'active' for the party with the labels and for no other",
        )
        require(len(self.parties) > 1, "a job needs at least one passive party beside the active")
        for name in self.parties:
            require(
                re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) is not None,
                f"'{name}' cannot be a party's name: use up to 64 letters, digits, '-' and '_'",
            )
        for table, overrides in (("network", self.network), ("compute", self.compute)):
            for name in overrides.overrides:
                require(
                    name in self.parties,
                    f"[{table}.{name}] names no party: {nearest(name, self.parties)}",
                )
        require(
            self.active not in self.network.overrides,
            f"[network.{self.active}] has no effect: a link belongs to the passive party at its "
            f"other end ({', '.join(self.passives)})",
        )
        for name, party in self.parties.items():
            least = 0 if party.role == "active" else 1
            require(
                party.width is None or least <= party.width <= WIDTH_MAX,
                f"parties.{name}.width is {party.width}: it must be {least} or more, up to "
                f"{WIDTH_MAX:,}",
            )
            check_seed(party.seed, f"parties.{name}.seed")
        for name in self.passives:
            for field in ("label", "label_test", "sample_weight", "positive"):
                require(
                    getattr(self.parties[name], field) is None,
                    f"parties.{name} is passive and cannot have a {field}: "
                    f"move it to the active party, {self.active}",
                )

    def _unfold(self) -> None:
        """Take a method as the command line names it, and one link or one set of costs for all."""
        given: tuple[Any, Any, Any] = self.method, self.network, self.compute
        method, network, compute = given
        if isinstance(method, str):
            msgspec.structs.force_setattr(self, "method", parse_method(method))
        if isinstance(network, Link):
            msgspec.structs.force_setattr(self, "network", Network(link=network))
        if isinstance(compute, Costs):
            msgspec.structs.force_setattr(self, "compute", Compute(costs=compute))

    @property
    def active(self) -> str:
        """The name of the party with the labels."""
        return next(name for name, party in self.parties.items() if party.role == "active")

    @property
    def passives(self) -> tuple[str, ...]:
        """The names of the other parties, in the order of the job."""
        return tuple(name for name, party in self.parties.items() if party.role == "passive")


def is_array(path: str | Path) -> bool:
    """Say whether a file name is that of an array.

    >>> is_array("x.npy"), is_array("train-images-idx3-ubyte.gz"), is_array("x.parquet")
    (True, True, False)
    """
    name = Path(path).name
    return name.endswith((".npy", ".idx", ".idx.gz")) or _looks_idx(name)


def _looks_idx(name: str) -> bool:
    stem = name.removesuffix(".gz")
    return "-idx" in stem and stem.endswith(("-ubyte", "-byte", "-short", "-int", "-float"))
