"""A party of several processes under torchrun: rank 0 has the connections, all ranks compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec
import torch

from colonnade.data.layout import of_structure, structure
from colonnade.job.records import Job
from colonnade.learn.participant import DTYPES, Participant, bottom_model
from colonnade.models.top import build_top
from colonnade.parallel.group import ProcessGroup, init_group
from colonnade.parallel.spread import Spreader, refuse_batch_norm, work

PIECE = 400
"""So many numbers fit into a command."""


@dataclass(frozen=True)
class PartyProcess:
    """One process of a party; the only process of a party has no group."""

    job: Job
    """The party's job, in which the party's device is that of this process."""
    me: str
    group: ProcessGroup | None = None

    @property
    def is_worker(self) -> bool:
        """Whether this process only computes for rank 0."""
        return self.group is not None and self.group.rank > 0

    def distribute(self, party: Participant) -> Participant:
        """The party with its models spread over the group."""
        if self.group is None:
            return party
        if party.model is not None and self.group.device.type == "cpu":
            refuse_batch_norm("bottom", party.model())
        # Where edges lie comes to the workers with the other buffers of the model.
        layout = structure(party.data.columns.inputs)
        self.group.share([party.objective.outputs if party.objective else 0, len(layout)])
        for start in range(0, len(layout), PIECE):
            self.group.share(layout[start : start + PIECE])
        return replace(party, spread=Spreader(self.group))

    def work(self) -> None:
        """Carry out rank 0's commands until it ends."""
        assert self.group is not None
        outputs, count = self.group.share()
        layout: list[int] = []
        while len(layout) < count:
            layout += self.group.share()
        inputs = of_structure(layout)
        party, where = self.job.parties[self.me], f"parties.{self.me}.model"
        device, dtype = self.group.device, DTYPES[self.job.train.dtype]

        def bottom(shapes: tuple[tuple[int, ...], ...]) -> torch.nn.Module:
            model = bottom_model(party, inputs, shapes[0], where)
            return model.to(device=device, dtype=dtype)

        def top(shapes: tuple[tuple[int, ...], ...]) -> torch.nn.Module:
            widths = {str(number): shape[0] for number, shape in enumerate(shapes)}
            return build_top(self.job.top, widths, outputs).to(device=device, dtype=dtype)

        work(self.group, {"bottom": bottom, "top": top})


@contextmanager
def start_group(job: Job, me: str) -> Iterator[PartyProcess]:
    """Start the process group of a party, and yield this process's place in it."""
    group = init_group(torch.device(job.parties[me].device))
    if group is None:
        yield PartyProcess(job, me)
        return
    own = msgspec.structs.replace(job.parties[me], device=str(group.device))
    with group:
        yield PartyProcess(msgspec.structs.replace(job, parties=job.parties | {me: own}), me, group)
