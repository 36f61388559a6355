"""A party that is ready to take part, in whichever world: all that it alone knows."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from colonnade import models
from colonnade.data.layout import Input, expanded, is_plain
from colonnade.data.party import PartyData, takes_codes
from colonnade.data.splits import SPLITS, Split
from colonnade.errors import JobError
from colonnade.job.policy import Policy
from colonnade.job.records import Job, Party
from colonnade.learn.agreement import Agreement
from colonnade.learn.objective import Objective
from colonnade.learn.origin import Origin
from colonnade.learn.trainer import evaluating
from colonnade.methods.method import Method
from colonnade.models.front import Front, Fronted
from colonnade.protect.keys import Credentials
from colonnade.protect.secret import KEY_BYTES, Randomness, Secret
from colonnade.record.metrics import Metric
from colonnade.record.traffic import EVERYBODY, Recorder
from colonnade.wire.messages import Hello

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def secret_seed(job: Job, name: str) -> int:
    """A party's own seed; derived from the job's where a party has none (simulations only)."""
    own = job.parties[name].seed
    if own is not None:
        return own
    text = f"{job.seed}/{name}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "little")


@dataclass(frozen=True, eq=False)
class Participant:
    """What a party knows before it has met the others; `agreement` is what follows when it has."""

    job: Job
    """With what is private to the party."""
    me: str
    method: Method
    data: PartyData
    model: Callable[[], nn.Module] | None
    """Makes the bottom model with its initial weights; None for a label-only party."""
    features: Mapping[Split, torch.Tensor] | None
    """Its columns, on its device."""
    width: int
    """Of its embedding; 0 for a label-only party."""
    device: torch.device
    objective: Objective | None = None
    """Of the active party; a passive one hears of it, where it needs to know."""
    metrics: tuple[Metric, ...] = ()
    """Of the active party; the first is for choices."""
    policy: Policy = field(default_factory=Policy)
    module: nn.Module | None = None
    """A ready-made bottom model; None builds the one that the party names."""
    top: nn.Module | None = None
    """A ready-made top model; None builds the job's."""
    origin: Origin | None = None
    """The model of an earlier run that it begins with; None begins from nothing."""
    clocked: bool = False
    """Whether all are as fast as the job says, as in a simulation."""
    randomness: Randomness = os.urandom
    """Where the noise of its protections comes from; a simulation's is derived from a seed."""
    credentials: Callable[[], Credentials] | None = None
    """With what it signs now, and knows the others' signatures; None where nothing is signed."""
    recorder: Recorder | None = None
    """Keeps what crosses, for an audit; None keeps nothing."""
    spread: Callable[[str, nn.Module], nn.Module] = lambda name, module: module
    """Spreads a model (`bottom`, `top`) over several processes, where the party has them."""

    @property
    def leads(self) -> bool:
        """Whether this is the active party."""
        return self.me == self.job.active

    @property
    def dtype(self) -> torch.dtype:
        """Of all tensors of the job."""
        return DTYPES[self.job.train.dtype]

    @property
    def parent(self) -> str:
        """The version that it begins with; empty where it begins from nothing."""
        return "" if self.origin is None else self.origin.version

    @property
    def seed(self) -> int:
        """Its secret."""
        return secret_seed(self.job, self.me)

    def secret_bytes(self) -> bytes:
        """A key that nobody else knows, another one each time."""
        return self.randomness(KEY_BYTES)

    def secret(self) -> Secret:
        """A key for noise, another one each time: a party that goes back to a checkpoint must not
        add the same noise to other numbers."""
        return Secret(self.secret_bytes())

    def recording(self, rounds: int, folder: Path | None = None) -> Participant:
        """The party as it keeps what crosses in the first rounds, in its folder if it has one."""
        own: dict[Split, dict[str, torch.Tensor]] = {
            split: {"columns": values}
            for split, values in (self.features or {}).items()
            # Only passive parties send embeddings of rows that are evaluated on.
            if split == "train" or not self.leads
        }
        if (labels := self.data.labels) is not None:
            # Others are audited for what they tell of the labels that are true, however protected.
            true = labels.train if labels.truth is None else labels.truth
            own.setdefault("train", {})["labels"] = torch.as_tensor(np.ascontiguousarray(true))
        peer = EVERYBODY if self.leads else self.job.active
        return replace(self, recorder=Recorder(rounds, own, peer, folder))

    @property
    def hello(self) -> Hello:
        """How the party introduces itself."""
        return self.agreement().hello(self.me, self.data.fingerprint)

    def agreement(self, widths: Mapping[str, int] | None = None, start: int = 0) -> Agreement:
        """What all agree on, once everybody's width is known; before, all but the widths."""
        known = dict.fromkeys(self.job.parties, 1) | dict(widths or {}) | {self.me: self.width}
        ordered = {name: known[name] for name in self.job.parties}
        counts = self.data.rows
        return Agreement(self.job, self.method, counts, ordered, start, self.clocked, self.parent)


Bottom = tuple[
    Callable[[], nn.Module] | None, Mapping[Split, torch.Tensor] | None, int, torch.device
]


def build_bottom(job: Job, name: str, data: PartyData, module: nn.Module | None) -> Bottom:
    """Build, or copy, a party's bottom model and measure how wide its embedding is: the model, the
    features on the party's device, the width and the device."""
    party, columns = job.parties[name], data.columns
    device = _device(party.device, name)
    if columns.train is None or columns.test is None:
        return None, None, 0, device
    dtype = DTYPES[job.train.dtype]
    features: dict[Split, torch.Tensor] = {
        split: as_tensor(columns.part(split), dtype, device) for split in SPLITS
    }

    def build() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(secret_seed(job, name))
            where, row_shape = f"parties.{name}.model", tuple(features["train"].shape[1:])
            built = bottom_model(party, columns.inputs, row_shape, where, module)
        return built.to(device=device, dtype=dtype).train()

    width = _width(build(), features["train"][:2], name)
    if party.width not in (None, width):
        raise JobError(
            f"parties.{name}.width is {party.width} and its model gives {width}: "
            "change the width, or the model's embedding"
        )
    return build, features, width, device


def bottom_model(
    party: Party,
    inputs: Sequence[Input],
    row_shape: tuple[int, ...],
    where: str,
    module: nn.Module | None = None,
) -> nn.Module:
    """A bottom model, behind a front where rows have codes or bins that it does not read itself."""
    bare = is_plain(inputs) or takes_codes(party)
    front = None if bare else Front(inputs)
    if module is not None:
        built = copy.deepcopy(module)
    else:
        built = models.build(party.model, row_shape if bare else (expanded(inputs),), where)
    return built if front is None else Fronted(front, built)


def as_tensor(array: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """An array of numbers on a device."""
    return torch.as_tensor(np.ascontiguousarray(array)).to(device=device, dtype=dtype)


def _device(text: str, name: str) -> torch.device:
    try:
        device = torch.device(text)
    except RuntimeError:
        raise JobError(f"parties.{name}.device is '{text}': write 'cpu' or 'cuda:0'") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise JobError(f"parties.{name}.device is '{text}', but this machine has no CUDA device")
    return device


def _width(module: nn.Module, rows: torch.Tensor, name: str) -> int:
    try:
        with evaluating(module):
            embedding = module(rows)
    except Exception as error:  # A model of one's own may raise anything.
        raise JobError(
            f"the model of {name} cannot read rows of shape {tuple(rows.shape[1:])}: {error}"
        ) from error
    if not isinstance(embedding, torch.Tensor) or embedding.dim() != 2:
        shape = tuple(embedding.shape) if isinstance(embedding, torch.Tensor) else embedding
        raise JobError(f"the model of {name} must return [rows, width], it returned {shape}")
    return int(embedding.shape[1])
