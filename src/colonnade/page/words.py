"""A job and its method in plain words: a sentence for each policy axis, and a few for the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from colonnade.compress import Compress, plain
from colonnade.compress import describe as text_of
from colonnade.job.records import Job, Link, Steps
from colonnade.methods.method import AXES, Method, describe
from colonnade.protect.base import Protect
from colonnade.units import show_seconds

Say = Callable[[Any], str]


def _seconds(ns: int) -> str:
    return show_seconds(ns / 1e9)


def _repeat(policy: Any) -> str:
    if policy.updates == 1:
        return "Each exchange is used for one update, the fresh one."
    return f"Each exchange is used for {policy.updates} updates: a fresh one and local ones after."


def _workset(policy: Any) -> str:
    while_it_waits = " while it waits" if policy.overlap else ""
    return (
        f"A party goes on with local updates on its {policy.size} newest exchanges in turn"
        f"{while_it_waits}, {policy.updates} on each in all."
    )


def _while_waiting(policy: Any) -> str:
    fewer = ", fewer in later epochs" if policy.decay else ""
    return (
        "While the next reply is on its way, a party makes local updates on the newest exchange, "
        f"at most {policy.budget}{fewer}."
    )


def _compress(policy: Compress) -> str:
    roles = {field.name: getattr(policy, field.name) for field in fields(policy)}
    said = [f"{role} as {text_of(codec)}" for role, codec in roles.items() if codec != plain()]
    if not said:
        return "Tensors cross uncompressed, bit for bit."
    return f"Tensors are compressed: {', '.join(said)}."


def _protect(policy: Protect) -> str:
    said = [f"{what} by {text}" for what, text in policy.texts.items()]
    if not said:
        return "Nothing is hidden beyond what split training hides: no noise, masks or encryption."
    return f"Protected: {', '.join(said)}."


def _ema(policy: Any) -> str:
    return f"Evaluated and kept are the averaged weights of each party (decay {policy.decay:g})."


def _stale(policy: Any) -> str:
    shared = ", and updates on one exchange share it" if policy.share else ""
    return (
        "A party's learning rate falls with the staleness of its gradients, to half at "
        f"{policy.tau:g} updates behind{shared}."
    )


SENTENCES: dict[str, Say] = {
    "Gradients": lambda _: "Each passive party gets the gradient of its own embedding, no more.",
    "Snapshot": lambda _: (
        "Each passive party gets everybody's embeddings, the top model and the "
        "labels, and computes the loss itself."
    ),
    "Lockstep": lambda _: "A party sends one batch and waits for its reply before the next.",
    "Pipelined": lambda p: (
        f"Up to {p.most} exchanges are in flight at once, as many as the active party asks for."
    ),
    "Fixed": lambda p: f"Always {p.most} exchanges are in flight.",
    "BandwidthDelay": lambda p: (
        f"As many exchanges are in flight as fill the link, {p.most} at "
        f"most and no more than {p.share:.3g} of an epoch."
    ),
    "Everyone": lambda _: "The active party aggregates when all embeddings of a round are there.",
    "Anyone": lambda _: (
        "The active party aggregates as soon as one embedding is there, with what "
        "the others sent last."
    ),
    "Repeat": _repeat,
    "Workset": _workset,
    "WhileWaiting": _while_waiting,
    "Until": lambda p: (
        f"A party makes as many updates on an exchange as fit into {_seconds(p.timeout_ns)}."
    ),
    "Agreed": lambda p: (
        f"All parties make the same number of updates: what the "
        f"{'slowest' if p.choice == 'min' else 'fastest'} can in {_seconds(p.timeout_ns)}."
    ),
    "Deadline": lambda p: (
        "A party makes as many updates as fit before the common deadline, "
        f"{p.most} local ones at most."
    ),
    "Stash": lambda _: "A reply goes backward with the weights that made its embedding.",
    "Recompute": lambda _: (
        "A reply goes backward with the current weights, after a forward pass with them."
    ),
    "RecomputeIdle": lambda _: (
        "A reply goes backward with the current weights while the party has time for a forward "
        "pass with them, and otherwise with the weights that made its embedding."
    ),
    "Uniform": lambda _: "Stale rows count as much as fresh ones.",
    "Cosine": lambda p: (
        "In local updates each row counts by the cosine between what was exchanged "
        f"and what it would be now, and not at all below {p.threshold:g}."
    ),
    "CosineFresh": lambda p: (
        "In all stale updates each row counts by the cosine between what was "
        f"exchanged and what it would be now, and not at all below {p.threshold:g}."
    ),
    "Compensate": lambda _: (
        "In stale updates of passive parties each row counts the less, the more its loss has "
        "fallen since its gradient was computed."
    ),
    "Compress": _compress,
    "Constant": lambda _: "Learning rates are those of the parties' optimizers.",
    "InverseSqrt": lambda _: "Learning rates fall with the square root of the round.",
    "Inverse": lambda _: "Learning rates fall in inverse proportion to the round.",
    "SpeedAdaptive": lambda _: "A party that makes more updates in a round takes smaller steps.",
    "Stale": _stale,
    "Kept": lambda _: "Optimizers keep their momentum, however stale a gradient is.",
    "Shared": lambda _: "The staler a gradient, the less momentum is used with it.",
    "PlainStep": lambda _: "Optimizers apply gradients as they are.",
    "Proximal": lambda p: (
        f"Local updates are held near the weights that the round began with (μ = {p.mu:g})."
    ),
    "LocalMomentum": lambda p: (
        f"Updates have a momentum that begins anew in every round (ρ = {p.rho:g})."
    ),
    "Parallel": lambda _: (
        "Replies leave before the active party's own backward pass, so that all "
        "update at the same time."
    ),
    "Sequential": lambda _: "The active party updates first; replies leave after its last update.",
    "NoAverage": lambda _: "Evaluated and kept are the weights themselves, not their average.",
    "Ema": _ema,
    "Protect": _protect,
}
"""What each choice on an axis means, by the class of the policy."""


def composition(method: Method) -> list[dict[str, Any]]:
    """A sentence for each axis of a method, and whether plain split training does the same.

    >>> [row["axis"] for row in composition(Method()) if not row["neutral"]]
    []
    >>> composition(Method())[1]["sentence"]
    'A party sends one batch and waits for its reply before the next.'
    """
    neutral = Method()
    found = []
    for axis in AXES:
        policy = getattr(method, axis)
        say = SENTENCES.get(type(policy).__name__)
        found.append(
            {
                "axis": axis,
                "choice": describe(policy),
                "sentence": say(policy) if say is not None else f"{describe(policy)}.",
                "neutral": policy == getattr(neutral, axis),
            }
        )
    return found


def in_words(job: Job, is_simulated: bool = True) -> list[str]:
    """What a job is, in sentences; its [network] has no part in a run over a real one.

    >>> from colonnade.job import load
    >>> in_words(load("digits"))[0]
    'clinic holds the labels and leads; lab and insurer hold other columns of the same rows.'
    """
    passives = list(job.passives)
    holds = "holds" if len(passives) == 1 else "hold"
    train = job.train
    if train.rounds is not None:
        length = f"{train.rounds:,} rounds"
    else:
        length = f"{train.epochs or 10:,} epochs"
    ends = [length]
    if train.stop == "target" and train.target is not None:
        ends.append(f"or until the target of {train.target:g} is reached")
    if train.patience is not None:
        ends.append(f"or {train.patience} evaluations without a better one")
    labels = "stay with the active party" if train.labels == "private" else "are shown to all"
    return [
        f"{job.active} holds the labels and leads; {named(passives)} {holds} other columns of the "
        "same rows.",
        f"Training goes on for {', '.join(ends)}, in batches of {train.batch_size:,} rows.",
        f"Evaluated every {train.evaluate_every.removeprefix('1 ')}."
        if train.evaluate_every != "never"
        else "It is never evaluated.",
        f"{train.validation:.0%} of the rows choose the best round and {train.test:.0%} test it."
        if train.validation
        else "No validation rows are set aside: the best round is chosen on the test rows.",
        f"Labels {labels}.",
        *(_links(job) if is_simulated else []),
    ]


def _links(job: Job) -> list[str]:
    """What the simulator assumes; nothing where it assumes nothing."""
    own = {name: _link(job.network.of(name)) for name in job.passives}
    if not any(own.values()):
        return []
    said = set(own.values())
    if len(said) == 1:
        return [f"Simulated links: {said.pop()}."]
    each = "; ".join(f"{name} {text or 'without delay'}" for name, text in own.items())
    return [f"Simulated links: {each}."]


def _link(link: Link) -> str:
    said = []
    if link.latency != "0ms":
        said.append(f"{_step(link.latency)} one way")
    if link.bandwidth is not None:
        said.append(f"{_step(link.bandwidth)} each way")
    if link.jitter != "0ms":
        said.append(f"up to {link.jitter} of jitter")
    return ", ".join(said)


def _step(value: str | Steps) -> str:
    if isinstance(value, str):
        return value
    return ", then ".join(f"{quantity} from {time}" for time, quantity in value)


def named(names: list[str]) -> str:
    """Names as one says them.

    >>> named(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1] if names else "")))
