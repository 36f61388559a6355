"""Whether numbers that come as they are lie where a training can do something with them.

Columns of tables are standardised; arrays, frames and regression targets are not, because nobody
should find other numbers in a model than those he gave. So what is far from unit scale is said.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from colonnade.data.party import takes_codes
from colonnade.data.vertical import Columns, Labels
from colonnade.job.records import Party

_LARGE = 10.0
_SMALL = 1e-3
_LARGE_TARGET = 100.0
"""Of root mean squares. A column of 0 and 1 with few ones is small without harm."""


def remarks(
    features: Mapping[str, Columns],
    labels: Labels | None,
    parties: Mapping[str, Party] | None = None,
) -> list[str]:
    """A sentence for each party whose features, or whose targets, are far from unit scale.

    >>> remarks({"bank": Columns(np.full((4, 2), 5000.0), np.ones((0, 2)))}, None)
    ['the features of bank are far from unit scale (2 of 2 columns; the root mean square of \
column 0 is 5e+03), and the training may diverge: standardise them first, as with \
(x - x.mean(0)) / x.std(0)']
    """
    coded = {name for name, party in (parties or {}).items() if takes_codes(party)}
    found = [_features(name, columns) for name, columns in features.items() if name not in coded]
    gone = [_left_out(name, columns) for name, columns in features.items()]
    return [sentence for sentence in (*found, *gone, _targets(labels)) if sentence]


def _left_out(name: str, columns: Columns) -> str:
    """Columns that never change or have no values are nobody's loss, and not worth a word."""
    known = [] if columns.preprocessor is None else columns.preprocessor.left_out
    gone = [each for each in known if each.kind not in ("constant", "empty")]
    if not gone:
        return ""
    shown = "; ".join(f"'{each.name}', since {each.why}" for each in gone[:3])
    more = f"; and {len(gone) - 3} more" if len(gone) > 3 else ""
    return (
        f"{name} leaves out columns that look like ids or free text ({shown}{more}): leave them "
        'out of columns, or say under treat what they are, as in treat = { code = "category" }'
    )


def _features(name: str, columns: Columns) -> str:
    array = columns.train
    if array is None or columns.preprocessor is not None or not len(array):
        return ""
    # The channels of an image share one scale, so an image is one column here.
    axes = 0 if array.ndim == 2 else None
    size = np.atleast_1d(np.sqrt(np.mean(np.square(array, dtype=np.float64), axis=axes)))
    off = np.flatnonzero((size > _LARGE) | ((size < _SMALL) & (size > 0)))
    if not len(off):
        return ""
    worst = off[np.argmax(np.abs(np.log(size[off])))]
    end = "may diverge" if (size[off] > _LARGE).any() else "may learn nothing from them"
    where = f"{len(off)} of {len(size)} columns; the root mean square of column {worst} is "
    return (
        f"the features of {name} are far from unit scale "
        f"({where if array.ndim == 2 else 'their root mean square is '}{size[worst]:.3g}), and the "
        f"training {end}: standardise them first, as with (x - x.mean(0)) / x.std(0)"
    )


def _targets(labels: Labels | None) -> str:
    if labels is None or labels.names or not len(labels.train):
        return ""
    size = float(np.sqrt(np.mean(np.square(labels.train, dtype=np.float64))))
    if size <= _LARGE_TARGET and not 0 < size < _SMALL:
        return ""
    return (
        f"the targets are far from unit scale (their root mean square is {size:.3g}), and the "
        "training may diverge or learn next to nothing: standardise them first, and scale "
        "predictions back"
    )
