"""Valid things that cross a link, and what becomes of them: for the fuzzers."""

from __future__ import annotations

import random
import struct

import torch

from colonnade.compress import Key, Occasion, half, lattice, plain, scalar, topk
from colonnade.net.session import LAST, PROTOCOL, Kind, Segment
from colonnade.wire.codec import Codec
from colonnade.wire.messages import (
    MESSAGES,
    Answer,
    Barrier,
    BlindedIds,
    BlindedPoints,
    Buffer,
    Calibrate,
    CipherKey,
    CommonTags,
    Components,
    Declined,
    Echo,
    Embedding,
    Evaluate,
    EvaluatedIds,
    EvaluatedPoints,
    EvaluationEmbedding,
    Failure,
    Finish,
    Gradient,
    Hello,
    Introduction,
    Labels,
    Leave,
    Masked,
    MaskKey,
    MaskTable,
    Message,
    Opened,
    Packed,
    Probe,
    Query,
    Setting,
    Snapshot,
    Status,
    Terms,
    TransferKey,
    Upload,
    Welcome,
)

EDGES = (0, 1, 2, 3, 7, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 64) - 1)
BITS = {"kind": 8, "flags": 8, "generation": 32, "total": 32}
"""Of the fields that have not 64."""
SEALED = (BlindedPoints, EvaluatedPoints, MaskTable, CommonTags)
FIELDS = ("kind", "generation", "number", "acknowledged", "flags", "total", "offset")


def tensors(rows: int = 8, width: int = 4, dtype: torch.dtype = torch.float64) -> list[Packed]:
    """One tensor in every encoding."""
    key, tensor = Key(0, "p2", "embedding"), torch.linspace(-1, 2, rows * width, dtype=dtype)
    encodings = (plain(), half(), scalar(4), scalar(3, dither=True), lattice(4), topk(2))
    return [
        encoding.encoder(key).encode(tensor.view(rows, width), Occasion(1))
        for encoding in encodings
    ]


def messages(hello: Hello) -> list[Message]:
    """One message of every kind, and one embedding in every encoding."""
    found = [
        hello,
        *(Embedding(0, tensor) for tensor in tensors()),
        Embedding(1, tensors()[0]),
        Gradient(0, tensors()[0]),
        EvaluationEmbedding(0, "test", 0, tensors()[0]),
        Upload(0, tensors()[0]),
        Status(0, 3),
        Calibrate(9),
        Probe(0, tensors()[0]),
        Echo(0, 1, 2, 3, tensors()[0]),
        Setting(4, 8),
        Labels(tensors()[0], (tensors()[0],)),
        Snapshot(0, ("p0", "p1"), tuple(tensors()[:2]), tuple(tensors()[2:])),
        Evaluate(0, 0, ("train", "test"), -1, -1),
        Barrier(5, "p2"),
        Leave(3, "tired"),
        MaskKey("p2", bytes(32), b"certificate", bytes(64)),
        CipherKey(Buffer(memoryview(bytes(48))), (Buffer(memoryview(bytes(64))),)),
        Failure("cannot"),
        Finish(3, 1, "target"),
        Terms({"seed": "1"}),
        Welcome("p1", hello.digest, 0, {"p0": 4, "p1": 4, "p2": 4}, task="binary", classes=2),
        Introduction("p2", 100, bytes(32), bytes(16), b"certificate", bytes(64), "digits"),
        *(kind("p2", "p1", 0, bytes(48)) for kind in SEALED),
        *(kind(0, Buffer(memoryview(bytes(64)))) for kind in (BlindedIds, EvaluatedIds)),
        Query(0, "run-1", Buffer(memoryview(bytes(16))), Buffer(memoryview(b"")), False, 200),
        Answer(0, tensors()[0], Buffer(memoryview(bytes(1)))),
        Declined(0, "later"),
        TransferKey(bytes(9)),
        Components(0, 2 * (Buffer(memoryview(bytes(48))),)),
        *(kind(0, 1, (Buffer(memoryview(bytes(48))),)) for kind in (Masked, Opened)),
    ]
    assert {type(message) for message in found} == set(MESSAGES.values())
    return found


def frames(hello: Hello) -> list[bytes]:
    """Their frames, but of a party that says that it has failed: it ends the job, and may."""
    sent = [message for message in messages(hello) if not isinstance(message, Failure)]
    return [bytes(Codec().encode(message)) for message in sent]


class Mutator:
    """Draws segments that were valid once."""

    def __init__(self, seed: object, hello: Hello) -> None:
        self.random = random.Random(repr(seed))
        self._frames = frames(hello)

    def opening(self) -> list[bytes]:
        """What a party says that is as it should be: its Hello, and two embeddings."""
        return [self._frames[0], self._frames[1], self._frames[len(tensors()) + 1]]

    def segment(self, generation: int, number: int, incarnation: int) -> Segment:
        """A valid segment of a session, before it is spoilt."""
        draw = self.random.random()
        if draw < 0.75:
            data = self.frame()
            flags = LAST if draw < 0.03 else 0
            return Segment(Kind.DATA, generation, number, 0, flags, len(data), 0, data)
        if draw < 0.85:
            return Segment(Kind.ACK, generation)
        return self.random.choice(
            (
                Segment(Kind.JOIN, generation, incarnation, flags=PROTOCOL),
                Segment(Kind.OPEN, generation + 1, incarnation),
                Segment(Kind.WHO, generation),
                Segment(Kind.REFUSE, data=b"go away"),
                Segment(Kind.LEAVE, data=b"tired"),
                Segment(Kind.LEAVE, flags=1, data=b"the job is complete"),
            )
        )

    def frame(self) -> bytes:
        """A frame, mostly spoilt inside."""
        data = self.random.choice(self._frames)
        return data if self.random.random() < 0.2 else self.bytes(data)

    def spoil(self, segment: Segment) -> bytes:
        """The segment with a few of its fields, or of its bytes, changed."""
        draw = self.random.random()
        if draw < 0.3:
            return segment.encode()  # what is wrong with it is inside
        if draw < 0.65:
            for _ in range(self.random.randrange(1, 3)):
                field = self.random.choice(FIELDS)
                value = self.random.choice((*EDGES, self.random.getrandbits(16)))
                value %= 1 << BITS.get(field, 64)
                segment = segment._replace(**{field: value})
            return segment.encode()
        if draw < 0.95:
            return self.bytes(segment.encode())
        return self.random.randbytes(self.random.randrange(300))

    def bytes(self, raw: bytes) -> bytes:
        """Bits flipped, pieces cut, put in or overwritten with lengths."""
        spoilt = bytearray(raw)
        for _ in range(self.random.randrange(1, 5)):
            place = self.random.randrange(len(spoilt) + 1)
            how = self.random.randrange(6)
            if how == 0 and spoilt:
                spoilt[min(place, len(spoilt) - 1)] ^= 1 << self.random.randrange(8)
            elif how == 1:
                del spoilt[place:]
            elif how == 2:
                del spoilt[place : place + self.random.randrange(9)]
            elif how == 3:
                spoilt[place:place] = self.random.randbytes(self.random.randrange(1, 9))
            elif how == 4 and place + 4 <= len(spoilt):
                word = self.random.choice(EDGES) % (1 << 32)
                struct.pack_into("<I", spoilt, place, word)
            elif how == 5 and place + 8 <= len(spoilt):
                struct.pack_into("<Q", spoilt, place, self.random.choice(EDGES))
        return bytes(spoilt)
