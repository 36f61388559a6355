"""The model of an earlier run, from which a training goes on with new rows.

Weights, what was learnt of the columns, the classes and the widths are the earlier run's. The job
must have the same parties, models and number type; its optimizers begin afresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from msgspec import Struct, structs
from torch import nn

from colonnade.data.party import Learnt, PartyData
from colonnade.data.preprocess import Preprocessor
from colonnade.errors import RequestError
from colonnade.job.records import Job
from colonnade.record.card import Card

_ELSE = "or train anew, without --from"


@dataclass(frozen=True, eq=False)
class Origin:
    """What a party begins with."""

    card: Card
    weights: Mapping[str, torch.Tensor]
    """By name: `bottom.…`, and at the active party `top.…`."""
    preprocessor: Preprocessor | None = None
    """What was learnt of its columns."""

    @property
    def version(self) -> str:
        """The name of the model, which all parties of the earlier run know."""
        return self.card.version

    def load(self, model: nn.Module, part: str) -> nn.Module:
        """The model of a part, which is changed, with the weights of that part."""
        return load_part(model, self.weights, part, self.card.party)

    def check_job(self, job: Job, me: str, made: bool = False) -> None:
        """Refuse a job that is not about the same models; a `made` bottom model is somebody's own,
        and judged by its weights."""
        card, own = self.card, job.parties[me]
        if (card.active, [*card.widths]) != (job.active, [*job.parties]):
            raise RequestError(
                f"the earlier run had the parties {', '.join(card.widths)}, led by {card.active}: "
                f"give the job the same, {_ELSE}"
            )
        if card.dtype != job.train.dtype:
            raise _differs("train.dtype", job.train.dtype, card.dtype)
        if card.width and not made and _architecture(card.model) != _architecture(own.model):
            raise _differs(f"parties.{me}.model", own.model, card.model)
        if card.task is not None and card.top is not None:
            mine, theirs = (
                structs.replace(top, optimizer=None, init=None) for top in (job.top, card.top)
            )
            if mine != theirs:
                raise _differs("[top]", _set(mine), _set(theirs))

    def check_data(self, me: str, data: PartyData, width: int) -> None:
        """Refuse rows that the models of the earlier run cannot read."""
        card, columns = self.card, data.columns
        if (columns.preprocessor is None) != (not card.columns) or width != card.width:
            raise RequestError(
                f"the columns of {me} are not those of the earlier run: give it the same table or "
                f"array and the same columns, {_ELSE}"
            )
        if width and tuple(columns.shape or ()) != card.row_shape:
            raise _differs(f"the shape of a row of {me}", columns.shape, card.row_shape)
        if data.labels is not None and data.labels.names != card.classes:
            raise _differs("the classes", data.labels.names, card.classes)

    def check_widths(self, widths: Mapping[str, int]) -> str | None:
        """Why these are not the embeddings of the earlier run; None where they are."""
        for name, width in widths.items():
            if width != self.card.widths.get(name):
                return (
                    f"the embedding of {name} is {width} wide, and was "
                    f"{self.card.widths.get(name)} in {self.version}, from which all begin: change "
                    f"its model back, {_ELSE} at all parties"
                )
        return None

    @property
    def learnt(self) -> Learnt:
        """What new rows are read by."""
        card = self.card
        return Learnt(self.preprocessor, card.types, card.task, card.classes)


def load_part(
    model: nn.Module, weights: Mapping[str, torch.Tensor], part: str, whose: str
) -> nn.Module:
    """A model, which is changed, with the weights of its part: all of them and no others.

    >>> from torch import ones
    >>> load_part(nn.Linear(1, 1, bias=False), {"top.weight": ones(1, 1)}, "top", "bank").weight
    Parameter containing:
    tensor([[1.]], requires_grad=True)
    """
    start = f"{part}."
    own = {name.removeprefix(start): weights[name] for name in weights if name.startswith(start)}
    try:
        model.load_state_dict(own)
    except RuntimeError:
        raise RequestError(
            f"the weights of {whose} do not fit its {part} model: the files of the run "
            "folder do not belong together, or the model's code has changed"
        ) from None
    return model


def _architecture(model: Mapping[str, object] | None) -> dict[str, object] | None:
    """A model's table but for its initial weights, in the place of which come those of the card."""
    return (
        None if model is None else {name: value for name, value in model.items() if name != "init"}
    )


def _set(record: Struct) -> dict[str, object]:
    """What a table says that is not as by default."""
    blank = type(record)()
    found = {name: getattr(record, name) for name in record.__struct_fields__}
    return {name: value for name, value in found.items() if value != getattr(blank, name)}


def _differs(what: str, now: object, before: object) -> RequestError:
    return RequestError(
        f"{what} is {now}, and was {before} in the earlier run: change it back, {_ELSE}"
    )
