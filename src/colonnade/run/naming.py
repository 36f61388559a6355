"""What a job names is looked up before any data is read: methods, models, optimizers.

Reading a large table takes long, and a slip of the pen should not have to wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from colonnade import methods, models
from colonnade.errors import JobError
from colonnade.job.records import Job
from colonnade.learn.agreement import own_method
from colonnade.learn.optim import check_tables
from colonnade.methods.method import Method
from colonnade.models.top import find_init, find_top
from colonnade.protect.base import CipherProtection
from colonnade.record.table import toml_text


def check_names(
    job: Job,
    parties: Iterable[str] | None = None,
    *,
    ready: Iterable[str] = (),
    thorough: bool = True,
) -> Method:
    """The job's method, once everything is known that these parties (else all) would use.

    Models that are `ready`, by party and `"top"`, are not the job's to name. A check that is not
    `thorough` leaves out the values of options, for which torch has to load more.

    >>> from colonnade.job import load
    >>> check_names(load("digits", ["parties.lab.optimizer.name=adm"]))
    Traceback (most recent call last):
    colonnade.errors.JobError: parties.lab.optimizer: torch has no optimizer 'adm': did you mean \
'adam'?
    """
    chosen, made = list(job.parties if parties is None else parties), set(ready)
    method = methods.build(job.method)
    for name in chosen:
        own_method(method, job, name)
    if method.exchange.sends_snapshots and job.train.labels == "private":
        raise JobError(
            f"{method_name(job)} shows the labels to passive parties and train.labels is "
            "'private': choose exchange=gradients, or set train.labels = 'shared'"
        )
    _check_sum(job, method)
    needs_top = job.active in chosen or method.exchange.sends_snapshots
    if needs_top and "top" not in made:
        find_init(job.top)
        if job.top.kind == "module":
            find_top(job.top)
    for name in chosen:
        party, where = job.parties[name], f"parties.{name}"
        if name not in made:
            models.find(party.model, f"{where}.model")
        check_tables(party.optimizer, party.schedule, where, thorough)
        if name == job.active and job.top.optimizer is not None:
            check_tables(job.top.optimizer, None, "top", thorough)
    return method


def _check_sum(job: Job, method: Method) -> None:
    """Masks need a sum, and somebody to hide among."""
    if method.protect.sum is None:
        return
    # A cipher brings a sum along that nobody has written down.
    encrypts = method.protect.cipher is not None
    setting = "method.protect.cipher" if encrypts else "method.protect.sum"
    if job.top.kind != "agg":
        layers = "without top.hidden" if encrypts else "with top.hidden for layers after the sum"
        raise JobError(
            f"with {setting} the active party needs no more than the sum of the embeddings, and "
            f"top.kind is '{job.top.kind}', which needs them one by one: set top.kind = 'agg', "
            f"{layers}"
        )
    if len(job.passives) < 2:
        raise JobError(
            f"with one passive party, {job.passives[0]}, the sum of the embeddings is its own, so "
            f"nothing would be hidden: leave out {setting}, or have two passive parties or more"
        )
    if method.protect.cipher is not None:
        _check_cipher(job, method.protect.cipher)


def _check_cipher(job: Job, cipher: CipherProtection) -> None:
    """Ciphertexts can be added up, and nothing else."""
    if len(job.passives) > cipher.parties_max:
        raise JobError(
            f"method.protect.cipher = '{cipher.text}' adds up {cipher.parties_max} embeddings at "
            f"most, and there are {len(job.passives)} passive parties: take paillier"
        )
    faults = {
        "top.hidden has layers": (bool(job.top.layers), "leave out top.hidden"),
        "train.class_weights weighs rows": (
            job.train.class_weights != "none",
            "leave out train.class_weights",
        ),
        "train.full_loss shows the active party the sums of training rows": (
            job.train.full_loss,
            "leave out train.full_loss",
        ),
    }
    for fault, (found, cure) in faults.items():
        if found:
            raise JobError(
                "method.protect.cipher lets the active party add up embeddings that it cannot "
                f"read, and {fault}: {cure}, or method.protect.cipher"
            )


def method_name(job: Job) -> str:
    """The job's method and its options, to tell it from others in a comparison.

    >>> from colonnade.job import load
    >>> method_name(load("digits", method="fedbcd:updates=2"))
    'fedbcd:updates=2'
    """
    return method_text(job.method)


def method_text(table: Mapping[str, Any]) -> str:
    """A method's table as a command line names it; the inverse of `parse_method`.

    >>> method_text({"name": "fedbcd", "updates": 5})
    'fedbcd:updates=5'
    """
    options = (
        f":{key}={value if isinstance(value, str) else toml_text(value)}"
        for key, value in table.items()
        if key != "name"
    )
    return str(table.get("name", "fedsgd")) + "".join(options)
