"""What ended a job before its time, as the active party tells the others."""

from __future__ import annotations

import msgspec


class Fault(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Why nothing more could be learnt.

    >>> str(Fault("telco sent a tensor with NaN or infinite components", sender="telco"))
    'telco sent a tensor with NaN or infinite components'
    """

    said: str
    """One sentence for a person."""
    sender: str = ""
    """The party whose numbers it is about; empty where the training itself is to blame."""

    def __str__(self) -> str:
        return self.said
