"""What a method tells whom, in one line, before anybody trains with it.

It follows from the method's policies and protections. The figures behind "nearly every" and "most"
are in `docs/methods/fedsgd.md`.
"""

from __future__ import annotations

from colonnade.job.records import Job
from colonnade.methods.method import Method
from colonnade.protect.embedding import DistanceCorrelation, Gauss


def what_it_tells(job: Job, method: Method) -> str:
    """What the parties of a job can learn of one another's labels and columns, and what would
    change it.

    >>> from colonnade import methods
    >>> from colonnade.job import load
    >>> job = load("digits", ["method.protect.labels=flip:2", "top.hidden=[]"])
    >>> print(what_it_tells(job, methods.build(job.method)))
    what others can learn: the gradients that lab and insurer receive tell them nearly every \
label, as flip:2 has left it; their embeddings tell clinic most of their columns, if it knows \
some rows; to reduce that: method.protect.embedding = "gauss:1:4", or a narrower embedding
    """
    learnt = (_of_labels(job, method), _of_columns(job, method))
    cures = _cures(method)
    said = f"what others can learn: {'; '.join(learnt)}"
    return f"{said}; to reduce that: {', or '.join(cures)}" if cures else said


def _of_labels(job: Job, method: Method) -> str:
    """What the passive parties learn of the labels."""
    passives, them = _names(job.passives), "them" if len(job.passives) > 1 else "it"
    flipped, noise = method.protect.labels, method.protect.gradient
    left = f", as {flipped.text} has left it" if flipped is not None else ""
    if method.exchange.sends_snapshots:
        verb = "are" if len(job.passives) > 1 else "is"
        return f"{passives} {verb} sent every label{left}, and the top model"
    receive = "receive" if len(job.passives) > 1 else "receives"
    through = ", through the top's hidden layers too," if job.top.layers else ""
    tell = f"tell {them} nearly every label{left}"
    if noise is not None:
        tell += f" ({noise.text} hides it in one round, not over many)"
    return f"the gradients that {passives} {receive}{through} {tell}"


def _of_columns(job: Job, method: Method) -> str:
    """What is learnt of columns, and by whom."""
    said = _shown(job, method)
    # The active party, whose embeddings a snapshot shows too, does not train under it.
    of = f" of the columns of {_names(job.passives)}" if method.exchange.sends_snapshots else ""
    for each in method.protect.embedding:
        if isinstance(each, DistanceCorrelation):
            lowers = f"{each.text} lowers what a linear inversion gets{of}"
            said += f" ({lowers}, and guarantees nothing)"
    return said


def _shown(job: Job, method: Method) -> str:
    """What embeddings tell, and whom, whatever lowers it without a guarantee."""
    their = "their" if len(job.passives) > 1 else "its"
    noises = [each.text for each in method.protect.embedding if isinstance(each, Gauss)]
    if method.exchange.sends_snapshots:
        shown = "everybody is shown everybody's embeddings, which tell"
        if noises:
            return f"{shown} of the columns what {'+'.join(noises)} lets through"
        return f"{shown} most of the columns to whoever knows some rows"
    whose = _names(job.passives)
    if method.protect.cipher is not None:
        return (
            f"{job.active} sees the sum of the embeddings of {whose} in evaluations, and nothing "
            f"of them in training, as long as none of them tells it the key"
        )
    if method.protect.sum is not None:
        return f"{job.active} sees the sum of the embeddings of {whose} and no single one"
    shown = f"{their} embeddings tell {job.active}"
    if noises:
        return f"{shown} of {their} columns what {'+'.join(noises)} lets through"
    return f"{shown} most of {their} columns, if it knows some rows"


def _cures(method: Method) -> list[str]:
    """Settings that would make others learn less, of those that are not chosen."""
    protect, found = method.protect, []
    if protect.labels is None:
        found.append('method.protect.labels = "flip:2"')
    hidden = protect.sum is not None
    if not hidden and not any(isinstance(each, Gauss) for each in protect.embedding):
        found += ['method.protect.embedding = "gauss:1:4"', "a narrower embedding"]
    if method.exchange.sends_snapshots:
        found.append('method.exchange = "gradients"')
    return found


def _names(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
