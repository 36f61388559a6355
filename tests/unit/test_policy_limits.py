"""What a party's policy refuses before anything is sent: evaluations, ε, whom it is shown to."""

from __future__ import annotations

import math

import pytest

from colonnade.errors import JobError, RequestError
from colonnade.job import load
from colonnade.job.policy import Policy
from colonnade.protect.accountant import epsilon_of, mu
from colonnade.protect.embedding import gauss
from colonnade.run.accounting import planned, planned_epsilon
from colonnade.run.releases import allowance
from colonnade.run.setup import participant

NOISE = "method.protect.embedding=gauss:1:8"
SNAPSHOT = ["method.exchange=snapshot", "train.labels=shared"]


def job(*sets):
    return load("digits", ["train.epochs=3", *sets])


@pytest.mark.parametrize("field", ["epsilon_max", "gradient_norm_max"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_is_a_number_over_0(field, value):
    with pytest.raises(JobError, match=f"policy.{field} is .*: give a number over 0"):
        Policy(**{field: value})


def test_evaluations_max_is_1_or_more():
    with pytest.raises(JobError, match=r"policy.evaluations_max is 0: give 1 or more"):
        Policy(evaluations_max=0)


def test_a_job_that_evaluates_more_often_is_refused_beforehand():
    needed = allowance(participant(job(), "lab")).evaluations
    assert needed > 1
    participant(job(), "lab", Policy(evaluations_max=needed))
    with pytest.raises(RequestError, match=f"evaluations_max is {needed - 1} and the job needs"):
        participant(job(), "lab", Policy(evaluations_max=needed - 1))


def test_an_epsilon_that_the_plan_exceeds_is_refused_beforehand():
    me = participant(job(NOISE), "lab")
    times = planned(me.agreement(), "lab")
    assert planned_epsilon(me) == epsilon_of(mu(gauss(1, 8), times))
    participant(job(NOISE), "lab", Policy(epsilon_max=planned_epsilon(me)))
    with pytest.raises(RequestError, match=r"epsilon_max is 0.5 and .* would cost ε = "):
        participant(job(NOISE), "lab", Policy(epsilon_max=0.5))


def test_without_noise_no_epsilon_is_small_enough():
    assert planned_epsilon(participant(job(), "lab")) == math.inf
    with pytest.raises(RequestError, match="the job adds no noise to embeddings"):
        participant(job(), "lab", Policy(epsilon_max=1e6))


def test_what_never_leaves_costs_nothing():
    """The active party's own embeddings cross in snapshots only."""
    participant(job(), "clinic", Policy(epsilon_max=0.1))
    assert planned(participant(job(*SNAPSHOT), "clinic", LABELS).agreement(), "clinic") == 3


LABELS = Policy(shares_labels=True)


@pytest.mark.parametrize(
    ("sets", "times"),
    [
        ([], 3),  # every training row in three epochs
        (["train.full_loss=true"], 6),  # and in every evaluation
        (["train.evaluate_every=1 round"], 63),  # every validation row in every round
        (["train.evaluate_every=never"], 3),
        (["method.name=vafl", "method.start=upload"], 7),  # one party may do the others' rounds
    ],
)
def test_the_row_that_leaves_most_often_counts(sets, times):
    assert planned(participant(job(*sets), "lab").agreement(), "lab") == times


def test_a_snapshot_that_shows_my_embeddings_to_somebody_else_is_refused():
    only = Policy(shown_to=frozenset({"pharmacy"}))
    with pytest.raises(RequestError, match="shown_to does not list insurer, and a snapshot would"):
        participant(job(*SNAPSHOT), "lab", only)
    participant(job(*SNAPSHOT), "lab", Policy(shown_to=frozenset({"insurer"})))
    participant(job(), "lab", only), "gradients show nothing to other passive parties"


def test_an_active_party_says_too_who_is_shown_its_embeddings():
    shown = Policy(shown_to=frozenset({"lab"}), shares_labels=True)
    with pytest.raises(RequestError, match="shown_to does not list insurer"):
        participant(job(*SNAPSHOT), "clinic", shown)
