"""Every message that parties exchange. Nothing else ever leaves a party.

A message is a frozen record. Its `KIND` is the byte that names it on the wire, and `PURPOSE`
says under which heading the ledger counts it: *alignment* finds the common rows, *training* bytes
make progress, *evaluation* bytes only measure it, *prediction* bytes score rows with what was
learnt, *control* bytes start and end a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import msgspec

from colonnade.wire.fault import Fault

Purpose = Literal["alignment", "training", "evaluation", "prediction", "control"]

UPDATES_MAX = 100_000
"""The most updates on one exchange that a party may speak of."""
TIME_NS_MAX = 10**15
"""The longest time that a party may speak of: eleven days."""
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=TIME_NS_MAX)]
"""A time that a party has measured."""


class Buffer:
    """Raw bytes that travel behind the header of a message, never inside it."""

    __slots__ = ("view",)

    def __init__(self, view: memoryview) -> None:
        self.view = view

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Buffer) and self.view.tobytes() == other.view.tobytes()

    def __hash__(self) -> int:
        return hash(self.view.tobytes())


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """A tensor as an encoding wrote it; a receiver needs nothing else to read it."""

    codec: str
    """Which decoder reads the buffer."""
    dtype: str
    """The element type of the tensor that comes out."""
    shape: tuple[int, ...]
    """The shape of the tensor that comes out."""
    data: Buffer
    """The codec's bytes."""
    details: bytes = b""
    """What the decoder must know beside dtype and shape; empty for a plain tensor."""


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The common shape of all messages."""

    KIND: ClassVar[int]
    PURPOSE: ClassVar[Purpose]
    """Without a default: every policy lets *control* through, so nothing is that by omission."""

    def packed(self) -> Sequence[Packed]:
        """The tensors that the message carries."""
        return ()


class Control(Message, frozen=True):
    """A message that only starts, pauses or ends a job, and carries nothing of the data."""

    PURPOSE = "control"


class TensorMessage(Message, frozen=True):
    """A message with one tensor."""

    def packed(self) -> Sequence[Packed]:
        tensor: Packed = self.tensor  # type: ignore[attr-defined]
        return (tensor,)


class Hello(Control, frozen=True):
    """The first message of a party: what it believes the job to be."""

    KIND = 1
    party: str
    """The sender's name."""
    digest: str
    """The digest of the job's common part; parties whose digests differ do not train."""
    rows: int
    """How many training rows the sender has."""
    test_rows: int
    """How many test rows the sender has."""
    width: int
    """How wide the sender's embedding is; 0 for a party that sends none."""
    fingerprint: str = ""
    """Of the row ids in their order, under the job's seed; only compared, never read."""
    run: str = ""
    """The run in which the sender has taken part; empty for none."""
    checkpoints: dict[int, str] = {}
    """The rounds from which it can go on, each with the attempt at the run that reached it."""
    validation_rows: int = 0
    """How many validation rows the sender has."""


class Welcome(Control, frozen=True):
    """The active party's answer to everybody's Hello: all are here and mean the same job."""

    KIND = 12
    party: str
    """The sender's name."""
    digest: str
    """As in Hello."""
    start: int
    """The round to begin from: the newest that all have reached in the same attempt."""
    widths: dict[str, int]
    """How wide every party's embedding is."""
    run: str = ""
    """Which run this is."""
    attempt: str = ""
    """The mark of what is reached from here on."""
    task: str = ""
    """What kind of labels there are: a party that computes the loss must know."""
    classes: int = 0
    """How many classes there are."""
    class_weights: tuple[float, ...] = ()
    """How much the rows of each class count, where they do not all count the same."""


class Terms(Control, frozen=True):
    """What the sender believes the job to be, field by field; sent when the digests differ."""

    KIND = 13
    fields: dict[str, str]
    """The value of each field as JSON, by its path."""


class Barrier(Control, frozen=True):
    """Stop when nothing is in flight, and save. From the active party: at which round; from a
    passive one, where rounds are its own: it has. Between two programs: go on."""

    KIND = 14
    round: int
    """The name of the checkpoint; where all go through the same rounds, the round to stop at."""
    leaving: str = ""
    """Who stops there, as planned."""


class Leave(Control, frozen=True):
    """The sender wants to stop; the active party answers with a Barrier."""

    KIND = 15
    round: int
    """The round of the embedding that follows."""
    reason: str
    """Why, for the log."""


class MaskKey(Control, frozen=True):
    """With which key a passive party makes masks with others, in this attempt; the active party
    hands it on to all the others, and can neither change it nor use it."""

    KIND = 26
    party: str
    """Whose key this is."""
    key: bytes
    """Its public key (X25519), drawn anew each time that the parties begin."""
    certificate: bytes
    """As in Introduction."""
    signature: bytes
    """Over all of this, the job, the run and the attempt at it."""


class CipherKey(Control, frozen=True):
    """The key under which the passive parties encrypt in this attempt, from the first of them; the
    active party hands it on to the others. It can add up what is under it, and read nothing."""

    KIND = 27
    public: Buffer
    """What it takes to add up ciphertexts."""
    boxes: tuple[Buffer, ...]
    """For each other passive party, in the order of the job: the private key, encrypted for it and
    authenticated, with the public one."""


class Embedding(TensorMessage, frozen=True):
    """A passive party's output for one mini-batch, sent up."""

    KIND = 2
    PURPOSE = "training"
    round: int
    """Which batch of the common order this is, counted from 0."""
    tensor: Packed
    """One row for each row of the batch."""


class Gradient(TensorMessage, frozen=True):
    """The derivative of the loss by a passive party's embedding, sent down."""

    KIND = 3
    PURPOSE = "training"
    round: int
    """The round of the embedding that this answers."""
    tensor: Packed
    """The shape of that embedding."""
    signal: int = 0
    """Of the window policy: one more (1) or one fewer (-1) exchange in flight, or how many."""


class Snapshot(Message, frozen=True):
    """Everybody else's embeddings of a round and the top model: what a party needs, with the
    labels, to compute the loss by itself."""

    KIND = 8
    PURPOSE = "training"
    round: int
    """The round of the embedding that this answers."""
    parties: tuple[str, ...]
    """Whose embeddings follow, in the order of the job."""
    embeddings: tuple[Packed, ...]
    """One for each of those parties."""
    top: tuple[Packed, ...]
    """The top model's parameters, in its own order."""
    signal: int = 0
    """As in Gradient."""

    def packed(self) -> Sequence[Packed]:
        return (*self.embeddings, *self.top)


class Upload(TensorMessage, frozen=True):
    """A passive party's embeddings of some training rows, before the first round."""

    KIND = 11
    PURPOSE = "training"
    start: int
    """The first of these rows."""
    tensor: Packed
    """One row for each of them."""


class Status(Message, frozen=True):
    """How many updates fit into the time that the job gives for them."""

    KIND = 10
    PURPOSE = "training"
    round: int
    """The round of the embedding or reply that follows."""
    updates: Annotated[int, msgspec.Meta(ge=1, le=UPDATES_MAX)]
    """From a passive party what it could do; from the active party what all are to do."""


class Calibrate(Message, frozen=True):
    """Stop when so many rounds are done and nothing is in flight: the lines are measured, and what
    the job leaves open is chosen anew."""

    KIND = 28
    PURPOSE = "training"
    round: int
    """The round to stop at."""


class Probe(TensorMessage, frozen=True):
    """One of a few messages that only show how long they take; sent down."""

    KIND = 29
    PURPOSE = "training"
    number: int
    """Which of them: the last two are long, and leave one right after the other."""
    tensor: Packed
    """Zeros."""


class Echo(TensorMessage, frozen=True):
    """The answer to a Probe, as long as that was; the two long ones leave one right after the other
    too."""

    KIND = 30
    PURPOSE = "training"
    number: int
    """Which probe this answers."""
    apart_ns: Nanoseconds
    """How long after the probe before it that one came; 0 for the short ones."""
    forward_ns: Nanoseconds
    """How long the sender takes for a forward pass of a batch."""
    backward_ns: Nanoseconds
    """How long it takes for a backward pass and a step."""
    tensor: Packed
    """Zeros."""


class Setting(Message, frozen=True):
    """What was chosen, within the bounds of the job; it holds from now on."""

    KIND = 31
    PURPOSE = "training"
    window: Annotated[int, msgspec.Meta(ge=0)]
    """How many exchanges may be in flight; 0 where the job leaves nothing open."""
    bits: Annotated[int, msgspec.Meta(ge=0)]
    """Of each component of an embedding; 0 where the job leaves nothing open."""


class Labels(Message, frozen=True):
    """The labels of the training rows, sent once and only where the job shares them."""

    KIND = 9
    PURPOSE = "training"
    labels: Packed
    """One label for each training row."""
    weights: tuple[Packed, ...]
    """How much each row counts; empty where all count the same."""

    def packed(self) -> Sequence[Packed]:
        return (self.labels, *self.weights)


class Evaluate(Message, frozen=True):
    """Asks a passive party for its embeddings of whole splits, with the weights of a round."""

    KIND = 4
    PURPOSE = "evaluation"
    round: int
    """The round of the job that is scored; for the test rows, the number after the last."""
    after: int
    """Answer when every update on this round of yours is done, and before any later one."""
    splits: tuple[Literal["train", "validation", "test"], ...]
    """Which rows are wanted: those of the job; at the end the test rows, by the best weights."""
    best: int
    """The best round among those scored so far, whose weights are to be kept; -1 for none."""
    scored: int
    """The last round that was scored: of the weights kept up to it only the best still count."""


class EvaluationEmbedding(TensorMessage, frozen=True):
    """One piece of a passive party's answer to Evaluate."""

    KIND = 5
    PURPOSE = "evaluation"
    round: int
    """The round of the Evaluate that this answers."""
    split: Literal["train", "validation", "test"]
    """Which rows these are."""
    start: int
    """The first row of this piece within the split."""
    tensor: Packed
    """One row for each row of the piece."""


class Finish(Control, frozen=True):
    """The job is over. A passive party answers when it is done, and sends nothing after that."""

    KIND = 6
    round: int
    """The last round that gets a reply: use it, and forget what was sent beyond it. In the answer
    the last round that was sent."""
    best: int
    """The round whose weights are the result; -1 when nothing was scored."""
    reason: str
    """Why the job ended: `end`, `target`, `patience` or `diverged`."""
    fault: Fault | None = None
    """What was wrong, where it diverged."""


class Failure(Control, frozen=True):
    """The sender cannot go on."""

    KIND = 7
    reason: str
    """One sentence for a person at the other end."""


class Introduction(Message, frozen=True):
    """Who takes part in an alignment, and with which key it can be written to; the active party
    hands it on to everybody."""

    KIND = 16
    PURPOSE = "alignment"
    party: str
    """Whose introduction this is."""
    size: int
    """How many ids it has."""
    key: bytes
    """Its public key (X25519)."""
    nonce: bytes
    """Drawn anew each time that the parties begin."""
    certificate: bytes
    """The certificate whose key has signed this, in PEM form, with those in between."""
    signature: bytes
    """Over all of this, the job, the run and the attempt at it."""
    shape: str = ""
    """What its ids look like, where it is willing to say."""


class Sealed(Message, frozen=True):
    """What one party of an alignment writes to another; the active party hands it on, and cannot
    read it."""

    PURPOSE = "alignment"
    sender: str
    """Who has written it."""
    to: str
    """Who can read it."""
    round: int
    """Which of the sender's messages of this kind to this party it is, counted from 0."""
    content: Buffer
    """Encrypted and authenticated, with all of the above."""


class BlindedPoints(Sealed, frozen=True):
    """Ids of the leading party, as points under blinds of their own."""

    KIND = 17


class EvaluatedPoints(Sealed, frozen=True):
    """The same points, multiplied by the sender's key."""

    KIND = 18


class MaskTable(Sealed, frozen=True):
    """A garbled table: what the leading party finds there for an id decides whether it is one of
    the sender's."""

    KIND = 19


class CommonTags(Sealed, frozen=True):
    """The ids that all parties have, in the common order, under the receiver's tags."""

    KIND = 20


class BlindedIds(Message, frozen=True):
    """Ids that the active party wants to score, as points under blinds of their own: who gets them
    learns nothing but how many they are."""

    KIND = 21
    PURPOSE = "prediction"
    number: int
    """Which question of the active party this is."""
    points: Buffer
    """32 bytes each."""


class EvaluatedIds(Message, frozen=True):
    """The same points, multiplied by the sender's key: unblinded, they give the tags under which it
    knows these ids, if it has them."""

    KIND = 22
    PURPOSE = "prediction"
    number: int
    """The question that this answers."""
    points: Buffer
    """As many as were asked for, in the same order."""


class Query(Message, frozen=True):
    """Asks a passive party for its embeddings of some rows, with a model that was trained."""

    KIND = 23
    PURPOSE = "prediction"
    number: int
    """Which question of the active party this is."""
    model: str
    """The version of the model."""
    places: Buffer
    """For each row its place in the order of the training, 8 bytes little endian; -1 where it is
    asked for by a tag."""
    tags: Buffer
    """16 bytes for each row that is asked for by a tag, in order."""
    mean: bool
    """Whether a row that the party lacks is to get the party's mean embedding."""
    within_ms: int
    """After so many milliseconds nobody needs the answer any more; 0 for no such limit."""


class Answer(TensorMessage, frozen=True):
    """A passive party's embeddings of the rows of a Query."""

    KIND = 24
    PURPOSE = "prediction"
    number: int
    """The question that this answers."""
    tensor: Packed
    """One row for each row that was asked for; zeros, or the mean, where the party lacks it."""
    lacking: Buffer
    """One bit for each row, the first in the lowest bit of the first byte: 1 where the party lacks
    it."""


class Declined(Message, frozen=True):
    """A passive party does not answer a question."""

    KIND = 25
    PURPOSE = "prediction"
    number: int
    """The question."""
    reason: str
    """One sentence for a person at the other end."""


class TransferKey(Message, frozen=True):
    """The public key under which the sender encrypts, in federated transfer learning."""

    KIND = 40
    PURPOSE = "training"
    key: bytes
    """Paillier's n and h."""


class Components(Message, frozen=True):
    """What the receiver's gradients are made of, under the sender's key."""

    KIND = 41
    PURPOSE = "training"
    round: int
    """The exchange, counted from 0."""
    tensors: tuple[Buffer, ...]
    """The ciphertexts of each component."""


class OfUpdate(Message, frozen=True):
    """What crosses for one update on an exchange, in federated transfer learning."""

    PURPOSE = "training"
    round: int
    """The exchange."""
    update: int
    """Which update on it, counted from 0."""
    tensors: tuple[Buffer, ...]
    """Ciphertexts, or the numbers that they hide."""


class Masked(OfUpdate, frozen=True):
    """The sender's gradients under the receiver's key and the sender's mask, to be decrypted."""

    KIND = 42


class Opened(OfUpdate, frozen=True):
    """The same, decrypted and still under the mask: as many numbers as there were ciphertexts."""

    KIND = 43


_CONTROL = (Hello, Welcome, Terms, Barrier, Leave, MaskKey, CipherKey, Finish, Failure)
_DATA = (
    *(Embedding, Gradient, Snapshot, Upload, Status, Labels, Evaluate, EvaluationEmbedding),
    *(Calibrate, Probe, Echo, Setting),
)
ALIGNMENT = (Introduction, BlindedPoints, EvaluatedPoints, MaskTable, CommonTags)
TRANSFER = (TransferKey, Components, Masked, Opened)
"""Of federated transfer learning."""
QUESTIONS, ANSWERS = (BlindedIds, Query), (EvaluatedIds, Answer, Declined)
"""Of a prediction: what the active party sends, and what it gets."""
MESSAGES: dict[int, type[Message]] = {
    message.KIND: message
    for message in (*_CONTROL, *_DATA, *ALIGNMENT, *TRANSFER, *QUESTIONS, *ANSWERS)
}
CONTROL = frozenset(message.__name__ for message in _CONTROL)
"""The names of the kinds without which no job can begin, pause or end."""
KINDS = frozenset(message.__name__ for message in MESSAGES.values())
"""The names of all kinds."""
