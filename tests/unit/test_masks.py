"""Masks cancel exactly, are never used twice, and come from keys that were signed for the
occasion."""

from __future__ import annotations

import itertools
import os

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BreachError, FailedError, JobError
from colonnade.job import load
from colonnade.methods import build
from colonnade.protect.base import parse
from colonnade.protect.keys import Occasion, Unsigned
from colonnade.protect.masks import Keys, Masks
from colonnade.protect.secret import Derived
from colonnade.protect.sum import pairwise
from colonnade.run.naming import check_names
from colonnade.tls.signature import Credentials
from tests.netrun import identities

HERE = Occasion("terms", "run", "attempt")
NAMES = ("lab", "insurer", "shop")
MASKED = {"protect": {"sum": "pairwise:32"}}


def met(parties, protection, occasion=HERE, drawn=lambda name: os.urandom, credentials=None):
    """Everybody's masks, once all keys have gone round."""
    proof = credentials or dict.fromkeys(parties, Unsigned())
    made = {
        name: Masks(protection, name, parties, occasion, proof[name], drawn(name))
        for name in parties
    }
    for one, other in itertools.permutations(parties, 2):
        made[one].accept("bank", made[other].mine, other)
    return made


def fixed(tensor, protection, parties):
    numbers = protection.to_fixed(tensor, parties)
    return torch.from_numpy(numbers.view(f"i{numbers.itemsize}"))


@given(
    st.integers(2, 6),
    st.sampled_from((pairwise(32), pairwise(32, 8), pairwise(64), pairwise(64, 40))),
    st.integers(0, 9),
    st.integers(0, 5),
    st.integers(0, 2**32),
)
def test_the_masked_sum_is_the_sum_bit_for_bit(count, protection, rows, width, seed):
    parties = tuple(f"p{number}" for number in range(count))
    made = met(parties, protection, drawn=lambda name: Derived(seed * 10 + int(name[1])))
    chance = torch.Generator().manual_seed(seed)
    tensors = [10 * torch.randn(rows, width, generator=chance) for _ in parties]
    sent = [made[name].hide(h, 3, "embedding") for name, h in zip(parties, tensors, strict=True)]
    bare = [fixed(h, protection, count) for h in tensors]
    assert torch.equal(sum(sent), sum(bare))
    total = protection.to_float(sum(sent), torch.float64)
    exact = torch.stack(tensors).double().sum(dim=0)
    assert not ((total - exact).abs() > count * 2.0**-protection.fraction / 2).any()
    for one, other in zip(sent, bare, strict=True):
        assert one.dtype is protection.dtype and one.shape == (rows, width)
        assert not one.numel() or not torch.equal(one, other)


@pytest.mark.parametrize("protection", [pairwise(32), pairwise(64, 40), pairwise(32, 24)])
@pytest.mark.parametrize("parties", [2, 3, 5])
def test_what_has_room_never_wraps_and_what_has_none_is_refused(protection, parties):
    limit = protection.limit(parties)
    inside = np.nextafter(limit, 0) - 2.0**-protection.fraction
    for value in (inside, -inside):
        words = [fixed(torch.tensor([value]).double(), protection, parties)] * parties
        total = protection.to_float(sum(words), torch.float64).item()
        assert total == pytest.approx(parties * value, rel=1e-6)
    for value in (limit, -limit, 1e30, float("inf"), float("nan")):
        with pytest.raises(FailedError, match="has room for less than") as refused:
            protection.to_fixed(torch.tensor([0.0, value]).double(), parties)
        assert "room" not in refused.value.for_peers(), "how large it was is nobody else's business"


def test_a_mask_is_used_once():
    lab = met(NAMES, pairwise(32))["lab"]
    tensor = torch.ones(2, 2)
    lab.hide(tensor, 4, "embedding", "")
    lab.hide(tensor, 4, "evaluation", "validation 0")
    lab.hide(tensor, 5, "embedding", "")
    before = (5, "embedding", ""), (4, "embedding", ""), (4, "evaluation", "validation 0")
    for round, *use in before:
        with pytest.raises(AssertionError, match="no mask"):
            lab.hide(tensor, round, *use)


def test_nothing_is_hidden_before_all_keys_are_there():
    made = met(NAMES, pairwise(32))
    alone = Masks(pairwise(32), "lab", NAMES, HERE, Unsigned(), os.urandom)
    alone.accept("bank", made["shop"].mine, "shop")
    assert alone.missing() == ["insurer"]
    with pytest.raises(AssertionError, match="no mask"):
        alone.hide(torch.ones(1), 0, "embedding")


def test_every_use_and_every_pair_has_a_mask_of_its_own():
    made = met(NAMES, pairwise(64))
    nothing = torch.zeros(64)
    uses = [(0, "embedding", ""), (1, "embedding", ""), (0, "evaluation", ""), (0, "upload", "x")]
    seen = [made[name].hide(nothing, *use) for name in NAMES for use in uses]
    words = torch.cat(seen).tolist()
    assert len(set(words)) == len(words)


def test_an_old_key_of_another_party_does_not_bring_an_old_mask_back():
    """Even where nothing is signed: one's own key is new, and is enough."""
    first = met(("lab", "shop"), pairwise(32))
    again = Masks(pairwise(32), "lab", ("lab", "shop"), HERE, Unsigned(), os.urandom)
    again.accept("bank", first["shop"].mine, "shop")
    tensor = torch.zeros(32)
    before, after = (masks.hide(tensor, 0, "embedding") for masks in (first["lab"], again))
    assert not torch.equal(before, after)


def signed():
    return {name: Credentials(own) for name, own in identities((*NAMES, "bank")).items()}


def test_a_key_that_was_tampered_with_or_replayed_is_named():
    proof = signed()
    made = met(NAMES, pairwise(32), credentials=proof)
    before = met(NAMES, pairwise(32), Occasion("terms", "run", "earlier"), credentials=proof)
    other_job = met(NAMES, pairwise(32), Occasion("other", "run", "attempt"), credentials=proof)
    shop, lab = made["shop"].mine, made["lab"].mine
    changed = msgspec.structs.replace
    wrong = {
        "another key": changed(shop, key=bytes([shop.key[0] ^ 1]) + shop.key[1:]),
        "of the attempt before": before["shop"].mine,
        "of another job": other_job["shop"].mine,
        "another's signature": changed(shop, signature=lab.signature),
        "another's key": changed(lab, party="shop"),
        "another's certificate": changed(
            shop, certificate=lab.certificate, signature=proof["lab"].sign(b"words")
        ),
        "no certificate": changed(shop, certificate=b""),
        "too short": changed(shop, key=b"key"),
    }
    for what, message in wrong.items():
        for takes in (
            Masks(pairwise(32), "insurer", NAMES, HERE, proof["insurer"], os.urandom),
            Keys(NAMES, HERE, proof["bank"]),
        ):
            with pytest.raises(BreachError, match="cannot be believed") as refused:
                takes.accept("bank", message, "shop")
            assert refused.value.peer == "bank" and "the key of shop" in str(refused.value), what
            assert "shop" in takes.missing()


def test_a_key_that_is_none_or_not_due_is_refused():
    lab = Masks(pairwise(32), "lab", NAMES, HERE, Unsigned(), os.urandom)
    shop = met(NAMES, pairwise(32))["shop"].mine
    weak = msgspec.structs.replace(shop, key=bytes(32))
    with pytest.raises(BreachError, match="its key is none"):
        lab.accept("bank", weak, "shop")
    lab.accept("bank", shop, "shop")
    for message in (shop, lab.mine, msgspec.structs.replace(shop, party="bank")):
        with pytest.raises(BreachError, match="not due"):
            lab.accept("bank", message, message.party)
    with pytest.raises(BreachError, match="not due"):
        Keys(NAMES, HERE, Unsigned()).accept("lab", shop, "lab")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pairwise:16", "give 32 or 64 bits"),
        ("pairwise:32:25", "1 to 24 fractional bits"),
        ("pairwise:64:0", "1 to 56 fractional bits"),
        ("pairwise", "lacks an argument"),
        ("pairs:32", "no protection 'pairs' of sum"),
        ("pairwise:32+pairwise:64", "keep one of them"),
    ],
)
def test_masks_that_are_none_are_refused(text, words):
    with pytest.raises(JobError, match=words):
        parse({"sum": text})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"name": "vafl"}, "quorum=anyone"),
        ({"name": "vafl", "start": "upload"}, "quorum=anyone"),
        ({"name": "cvfl"}, "with snapshots"),
        ({"name": "fedsgd", "compress": {"embedding": "half"}}, "compressed embeddings are none"),
    ],
)
def test_combinations_without_a_sum_are_refused(more, words):
    with pytest.raises(JobError, match=words):
        build(more | MASKED)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["top.kind=split"], "top.kind = 'agg'"),
        (["top.kind=dot", "top.hidden=[]"], "top.kind = 'agg'"),
        (["top.kind=agg", "parties.lab.compress.embedding=half"], "compressed embeddings are none"),
    ],
)
def test_jobs_without_a_sum_are_refused(sets, words):
    job = load("digits", ["method.protect.sum=pairwise:32", *sets])
    with pytest.raises(JobError, match=words):
        check_names(job)


def test_one_passive_party_has_nobody_to_hide_among():
    sets = ["method.protect.sum=pairwise:32", "top.kind=agg", "top.hidden=[4]"]
    job = load("breast-cancer", sets)
    with pytest.raises(JobError, match="with one passive party"):
        check_names(job)


def test_the_choice_is_part_of_the_method():
    method = build({"name": "fedbcd"} | MASKED)
    assert method.composition()["protect"] == "protect(sum=pairwise:32:20)"
    assert method.protect == parse({"sum": "pairwise:32:20"})
