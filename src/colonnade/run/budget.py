"""What the rows of a passive party may still tell by being scored: its policy's ε, less what the
trainings of its models have spent.

The models that were scored with in a folder are remembered there, with what each has spent: a row
that was in two trainings has told what both told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from colonnade.errors import RequestError
from colonnade.predict.account import ROUNDING
from colonnade.protect.accountant import DELTA, epsilon_of, spent, spent_for
from colonnade.protect.embedding import Gauss
from colonnade.record.card import Card
from colonnade.record.private import write_whole
from colonnade.run.accounting import spent_by

FILE = "trained.json"


class Trained(msgspec.Struct, frozen=True):
    """What a training has spent, with those that it went on from."""

    spent: float | None
    """None where that has no bound, or nobody has counted it."""
    parent: str = ""


Trainings = dict[str, Trained]
"""By version of the model."""


def trainings_of(cards: Mapping[str, Card], folder: Path) -> Trainings:
    """Those of some models, and of all that were scored with in this folder before."""
    path = folder / FILE
    found: Trainings = {}
    if path.is_file():
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Trainings)
        except msgspec.MsgspecError:
            raise RequestError(
                f"{path} is damaged, which has what the trainings of this party's models have "
                "told: put it back, or choose another --out"
            ) from None
    for version, card in cards.items():
        now, before = spent_by(card), found.get(version)
        if before is not None:
            now = max(now, math.inf if before.spent is None else before.spent)
        found[version] = Trained(None if now == math.inf else now, card.parent)
    return found


def keep(trainings: Trainings, folder: Path) -> None:
    """Let the folder remember them, before anything leaves."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(folder / FILE, msgspec.json.format(msgspec.json.encode(trainings)).decode() + "\n")


def spent_together(trainings: Trainings) -> float:
    """What a row has spent that was in all of them; the last of those that went on from one another
    has what all of them spent.

    >>> spent_together({"a": Trained(1.0), "b": Trained(3.0, parent="a"), "c": Trained(2.0)})
    5.0
    """
    parents = {each.parent for each in trainings.values()}
    last = [each.spent for version, each in trainings.items() if version not in parents]
    return sum(math.inf if each is None else each for each in last)


@dataclass(frozen=True)
class Budget:
    """What a row that is scored costs, and may cost."""

    noise: Gauss
    trained: float
    """What the trainings have spent."""
    epsilon_max: float | None = None
    """`policy.epsilon_max`."""
    delta: float = DELTA

    @property
    def once(self) -> float:
        """What a release spends."""
        return spent(self.noise)

    @property
    def most(self) -> float:
        """What a row may spend by being scored."""
        if self.epsilon_max is None:
            return math.inf
        return spent_for(self.epsilon_max, self.delta) - self.trained

    def epsilon(self, scored: float) -> float:
        """Of a row that has spent so much by being scored."""
        return epsilon_of(math.sqrt(self.trained + scored), self.delta)

    def more(self, scored: float) -> int | None:
        """How often such a row may still be scored; None for ever."""
        most = self.most
        if most == math.inf:
            return None
        return max(0, math.floor((most * (1 + ROUNDING) - scored) / self.once))

    @property
    def refusal(self) -> str:
        """Of a row that may not be scored once more, for whoever asks for it."""
        return (
            f"policy.epsilon_max is {self.epsilon_max:g}, and a row that was asked for has used it "
            "up, or would: ask for other rows, or have it raised"
        )

    def refuse(self) -> str | None:
        """Why no row at all is scored; None where some may be."""
        if self.epsilon_max is None:
            return None
        limit = f"policy.epsilon_max is {self.epsilon_max:g}"
        if self.trained == math.inf:
            return (
                f"{limit}, and the rows of this model, or of one that was scored with in this "
                "folder before, left without noise in its training, or nobody counted how often: "
                "score with a model that was trained with noise, in a folder of its own (--out), "
                "or leave policy.epsilon_max out of the party file"
            )
        if self.more(0.0):
            return None
        return (
            f"{limit}, and a row has cost ε = {self.epsilon(0.0):.4g} by the training and would "
            f"cost {self.epsilon(self.once):.4g} if it is scored once: raise it, or leave it out "
            "of the party file"
        )

    def facts(self, before: float, now: float) -> dict[str, float | None]:
        """The ε of the row that has cost most, before and now; JSON has no word for infinity."""
        found = {"before": self.epsilon(before), "epsilon": self.epsilon(now), "delta": self.delta}
        return {name: None if value == math.inf else value for name, value in found.items()}


def show(epsilon: float | None) -> str:
    """An ε for a person.

    >>> show(None), show(4.37702)
    ('∞', '4.377')
    """
    return "∞" if epsilon is None else f"{epsilon:.4g}"


def told(privacy: Mapping[str, float | None]) -> str:
    """What a prediction has cost, for a person.

    >>> told({"before": 1.0, "epsilon": 1.25, "delta": 1e-5})
    'the row that has told most has cost ε = 1.25 at δ = 1e-05 by training and scoring; it was 1 \
before'
    """
    now, before = show(privacy["epsilon"]), show(privacy["before"])
    return (
        f"the row that has told most has cost ε = {now} at δ = {privacy['delta']:g} by training "
        f"and scoring; it was {before} before"
    )
