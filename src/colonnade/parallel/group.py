"""The process group of one party, started by `torchrun`, and what its ranks send one another.

Rank 0 sends commands, and all ranks carry them out together. A command is a header, followed by
tensors. Headers have a group with a timeout of its own, because between two commands
the other ranks wait for as long as rank 0 waits for another party.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from colonnade.errors import FailedError, JobError

TIMEOUT_S = 300
"""How long ranks wait for one another within a command."""
IDLE_S = 86_400
"""How long the other ranks wait for the next command."""
HEADER_BYTES = 8192
"""The size of a header: always the same, because a broadcast has a fixed size."""
END, NUMBERS, FORWARD, BACKWARD = range(4)


class Command(msgspec.Struct, frozen=True):
    """What all ranks do next.

    >>> command = Command(FORWARD, part=1, rows=8, shapes=((3, 14), (5,)))
    >>> Command.decode(command.encode()) == command
    True
    """

    kind: int
    part: int = 0
    """The index of the module."""
    call: int = 0
    """The number of the forward pass of that module."""
    training: bool = False
    parameters: bool = False
    """Whether gradients with respect to the parameters are wanted."""
    inputs: bool = False
    """Whether gradients with respect to the inputs are wanted."""
    recompute: bool = False
    """Whether a backward pass has to repeat its forward pass first."""
    seed: int = 0
    """The seed of random layers such as dropout."""
    state: int = 0
    """The size of the module's parameters and buffers in bytes."""
    rows: int = 0
    dtype: int = 0
    """The index of the inputs' dtype."""
    is_list: bool = False
    """Whether the module takes a list of tensors, or one tensor."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """The shape of one row of each input."""

    @property
    def has_graph(self) -> bool:
        """Whether a backward pass can follow."""
        return self.parameters or self.inputs

    def encode(self) -> torch.Tensor:
        """Return the command as a header: JSON, filled up with spaces."""
        text = bytearray(msgspec.json.encode(self).ljust(HEADER_BYTES))
        if len(text) > HEADER_BYTES:
            raise JobError(
                f"a model with {len(self.shapes)} inputs cannot be spread over several processes: "
                "start the party without torchrun"
            )
        return torch.frombuffer(text, dtype=torch.uint8)

    @classmethod
    def decode(cls, header: torch.Tensor) -> Command:
        """Read a command from a header."""
        return msgspec.json.decode(header.numpy().tobytes(), type=cls)


def init_group(device: torch.device, timeout_s: float = TIMEOUT_S) -> ProcessGroup | None:
    """Initialise the process group that torchrun started; None for a party of one process.

    With a CUDA device each rank takes the GPU of its local rank, whatever index the device has.

    >>> init_group(torch.device("cpu")) is None
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
    # The functions of this module have the default process group as a default argument, evaluated
    # when it is imported. DistributedDataParallel imports it: by then there would be a group, which
    # the default arguments would keep alive for ever.
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
    return ProcessGroup(rank, size, device, PrefixStore("colonnade", store), timeout_s)


class ProcessGroup:
    """The processes of one party, as one of them sees them.

    Use it in a `with` statement: at its end rank 0 tells the other ranks to end.
    """

    def __init__(
        self, rank: int, size: int, device: torch.device, store: Any, timeout_s: float
    ) -> None:
        self.rank = rank
        self.size = size
        self.device = device
        """The device of this rank."""
        self._store = store
        self._releases: list[Callable[[], None]] = []
        self._control: Any = dist.new_group(backend="gloo", timeout=timedelta(seconds=IDLE_S))
        self._timeout = timedelta(seconds=timeout_s)

    def __enter__(self) -> ProcessGroup:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        # After an error the ranks may be in the midst of a command, so END could be taken for
        # something else; the others find their connections closed when this process ends.
        if kind is None:
            if self.rank == 0:
                self.send(Command(END))
            self._join_threads()

    def on_close(self, release: Callable[[], None]) -> None:
        """Register a function that drops references to process groups; called at the end."""
        self._releases.append(release)

    def _join_threads(self) -> None:
        """Wait until torch's own threads have ended.

        A group's threads are joined when its last reference is dropped. A thread that still frees
        a tensor while the interpreter is being finalised would end the process with SIGABRT.
        """
        for release in self._releases:
            release()
        self._control = None
        dist.destroy_process_group()
        gc.collect()

    def share(self, numbers: Sequence[int] = ()) -> tuple[int, ...]:
        """Broadcast integers from rank 0; the other ranks need not give any."""
        if self.rank == 0:
            self.send(Command(NUMBERS, shapes=(tuple(numbers),)))
            return tuple(numbers)
        return self.receive().shapes[0]

    def send(self, command: Command) -> None:
        """At rank 0: send a command to the other ranks."""
        with self.collective():
            # The group's own timeout is that of idle workers; rank 0 must not wait for so long.
            work = dist.broadcast(command.encode(), 0, group=self._control, async_op=True)
            work.wait(self._timeout)

    def receive(self) -> Command:
        """At the other ranks: wait for the next command."""
        header = torch.zeros(HEADER_BYTES, dtype=torch.uint8)
        try:
            dist.broadcast(header, 0, group=self._control)
        except RuntimeError as error:
            raise FailedError("rank 0 of this party has ended: its last words say why") from error
        return Command.decode(header)

    def rows(self, whole: int, rank: int) -> int:
        """How many rows of a batch a rank has, divided as by `tensor_split`."""
        return whole // self.size + (rank < whole % self.size)

    def broadcast(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy rank 0's tensor into that of every other rank."""
        dist.broadcast(tensor, 0)
        return tensor

    def scatter(self, whole: torch.Tensor | None, mine: torch.Tensor) -> torch.Tensor:
        """Split rank 0's rows among all ranks; the other ranks receive theirs into `mine`."""
        if whole is None:
            _run_together([dist.P2POp(dist.irecv, _bytes(mine), 0)])
            return mine
        slices = whole.contiguous().tensor_split(self.size)
        _run_together([dist.P2POp(dist.isend, _bytes(s), r) for r, s in enumerate(slices) if r])
        return slices[0]

    def gather(self, mine: torch.Tensor, rows: int) -> torch.Tensor:
        """Concatenate all ranks' rows at rank 0; the other ranks get their own back."""
        mine = mine.contiguous()
        if self.rank:
            _run_together([dist.P2POp(dist.isend, _bytes(mine), 0)])
            return mine
        pieces = [mine.new_empty(self.rows(rows, r), *mine.shape[1:]) for r in range(self.size)]
        _run_together([dist.P2POp(dist.irecv, _bytes(p), r) for r, p in enumerate(pieces) if r])
        return torch.cat([mine, *pieces[1:]])

    @contextmanager
    def collective(self) -> Iterator[None]:
        """Around what the ranks do together: whoever fails leaves its reason in the store, so that
        rank 0, which sees only a broken connection, can say who failed and why."""
        try:
            yield
        except Exception as error:
            if self.rank:
                self._store.set(f"ended/{self.rank}", f"{type(error).__name__}: {error}"[:1000])
                self._store.compare_set("first", "", str(self.rank))
            if _is_connection_error(error):
                lost = f"rank {self.rank} of this party lost the others: see what rank 0 says"
                raise FailedError(lost if self.rank else self._explain_failure()) from error
            raise

    def _explain_failure(self) -> str:
        """At rank 0: who broke the connection, as far as it can be told."""
        told = [rank for rank in range(1, self.size) if self._store.check([f"ended/{rank}"])]
        # One rank's end breaks the connections of the others, which then report that. So a rank
        # that ended without reporting anything comes first: it is the cause.
        for rank in range(1, self.size):
            if rank not in told and self._has_ended(rank):
                return f"rank {rank} of this party ended without a word: see torchrun's own report"
        if not told:
            return (
                f"the {self.size} ranks of this party waited {self._timeout.total_seconds():g} s "
                "for one another: see which of them is busy or stopped"
            )
        first = self._store.get("first").decode()
        reason = self._store.get(f"ended/{first}").decode()
        return f"rank {first} of this party failed: {reason}"

    def _has_ended(self, rank: int) -> bool:
        """Whether a rank's process has ended: receiving from one that lives, and sends nothing,
        times out; the connection to one that has ended is closed."""
        try:
            work: Any = dist.irecv(torch.zeros(1), rank, group=self._control)
            work.wait(timedelta(seconds=0.2))
        except RuntimeError as error:
            return "imed out" not in str(error)
        return False


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's memory as bytes, because not every backend can send every dtype."""
    return tensor.reshape(-1).view(torch.uint8)


def _run_together(operations: list[dist.P2POp]) -> None:
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def _is_connection_error(error: Exception) -> bool:
    words = ("gloo", "NCCL", "imed out")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)
