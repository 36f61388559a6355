"""Trees: what a checkpoint is made of, and how they are written.

A *tree* is made of dicts (keys are text or whole numbers), lists, tuples, None, bool, int, float,
str, bytes, memoryviews, tensors, numpy arrays, and records that were made known with `register`.
`encode` gives its structure as msgpack and its tensors beside it, for safetensors. `decode` is the
inverse and believes nothing: it may be given a damaged file.

torch is loaded when the first tensor is met: a program that has none does without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from colonnade.policies.view import Exchange, Path, Spare, Window
from colonnade.wire.messages import Buffer, Packed

if TYPE_CHECKING:
    import torch

Tree = Any
"""See above; a recursive type would say it to nobody but the type checker."""
Weights = dict[str, Any]
"""Tensors by parameter name."""

DEPTH_MAX = 64
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_DTYPE_NAMES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64"),
)
_ARRAYS = {np.dtype(name) for name in _DTYPE_NAMES}

_RECORDS: dict[str, tuple[Any, dict[str, Any]]] = {}
"""By name: the record, and what its fields are."""
_NAMES: dict[type, str] = {}


def register(kind: type, **fields: Any) -> None:
    """Let a record be part of a tree; `fields` are those that are saved, in order, with what each
    may be. The others have their defaults when it is read."""
    _RECORDS[kind.__name__] = kind, fields
    _NAMES[kind] = kind.__name__


register(Buffer, view=memoryview)
register(Packed, codec=str, dtype=str, shape=tuple, data=Buffer, details=bytes)
register(Window, size=int, previous=int)
register(Spare, again=bool, since=int, idle_ns=int, until=int)
register(
    Path,
    phase=str,
    way_ns=int,
    ways=dict,
    rate=float,
    **dict.fromkeys(("slower", "trips", "since", "until", "began_ns", "round_ns"), int),
    **dict.fromkeys(("waited_least", "waited_most", "windows", "before"), dict),
    trials=int,
)
register(
    Exchange,
    round=int,
    rows=np.ndarray,
    **dict.fromkeys(("forward", "gradient", "others", "answer", "packed"), object),
    replied_ns=int,
    forward_ns=int,
    completes=int | None,
    updates=int,
    agreed=int,
    sampled=int | None,
)


class StateError(ValueError):
    """Bytes that are no tree; the message is a clause that says why."""


def encode(tree: Tree) -> tuple[bytes, dict[str, torch.Tensor]]:
    """The structure, and the tensors by the names it has for them; they may share memory with the
    tree's, but not with one another.

    >>> import torch
    >>> structure, tensors = encode({"weights": torch.ones(2), 7: ("a", None)})
    >>> decode(structure, tensors)
    {'weights': tensor([1., 1.]), 7: ('a', None)}
    """
    writer = _Writer()
    return msgspec.msgpack.encode(writer.node(tree)), writer.tensors


class _Writer:
    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._memory: set[int] = set()

    def node(self, tree: Tree) -> Any:
        kind = type(tree)
        if tree is None or kind in (bool, float, str, bytes):
            return tree
        if kind is int:
            return tree if _INT_MIN <= tree <= _INT_MAX else ["int", _bytes(tree)]
        if kind in (list, tuple):
            return [kind.__name__, *map(self.node, tree)]
        if kind is dict:
            assert all(type(key) in (str, int) for key in tree), f"keys {list(tree)}"
            return ["dict", *(self.node(part) for item in tree.items() for part in item)]
        if kind is np.ndarray:
            return ["array", self._aside(_as_tensor(tree))]
        if kind is memoryview:
            return ["memory", self._aside(_as_tensor(np.array(tree.cast("B"))))]
        if kind not in _NAMES:
            assert _is_tensor(tree), f"a {kind.__name__} cannot be saved"
            return ["tensor", self._aside(tree)]
        name = _NAMES[kind]
        values = [getattr(tree, field) for field in _RECORDS[name][1]]
        assert _fits(values, name), f"an unusual {name} cannot be saved"
        return [name, *map(self.node, values)]

    def _aside(self, tensor: torch.Tensor) -> str:
        assert _is_plain(tensor), tensor.dtype
        held = tensor.detach().to("cpu").contiguous()
        address = held.untyped_storage().data_ptr()
        if held.numel() and address in self._memory:
            held = held.clone()
        self._memory.add(address)
        name = str(len(self.tensors))
        self.tensors[name] = held
        return name


def _is_tensor(tree: Tree) -> bool:
    import torch

    return isinstance(tree, torch.Tensor)


@cache
def _dtypes() -> set[torch.dtype]:
    import torch

    return {getattr(torch, name) for name in (*_DTYPE_NAMES, "bfloat16")}


def _is_plain(tensor: torch.Tensor) -> bool:
    import torch

    return tensor.layout is torch.strided and tensor.dtype in _dtypes()


def _bytes(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)


def _as_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    assert array.dtype in _ARRAYS, f"an array of {array.dtype} cannot be saved"
    import torch

    sound = array.flags.c_contiguous and array.flags.writeable
    return torch.from_numpy(array if sound else array.copy(order="C"))


def _fits(values: Sequence[Any], name: str) -> bool:
    kinds = _RECORDS[name][1].values()
    return len(values) == len(kinds) and all(map(isinstance, values, kinds))


def decode(structure: bytes, tensors: Mapping[str, torch.Tensor]) -> Tree:
    """The tree of a structure; its tensors are the ones given.

    >>> decode(b"", {})
    Traceback (most recent call last):
    colonnade.record.tree.StateError: its structure cannot be read
    """
    try:
        root = msgspec.msgpack.decode(structure)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        raise StateError("its structure cannot be read") from None
    return _read(root, tensors, 0)


def _read(node: Any, tensors: Mapping[str, torch.Tensor], depth: int) -> Tree:
    if node is None or isinstance(node, bool | int | float | str | bytes):
        return node
    if not isinstance(node, list) or not node or depth > DEPTH_MAX:
        raise StateError("its structure has a part that is no tree")
    tag, *parts = node
    if tag == "int" and len(parts) == 1 and isinstance(parts[0], bytes):
        return int.from_bytes(parts[0], "little", signed=True)
    if tag in ("tensor", "array", "memory"):
        return _leaf(tag, parts, tensors)
    values = [_read(part, tensors, depth + 1) for part in parts]
    if tag == "list":
        return values
    if tag == "tuple":
        return tuple(values)
    if tag == "dict" and not len(values) % 2 and {type(k) for k in values[::2]} <= {str, int}:
        return dict(zip(values[::2], values[1::2], strict=True))
    if not isinstance(tag, str) or tag not in _RECORDS or not _fits(values, tag):
        raise StateError("its structure has a part that is no tree")
    return _RECORDS[tag][0](*values)


def _leaf(tag: str, parts: list[Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    (name,) = parts if len(parts) == 1 else (None,)
    found = tensors.get(name) if isinstance(name, str) else None
    if found is None:
        raise StateError("one of its tensors is missing")
    if tag == "tensor":
        return found
    import torch

    wrong = found.dtype is torch.bfloat16 if tag == "array" else found.dtype is not torch.uint8
    if wrong:
        raise StateError(f"one of its tensors is of type {found.dtype}")
    array = found.numpy()
    return array if tag == "array" else array.reshape(-1).data


def moved(tree: Tree, device: torch.device | str, copy: bool = False) -> Tree:
    """A tree of the same values with its tensors, without their graphs, on a device.

    Dicts, lists and exchanges are new ones; with `copy`, so are all tensors and arrays.

    >>> import torch
    >>> before = [torch.zeros(1)]
    >>> after = moved(before, "cpu", copy=True)
    >>> before[0] += 1
    >>> after
    [tensor([0.])]
    """
    if _is_tensor(tree):
        return tree.detach().to(device, copy=copy)
    if isinstance(tree, np.ndarray):
        return tree.copy() if copy else tree
    if isinstance(tree, dict):
        return {key: moved(value, device, copy) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(moved(value, device, copy) for value in tree)
    if type(tree) in _NAMES and not isinstance(tree, Buffer | Packed):
        fields = _RECORDS[_NAMES[type(tree)]][1]
        change = msgspec.structs.replace if isinstance(tree, msgspec.Struct) else replace
        return change(tree, **{f: moved(getattr(tree, f), device, copy) for f in fields})
    return tree
