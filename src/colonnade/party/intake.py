"""What the active party takes in, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.errors import BreachError, PartyError
from colonnade.wire.messages import (
    Barrier,
    Embedding,
    EvaluationEmbedding,
    Failure,
    Finish,
    Leave,
    Message,
    Status,
    Upload,
)

if TYPE_CHECKING:
    from colonnade.party.active import Active


def accept(program: Active, sender: str, message: Message) -> None:
    """Take in a message, or refuse it with a sentence that names its sender."""
    if isinstance(message, Embedding):
        if message.round != program.view.arrived[sender] + 1:
            due = program.view.arrived[sender] + 1
            fault = f"{sender} sent round {message.round + 1} when round {due + 1} was due"
            raise BreachError(sender, fault)
        if message.round - program.view.answered[sender] > program.method.window.most:
            raise BreachError(
                sender,
                f"{sender} sent round {message.round + 1}, and {program.view.answered[sender] + 1} "
                f"have a reply: the method lets {program.method.window.most} be in flight",
            )
        if message.round >= program.checkpoint_rounds.next:
            program.rest.mark(sender, message)
        program.view.arrived[sender] = message.round
        program.inbox[sender, message.round] = message.tensor
    elif isinstance(message, Status) and program.method.local.reports:
        if message.round >= program.checkpoint_rounds.next:
            program.rest.mark(sender, message)
        most, due = program.method.local.updates_max, program.view.arrived[sender] + 1
        if message.updates > most or message.round != due:
            raise BreachError(
                sender,
                f"{sender} reported {message.updates} updates for round {message.round + 1}: "
                f"at most {most} fit into the method's timeout, and round {due + 1} is next",
            )
        program.view.reported[sender] = message.updates
    elif isinstance(message, Upload) and sender in program.uploads.missing():
        program.uploads.accept(sender, program.learner.take_upload(sender, message))
    elif isinstance(message, EvaluationEmbedding):
        program.evaluations.accept(sender, message)
    elif isinstance(message, Leave) and sender not in program.rest.leaving:
        if message.round >= program.checkpoint_rounds.next:
            program.rest.mark(sender, message)
        program.rest.leaving.append(sender)
    elif isinstance(message, Barrier):
        program.rest.accept(sender)
    elif isinstance(message, Finish) and sender in program.finishing:
        if message.round != (newest := program.view.arrived[sender]):
            fault = f"{sender} says that it sent {message.round + 1} rounds, and sent {newest + 1}"
            raise BreachError(sender, fault)
        program.finishing.remove(sender)
    elif isinstance(message, Failure):
        raise PartyError(f"{sender} failed: {message.reason}")
    else:
        fault = f"{sender} sent a message that is not due, of kind {type(message).__name__}"
        raise BreachError(sender, fault)


def waiting_for(program: Active) -> str:
    """For whom the active party waits, and for what."""
    if program.finishing:
        return f"{', '.join(sorted(program.finishing))}: to end the job too"
    if program.view.round == program.view.rounds or program.reason is not None:
        return f"{', '.join(program.evaluations.missing())}: evaluation embeddings"
    if late := program.uploads.missing():
        return f"{', '.join(late)}: the embeddings of all rows"
    if program.method.quorum.remembers:
        return f"{', '.join(program.world.peers)}: an embedding of any of them"
    late = [peer for peer, newest in program.view.arrived.items() if newest < program.view.round]
    if not late and program.evaluations.pending:
        return f"{', '.join(program.evaluations.missing())}: evaluation embeddings"
    if not late:
        resting = program.rest.missing() or program.world.peers
        return f"{', '.join(resting)}: to come to rest after round {program.view.round}"
    return f"{', '.join(late)}: the embedding of round {program.view.round + 1}"
