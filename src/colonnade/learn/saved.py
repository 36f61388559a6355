"""Models after their training: a party's bottom model, and the active party's top model, from what
a run has left."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from msgspec.structs import replace
from numpy.typing import NDArray
from torch import nn

from colonnade.data.layout import is_plain
from colonnade.data.preprocess import Preprocessor
from colonnade.data.splits import Split
from colonnade.errors import RequestError
from colonnade.job.records import Party
from colonnade.job.terms import shown
from colonnade.learn.agreement import Agreement
from colonnade.learn.origin import Origin, load_part
from colonnade.learn.participant import DTYPES, Participant, as_tensor, bottom_model
from colonnade.learn.schedule import EVALUATION_ROWS
from colonnade.learn.trainer import evaluating
from colonnade.models import top as tops
from colonnade.plugins import check_allowed
from colonnade.record.calibration import Calibration
from colonnade.record.card import (
    BYTES_MAX,
    CLASSES,
    FILE,
    PREPROCESSING,
    Aligned,
    Card,
    read_card,
)
from colonnade.record.environment import environment
from colonnade.record.history import History, Row
from colonnade.record.reading import read_regular, read_weights
from colonnade.record.run import Run
from colonnade.record.tree import Weights

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class SavedParty:
    """What one party has of a model that was trained."""

    card: Card
    tensors: Weights
    """The weights by name: `bottom.…`, and at the active party `top.…`."""
    preprocessor: Preprocessor | None = None
    """What was learnt of its columns; None for a party that reads arrays."""

    @property
    def version(self) -> str:
        """The name of the model."""
        return self.card.version

    @property
    def origin(self) -> Origin:
        """The model as one from which a training goes on."""
        return Origin(self.card, self.tensors, self.preprocessor)


def card_of(
    party: Participant,
    agreement: Agreement,
    run: str,
    best: int,
    last: int,
    calibration: Calibration | None,
    history: History | None = None,
) -> Card:
    """The description of what a party has learnt; `last` is the last round, and `best` the best
    one, or -1."""
    aligned = party.data.columns.alignment
    own, columns, objective = party.job.parties[party.me], party.data.columns, party.objective
    ids = (own.id,) if isinstance(own.id, str) else tuple(own.id or ())
    fitted = columns.preprocessor
    named = party.width > 0 and party.module is None
    card = Card(
        job=party.job.name,
        party=party.me,
        active=party.job.active,
        run=run,
        round=best if best >= 0 else last,
        weights="best" if best >= 0 else "last",
        widths=dict(agreement.widths),
        dtype=party.job.train.dtype,
        model=dict(own.model) if named else None,
        row_shape=() if columns.shape is None else tuple(columns.shape),
        columns=() if fitted is None else tuple(each.name for each in fitted.columns),
        id=ids,
        rule=party.job.ids.text() if ids else "",
        rows=dict(party.data.rows.items()),
        order=party.data.order,
        types=dict(columns.types),
        alignment=None if aligned is None else Aligned(aligned.common, aligned.count),
        method=dict(party.job.method),
        seed=party.job.seed,
        parent=party.parent,
        recorded=None if party.recorder is None else party.recorder.summary(),
        environment=environment(),
    )
    if objective is None or party.data.labels is None:
        return card
    return replace(
        card,
        task=objective.task,
        outputs=objective.outputs,
        classes=party.data.labels.names,
        top=party.job.top if party.top is None else None,
        calibration=calibration,
        metric=party.metrics[0].name if party.metrics else "",
        measured=_measured(history, agreement.schedule.chosen_on, best),
    )


_COSTS = ("round", "epoch", "time_s", "bytes_up", "bytes_down", "loss", "best")
"""What a row of an evaluation has beside what was measured."""


def _measured(history: History | None, split: Split, best: int) -> dict[str, dict[str, float]]:
    """What the weights of the best round gave; NaN is left out, of which JSON knows nothing."""
    if history is None or best < 0:
        return {}
    rows: dict[str, Row] = {}
    for row in history.evaluations:
        if row["round"] == best + 1:
            rows[split] = row
    rows.setdefault("test", history.test)
    finite = {
        where: {
            name: float(value)
            for name, value in row.items()
            if name not in _COSTS and value is not None and math.isfinite(value)
        }
        for where, row in rows.items()
    }
    return {where: found for where, found in finite.items() if found}


def saved_of(run: Run, party: str) -> SavedParty:
    """What a party has of a run that is in memory."""
    own = run.parties[party]
    assert own.card is not None
    fitted = own.preprocessing
    return SavedParty(
        own.card,
        own.weights if own.best_weights is None else own.best_weights,
        None if fitted is None else Preprocessor.from_json(fitted),
    )


def read_saved(folder: str | Path, party: str) -> SavedParty:
    """What a party has of a run, from the folder of the run: that of a simulation, or the party's
    own.

    >>> read_saved("nowhere", "bank")
    Traceback (most recent call last):
    colonnade.errors.RequestError: nowhere holds no model of bank: give the folder of a run that \
has ended
    """
    path = Path(folder)
    path = path / "parties" / party if (path / "parties").is_dir() else path
    if not (path / FILE).is_file():
        raise RequestError(
            f"{folder} holds no model of {party}: give the folder of a run that has ended"
        )
    card = read_card(path)
    if card.party != party:
        raise RequestError(f"{folder} holds a model of {shown(card.party, 64)}, not of {party}")
    # Not by the file's name, which would leave the tensors mapped to a file that may change.
    content = read_weights(path / f"{card.weights}.safetensors")
    found = {f"{card.weights}.safetensors": content}
    for name, bytes_max in (PREPROCESSING, _LEARNT_BYTES_MAX), (CLASSES, BYTES_MAX):
        if name in card.hashes or (path / name).exists():
            found[name] = read_regular(path / name, bytes_max)
    _check_hashes(card, found, path)
    fitted = found.get(PREPROCESSING)
    try:
        tensors = safetensors.torch.load(content)
    except safetensors.SafetensorError:
        raise RequestError(f"the weights in {path} are damaged: copy the folder again") from None
    learnt = None if fitted is None else Preprocessor.from_json(str(fitted, errors="replace"))
    return SavedParty(card, tensors, learnt)


_LEARNT_BYTES_MAX = 2**28


def _check_hashes(card: Card, found: Mapping[str, bytes], path: Path) -> None:
    """Refuse files that are not those which the card was written with."""
    for name, content in found.items():
        if name in card.hashes and hashlib.sha256(content).hexdigest() != card.hashes[name]:
            raise RequestError(
                f"{path / name} is not the file that {FILE} was written with (its hash differs): "
                "copy the whole folder of the run again"
            )


class Bottom:
    """A party's bottom model with the weights it has learnt, for scoring."""

    def __init__(
        self,
        saved: SavedParty,
        module: nn.Module | None = None,
        allow: Collection[str] = (),
        device: str = "cpu",
    ) -> None:
        """`module` is the party's own, where it did not name one; `allow` lists modules from which
        code may be run that a card names."""
        self.card, self.dtype = saved.card, DTYPES[saved.card.dtype]
        self._device = torch.device(device)
        self.preprocessor = saved.preprocessor
        self._model = _loaded(_bottom(saved, module, allow), saved, "bottom")
        self._model = self._model.to(device=self._device, dtype=self.dtype)

    @property
    def module(self) -> nn.Module:
        """The model itself."""
        return self._model

    @property
    def width(self) -> int:
        """Of its embedding."""
        return self.card.width

    def embed(self, rows: Array) -> torch.Tensor:
        """The embeddings of rows of numbers, in pieces as large as those of an evaluation, so that
        rows that an evaluation had come out the same to the bit."""
        pieces = [
            self._piece(rows[start : start + EVALUATION_ROWS])
            for start in range(0, len(rows), EVALUATION_ROWS)
        ]
        if not pieces:
            return torch.empty(0, self.width, dtype=self.dtype, device=self._device)
        return torch.cat(pieces)

    def _piece(self, rows: Array) -> torch.Tensor:
        with evaluating(self._model):
            embedding: torch.Tensor = self._model(as_tensor(rows, self.dtype, self._device))
        return embedding


class Head:
    """The active party's top model with the weights it has learnt, for scoring."""

    def __init__(
        self,
        saved: SavedParty,
        module: nn.Module | None = None,
        allow: Collection[str] = (),
        device: str = "cpu",
    ) -> None:
        self.card = card = saved.card
        if card.task is None:
            raise RequestError(
                f"{card.party} has no top model in this run: only {card.active} can score rows"
            )
        self._present = [name for name, width in card.widths.items() if width]
        dtype, self._device = DTYPES[card.dtype], torch.device(device)
        self._model = _loaded(_top(saved, module, allow), saved, "top")
        self._model = self._model.to(device=self._device, dtype=dtype)
        self.calibration = card.calibration or Calibration()

    @property
    def module(self) -> nn.Module:
        """The model itself, which takes the list of embeddings."""
        return self._model

    def scores(self, embeddings: Mapping[str, torch.Tensor]) -> Array:
        """What the top model says of rows, raw, from everybody's embeddings of them."""
        parts = [embeddings[name].to(self._device) for name in self._present]
        rows, pieces = len(parts[0]), []
        for start in range(0, rows, EVALUATION_ROWS):
            piece = [part[start : start + EVALUATION_ROWS] for part in parts]
            with evaluating(self._model):
                pieces.append(self._model(piece).double().cpu().numpy())
        return np.concatenate(pieces) if pieces else np.empty((0, self.card.outputs))

    def probabilities(self, scores: Array) -> Array:
        """The calibrated probability of each class; of two, the positive one is last."""
        assert self.card.task != "regression"
        return self.calibration.probabilities(scores)


def _bottom(saved: SavedParty, module: nn.Module | None, allow: Collection[str]) -> nn.Module:
    card, inputs = saved.card, [] if saved.preprocessor is None else saved.preprocessor.inputs
    if not card.width:
        raise RequestError(f"{card.party} has no columns in this run, and no bottom model")
    if card.model is None and module is None:
        raise RequestError(
            f"the bottom model of {card.party} is a module of one's own, which the run folder does "
            "not hold: score in Python, and give the module"
        )
    party = Party(model=card.model or {"name": "mlp"})
    if module is None:
        name = str(party.model.get("name", "mlp"))
        check_allowed({"model.name": name} if ":" in name else {}, allow)
    if card.columns and saved.preprocessor is None:
        raise RequestError(f"the run of {card.party} lacks preprocessing.json: copy it there too")
    if not is_plain(inputs) and card.row_shape != (len(inputs),):
        raise RequestError(f"the parts of the model of {card.party} belong to different runs")
    return bottom_model(party, inputs, card.row_shape, f"the model of {card.party}", module)


def _top(saved: SavedParty, module: nn.Module | None, allow: Collection[str]) -> nn.Module:
    card = saved.card
    if module is not None:
        return copy.deepcopy(module)
    if card.top is None:
        raise RequestError(
            "the top model is a module of one's own, which the run folder does not hold: score in "
            "Python, and give the module"
        )
    named = {} if card.top.module is None else {"top.module": card.top.module}
    check_allowed(named, allow)
    widths = {name: width for name, width in card.widths.items() if width}
    return tops.build_top(card.top, widths, card.outputs)


def _loaded(model: nn.Module, saved: SavedParty, part: str) -> nn.Module:
    """The model with the weights of its part, all of them and no others."""
    return load_part(model, saved.tensors, part, saved.card.party).eval()
