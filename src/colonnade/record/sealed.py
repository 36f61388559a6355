"""A checkpoint as bytes: whose it is, a party's state, and a seal that shows any damage.

    magic      8 bytes
    SHA-256    32 bytes, over all that follows
    lengths    of the three parts that follow, 4 + 8 + 8 bytes
    header     msgpack: format, job digest, party, round, run, attempt
    structure  msgpack: the tree, with names where its tensors belong
    tensors    safetensors

No part of it is believed before the seal is right.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from safetensors import SafetensorError, serialize

from colonnade.formats import FORMATS, check
from colonnade.record.tree import StateError, Tree, decode, encode

FORMAT = FORMATS["checkpoint"].version

_MAGIC = b"COLONNA\n"
_LENGTHS = struct.Struct("<IQQ")
_BODY = len(_MAGIC) + hashlib.sha256().digest_size
_HEADER_MAX = 65_536
_NO_TENSORS = serialize({})


class Header(msgspec.Struct, frozen=True):
    """Whose checkpoint it is."""

    format: int
    digest: str = ""
    """Of the job."""
    party: str = ""
    round: int = -1
    run: str = ""
    attempt: str = ""
    """Which of the run's attempts reached the round."""


def pack(header: Header, tree: Tree) -> list[bytes]:
    """A checkpoint in pieces, to be written one after the other.

    >>> unpack(b"".join(pack(Header(FORMAT, "d1", "bank", 80), {"round": 80})))
    (Header(format=3, digest='d1', party='bank', round=80, run='', attempt=''), {'round': 80})
    """
    structure, aside = encode(tree)
    head, tensors = msgspec.msgpack.encode(header), _save(aside)
    lengths = _LENGTHS.pack(len(head), len(structure), len(tensors))
    parts = [lengths, head, structure, tensors]
    checksum = hashlib.sha256()
    for part in parts:
        checksum.update(part)
    return [_MAGIC + checksum.digest(), *parts]


def unpack(data: bytes) -> tuple[Header, Tree]:
    """The header and the tree of a checkpoint; a StateError says what is wrong with it."""
    body = memoryview(data)[_BODY:]
    _judge(data[:_BODY], hashlib.sha256(body).digest())
    header, start, middle, end = _read_header(body)
    if end != len(body):
        raise StateError("its parts do not make up the whole")
    try:
        tensors = _load(bytes(body[middle:]))
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, AssertionError):
        raise StateError("its tensors cannot be read") from None
    return header, decode(bytes(body[start:middle]), tensors)


# torch is large and slow to load, and a program without tensors has no other use for it.


def _save(tensors: Mapping[str, Any]) -> bytes:
    if not tensors:
        return _NO_TENSORS
    from safetensors.torch import save

    return save(dict(tensors))


def _load(data: bytes) -> dict[str, Any]:
    if data == _NO_TENSORS:
        return {}
    from safetensors.torch import load

    return load(data)


def _judge(top: bytes, checksum: bytes) -> None:
    if len(top) < _BODY or not top.startswith(_MAGIC):
        raise StateError("it does not begin as a checkpoint does")
    if top[len(_MAGIC) :] != checksum:
        raise StateError("its checksum differs")


def _read_header(body: bytes | memoryview) -> tuple[Header, int, int, int]:
    """The header, where the structure and the tensors begin, and where they end."""
    try:
        head, structure, tensors = _LENGTHS.unpack_from(body)
        start = _LENGTHS.size + head
        header = msgspec.msgpack.decode(body[_LENGTHS.size : start], type=Header)
    except (struct.error, msgspec.MsgspecError, ValueError):
        raise StateError("its header cannot be read") from None
    return header, start, start + structure, start + structure + tensors


class _Stamped(msgspec.Struct, frozen=True):
    format: Any = None


def _format_of(body: bytes) -> Any:
    """What a header says of its format, whatever else it says; our own where there is no header, so
    that reading it shows what is wrong."""
    try:
        head = _LENGTHS.unpack_from(body)[0]
        return msgspec.msgpack.decode(body[_LENGTHS.size :][:head], type=_Stamped).format
    except (struct.error, msgspec.MsgspecError, ValueError):
        return FORMAT


def inspect(path: Path, round: int) -> tuple[Header | None, str]:
    """The header of a sound checkpoint; else None, and what is wrong with it. One of a format that
    is not read here is refused."""
    try:
        with path.open("rb") as file:
            top = file.read(_BODY)
            _judge(top, hashlib.file_digest(file, "sha256").digest())
            file.seek(_BODY)
            content = file.read(_HEADER_MAX)
            check("checkpoint", _format_of(content), path)
            header = _read_header(content)[0]
    except StateError as error:
        return None, str(error)
    return (header, "") if header.round == round else (None, f"it is of round {header.round}")
