"""How a race has ended: every method at its best, beside FedSGD at its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade import methods as known_methods
from colonnade.formats import stamp
from colonnade.job.records import Job
from colonnade.record.metrics import METRICS
from colonnade.record.private import write_whole
from colonnade.record.race_table import race_markdown, race_table
from colonnade.record.table import plain, spread
from colonnade.run.entrants import BASELINE, Setting
from colonnade.run.ladder import Ladder
from colonnade.run.points import Measured, Outcome
from colonnade.run.tuning import Judge, Tuned

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Race:
    """Methods side by side, each at its best."""

    job: Job
    folder: Path
    metric: str
    target: float
    share: str | None
    """The share of FedSGD's best metric that the target is, where it is one."""
    steady: int | None
    """Evaluations for which the target must be held; None for the rest of the run."""
    seeds: list[int]
    tuning_seeds: list[int]
    rungs: list[int]
    """Rounds of each rung of the tuning."""
    ladder: Ladder
    tuned: dict[str, Tuned]
    """What was chosen, by method."""
    outcomes: dict[str, list[Outcome]]
    """The runs of the table, by method."""
    trained: int = 0
    """How many runs were not there already."""

    def __repr__(self) -> str:
        return f"<Race on {self.job.name}: {', '.join(self.tuned)}; in {self.folder}>"

    def _judge(self) -> Judge:
        return Judge(METRICS[self.metric], self.target, self.steady)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each method, FedSGD first: what was chosen, and what it came to on the seeds of
        the table. Times and bytes are means over the seeds that reached the target; ratios are
        against FedSGD, on the seeds with which both did."""
        judge = self._judge()
        hits = {
            label: {each.seed: hit for each in own if (hit := judge.reached(each)) is not None}
            for label, own in self.outcomes.items()
        }
        return [_row(self, label, hits[label], hits[BASELINE]) for label in self.outcomes]

    def notes(self) -> list[str]:
        """What has to be said of the table: how it came about, and where it may be wrong."""
        rows = self.rows()
        held = "the rest of the run" if self.steady is None else f"{self.steady} evaluations"
        origin = "" if self.share is None else f" ({self.share} of FedSGD's best in the tuning)"
        low, high = (self.ladder.text(self.job, rate) for rate in
                     (self.ladder.rates[0], self.ladder.rates[-1]))  # fmt: skip
        seeds, others = map(_named, (self.seeds, self.tuning_seeds))
        found = [
            f"Target: {self.metric} {self.target:.4g} on the validation rows{origin}, held for "
            f"{held}.",
            f"Each method at its best of {len(self.ladder.rates)} rates from {low} to {high}, "
            f"chosen with {others}; measured with {seeds}.",
        ]
        if not rows[0]["reached"]:
            found.append("FedSGD at its best missed the target, so no speed-up can be told.")
        edges = [
            f"* {row['method']}: {row['rate']} is the {end} rate that was tried, so the best may "
            "lie beyond."
            for row in rows
            for end in row["at_edge"]
        ]
        return [*found, *edges, *self._failures()]

    def _failures(self) -> list[str]:
        """A sentence for the runs that failed or diverged, by method and reason."""
        seeds: dict[tuple[str, str], list[str]] = {}
        for label, own in self.outcomes.items():
            for each in own:
                if each.bad:
                    why = each.status + (f": {each.error}" if each.error else "")
                    seeds.setdefault((label, why), []).append(str(each.seed))
        return [f"{label}, seed {', '.join(bad)}: {why}" for (label, why), bad in seeds.items()]

    def table(self, width: int | None = None) -> Table:
        """The rows, to print with rich where there are so many columns of text."""
        return race_table(self.rows(), self.metric, self.notes(), width)

    def markdown(self) -> str:
        """The table for a page."""
        return race_markdown(self.rows(), self.metric, self.notes())

    def to_dict(self) -> dict[str, Any]:
        """The race as plain values: the rows, and every setting that was tried."""
        tried = {
            label: [
                {
                    "rate": setting.rate,
                    "options": setting.options,
                    "average": setting.average,
                    "rounds": rounds,
                    "rank": list(rank),
                }
                for setting, rounds, rank in own.tried
            ]
            for label, own in self.tuned.items()
        }
        return dict(
            plain(
                {
                    **stamp("race"),
                    "job": self.job.name,
                    "metric": self.metric,
                    "target": self.target,
                    "target_share": self.share,
                    "steady": self.steady,
                    "seeds": self.seeds,
                    "tuning_seeds": self.tuning_seeds,
                    "rungs": self.rungs,
                    "rates": list(self.ladder.rates),
                    "rates_are_multiples": self.ladder.relative,
                    "methods": self.rows(),
                    "notes": self.notes(),
                    "tried": tried,
                }
            )
        )

    def save(self) -> Path:
        """Write `race.json` and `race.md` into the race's folder."""
        write_whole(self.folder / "race.json", json.dumps(self.to_dict(), indent=1))
        write_whole(self.folder / "race.md", self.markdown())
        return self.folder / "race.json"


def _row(
    race: Race, label: str, hits: Mapping[int, Measured], first: Mapping[int, Measured]
) -> dict[str, Any]:
    """A method's row; `hits` has where it and `first` where FedSGD reached the target, by seed."""
    own, chosen = race.outcomes[label], race.tuned[label].best
    row: dict[str, Any] = {
        "method": label,
        "composed": chosen.method,
        "rate": race.ladder.text(race.job, chosen.rate),
        "options": chosen.option_text,
        "average": chosen.average or _own_average(chosen),
        "at_edge": race.tuned[label].ends,
        "settings": len(race.tuned[label].tried),
        "runs": len(own),
        "failed": sum(each.bad for each in own),
        "reached": len(hits),
    }
    figures: dict[str, list[float]] = {
        "time_s": [hit.time_s for hit in hits.values()],
        "rounds": [hit.round for hit in hits.values()],
        "bytes": [hit.bytes for hit in hits.values()],
        "test": [each.test for each in own if not each.bad and each.test is not None],
    }
    for name, values in figures.items():
        row[f"{name}_mean"], row[f"{name}_deviation"] = spread(values)
    both = [seed for seed in hits if seed in first]
    times = [(first[seed].time_s, hits[seed].time_s) for seed in both]
    row["speed_up"] = _ratio(times)
    each = [ratio for pair in times if (ratio := _ratio([pair])) is not None]
    row["speed_up_min"], row["speed_up_max"] = min(each, default=None), max(each, default=None)
    row["bytes_ratio"] = _ratio([(hits[seed].bytes, first[seed].bytes) for seed in both])
    row["by_seed"] = {
        str(each.seed): {
            "status": each.status,
            "time_s": hits[each.seed].time_s if each.seed in hits else None,
            "bytes": hits[each.seed].bytes if each.seed in hits else None,
            "test": each.test,
        }
        for each in own
    }
    return dict(plain(row))


def _own_average(chosen: Setting) -> str:
    """What the job says is averaged, or else the method itself."""
    given = chosen.table.get("average")
    return str(given or known_methods.build(chosen.method).composition()["average"])


def _ratio(pairs: list[tuple[float, float]]) -> float | None:
    """Sum by sum; None where there is nothing to divide by, as on a network without costs."""
    below = sum(other for _, other in pairs)
    return sum(one for one, _ in pairs) / below if below else None


def _named(seeds: list[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
