"""From a job to parties that are ready to run, whichever world they run in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from colonnade.data.party import PartyData, assemble, assemble_party
from colonnade.data.scale import remarks as remarks_on
from colonnade.data.vertical import VerticalData
from colonnade.errors import DataError, JobError, RequestError, nearest
from colonnade.job.policy import Policy
from colonnade.job.records import Job
from colonnade.learn.agreement import Agreement
from colonnade.learn.build import begun_top
from colonnade.learn.build import build_bottom as build_begun
from colonnade.learn.objective import Objective
from colonnade.learn.origin import Origin
from colonnade.learn.participant import DTYPES, Participant, build_bottom, secret_seed
from colonnade.methods.method import Method
from colonnade.models.top import build_top
from colonnade.party.kinds import training_kinds
from colonnade.policies.view import Role
from colonnade.protect.keys import Unsigned
from colonnade.protect.secret import Derived
from colonnade.record.sizes import Sizes
from colonnade.run.accounting import inherited, planned_epsilon
from colonnade.run.measuring import metrics_of
from colonnade.run.naming import check_names
from colonnade.run.protecting import check_batches, check_cipher, check_gradients, protected
from colonnade.run.releases import allowance

Parties = Mapping[str, Participant]
"""All parties of a job, where they are in one place."""


def prepare(
    job: Job,
    data: VerticalData | None = None,
    models: Mapping[str, nn.Module] | None = None,
    origins: Mapping[str, Origin] | None = None,
) -> dict[str, Participant]:
    """All parties of a job in one place: read the data, build or copy the models, and check that
    everything fits together; `origins` are the models of an earlier run that all begin with.

    >>> from colonnade.job import load
    >>> {name: party.width for name, party in prepare(load("digits")).items()}
    {'clinic': 16, 'lab': 16, 'insurer': 16}
    """
    modules, begun = dict(models or {}), dict(origins or {})
    method = check_names(job, ready=modules)
    if data is None and not names_data(job):
        raise DataError(
            "the job names no data: give each party a table, or set data to a data set; in Python, "
            "hand data to cn.simulate(job, cn.vertical(…))"
        )
    for name, origin in begun.items():
        origin.check_job(job, name, made=name in modules)
    learnt = {name: origin.learnt for name, origin in begun.items()}
    data = assemble(job, learnt) if data is None else data
    _check(job, data, modules)
    return {
        name: _ready(
            job,
            name,
            method,
            PartyData.of(data, name, job.active),
            modules.get(name),
            top=modules.get("top"),
            clocked=True,
            randomness=Derived(secret_seed(job, name)),
            credentials=Unsigned,
            origin=begun.get(name),
        )
        for name in job.parties
    }


def recording(parties: Parties, rounds: int | None) -> Parties:
    """The parties as they keep what crosses in the first rounds; None keeps nothing."""
    if rounds is None:
        return parties
    return {name: party.recording(rounds) for name, party in parties.items()}


def participant(
    job: Job,
    me: str,
    policy: Policy | None = None,
    origin: Origin | None = None,
    label_key: Callable[[], bytes] | None = None,
) -> Participant:
    """One party of a job: read its data, build its model, and check all that it alone can check;
    `origin` is the model of an earlier run that it begins with, `label_key` gives the key by which
    labels are drawn where the job protects them (by default one that nobody keeps).

    >>> from colonnade.job import load
    >>> participant(load("digits"), "lab").hello.width
    16
    """
    method, policy = check_names(job, [me]), policy or Policy()
    role = Role.ACTIVE if me == job.active else Role.PASSIVE
    sends, receives = training_kinds(method, job.train, role).names()
    if (refusal := policy.refuse_job(job, me, sends=sends, receives=receives)) is not None:
        raise RequestError(refusal)
    if origin is not None:
        origin.check_job(job, me)
    data = assemble_party(job, me, None if origin is None else origin.learnt)
    made = _ready(job, me, method, data, None, label_key=label_key, policy=policy, origin=origin)
    if not made.leads and made.model is None:
        raise JobError(f"{me} is passive and has no columns: give it some in its party file")
    if policy.epsilon_max is not None and inherited(made) == math.inf:
        raise RequestError(
            f"policy.epsilon_max is {policy.epsilon_max:g}, and the rows of the model "
            f"{made.parent} left without noise, or nobody counted how often: begin anew, without "
            "--from, or leave policy.epsilon_max out"
        )
    allowed = None if made.leads else allowance(made)
    refusal = policy.refuse_data(
        job.train,
        rows=made.data.train_count,
        rounds=made.agreement().view(me).rounds,
        width=made.width,
        in_flight=made.method.window.most,
        releases=0 if allowed is None else allowed.needed,
        evaluations=0 if allowed is None else allowed.evaluations,
        epsilon=planned_epsilon(made),
    )
    if refusal is not None:
        raise RequestError(refusal)
    return made


def _ready(
    job: Job,
    me: str,
    method: Method,
    data: PartyData,
    module: nn.Module | None,
    label_key: Callable[[], bytes] | None = None,
    **more: Any,
) -> Participant:
    check_batches(method, job.train)
    bottom = build_bottom(job, me, data, module)
    made = Participant(job, me, method, data, *bottom, module=module, **more)
    made.agreement().check_memory()
    if method.protect.labels is not None and data.labels is not None:
        key = (label_key or made.secret_bytes)()
        data = protected(data, method.protect.labels, key, made.agreement().schedule)
        made = replace(made, data=data)
    if made.origin is not None:
        made.origin.check_data(me, data, made.width)
        if made.model is not None:
            build_begun(made)
    if data.labels is None:
        return made
    assert data.task is not None and data.classes is not None
    labels = torch.as_tensor(data.labels.train)
    objective = Objective(job.train, data.task, data.classes, labels)
    check_gradients(method, data.task)
    check_cipher(made, objective)
    metrics = metrics_of(job.train, objective, data.labels, made.agreement().schedule)
    if made.origin is not None:
        # What does not fit is found here, and not when all others wait.
        present = {name: width for name, width in made.origin.card.widths.items() if width}
        begun_top(made, present, objective)
    return replace(made, objective=objective, metrics=tuple(metrics))


def active_of(parties: Parties) -> Participant:
    """The party that has the labels."""
    return next(party for party in parties.values() if party.leads)


def widths_of(parties: Parties) -> dict[str, int]:
    """How wide every party's embedding is."""
    return {name: party.width for name, party in parties.items()}


def sizes_of(parties: Parties) -> Sizes:
    """How large the tensors are that cross between parties that are ready."""
    active = active_of(parties)
    assert active.objective is not None
    agreement = active.agreement(widths_of(parties))
    return assumed_sizes(agreement, active.objective, active, active.top)


def assumed_sizes(
    agreement: Agreement, objective: Objective, me: Participant, top: nn.Module | None = None
) -> Sizes:
    """How large the tensors of a job are, as one party knows or assumes it; `top` is a ready-made
    top model."""
    whole, labels = objective.whole_labels, me.data.labels
    return replace(
        bare_sizes(agreement, objective.outputs, whole, top),
        weighted=labels is not None and labels.weights is not None,
        known=objective.known(me.data.fingerprint, agreement.method.exchange.sends_snapshots),
    )


def bare_sizes(
    agreement: Agreement, outputs: int, whole_labels: bool, top: nn.Module | None = None
) -> Sizes:
    """How large a job's tensors are, where nothing is known of its data; labels are `whole`
    numbers where there are several classes."""
    train, present = agreement.job.train, agreement.present
    if top is None and agreement.method.exchange.sends_snapshots:
        with torch.random.fork_rng(devices=[]):
            top = build_top(agreement.job.top, present, outputs)
    return Sizes(
        widths=present,
        rows=agreement.rows,
        dtype=DTYPES[train.dtype],
        top=[] if top is None else [tuple(each.shape) for each in top.parameters()],
        labels=torch.int64 if whole_labels else DTYPES[train.dtype],
        evaluates_plain=train.evaluate_plain,
    )


def remarks(parties: Parties) -> list[str]:
    """What a person should know of the data before it is trained on."""
    columns = {name: party.data.columns for name, party in parties.items()}
    active = active_of(parties)
    return remarks_on(columns, active.data.labels, active.job.parties)


def names_data(job: Job) -> bool:
    """Whether a job says where any of its rows come from."""
    return job.data is not None or any(
        party.table is not None or party.label is not None for party in job.parties.values()
    )


def _check(job: Job, data: VerticalData, modules: Mapping[str, nn.Module]) -> None:
    """What only shows when job, data and models are seen together."""
    for name in job.parties:
        if name not in data.features:
            hint = nearest(name, data.features)
            raise JobError(f"the job has a party '{name}' for which there are no columns: {hint}")
    positive = job.parties[job.active].positive
    if positive is not None and str(positive) not in data.labels.names[1:2]:
        raise JobError(
            f"parties.{job.active}.positive is {positive!r}, but in the data that is given the "
            f"classes are {', '.join(data.labels.names) or 'not named'}: give positive to "
            "cn.vertical instead"
        )
    for name in modules:
        if name != "top" and name not in job.parties:
            raise JobError(f"a model is given for '{name}', which is no party of the job")
    for name in job.passives:
        if data.features[name].train is None:
            raise JobError(f"{name} is passive and has no columns: give it some, or leave it out")
