"""FedBCD with a warm-up: a method with a policy of its own on the axis *rate*."""

from dataclasses import dataclass

from colonnade import Method, RequestError, extension
from colonnade.policies.local import repeat
from colonnade.policies.rate import RatePolicy, constant


@dataclass(frozen=True)
class WarmUp(RatePolicy):
    """A learning rate that grows linearly over the first `rounds` rounds, up to the party's own."""

    rounds: int

    def factor(
        self, round: int, parties: int, effort: float | None = None, staleness: int = 0
    ) -> float:
        return min(1.0, (round + 1) / self.rounds)


def warm_up(rounds: int) -> RatePolicy:
    """A warm-up of at most one round is no warm-up, and equals the neutral rate policy."""
    if rounds < 0:
        raise RequestError(f"rounds is {rounds}: a warm-up takes 0 rounds or more")
    return WarmUp(rounds) if rounds > 1 else constant()


@extension("method")
def gentle(updates: int = 3, rounds: int = 20) -> Method:
    """Several updates on each exchange, at a low rate while embeddings still change fast."""
    return Method(local=repeat(updates), rate=warm_up(rounds))
