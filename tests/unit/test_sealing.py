"""Letters between parties, their signatures, and what a desk keeps."""

from __future__ import annotations

import os
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.align.desk import ASKED, IDS, TABLES, Desk
from colonnade.align.idset import IdSet
from colonnade.align.sealing import Channel, check_introduction, introduce
from colonnade.data.ids import id_texts
from colonnade.errors import BreachError, DataError, PartyError, RequestError
from colonnade.job.ids import Ids
from colonnade.protect.keys import Occasion, Unsigned
from colonnade.tls.signature import Credentials, NotSigned, pin
from colonnade.wire.messages import BlindedPoints, Buffer, CommonTags, EvaluatedPoints
from tests.netrun import identities

HERE = Occasion("terms", "run", "attempt")


def channels():
    secrets = {name: os.urandom(32) for name in ("bank", "telco", "shop")}
    said = {name: introduce(name, 3, secret, os.urandom(16), HERE, Unsigned())
            for name, secret in secrets.items()}  # fmt: skip
    return {
        (one, other): Channel(secrets[one], said[one], said[other])
        for one in secrets
        for other in secrets
        if one != other
    }


@settings(max_examples=20, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 2**40))
def test_a_letter_says_to_its_receiver_what_was_written(content, number):
    found = channels()
    letter = found["bank", "telco"].seal(CommonTags, number, content)
    assert found["telco", "bank"].open(letter) == content
    assert len(letter.content.view) == len(content) + 16


def test_a_letter_cannot_be_read_changed_or_passed_off_as_another():
    found = channels()
    letter = found["bank", "telco"].seal(BlindedPoints, 4, b"points")
    bare = letter.content.view.tobytes()
    assert b"points" not in bare
    receiver, replaced = found["telco", "bank"], msgspec.structs.replace
    flipped = Buffer(memoryview(bytes([bare[0] ^ 1]) + bare[1:]))
    for wrong, reader in (
        (letter, found["shop", "bank"]),
        (replaced(letter, content=flipped), receiver),
        (replaced(letter, round=5), receiver),
        (EvaluatedPoints(letter.sender, letter.to, 4, letter.content), receiver),
        (letter, found["bank", "telco"]),
        (replaced(letter, content=Buffer(memoryview(b""))), receiver),
    ):
        with pytest.raises(BreachError, match="not sealed for"):
            reader.open(wrong)
    assert receiver.open(letter) == b"points"


def test_each_beginning_has_keys_of_its_own_and_one_seed():
    secrets = [os.urandom(32), os.urandom(32)]

    def meet(nonce):
        said = [introduce(name, 1, secret, nonce, HERE, Unsigned())
                for name, secret in zip("ab", secrets, strict=True)]  # fmt: skip
        return Channel(secrets[0], *said), Channel(secrets[1], *reversed(said))

    (first, _), (again, other) = meet(bytes(16)), meet(b"\1" * 16)
    assert first.seed == again.seed == other.seed
    with pytest.raises(BreachError):
        other.open(first.seal(CommonTags, 0, b"x"))


NAMES = ("bank", "telco")


def test_a_signature_holds_for_its_party_its_words_and_its_occasion():
    known = {name: Credentials(identity) for name, identity in identities(NAMES).items()}
    said = introduce("telco", 9, os.urandom(32), bytes(16), HERE, known["telco"])
    check_introduction(said, "telco", HERE, known["bank"])
    other = introduce("bank", 9, os.urandom(32), bytes(16), HERE, known["bank"])
    changed = msgspec.structs.replace
    for wrong, party, occasion in (
        (said, "bank", HERE),
        (changed(said, party="bank"), "bank", HERE),
        (changed(said, size=10), "telco", HERE),
        (changed(said, key=os.urandom(32)), "telco", HERE),
        (changed(said, nonce=os.urandom(16)), "telco", HERE),
        (changed(said, shape="{}"), "telco", HERE),
        (changed(said, certificate=other.certificate), "telco", HERE),
        (changed(said, certificate=b""), "telco", HERE),
        (changed(said, signature=other.signature), "telco", HERE),
        (said, "telco", replace(HERE, attempt="another")),
        (said, "telco", replace(HERE, run="another")),
        (said, "telco", replace(HERE, terms="others")),
    ):
        with pytest.raises(ValueError, match="it"):
            check_introduction(wrong, party, occasion, known["bank"])


def test_an_authority_cannot_pose_as_a_party_whose_key_is_pinned():
    """Who holds the authority can issue another certificate in the name of telco."""
    honest, posing = identities(NAMES), identities((*NAMES, "x"))
    own = Credentials(honest["telco"])
    words = b"words"
    from cryptography import x509

    from colonnade.tls.certificate import key_fingerprint

    real = key_fingerprint(x509.load_pem_x509_certificate(honest["telco"].certificate))
    trusting = replace(honest["bank"], authority=honest["bank"].authority + posing["x"].authority)
    forged = Credentials(posing["telco"])
    free, pinned = Credentials(trusting), Credentials(trusting, pins={"telco": real})
    free.check("telco", forged.certificate, words, forged.sign(words))
    pinned.check("telco", own.certificate, words, own.sign(words))
    with pytest.raises(NotSigned, match="pinned"):
        pinned.check("telco", forged.certificate, words, forged.sign(words))
    with pytest.raises(NotSigned, match="not of an authority"):
        Credentials(honest["bank"]).check("telco", forged.certificate, words, forged.sign(words))
    with pytest.raises(RequestError, match="no fingerprint"):
        pin("AB:CD")


def built(folder, texts, rule=None):
    return IdSet.build(folder / "ids", [pa.array(texts, pa.large_string())], rule or Ids(), "t.csv")


def test_ids_on_disk_do_not_depend_on_how_many_fit_into_memory(tmp_path, monkeypatch):
    texts = [f"id-{number}" for number in range(5000)]
    whole = built(tmp_path, texts).path.read_bytes()
    monkeypatch.setattr("colonnade.align.idset._PIECE", 700)
    ids = built(tmp_path, texts)
    assert ids.path.read_bytes() == whole and ids.path.stat().st_mode & 0o077 == 0
    assert len(whole) == 24 * 5000
    digests = ids.digests(0, 5000)
    assert digests == sorted(set(digests))
    assert sorted(ids.rows(np.arange(5000)).tolist()) == list(range(5000))
    edges = ids.edges(7)
    first = [int.from_bytes(digest[:8], "big") * 7 >> 64 for digest in digests]
    assert np.diff(edges).tolist() == np.bincount(first, minlength=7).tolist()


def test_duplicate_ids_are_refused_with_their_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("colonnade.align.idset._PIECE", 3)
    with pytest.raises(DataError, match="rows 2 and 5 have the same"):
        built(tmp_path, ["a", "b", "c", "d", "b"])
    assert not list(tmp_path.glob("*.spilled"))


def text(values, rule=None, columns=("id",)):
    names = [f"c{number}" for number in range(len(values))] if len(columns) > 1 else ["id"]
    table = pa.table(dict(zip(names, values if len(columns) > 1 else [values], strict=True)))
    return id_texts(table, names, rule or Ids(), "t.csv").to_pylist()


def test_what_of_an_id_counts():
    assert text([284, 7]) == text(["284", " 7 "]) == text([284.0, 7.0]) == ["284", "7"]
    assert text(["00284"]) == ["00284"] != text([284])
    assert text(["Å"]) == text(["A\u030a"]), "NFC"
    assert text(["AB"], Ids(case="lower")) == text(["ab"]) != text(["AB"])
    assert text([" a"], Ids(trim=False)) == [" a"]
    assert text([["a", "b"], ["bc", "c"]], columns=(1, 2)) == ["a\x1fbc", "b\x1fc"]
    assert text(pa.array(["x"]).dictionary_encode()) == ["x"]


@pytest.mark.parametrize("empty", [None, "", "  "])
def test_a_row_without_an_id_is_refused_with_its_number(empty):
    with pytest.raises(DataError, match=r"1 rows of t[.]csv have no id in 'id', .* row 2"):
        text(["a", empty])


def test_ids_that_are_no_ids_are_refused():
    with pytest.raises(DataError, match="has type double"):
        text([1.5])


def test_a_desk_refuses_to_go_on_with_other_ids(tmp_path):
    desk = Desk(tmp_path)

    def ids(texts):
        IdSet.build(tmp_path / IDS, [pa.array(texts)], Ids(), "t.csv")

    ids(["a", "b"])
    first = desk.secrets("run", os.urandom)
    assert desk.secrets("run", os.urandom) == first
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    ids(["a", "c"])
    with pytest.raises(RequestError, match="table has changed since this alignment began"):
        desk.secrets("run", os.urandom)
    assert desk.secrets("another", os.urandom).key != first.key


@pytest.mark.parametrize("given", [ASKED, TABLES])
def test_who_has_answered_begins_no_other_run(tmp_path, given):
    """An active party names the run. By breaking off before the first checkpoint and naming another
    it would get new keys, new tables, and as many ids to try as it likes."""
    desk = Desk(tmp_path)
    IdSet.build(tmp_path / IDS, [pa.array(["a", "b"])], Ids(), "t.csv")
    first = desk.secrets("run", os.urandom)
    desk.appended(given, 0, 4).add(b"some")
    with pytest.raises(PartyError, match="begin another alignment"):
        desk.secrets("another", os.urandom)
    assert desk.secrets("run", os.urandom) == first
