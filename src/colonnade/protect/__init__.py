"""What is done to labels and tensors so that others learn less from them (`[method.protect]`).

    labels      flip(epsilon)              randomised response, once for all
    gradient    marvell(error), max_norm() noise that hides the class of a row, of one round
    embedding   gauss(clip, sigma)         clipped, with noise; dcor(weight): less like the columns

Each says in its docstring what it guarantees and what it does not; `docs/privacy.md` has what each
costs.

Imports no other room.
"""

from colonnade.protect.base import Protect, parse
from colonnade.protect.secret import Secret

__all__ = ["Protect", "Secret", "parse"]
