"""Certificates over months: shut out, exchanged without a restart, and their expiry said ahead."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from colonnade.errors import PartyError, RefusedError, RequestError
from colonnade.tls import keyring as keyrings
from colonnade.tls.authority import create_authority, issue
from colonnade.tls.certificate import dns_name, show
from colonnade.tls.denial import read_denied
from colonnade.tls.keyring import Keyring
from colonnade.tls.probe import shown_certificate
from tests import loop
from tests.certificates import load
from tests.netrun import identities
from tests.scene import case, scene


def entries(identity):
    """How a deny-list may name a certificate."""
    from cryptography.hazmat.primitives.hashes import SHA256

    own = x509.load_pem_x509_certificate(identity.certificate)
    return own.fingerprint(SHA256()).hex(":").upper(), f"{own.serial_number:X}"


def denying(identity, other, which=0):
    return replace(identity, denied=read_denied([entries(other)[which]]))


@pytest.mark.parametrize("which", [0, 1], ids=["fingerprint", "serial"])
def test_a_certificate_on_the_active_partys_deny_list_is_refused_and_a_new_one_taken(which):
    async def whole():
        async with scene(case()) as s:
            renewed = s.known["p2"]
            lost = identities(("p0", "p1", "p2", "other"))["p2"]
            bundle = renewed.authority + lost.authority
            mine = replace(denying(s.known["p1"], lost, which), authority=bundle)
            active, other = await s.start("p1", identity=mine), await s.start("p0")
            thief = replace(lost, authority=renewed.authority)
            error = await (await s.start("p2", identity=thief)).end()
            assert isinstance(error, RefusedError) and "on the deny-list (tls.deny)" in str(error)
            assert active.said("refused p2: its certificate is on the deny-list")
            right = await s.start("p2", identity=renewed)
            s.unharmed({party.name: await party.end() for party in (active, other, right)})

    loop.run(whole())


def test_a_list_that_is_read_anew_ends_the_connection_of_whoever_is_on_it():
    async def whole():
        async with scene(case()) as s:
            ring = Keyring(s.known["p1"])
            active, p2 = await s.start("p1", identity=ring), await s.start("p2")
            await s.until(lambda: p2.world.roster.generation > 0)
            ring.identity = denying(s.known["p1"], s.known["p2"])
            ring.on_change()
            error = await p2.end()
            assert isinstance(error, PartyError) and "on the deny-list" in str(error)
            assert active.world.detector.refusals == {"p2": 1}

    loop.run(whole())


def test_a_passive_party_does_not_talk_to_an_active_one_on_its_deny_list():
    async def whole():
        async with scene(case()) as s:
            active, other = await s.start("p1"), await s.start("p0")
            wary = denying(s.known["p2"], s.known["p1"])
            error = await (await s.start("p2", identity=wary)).end()
            assert isinstance(error, PartyError) and str(error).startswith("p1 at 127.0.0.1:")
            assert "its certificate is on the deny-list" in str(error)
            assert not active.said("connected with p2")
            # With a list that does not name the other end, it is only looked at more closely.
            ring = Keyring(denying(s.known["p2"], s.known["p0"]))
            right = await s.start("p2", identity=ring)
            s.unharmed({party.name: await party.end() for party in (active, other, right)})

    loop.run(whole())


def test_a_passive_partys_list_that_is_read_anew_counts_for_the_connection_that_stands():
    async def whole():
        async with scene(case()) as s:
            ring = Keyring(s.known["p2"])
            await s.start("p1")
            p2 = await s.start("p2", identity=ring)
            await s.until(lambda: "p1" in p2.world.connections)
            ring.identity = denying(s.known["p2"], s.known["p1"])
            ring.on_change()
            error = await p2.end()
            assert isinstance(error, PartyError) and "on the deny-list" in str(error)

    loop.run(whole())


def test_a_renewed_certificate_is_shown_to_whoever_connects_next():
    async def whole():
        async with scene(case()) as s:
            ring, name = Keyring(s.known["p1"]), dns_name("p1")
            await s.start("p1", identity=ring)
            for chosen in (s.known["p1"], identities(("p0", "p1", "p2", "x"))["p1"]):
                ring.identity = chosen
                shown = await asyncio.to_thread(shown_certificate, s.address, chosen, name)
                own = x509.load_pem_x509_certificate(chosen.certificate)
                assert x509.load_pem_x509_certificate(shown) == own

    loop.run(whole())


@pytest.fixture
def folder(tmp_path):
    create_authority(tmp_path / "alliance")
    issue(tmp_path / "alliance", ["bank"], days=10)
    return tmp_path / "alliance" / "bank"


def ring_of(folder):
    files = [folder / name for name in ("cert.pem", "key.pem", "ca.pem")]
    return Keyring(load(folder)[0], lambda: load(folder), files)


def test_files_that_have_changed_are_read_and_broken_ones_change_nothing(folder):
    ring = ring_of(folder)
    before, text = ring.identity, (folder / "cert.pem").read_text()
    assert ring.look() == []
    (folder / "cert.pem").write_text("half a cert")
    assert ring.look() == [], "perhaps it is being written"
    (said,) = ring.look()
    assert "cert.pem has no certificate in PEM form" in said and said.endswith("as it was")
    assert ring.identity is before and ring.look() == [], "said once"
    (folder / "cert.pem").write_text(text)
    issue(folder.parent, ["bank"], days=60, renew=True)
    ring.look()
    assert ring.look() == ["read its certificates anew, because files have changed"]
    assert ring.identity.certificate != before.certificate


def test_the_coming_expiry_is_said_once_a_day(folder, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(keyrings.time, "monotonic", lambda: now[0])
    ring = ring_of(folder)
    said = []
    for now[0] in range(0, 3 * 24 * 3600, 1800):
        said += ring.look()
    assert len(said) == 2 and all("the certificate of bank expires in 9 days" in t for t in said)


def test_what_runs_reads_its_files_by_itself(folder, monkeypatch):
    monkeypatch.setattr(keyrings, "LOOK_S", 0.01)

    async def whole():
        ring, said, changed = ring_of(folder), [], asyncio.Event()
        ring.on_change = changed.set
        running = asyncio.ensure_future(ring.run(said.append))
        issue(folder.parent, ["bank"], days=60, renew=True)
        await asyncio.wait_for(changed.wait(), 30)
        running.cancel()
        assert said == ["read its certificates anew, because files have changed"]

    loop.run(whole())


def test_what_a_deny_list_may_say(folder, tmp_path):
    (shown,) = show(folder / "cert.pem")
    (tmp_path / "denied").write_text(
        f"# lost in March\n{shown.fingerprint}  # by the bank\n\nserial={shown.serial}\n"
    )
    denied = read_denied([], tmp_path / "denied")
    assert len(denied) == 2
    with pytest.raises(RequestError, match=r"cert\.pem is on the deny-list"):
        load_denied(folder, denied)
    (authority,) = show(folder / "ca.pem")
    with pytest.raises(RequestError, match=r"ca\.pem is on the deny-list"):
        load_denied(folder, read_denied([authority.fingerprint]))
    for wrong in ("bank", "12:xy", "ab" * 30):
        with pytest.raises(RequestError, match="is no fingerprint"):
            read_denied([wrong])


def load_denied(folder, denied):
    from colonnade.tls.identity import load_identity

    paths = [folder / name for name in ("cert.pem", "key.pem", "ca.pem")]
    return load_identity(*paths, "bank", listens=False, denied=denied)


def test_a_denied_authority_is_no_authority(tmp_path):
    past = datetime.now(UTC) - timedelta(days=1)
    for name in ("one", "other"):
        create_authority(tmp_path / name, now=past)
        issue(tmp_path / name, ["bank"])
    own = tmp_path / "one" / "bank"
    both = (own / "ca.pem").read_bytes() + (tmp_path / "other" / "ca.pem").read_bytes()
    (own / "ca.pem").write_bytes(both)
    (other,) = show(tmp_path / "other" / "ca.pem")
    identity, _ = load_denied(own, read_denied([other.fingerprint]))
    (kept,) = x509.load_pem_x509_certificates(identity.authority)
    assert kept == x509.load_pem_x509_certificate((tmp_path / "one" / "ca.pem").read_bytes())
