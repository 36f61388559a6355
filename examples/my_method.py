"""A method of your own: FedBCD with a number of updates that grows with the epochs.

colonnade simulate digits --method examples.my_method:growing --set method.most=4
"""

from dataclasses import dataclass

from colonnade import Method, extension
from colonnade.policies.local import LocalPolicy
from colonnade.policies.view import Exchange, View


@dataclass(frozen=True)
class Growing(LocalPolicy):
    """One update per exchange in the first epoch, one more in each following epoch."""

    most: int
    keep: int = 1

    def next(self, view: View) -> Exchange | None:
        newest = view.kept[-1] if view.kept else None
        allowed = min(self.most, 1 + (newest.round // view.per_epoch if newest else 0))
        return newest if newest and newest.updates < allowed else None


@extension("method")
def growing(most: int = 5) -> Method:
    """Few local updates while embeddings still change fast, more later."""
    return Method(local=Growing(most))
