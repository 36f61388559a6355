"""Messages to bytes and back.

A frame is a prefix of 16 bytes, a msgpack header, padding to a multiple of 16, and the raw
buffers of the message's tensors, each begun at a multiple of 16:

    2 bytes  magic "CO"       1 byte  protocol version     1 byte  kind of message
    4 bytes  header length    8 bytes payload length       (little endian)

Encoding copies the tensor once; decoding does not copy it at all. Everything a frame claims of
itself is checked against its true length and the receiver's limits before it is believed.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from colonnade.errors import WireError
from colonnade.wire.messages import MESSAGES, Buffer, Message, Packed

MAGIC = b"CO"
VERSION = 2
ALIGN = 16
ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "uint8": 1,
}
DIMENSIONS_MAX = 8
HEADER_BYTES_MAX = 65_536
_TYPE_CHARS_MAX = 40
MESSAGE_BYTES_MAX = 256 * 2**20

_PREFIX = struct.Struct("<2sBBIQ")
PREFIX_BYTES = _PREFIX.size
_PADDING = bytes(ALIGN)


class Codec:
    """Encodes and decodes messages; one to a party, because it holds a limit and scratch state.

    >>> from colonnade.wire.messages import Finish
    >>> codec = Codec()
    >>> codec.decode(codec.encode(Finish(round=3, best=1, reason="target")))
    Finish(round=3, best=1, reason='target', fault=None)
    """

    def __init__(self, message_bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self.message_bytes_max = message_bytes_max
        self._outgoing: list[memoryview] = []
        self._incoming = memoryview(b"")
        self._taken = 0
        self._believed: tuple[str, str, tuple[int, ...], int] | None = None
        """What the last tensor claimed to be and was: mostly the next one claims the same."""
        self._encode = msgspec.msgpack.Encoder(enc_hook=self._put).encode
        self._decode = {
            kind: msgspec.msgpack.Decoder(message, dec_hook=self._take).decode
            for kind, message in MESSAGES.items()
        }

    def _put(self, item: Any) -> int:
        assert isinstance(item, Buffer), f"{type(item).__name__} cannot cross the wire"
        view = item.view
        self._outgoing.append(view)
        return view.nbytes

    def _take(self, wanted: type, size: Any) -> Buffer:
        start = self._taken + -self._taken % ALIGN
        left = max(self._incoming.nbytes - start, 0)
        if type(size) is not int or not 0 <= size <= left:
            raise WireError(
                f"the header announces a tensor of {size} bytes, the frame carries {left}"
            )
        if size:
            self._taken = start + size
        return Buffer(self._incoming[start : start + size])

    def encode(self, message: Message) -> bytearray:
        """The frame of a message."""
        self._outgoing.clear()
        header = self._encode(message)
        written = len(header)
        assert written <= HEADER_BYTES_MAX
        parts: list[bytes | memoryview] = [b"", header]
        size = 0
        for view in self._outgoing:
            if nbytes := view.nbytes:
                padding = -written % ALIGN
                parts += (_PADDING[:padding], view)
                # The padding before the first tensor is the header's.
                size += padding + nbytes if size else nbytes
                written = size
        parts[0] = _PREFIX.pack(MAGIC, VERSION, message.KIND, len(header), size)
        return bytearray().join(parts)

    def decode(self, frame: bytearray | memoryview) -> Message:
        """The message of a frame; its tensor is a view into the frame."""
        header, payload, kind = self._parts(memoryview(frame))
        self._incoming, self._taken = payload, 0
        try:
            message = self._decode[kind](header)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise WireError(
                f"{MESSAGES[kind].__name__}: the header does not fit its kind: {error}"
            ) from None
        for tensor in message.packed():
            claim = (tensor.codec, tensor.dtype, tensor.shape, tensor.data.view.nbytes)
            if claim != self._believed:
                _check_tensor(tensor, self.message_bytes_max)
                self._believed = claim
        if self._taken != payload.nbytes:
            raise WireError(
                f"{MESSAGES[kind].__name__}: the frame carries {payload.nbytes - self._taken} "
                "bytes it has no use for"
            )
        return message

    def _parts(self, view: memoryview) -> tuple[memoryview, memoryview, int]:
        size = view.nbytes
        if size < PREFIX_BYTES:
            raise WireError(f"a frame of {size} bytes is shorter than the prefix of {PREFIX_BYTES}")
        magic, version, kind, header_bytes, payload_bytes = _PREFIX.unpack_from(view)
        if magic != MAGIC:
            raise WireError("these bytes are not Colonnade's: the frame begins with another mark")
        if version != VERSION:
            raise WireError(
                f"the frame has protocol version {version}, this party speaks {VERSION}: "
                "install the same release at all parties"
            )
        if kind not in MESSAGES:
            raise WireError(f"a frame of unknown kind {kind}")
        if header_bytes > HEADER_BYTES_MAX or payload_bytes > self.message_bytes_max:
            raise WireError(
                f"{MESSAGES[kind].__name__}: a message of {header_bytes} + {payload_bytes} bytes "
                f"is over the limit of {self.message_bytes_max}: raise limits.message_bytes if it "
                "is meant"
            )
        end = start = PREFIX_BYTES + header_bytes
        if payload_bytes:
            start += -header_bytes % ALIGN
        if size != start + payload_bytes:
            raise WireError(
                f"a frame of {size} bytes should have {start + payload_bytes}: "
                "it was cut or has more behind it"
            )
        return view[PREFIX_BYTES:end], view[start:], kind


def _check_tensor(tensor: Packed, bytes_max: int) -> None:
    """Judge what a tensor claims to be, before anybody allocates it."""
    item = ITEM_BYTES.get(tensor.dtype)
    if item is None:
        found = repr(tensor.dtype[:_TYPE_CHARS_MAX])
        raise WireError(f"a tensor of type {found}: allowed are {', '.join(ITEM_BYTES)}")
    if len(tensor.shape) > DIMENSIONS_MAX:
        raise WireError(
            f"a tensor of {len(tensor.shape)} dimensions, the limit is {DIMENSIONS_MAX}"
        )
    size = item
    for extent in tensor.shape:
        if extent < 0:
            raise WireError(f"a tensor of shape {tensor.shape}: no extent may be negative")
        # The other extents of an empty tensor are judged as well: they may be any number.
        size *= extent or 1
    if size > bytes_max:
        raise WireError(f"a tensor of {size} bytes when unpacked, the limit is {bytes_max}")
    if 0 in tensor.shape:
        size = 0
    if tensor.codec == "plain" and size != tensor.data.view.nbytes:
        raise WireError(
            f"a plain {tensor.dtype} tensor of shape {tensor.shape} has {size} bytes, "
            f"the frame carries {tensor.data.view.nbytes}"
        )
