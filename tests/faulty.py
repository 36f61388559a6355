"""Extensions with a fault each, for the checks to find."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

import colonnade as cn
from colonnade.compress import DECODERS, decode, plain
from colonnade.compress.base import ANY, Stateless, finite_range
from colonnade.policies.local import LocalPolicy
from colonnade.wire.messages import Packed

calls = itertools.count()


@dataclass(frozen=True)
class Whim(LocalPolicy):
    """Counts how often it is asked."""

    keep: int = 1
    by_clock: ClassVar[bool] = False

    def next(self, view):
        return view.kept[-1] if view.kept and not next(calls) % 3 else None


@dataclass(frozen=True)
class Hurried(LocalPolicy):
    """Goes by the clock and denies it."""

    keep: int = 1
    by_clock: ClassVar[bool] = False

    def next(self, view):
        early = view.kept and view.kept[-1].updates < 3 and view.now_ns < 2 * 10**9
        return view.kept[-1] if early else None


@dataclass
class Loose(LocalPolicy):
    """Could be changed."""

    keep: int = 1

    def next(self, view):
        return None


@cn.extension("method")
def whim() -> cn.Method:
    return cn.Method(local=Whim())


@cn.extension("method")
def hurried() -> cn.Method:
    return cn.Method(local=Hurried())


@cn.extension("method")
def loose() -> cn.Method:
    return cn.Method(local=Loose())


@cn.extension("method")
def backwards(updates: int = 2) -> cn.Method:
    return cn.fedbcd(max(updates, 2))


@dataclass(frozen=True)
class Faulty:
    TAGS: ClassVar[tuple[str, ...]] = ("tests.faulty",)
    fault: str

    @property
    def text(self) -> str:
        return f"tests.faulty:faulty:{self.fault}"

    def encoder(self, key):
        return Writer(self.fault, key)


class Writer(Stateless):
    """Writes plain bytes and a byte of details, with a fault."""

    def __init__(self, fault, key):
        self.fault, self.key, self.count = fault, key, 0

    def encode(self, tensor, use=ANY):
        if self.fault != "careless":
            finite_range(tensor, self.key)
        self.count += 1
        own = plain().encode(tensor)
        details = bytes([next(calls) % 256 if self.fault == "random" else 7])
        if self.fault == "remembers":
            details = bytes([self.count])
        data = own.data
        if self.fault == "long" and tensor.numel() and tensor.max() > 100:
            details += b"!"
        return Packed("tests.faulty", own.dtype, own.shape, data, self.fault.encode() + details)


FAULTS = ("careless", "random", "remembers", "long")


def _decode(packed):
    fault = packed.details.decode(errors="replace")
    if fault.startswith("trusting"):
        return decode(Packed("plain", packed.dtype, packed.shape, packed.data)).float()
    size = packed.data.view.nbytes
    wanted = torch.empty(packed.shape, dtype=getattr(torch, packed.dtype), device="meta")
    if size != wanted.numel() * wanted.element_size() or not wanted.is_floating_point():
        raise cn.WireError("a tensor of another length")
    if len(packed.details) not in [len(each) + 1 for each in FAULTS if fault.startswith(each)]:
        raise cn.WireError("details of another length")
    return decode(Packed("plain", packed.dtype, packed.shape, packed.data))


DECODERS["tests.faulty"] = _decode


@cn.extension("encoding")
def faulty(fault: str) -> Faulty:
    return Faulty(fault)


class Centred(nn.Module):
    """Takes the mean over the rows."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, 4)

    def forward(self, x):
        return self.layer(x - x.mean(0))


class Unused(nn.Linear):
    """Has a weight that nothing depends on."""

    def __init__(self, width):
        super().__init__(width, 4)
        self.spare = nn.Parameter(torch.zeros(3))


class Hidden(nn.Module):
    """Has weights of which torch does not know."""

    def __init__(self, width):
        super().__init__()
        self.layer, self.table = nn.Linear(width, 4), torch.randn(4)

    def forward(self, x):
        return self.layer(x) * self.table.to(x)


@cn.extension("model")
def model(row_shape, fault: str) -> nn.Module:
    made = {"centred": Centred, "unused": Unused, "hidden": Hidden}
    if fault == "cube":
        return nn.Sequential(nn.Linear(row_shape[0], 4), nn.Unflatten(1, (2, 2)))
    return made[fault](row_shape[0])
