"""One party that takes part as `colonnade join` does, and keeps its weights every so many rounds.

The accuracy of those weights is measured afterwards. Measured in the run, one evaluation would
send 20 MB over each line, half a minute at 5 Mbit, and no figure would be the method's own.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks.wan_party import ask
from colonnade.job.party_file import own_job
from colonnade.job.policy import Policy
from colonnade.net.runner import Address
from colonnade.party.active import Active
from colonnade.party.passive import Passive
from colonnade.party.training import Training
from colonnade.record.party_folder import PartyFolder
from colonnade.run.join import TrainingParticipation
from colonnade.run.setup import participant


class Keeper(TrainingParticipation):
    """A party that keeps its weights at the end of every so many rounds, and the instants."""

    def __init__(self, *given: Any, every: int) -> None:
        super().__init__(*given)
        self.every = every
        self.weights: dict[str, torch.Tensor] = {}
        self.closed_ns: dict[int, int] = {}
        """By round, by the clock of the day; 0 is when the party's program was ready."""

    def program(self) -> Training:
        training = super().program()
        build = training.build

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

        training.build = building
        return training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, required=True)
    asked, job, keyring = ask(parser)
    job = own_job(job, asked.me, None)
    made = participant(job, asked.me, Policy(shares_labels=True))
    keeper = Keeper(made, PartyFolder(asked.out), every=asked.every)
    keeper.run(Address(asked.listen, asked.connect), keyring, None)
    save_file(keeper.weights, asked.out / "kept.safetensors")
    (asked.out / "kept.json").write_text(json.dumps(keeper.closed_ns))


if __name__ == "__main__":
    main()
