"""The processes of one party that `torchrun` started, and what they send one another.

Rank 0 gives orders, all ranks carry them out together. An order is a header of numbers, then
tensors; the headers go over connections of their own, since between two orders the other ranks
wait for as long as rank 0 waits for another party.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from colonnade.errors import FailedError, JobError

TIMEOUT_S = 300
"""How long ranks wait for one another within an order."""
IDLE_S = 86_400
"""How long the others wait for rank 0's next order."""
HEADER = 1024
"""Numbers in a header."""
END, NUMBERS, FORWARD, BACKWARD = range(4)


@dataclass(frozen=True)
class Order:
    """What rank 0 wants of all ranks next.

    >>> order = Order(FORWARD, part=1, rows=8, shapes=((3, 14), (5,)))
    >>> Order.decode(order.encode()) == order
    True
    """

    kind: int
    part: int = 0
    """Which of the modules."""
    call: int = 0
    """Which forward pass of that module."""
    training: int = 0
    parameters: int = 0
    """1 where gradients by the parameters are wanted."""
    inputs: int = 0
    """1 where gradients by the inputs are wanted."""
    again: int = 0
    """1 where a backward pass has to repeat its forward pass first."""
    seed: int = 0
    """Of the random layers."""
    state: int = 0
    """Bytes of the weights."""
    rows: int = 0
    dtype: int = 0
    """Of the inputs."""
    listed: int = 0
    """1 where the module takes a list of tensors, 0 where it takes one tensor."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """Of one row of each input."""

    @property
    def has_graph(self) -> bool:
        """Whether a backward pass can follow."""
        return self.parameters == 1 or self.inputs == 1

    def encode(self) -> torch.Tensor:
        """As a header."""
        *fixed, shapes = vars(self).values()
        numbers = [*fixed, len(shapes), *(n for shape in shapes for n in (len(shape), *shape))]
        if len(numbers) > HEADER:
            raise JobError(
                f"a model with {len(shapes)} inputs cannot be spread over several processes: "
                "start the party without torchrun"
            )
        return torch.tensor(numbers + [0] * (HEADER - len(numbers)))

    @classmethod
    def decode(cls, header: torch.Tensor) -> Order:
        """From a header."""
        numbers = iter(header.tolist())
        fixed: dict[str, Any] = {field.name: next(numbers) for field in fields(cls)[:-1]}
        shapes = [tuple(next(numbers) for _ in range(next(numbers))) for _ in range(next(numbers))]
        return cls(**fixed, shapes=tuple(shapes))


def start(device: torch.device, timeout_s: float = TIMEOUT_S) -> Ranks | None:
    """Meet the other ranks that torchrun started; None where there are none.

    On GPUs each rank takes the one of its own number, whichever the device says.

    >>> start(torch.device("cpu")) is None
    True
    """
    if "RANK" not in os.environ or os.environ.get("WORLD_SIZE", "1") == "1":
        return None
    cuda = device.type == "cuda"
    if cuda:
        here, wanted = torch.cuda.device_count(), int(os.environ["LOCAL_WORLD_SIZE"])
        if here < wanted:
            raise JobError(
                f"torchrun started {wanted} processes, but this host has {here} GPUs: "
                f"set --nproc-per-node={here}"
            )
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    # Its functions have the default group as a default argument: that of the moment in which it is
    # imported. DistributedDataParallel imports it, and the group would be kept for ever.
    importlib.import_module("torch.distributed.nn.functional")
    store, rank, size = next(rendezvous("env://"))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo",
        store=store,
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=timeout_s),
        device_id=device if cuda else None,
    )
    return Ranks(rank, size, device, PrefixStore("colonnade", store), timeout_s)


class Ranks:
    """The processes of one party, as one of them sees them.

    To be used in a `with` statement: at its end rank 0 lets the others go.
    """

    def __init__(
        self, rank: int, size: int, device: torch.device, store: Any, timeout_s: float
    ) -> None:
        self.rank = rank
        self.size = size
        self.device = device
        """Where this rank computes."""
        self._store = store
        self._releases: list[Callable[[], None]] = []
        self._control: Any = dist.new_group(backend="gloo", timeout=timedelta(seconds=IDLE_S))
        self._timeout = timedelta(seconds=timeout_s)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After an error nobody can be told in order; the others find their connections closed.
        if error is None:
            if self.rank == 0:
                self.give(Order(END))
            self._join_threads()

    def at_end(self, release: Callable[[], None]) -> None:
        """Call this at the end: it lets go of whatever holds a group of processes."""
        self._releases.append(release)

    def _join_threads(self) -> None:
        """Wait until torch's own threads have ended.

        A group's threads are joined when its last reference is gone. One that lets go of its last
        tensor while the interpreter is being finalised would end the process with SIGABRT.
        """
        for release in self._releases:
            release()
        self._control = None
        dist.destroy_process_group()
        gc.collect()

    def share(self, numbers: Sequence[int] = ()) -> tuple[int, ...]:
        """Rank 0's numbers, at all ranks."""
        if self.rank == 0:
            self.give(Order(NUMBERS, shapes=(tuple(numbers),)))
            return tuple(numbers)
        return self.next().shapes[0]

    def give(self, order: Order) -> None:
        """Rank 0's next order, to all others."""
        with self.ordered():
            work = dist.broadcast(order.encode(), 0, group=self._control, async_op=True)
            work.wait(self._timeout)

    def next(self) -> Order:
        """At the other ranks: what comes."""
        header = torch.zeros(HEADER, dtype=torch.int64)
        try:
            dist.broadcast(header, 0, group=self._control)
        except RuntimeError as error:
            raise FailedError("rank 0 of this party has ended: its last words say why") from error
        return Order.decode(header)

    def rows(self, whole: int, rank: int) -> int:
        """How many of a batch's rows are a rank's: those of `tensor_split`."""
        return whole // self.size + (rank < whole % self.size)

    def broadcast(self, tensor: torch.Tensor) -> torch.Tensor:
        """Rank 0's tensor, into that of each other rank."""
        dist.broadcast(tensor, 0)
        return tensor

    def scatter(self, whole: torch.Tensor | None, mine: torch.Tensor) -> torch.Tensor:
        """Of the rows that rank 0 has, each rank's into `mine`."""
        if whole is None:
            _together([dist.P2POp(dist.irecv, _bytes(mine), 0)])
            return mine
        slices = whole.contiguous().tensor_split(self.size)
        _together([dist.P2POp(dist.isend, _bytes(s), r) for r, s in enumerate(slices) if r])
        return slices[0]

    def gather(self, mine: torch.Tensor, rows: int) -> torch.Tensor:
        """All ranks' rows at rank 0; the others have their own back."""
        mine = mine.contiguous()
        if self.rank:
            _together([dist.P2POp(dist.isend, _bytes(mine), 0)])
            return mine
        pieces = [mine.new_empty(self.rows(rows, r), *mine.shape[1:]) for r in range(self.size)]
        _together([dist.P2POp(dist.irecv, _bytes(p), r) for r, p in enumerate(pieces) if r])
        return torch.cat([mine, *pieces[1:]])

    @contextmanager
    def ordered(self) -> Iterator[None]:
        """Around what ranks do together: who fails tells the others, and rank 0 says who did."""
        try:
            yield
        except Exception as error:
            if self.rank:
                self._store.set(f"ended/{self.rank}", f"{type(error).__name__}: {error}"[:1000])
                self._store.compare_set("first", "", str(self.rank))
            if _of_the_connection(error):
                raise FailedError(self._lost() if self.rank else self._blame()) from error
            raise

    def _lost(self) -> str:
        return f"rank {self.rank} of this party lost the others: see what rank 0 says"

    def _blame(self) -> str:
        """Who broke the connection, as far as it can be seen from rank 0."""
        told = [rank for rank in range(1, self.size) if self._store.check([f"ended/{rank}"])]
        for rank in range(1, self.size):
            if rank not in told and self._gone(rank):
                return f"rank {rank} of this party ended without a word: see torchrun's own report"
        if not told:
            return (
                f"the {self.size} ranks of this party waited {self._timeout.total_seconds():g} s "
                "for one another: see which of them is busy or stopped"
            )
        first = self._store.get("first").decode()
        reason = self._store.get(f"ended/{first}").decode()
        return f"rank {first} of this party failed: {reason}"

    def _gone(self, rank: int) -> bool:
        """A rank that only waits sends nothing; of one that ended the connection is closed."""
        try:
            work: Any = dist.irecv(torch.zeros(1), rank, group=self._control)
            work.wait(timedelta(seconds=0.2))
        except RuntimeError as error:
            return "imed out" not in str(error)
        return False


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory: not every connection knows every dtype."""
    return tensor.reshape(-1).view(torch.uint8)


def _together(operations: list[dist.P2POp]) -> None:
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def _of_the_connection(error: Exception) -> bool:
    words = ("gloo", "NCCL", "imed out")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)
