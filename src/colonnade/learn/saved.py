"""Models after their training: a party's bottom model, and the active party's top model, from what
a run has left."""

from __future__ import annotations

import copy
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
from colonnade.errors import RequestError, reason
from colonnade.job.records import Party
from colonnade.job.terms import shown
from colonnade.learn.agreement import Agreement
from colonnade.learn.participant import DTYPES, Participant, as_tensor, bottom_model
from colonnade.learn.schedule import EVALUATION_ROWS
from colonnade.learn.trainer import evaluating
from colonnade.models import top as tops
from colonnade.plugins import check_allowed
from colonnade.record.calibration import Calibration
from colonnade.record.card import FILE, Card, from_json
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


def card_of(
    party: Participant,
    agreement: Agreement,
    run: str,
    best: int,
    last: int,
    calibration: Calibration | None,
) -> Card:
    """The description of what a party has learnt; `last` is the last round, and `best` the best
    one, or -1."""
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
    )


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
    try:
        card = from_json((path / FILE).read_bytes(), str(path / FILE))
        # Not by the file's name, which would leave the tensors mapped to a file that may change.
        content = (path / f"{card.weights}.safetensors").read_bytes()
        learnt = path / "preprocessing.json"
        fitted = learnt.read_text(errors="replace") if learnt.is_file() else None
    except OSError as error:
        raise RequestError(f"the model in {path} cannot be read: {reason(error)}") from None
    if card.party != party:
        raise RequestError(f"{folder} holds a model of {shown(card.party, 64)}, not of {party}")
    try:
        tensors = safetensors.torch.load(content)
    except safetensors.SafetensorError:
        raise RequestError(f"the weights in {path} are damaged: copy the folder again") from None
    return SavedParty(card, tensors, None if fitted is None else Preprocessor.from_json(fitted))


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
    own = {
        name.removeprefix(f"{part}."): tensor
        for name, tensor in saved.tensors.items()
        if name.startswith(f"{part}.")
    }
    try:
        model.load_state_dict(own)
    except RuntimeError:
        raise RequestError(
            f"the weights of {saved.card.party} do not fit its {part} model: the files of the run "
            "folder do not belong together, or the model's code has changed"
        ) from None
    return model.eval()
