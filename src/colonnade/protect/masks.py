"""The masks of one generation: drawn anew each time that the parties begin, and each used once.

Every passive party draws a key, signs it and sends it through the active one to all the others.
What two of them share follows from both their keys, so that either end alone makes it new: after a
return to a checkpoint no mask comes again, whatever the active party hands on. A mask is named by
what it hides: the purpose of a tensor, the piece and the round.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from colonnade.errors import BreachError
from colonnade.protect.base import SumProtection
from colonnade.protect.keys import KEY_BYTES, Credentials, Occasion, agree, derive, public_key
from colonnade.protect.secret import Randomness, Secret
from colonnade.protect.shared_key import PrivateHalf, PublicHalf
from colonnade.wire.messages import MaskKey

_CONTEXT = "colonnade masks 1"


class Keys:
    """The keys of the passive parties, each checked as it comes. The active party has nothing else:
    it hands them on."""

    def __init__(
        self,
        due: Sequence[str],
        occasion: Occasion,
        credentials: Credentials,
        cipher: PublicHalf | None = None,
    ) -> None:
        """Of the parties that are `due` none has come yet; `cipher` is the key under which training
        embeddings cross, where they do not cross under masks."""
        self.said: dict[str, MaskKey] = {}
        self.cipher = cipher
        self._due, self._occasion, self._credentials = tuple(due), occasion, credentials

    def missing(self) -> list[str]:
        """Whose key has not come."""
        return [party for party in self._due if party not in self.said]

    def accept(self, sender: str, message: MaskKey, party: str) -> None:
        """A key that is to be this party's has come; refuses one that it did not sign for this
        occasion, and a second one."""
        if message.party != party or party not in self.missing():
            raise BreachError(sender, f"{sender} sent a key for masks that is not due")
        try:
            self._take(message)
        except ValueError as fault:
            whose = "its own key" if party == sender else f"the key of {party}"
            raise BreachError(
                sender, f"{sender} sent {whose} for masks, and it cannot be believed: {fault}"
            ) from None
        self.said[party] = message

    def _take(self, said: MaskKey) -> None:
        if len(said.key) != KEY_BYTES:
            raise ValueError("its key is none")
        words = self._words(said.party, said.key)
        self._credentials.check(said.party, said.certificate, words, said.signature)

    def _words(self, party: str, key: bytes) -> bytes:
        return self._occasion.words(_CONTEXT, party, key)


class Masks(Keys):
    """A passive party's masks.

    >>> from colonnade.protect.keys import Unsigned
    >>> from colonnade.protect.sum import pairwise
    >>> made = {me: Masks(pairwise(32), me, ("lab", "shop"), Occasion("", "", ""), Unsigned(),
    ...                   lambda count, me=me: me[:1].encode() * count) for me in ("lab", "shop")}
    >>> made["lab"].accept("bank", made["shop"].mine, "shop")
    >>> made["shop"].accept("bank", made["lab"].mine, "lab")
    >>> sent = [masks.hide(torch.tensor([1.5]), 0, "embedding") for masks in made.values()]
    >>> sent[0].item() != 1.5 * 2**20, pairwise(32).to_float(sum(sent), torch.float32).item()
    (True, 3.0)
    """

    def __init__(
        self,
        protection: SumProtection,
        me: str,
        parties: Sequence[str],
        occasion: Occasion,
        credentials: Credentials,
        randomness: Randomness,
        cipher: PrivateHalf | None = None,
    ) -> None:
        """`parties` are all that send embeddings, in the order of the job."""
        super().__init__([name for name in parties if name != me], occasion, credentials, cipher)
        self._protection, self._me, self._parties = protection, me, tuple(parties)
        self.private = cipher
        # Never kept anywhere: whoever begins again has another one.
        self._secret = randomness(KEY_BYTES)
        key = public_key(self._secret)
        signature = credentials.sign(self._words(me, key))
        self.mine = MaskKey(me, key, credentials.certificate, signature)
        """The key that the others are to get."""
        self.shared: dict[str, Secret] = {}
        """What this party shares with each other one."""
        if cipher is not None:
            cipher.shared = self.shared
        self._used: dict[tuple[str | int, ...], int] = {}
        """The last round whose mask was used, by what else names it."""

    def _take(self, said: MaskKey) -> None:
        super()._take(said)
        both = sorted((self.mine, said), key=lambda one: one.party)
        names = self._occasion.words(_CONTEXT, *(one.party for one in both))
        shared = agree(self._secret, said.key)
        salt = b"".join(one.key for one in both)
        self.shared[said.party] = Secret(derive(shared, salt, names))

    def hide(self, tensor: torch.Tensor, round: int, *use: str | int) -> torch.Tensor:
        """The tensor as words under this party's masks. A mask that was used is never used again:
        the difference of what it hid would be seen."""
        if self.missing() or round <= self._used.get(use, -1):
            raise AssertionError(f"there is no mask for {use} in round {round}")
        self._used[use] = round
        numbers = self._protection.to_fixed(tensor, len(self._parties))
        place = self._parties.index(self._me)
        for number, name in enumerate(self._parties):
            if number == place:
                continue
            stream = self.shared[name].stream(*use, round)
            mask = stream.words(numbers.size, numbers.dtype).reshape(numbers.shape)
            # The words wrap; the sum of both ends' is what it was.
            if number > place:
                numbers += mask
            else:
                numbers -= mask
        return torch.from_numpy(numbers.view(f"i{numbers.itemsize}"))
