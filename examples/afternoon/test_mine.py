"""The public checks for each kind of extension; the built-in ones pass them too."""

from mine.methods import gentle, warm_up

from colonnade.testing import (
    check_encoding,
    check_method,
    check_model,
    check_policy,
    check_processes,
)


def test_the_policy() -> None:
    check_policy("rate", warm_up(20))


def test_the_method() -> None:
    check_method(gentle, equals=[({"rounds": 1}, "fedbcd:updates=3")])


def test_the_encoding() -> None:
    check_encoding("mine.codecs:signs")
    check_encoding("ef+mine.codecs:signs")
    check_processes("mine.codecs:signs")


def test_the_model() -> None:
    check_model("mine.models:gated", (8, 3))
    check_model({"name": "mine.models:gated", "embedding": 5}, (7,))


def test_all_of_them_together() -> None:
    parts = {"compress": {"embedding": "mine.codecs:signs"}}
    check_method({"name": "mine.methods:gentle", **parts}, settings=[(2, "split", False)])
