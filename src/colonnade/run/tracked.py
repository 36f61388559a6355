"""Runs of a study that go to trackers, each when it is done."""

from __future__ import annotations

from collections.abc import Sequence

from colonnade.run.pool import OnDone, Trial
from colonnade.tracking.tracker import Tracker


def tracked(trackers: Sequence[Tracker], on_done: OnDone | None) -> OnDone | None:
    """Whom to tell of every run that ends, with the trackers among them.

    >>> tracked([], None) is None
    True
    """
    if not trackers:
        return on_done

    def told(trial: Trial) -> None:
        for each in trackers:
            each.replay(trial.job, trial.label, trial.history, trial.summary, trial.status)
        if on_done is not None:
            on_done(trial)

    return told
