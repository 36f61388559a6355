"""What crossed, kept by a party for an audit of its own (`colonnade privacy`): the tensors of rows
that it sent and received in the first rounds, as whoever received them reads them.

A party's folder has them in `traffic/`, in pieces, each a safetensors file with these names:

    0:sent:telco:gradient:17            a tensor, and the round that it belongs to
    0:sent:telco:gradient:17:rows       the training rows that it stands for, by number
    1:sent:bank:evaluation:17:test      one of other rows than those of the training
    own:labels:0, own:labels:0:rows     the party's own labels of rows that come up the first time
    own:columns:1:test                  its own columns, as its bottom model reads them

Its metadata say the version of this format.

Where nobody reads what crosses, what is of use stands in its place: at the active party the `sum`
that it makes of embeddings under masks, at a passive one its own part of that (`summand`), or its
embedding before it was encrypted (`sealed`). Nothing is kept of anybody else that did not cross. A
round that is done again after a crash crossed twice, and is kept twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.data.splits import Split
from colonnade.formats import metadata
from colonnade.record.card import Recorded
from colonnade.record.private import write_whole

if TYPE_CHECKING:
    import torch

FOLDER = "traffic"
BYTES_MAX = 2**28
"""The most that a party keeps; what comes then is not recorded."""
PIECE_BYTES = 2**22
"""A piece is written when it is so large; and at every checkpoint, so that whatever a party goes on
from after a crash has been recorded."""
EVERYBODY = "*"
"""Stands for the peer where a tensor is for all parties."""
Direction = Literal["sent", "received"]
KINDS = ("embedding", "evaluation", "upload", "gradient", "labels", "sum", "summand", "sealed")
"""What a recorded tensor may be."""
_NUMBER_BYTES = 8


class Recorder:
    """Keeps the tensors of the first rounds; in memory, unless it is given a party's folder.

    >>> import torch
    >>> kept = Recorder(rounds=1, own={"train": {"labels": torch.tensor([0, 1, 1])}})
    >>> kept.note("sent", "telco", "gradient", 0, np.array([2, 0]), torch.ones(2, 4))
    >>> kept.note("sent", "telco", "gradient", 1, np.array([1, 2]), torch.ones(2, 4))
    >>> kept.summary().tensors, len(kept.pieces)
    (1, 1)
    """

    def __init__(
        self,
        rounds: int,
        own: Mapping[Split, Mapping[str, torch.Tensor]],
        peer: str = EVERYBODY,
        folder: Path | None = None,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """`own` is the party's labels and columns of the rows of each split; `peer` gets what is
        sent without a name."""
        self.rounds, self.peer = rounds, peer
        self.pieces: list[bytes] = []
        """Those that are in no folder."""
        self._own = {
            split: {name: _flat(values) for name, values in of.items()} for split, of in own.items()
        }
        self._seen = {
            (split, name): np.zeros(len(values), bool)
            for split, of in own.items()
            for name, values in of.items()
        }
        self._folder, self._bytes_max = folder, bytes_max
        self._begun: dict[str, torch.Tensor] = {}
        self._begun_bytes = self._bytes = self._tensors = self._notes = self._number = 0
        self._whole, self._full = True, False
        if folder is not None:
            self._go_on(folder)

    def _go_on(self, folder: Path) -> None:
        """After what an earlier process has written."""
        for path in pieces_in(folder):
            self._number = int(path.stem)
            self._bytes += path.stat().st_size
            self._tensors += _count(path)

    def wants(self, round: int) -> bool:
        """Whether anything of a round would be kept."""
        return round < self.rounds and not self._full

    def note(
        self,
        direction: Direction,
        peer: str,
        kind: str,
        round: int,
        rows: NDArray[np.int64],
        tensor: torch.Tensor,
        split: Split = "train",
    ) -> None:
        """A tensor crosses, of these rows. Of bytes that are no numbers, as ciphertexts are, all
        that is kept is what the party itself knows of the rows."""
        if not self.wants(round):
            return
        reads = tensor.is_floating_point() or tensor.element_size() > 1
        of = "" if split == "train" else f":{split}"
        fresh: dict[str, tuple[torch.Tensor, NDArray[np.int64]]] = {}
        for own, values in self._own.get(split, {}).items():
            new = rows[~self._seen[split, own][rows]]
            if len(new):
                fresh[f"own:{own}:{self._notes}{of}"] = values, new
        more = sum(_bytes(values, len(new)) for values, new in fresh.values())
        more += _bytes(tensor, len(rows)) if reads else 0
        if not self._has_room(more, split != "train" or kind == "evaluation"):
            return
        for own in self._own.get(split, {}):
            self._seen[split, own][rows] = True
        for name, (values, new) in fresh.items():
            self._add(name, values[new], new)
        if reads:
            name = f"{self._notes}:{direction}:{peer or self.peer}:{kind}:{round}{of}"
            self._add(name, tensor, rows)
            self._tensors += 1
        self._notes += 1
        self._begun_bytes += more
        if self._begun_bytes >= PIECE_BYTES:
            self.flush()

    def _has_room(self, more: int, evaluates: bool) -> bool:
        """Whether so many bytes may be added, which is known before there are any. Evaluations
        come to an end at half of it: they may be many times as large as the training."""
        after = self._bytes + self._begun_bytes + more
        if fits := after <= self._bytes_max // (2 if evaluates else 1):
            return fits
        self._whole, self._full = False, self._full or not evaluates
        return fits

    def _add(self, name: str, tensor: torch.Tensor, rows: NDArray[np.int64]) -> None:
        import torch

        held = tensor.detach().to("cpu")
        held = held.to(torch.float32 if held.is_floating_point() else torch.int64)
        # A plain encoding shows the live tensor, which may change.
        self._begun[name] = held.clone(memory_format=torch.contiguous_format)
        self._begun[f"{name}:rows"] = torch.from_numpy(np.array(rows, np.int64))

    def flush(self) -> None:
        """Write what was not written yet."""
        if not self._begun:
            return
        from safetensors.torch import save

        piece = save(self._begun, metadata("recording"))
        self._begun, self._begun_bytes = {}, 0
        self._bytes += len(piece)
        self._number += 1
        if self._folder is None:
            self.pieces.append(piece)
        else:
            write_piece(self._folder, self._number, piece)

    def summary(self) -> Recorded:
        """What there is of it, all of it written."""
        self.flush()
        return Recorded(self.rounds, self._tensors, self._bytes, self._whole)


def _flat(values: torch.Tensor) -> torch.Tensor:
    return values.detach().flatten(1) if values.dim() > 1 else values


def _bytes(values: torch.Tensor, rows: int) -> int:
    """How much so many rows of a tensor take, with their numbers."""
    width = values[:1].numel() if len(values) else 0
    return rows * (width * (4 if values.is_floating_point() else 8) + _NUMBER_BYTES)


def _count(path: Path) -> int:
    """How many tensors of others and to others a piece has."""
    from colonnade.record.reading import shapes_of

    names = [name for name in shapes_of(path) if not name.endswith(":rows")]
    return sum(not name.startswith("own:") for name in names)


def pieces_in(folder: Path) -> list[Path]:
    """The pieces of a party's recording, in their order.

    >>> pieces_in(Path("nowhere"))
    []
    """
    return sorted((folder / FOLDER).glob("[0-9]" * 6 + ".safetensors"))


def write_piece(folder: Path, number: int, piece: bytes) -> None:
    """Write a piece of a party's recording into its folder, for its owner only."""
    (folder / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(folder / FOLDER / f"{number:06d}.safetensors", [piece])


def replace_pieces(folder: Path, pieces: list[bytes]) -> None:
    """Write a recording in the place of whatever was there."""
    for path in pieces_in(folder):
        path.unlink()
    for number, piece in enumerate(pieces, 1):
        write_piece(folder, number, piece)
