"""A party of several processes under torchrun: one speaks on the wire, all compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec
import torch

from colonnade import models
from colonnade.job.records import Job
from colonnade.learn.build import DTYPES
from colonnade.models.top import build_top
from colonnade.parallel.group import Ranks, start
from colonnade.parallel.spread import Spreader, refuse_batch_norm, serve
from colonnade.run.participant import Participant


@dataclass(frozen=True)
class Crew:
    """The processes of a party; a party of one process has no ranks."""

    job: Job
    """The party's job, with the device of this process."""
    me: str
    ranks: Ranks | None = None

    @property
    def helps(self) -> bool:
        """Whether this process only computes, for the one that speaks."""
        return self.ranks is not None and self.ranks.rank > 0

    def equip(self, party: Participant) -> Participant:
        """The party with its models spread over the crew."""
        if self.ranks is None:
            return party
        if party.bottom.build is not None and self.ranks.device.type == "cpu":
            refuse_batch_norm("bottom", party.bottom.build())
        self.ranks.share([party.objective.outputs if party.objective else 0])
        return replace(party, spread=Spreader(self.ranks))

    def help(self) -> None:
        """Compute what the speaking process asks for, until it ends."""
        assert self.ranks is not None
        (outputs,) = self.ranks.share()
        party, where = self.job.parties[self.me], f"parties.{self.me}.model"
        device, dtype = self.ranks.device, DTYPES[self.job.train.dtype]

        def bottom(shapes: tuple[tuple[int, ...], ...]) -> torch.nn.Module:
            return models.build(party.model, shapes[0], where).to(device=device, dtype=dtype)

        def top(shapes: tuple[tuple[int, ...], ...]) -> torch.nn.Module:
            widths = {str(number): shape[0] for number, shape in enumerate(shapes)}
            return build_top(self.job.top, widths, outputs).to(device=device, dtype=dtype)

        serve(self.ranks, {"bottom": bottom, "top": top})


@contextmanager
def muster(job: Job, me: str) -> Iterator[Crew]:
    """The crew of a party, for as long as it takes part."""
    ranks = start(torch.device(job.parties[me].device))
    if ranks is None:
        yield Crew(job, me)
        return
    own = msgspec.structs.replace(job.parties[me], device=str(ranks.device))
    with ranks:
        yield Crew(msgspec.structs.replace(job, parties=job.parties | {me: own}), me, ranks)
