"""Tables, batches, named data sets, and each party's part of them.

May import job.
"""

from colonnade.data.assemble import assemble
from colonnade.data.batches import BatchPlan, Permutation, held_out
from colonnade.data.named import Dataset, load
from colonnade.data.party import PartyData, assemble_party
from colonnade.data.preprocess import Preprocessor
from colonnade.data.vertical import Columns, Labels, VerticalData, vertical

__all__ = [
    "BatchPlan",
    "Columns",
    "Dataset",
    "Labels",
    "PartyData",
    "Permutation",
    "Preprocessor",
    "VerticalData",
    "assemble",
    "assemble_party",
    "held_out",
    "load",
    "vertical",
]
