"""What a party is willing to do, whatever a job asks for (the `[policy]` table of a party file).

A job is judged twice before anything is sent: without the data, and again with it; and every
message once more as it goes out or comes in.
A refusal is a sentence that names the field of the policy and the cure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from colonnade.errors import nearest
from colonnade.job.records import Job
from colonnade.job.train import Record, Train, require
from colonnade.wire.messages import CONTROL, KINDS


class Policy(Record, frozen=True, kw_only=True):
    """A party's own limits on a job; what is not set is not limited.

    >>> Policy(kinds=frozenset({"Embedding"})).refuse("Embedding") is None
    True
    """

    kinds: frozenset[str] | None = None
    """The kinds of messages it is willing to send."""
    receive: frozenset[str] | None = None
    """The kinds of messages it is willing to take."""
    batch_min: int | None = None
    """The fewest rows in a batch, the last batch of an epoch included."""
    width_max: int | None = None
    """The widest embedding it gives."""
    rounds_max: int | None = None
    """The most rounds it takes part in."""
    in_flight_max: int | None = None
    """The most exchanges that a method may have in flight: a passive party keeps a forward pass of
    each, or a copy of its weights."""
    releases_max: int | None = None
    """The most batches of embeddings that leave a passive party, over all attempts and restarts;
    by default twice as many as the job needs, or more where returns to a checkpoint cost much."""
    evaluations_max: int | None = None
    """The most messages of evaluation embeddings that leave a passive party, over all attempts and
    restarts; by default as many times what the schedule has as of batches."""
    epsilon_max: float | None = None
    """The most ε of local differential privacy (δ = 10⁻⁵) that the embeddings of a row may cost,
    over all attempts and restarts, by the job's noise (`method.protect.embedding = "gauss:…"`), and
    by being scored afterwards: a job without noise is refused."""
    gradient_norm_max: float | None = None
    """The longest gradient of one row by which a passive party lets its model be moved."""
    shown_to: frozenset[str] | None = None
    """The passive parties that may be shown its embeddings, as a snapshot does."""
    peers: frozenset[str] | None = None
    """The parties with which it deals: every other party of the job must be one of them."""
    shares_labels: bool = False
    """Whether an active party is willing to send its labels to passive ones."""
    peer_ids_min: int | None = None
    """The fewest ids with which another party may take part in an alignment: who brings one id
    asks whether that one is here."""
    peer_ids_max: int | None = None
    """The most: who brings every id there is asks for the whole list."""
    peer_ids_ratio: float | None = None
    """The most ids of another party for each id of this one."""
    predict_rows_max: int | None = None
    """The most rows that a passive party scores with others, over all processes of a run folder."""
    predict_rows_per_minute: int | None = None
    """The most within a minute."""
    predict_ids: str | None = None
    """A file of the ids, one a line, that may be scored: all others are as if it did not have
    them."""
    oprf_evaluations_max: int | None = None
    """The most points that it evaluates for others under one key, over all restarts and updates of
    an alignment."""
    shares_id_shape: bool = False
    """Whether it is willing to say what its ids look like (lengths, digits, zeros in front), so
    that others can be told why nothing matches."""

    def __post_init__(self) -> None:
        for field in ("kinds", "receive"):
            for kind in getattr(self, field) or ():
                require(
                    kind in KINDS,
                    f"policy.{field} names no kind of message '{kind}': {nearest(kind, KINDS)}",
                )
        for field in (
            *("batch_min", "width_max", "rounds_max", "in_flight_max"),
            *("releases_max", "evaluations_max"),
            *("peer_ids_min", "peer_ids_max", "oprf_evaluations_max"),
            *("predict_rows_max", "predict_rows_per_minute"),
        ):
            value = getattr(self, field)
            require(value is None or value >= 1, f"policy.{field} is {value}: give 1 or more")
        for field in ("epsilon_max", "gradient_norm_max"):
            limit = getattr(self, field)
            require(
                limit is None or 0 < limit < math.inf,
                f"policy.{field} is {limit}: give a number over 0",
            )

    def refuse(self, kind: str) -> str | None:
        """Why a message of this kind is not sent; None if it may be.

        >>> Policy().refuse("Labels")
        "policy.shares_labels is false, so Labels may not be sent: set it to true in the party \
file, or choose a method with exchange = 'gradients'"
        """
        if kind == "Labels" and not self.shares_labels:
            return (
                "policy.shares_labels is false, so Labels may not be sent: set it to true in the "
                "party file, or choose a method with exchange = 'gradients'"
            )
        return _refuse(self.kinds, "kinds", kind, "sent")

    def refuse_received(self, kind: str) -> str | None:
        """Why a message of this kind is not taken; None if it may be.

        >>> Policy(receive=frozenset({"Gradient"})).refuse_received("Labels")
        'policy.receive does not list Labels, so it may not be received: add it there, or choose \
a job without it'
        """
        return _refuse(self.receive, "receive", kind, "received")

    def refuse_job(
        self,
        job: Job,
        me: str,
        *,
        sends: Iterable[str],
        receives: Iterable[str],
        trains: bool = True,
    ) -> str | None:
        """Why this party takes no part in a job, as far as that can be told without its data; None
        if it may. `sends` and `receives` are the kinds of messages that the job needs.

        >>> from colonnade.job import load
        >>> Policy(peers=frozenset({"clinic"})).refuse_job(
        ...     load("digits"), "lab", sends=[], receives=[]
        ... )
        'policy.peers does not list insurer, which takes part in the job: add it there, or stay \
out of this job'
        """
        others, sends, receives = [n for n in job.parties if n != me], [*sends], [*receives]
        strange = [name for name in others if self.peers is not None and name not in self.peers]
        if strange:
            return (
                f"policy.peers does not list {strange[0]}, which takes part in the job: "
                "add it there, or stay out of this job"
            )
        if self.shown_to is not None and "Snapshot" in sends + receives:
            curious = [name for name in others if name not in {*self.shown_to, job.active}]
            if curious:
                return (
                    f"policy.shown_to does not list {curious[0]}, and a snapshot would show it the "
                    f"embeddings of {me}: add it there, or choose exchange = 'gradients'"
                )
        least, size = self.batch_min or 1, job.train.batch_size
        if trains and size < least:
            return (
                f"policy.batch_min is {least} and train.batch_size {size}: raise the one in the "
                "job, or lower the other"
            )
        refusals = (*map(self.refuse, sends), *map(self.refuse_received, receives))
        return next(filter(None, refusals), None)

    def refuse_data(
        self,
        train: Train,
        *,
        rows: int,
        rounds: int,
        width: int,
        in_flight: int = 1,
        releases: int = 0,
        evaluations: int = 0,
        epsilon: float = 0.0,
    ) -> str | None:
        """Why this party takes no part with the data that it has; None if it does.

        It has so many training `rows`, an embedding of this `width`, would take part in so many
        `rounds` with up to so many of them `in_flight`, and release as many batches of embeddings
        and messages of `evaluations` if nothing goes wrong, for which noise leaves its rows an
        `epsilon`.

        >>> Policy(rounds_max=500).refuse_data(Train(), rows=1438, rounds=1840, width=16)
        'policy.rounds_max is 500 and the job has 1840 rounds: shorten the job, or raise \
policy.rounds_max'
        """
        least, last = self.batch_min or 1, rows % train.batch_size
        limits = (
            (
                0 < last < least and not train.drop_last,
                f"policy.batch_min is {least} and the last batch of an epoch has {last} rows: set "
                "train.drop_last = true in the job, or lower policy.batch_min",
            ),
            (
                _exceeds(width, self.width_max),
                f"policy.width_max is {self.width_max} and the embedding is {width} wide: "
                "choose a model with a narrower one, or raise policy.width_max",
            ),
            (
                _exceeds(rounds, self.rounds_max),
                f"policy.rounds_max is {self.rounds_max} and the job has {rounds} rounds: "
                "shorten the job, or raise policy.rounds_max",
            ),
            (
                _exceeds(in_flight, self.in_flight_max),
                f"policy.in_flight_max is {self.in_flight_max} and the method may have {in_flight} "
                "exchanges in flight: choose a smaller window in the job, or raise "
                "policy.in_flight_max",
            ),
            (
                _exceeds(releases, self.releases_max),
                f"policy.releases_max is {self.releases_max} and the job needs {releases} batches "
                "of embeddings: shorten the job, or raise policy.releases_max",
            ),
            (
                _exceeds(evaluations, self.evaluations_max),
                f"policy.evaluations_max is {self.evaluations_max} and the job needs {evaluations} "
                "messages of evaluation embeddings: evaluate more seldom (train.evaluate_every), "
                "or raise policy.evaluations_max",
            ),
            (
                self.epsilon_max is not None and epsilon == math.inf,
                f"policy.epsilon_max is {self.epsilon_max} and the job adds no noise to "
                "embeddings, so nothing bounds what they tell: set method.protect.embedding in the "
                "job, as in gauss:1:4, or leave policy.epsilon_max out",
            ),
            (
                self.epsilon_max is not None and epsilon > self.epsilon_max,
                f"policy.epsilon_max is {self.epsilon_max} and the embeddings of one row would "
                f"cost ε = {epsilon:.4g}: shorten the job, add more noise in "
                "method.protect.embedding, or raise policy.epsilon_max",
            ),
        )
        return next((sentence for refused, sentence in limits if refused), None)

    def refuse_ids(self, peer: str, theirs: int, mine: int) -> str | None:
        """Why this party does not look for common ids with another that has so many; None if it
        does.

        >>> Policy(peer_ids_min=100).refuse_ids("telco", 3, 5000)
        'policy.peer_ids_min is 100 and telco brings 3 ids: bring more, or lower it in the party \
file'
        """
        least, most, ratio = self.peer_ids_min, self.peer_ids_max, self.peer_ids_ratio
        if least is not None and theirs < least:
            limit, cure = f"peer_ids_min is {least:,}", "bring more, or lower it"
        elif most is not None and theirs > most:
            limit, cure = f"peer_ids_max is {most:,}", "bring fewer, or raise it"
        elif ratio is not None and theirs > ratio * mine:
            limit = f"peer_ids_ratio is {ratio:g}, which is {int(ratio * mine):,} ids here,"
            cure = "bring fewer, or raise it"
        else:
            return None
        return f"policy.{limit} and {peer} brings {theirs:,} ids: {cure} in the party file"


def _exceeds(value: int, most: int | None) -> bool:
    return most is not None and value > most


def _refuse(allowed: frozenset[str] | None, field: str, kind: str, done: str) -> str | None:
    if allowed is None or kind in allowed or kind in CONTROL:
        return None
    return (
        f"policy.{field} does not list {kind}, so it may not be {done}: "
        "add it there, or choose a job without it"
    )
