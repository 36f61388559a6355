"""How tensors are written into messages, by tensor role."""

from colonnade.compress.base import Compress, Encoding, Plain, decode, plain

__all__ = ["Compress", "Encoding", "Plain", "decode", "plain"]
