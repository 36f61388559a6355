"""One party that takes part as `colonnade join` does, and keeps its weights every so many rounds.

The accuracy of those weights is measured afterwards. Measured in the run, one evaluation would
send 20 MB over each line, half a minute at 5 Mbit, and no figure would be the method's own.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks.wan_party import ask
from colonnade.job.party_file import own_job
from colonnade.job.policy import Policy
from colonnade.net.runner import Address
from colonnade.party.active import Active
from colonnade.party.passive import Passive
from colonnade.party.session import Seat
from colonnade.record.party_folder import PartyFolder
from colonnade.run.join import Place, take_part
from colonnade.run.participant import Participant, participant


@dataclass(frozen=True)
class Keeper(Participant):
    """A participant that keeps its weights at the end of every so many rounds, and the instants."""

    every: int = 10
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    closed_ns: dict[int, int] = field(default_factory=dict)
    """By round, by the clock of the day; 0 is when the party's program was ready."""

    @classmethod
    def of(cls, made: Participant, every: int) -> Keeper:
        own = {each.name: getattr(made, each.name) for each in fields(Participant)}
        return cls(**own, every=every)

    def seat(self, *common: Any) -> Seat:
        seat = super().seat(*common)
        build = seat.build

        def building(world: Any, welcome: Any) -> Active | Passive:
            program = build(world, welcome)
            end_round = program.learner.end_round

            def ending(round: int) -> None:
                end_round(round)
                if (round + 1) % self.every == 0:
                    self.closed_ns[round + 1] = time.time_ns()
                    for name, weight in program.learner.weights().items():
                        self.weights[f"{round + 1}/{name}"] = weight

            program.learner.end_round = ending
            self.closed_ns[0] = time.time_ns()
            return program

        seat.build = building
        return seat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, required=True)
    asked, job, identity = ask(parser)
    job = own_job(job, asked.me, None)
    made = participant(job, asked.me, Policy(shares_labels=True))
    keeper = Keeper.of(made, asked.every)
    address, folder = Address(asked.listen, asked.connect), PartyFolder(asked.out)
    take_part(keeper, Place(address, identity, folder))
    save_file(keeper.weights, asked.out / "kept.safetensors")
    (asked.out / "kept.json").write_text(json.dumps(keeper.closed_ns))


if __name__ == "__main__":
    main()
