"""How large a checkpoint is after many rounds: nothing in it grows that nobody reads again."""

from __future__ import annotations

from colonnade.job.records import Job, Party, Train
from colonnade.learn.agreement import Agreement
from colonnade.learn.null import Record
from colonnade.record.metrics import METRICS
from colonnade.record.sizes import Sizes
from colonnade.run.clock import null_trainings
from colonnade.run.simulate import run_parties
from colonnade.sim.kernel import Simulator
from colonnade.testing.stores import MemoryStore

ROWS = {"train": 20, "validation": 0, "test": 4}

EVERY = 500
PER_ROUND = {"bank": 8 + 16 + 24, "telco": 8 + 16}
"""Bytes: what a null learner notes of a round, the party's effort, and its row in the history."""


class Weighed(MemoryStore):
    """Knows the size of whatever was saved."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def save(self, round, tree):
        super().save(round, tree)
        self.sizes.append(len(self._saved[round][1]))


def test_a_checkpoint_grows_by_what_is_told_of_a_round_and_by_nothing_else():
    job = Job(
        parties={"bank": Party(role="active"), "telco": Party()},
        method={"name": "fedbcd", "updates": 5},
        train=Train(rounds=2 * EVERY + 1, batch_size=4, checkpoint_every=EVERY),
    )
    agreement = Agreement.of(job, ROWS, dict.fromkeys(job.parties, 2))
    sizes = Sizes(dict.fromkeys(job.parties, 2), ROWS)
    measured = Record([0.5] * 9999, [{"test_loss": 0.5, "accuracy": 0.5}] * 999)
    stores = {name: Weighed() for name in job.parties}
    trainings = null_trainings(agreement, sizes, METRICS["accuracy"], measured, stores)
    run_parties(Simulator(job), trainings)
    rows = len(trainings[job.active].loop.history.evaluations)
    for name, store in stores.items():
        once, twice = store.sizes
        judged = 200 * rows if name == "bank" else 0
        assert twice - once <= EVERY * PER_ROUND[name] + judged + 100, (name, once, twice)
