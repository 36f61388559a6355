"""Who a certificate speaks for, and what is checked of a party's own before it is used."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import RequestError
from colonnade.net import grpc as tls
from colonnade.tls import signing
from colonnade.tls.authority import create_authority, issue
from colonnade.tls.certificate import dns_name, party_of
from tests.certificates import certificate, days, load, signer, store

PARTIES = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
NOW = datetime.now(UTC)
ROOT = signer("Root")


@pytest.fixture
def folder(tmp_path):
    create_authority(tmp_path / "alliance")
    issue(tmp_path / "alliance", ["bank", "telco"])
    return tmp_path / "alliance"


def refuse(folder, match, **options):
    with pytest.raises(RequestError, match=match) as caught:
        load(folder, **options)
    assert "\n" not in str(caught.value)


@given(PARTIES, PARTIES)
def test_no_two_parties_share_a_dns_name(one, other):
    assert (dns_name(one).lower() == dns_name(other).lower()) == (one == other)
    assert dns_name(one) == dns_name(one).lower()
    assert all(len(label) <= 63 for label in dns_name(one).split("."))


@given(PARTIES, PARTIES)
def test_a_certificate_of_ours_speaks_for_its_party_only(party, other):
    subject, public = signing.common_name(party), ROOT.key.public_key()
    extensions = signing.party_extensions(party, [])
    made = signing.sign(subject, public, subject, ROOT.key, days(0, 1), extensions)
    known = {party: (), other: (party, dns_name(party), f"colonnade:party:{party}")}
    assert party_of(signing.pem(made), known) == party
    known.pop(party)
    assert party_of(signing.pem(made), known) == (party if party in known else None)


def test_a_companys_certificate_speaks_for_who_lists_one_of_its_names():
    pem, _ = certificate(ROOT, "Bank plc", ("bank.example",), ("spiffe://bank.example/vfl",))
    for name in ("Bank plc", "bank.example", "BANK.EXAMPLE", "spiffe://bank.example/vfl"):
        assert party_of(pem, {"telco": ("telco.example",), "bank": (name,)}) == "bank"
    assert party_of(pem, {"bank": (), "Bank plc": ()}) is None
    assert party_of(pem, {"bank": ("example", "*.example", "")}) is None
    assert party_of(pem, {"bank": ("bank.example",), "telco": ("Bank plc",)}) is None


def test_a_certificate_for_two_parties_speaks_for_none():
    uris = ("colonnade:party:bank", "colonnade:party:telco")
    pem, _ = certificate(ROOT, "bank", ("bank.example",), uris)
    assert party_of(pem, {"bank": ("bank", "bank.example"), "telco": ()}) is None


@given(st.binary(max_size=200))
def test_what_is_no_certificate_speaks_for_nobody(data):
    wrapped = b"-----BEGIN CERTIFICATE-----\n" + data + b"\n-----END CERTIFICATE-----\n"
    assert party_of(data, {"bank": ("",)}) is None
    assert party_of(wrapped, {"bank": ("",)}) is None


def test_an_identity_is_loaded_and_hides_its_key(folder):
    for listens in (False, True):
        identity, warnings = load(folder / "bank", listens=listens)
        assert warnings == []
    assert identity.party == "bank"
    assert identity.key == (folder / "bank" / "key.pem").read_bytes()
    assert "PRIVATE" not in repr(identity) and "bank" in repr(identity)


@pytest.mark.parametrize("name", ["cert.pem", "key.pem", "ca.pem"])
def test_files_that_are_missing_or_something_else(folder, name):
    path = folder / "bank" / name
    good = path.read_bytes()
    for junk in (b"", b"no PEM", b"\xff\x00", good[: len(good) // 2]):
        path.write_bytes(junk)
        refuse(folder / "bank", f"{name} has no .* in PEM form")
    path.unlink()
    refuse(folder / "bank", f"there is no .*{name}.*colonnade keys issue")
    path.mkdir(mode=0o700)
    refuse(folder / "bank", f"{name} cannot be read: is a directory")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610])
def test_a_key_that_others_may_open_is_refused(folder, mode):
    (folder / "bank" / "key.pem").chmod(mode)
    refuse(folder / "bank", f"has mode {mode:04o} .*chmod 600")
    (folder / "bank" / "key.pem").chmod(0o400)
    load(folder / "bank")


def test_a_key_with_a_password_is_refused(folder):
    path = folder / "bank" / "key.pem"
    key = load_pem_private_key(path.read_bytes(), None)
    secret = BestAvailableEncryption(b"secret")
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
    refuse(folder / "bank", "needs a password: .*openssl pkey")


def test_files_that_do_not_belong_together(folder, tmp_path):
    create_authority(tmp_path / "other", name="Somebody else")
    (folder / "bank" / "ca.pem").write_bytes((tmp_path / "other" / "ca.pem").read_bytes())
    refuse(folder / "bank", "was not issued by the authority")
    (folder / "telco" / "key.pem").write_bytes((folder / "bank" / "key.pem").read_bytes())
    refuse(folder / "telco", "does not belong to the certificate", party="telco")


def test_an_authority_of_the_same_name_is_not_the_same(tmp_path):
    for name in ("one", "other"):
        create_authority(tmp_path / name, name="Alliance")
    issue(tmp_path / "one", ["bank"])
    folder = tmp_path / "one" / "bank"
    (folder / "ca.pem").write_bytes((tmp_path / "other" / "ca.pem").read_bytes())
    refuse(folder, "was not issued by the authority")


def test_another_partys_certificate_is_refused(folder):
    refuse(folder / "telco", "issued for telco and not for bank", names=("telco",))


def test_a_companys_certificate_needs_a_name_of_the_party(tmp_path):
    folder = store(tmp_path / "bank", *certificate(ROOT, dns=("bank.example",)), ROOT.pem)
    refuse(folder, r"does not name the party bank: .*\(Bank plc, bank.example\)")
    refuse(folder, "does not name the party bank", names=("telco.example",))
    identity, warnings = load(folder, names=("bank.example",))
    assert (identity.party, warnings) == ("bank", [])


def test_a_chain_may_have_certificates_in_between(tmp_path):
    middle = signer("Middle", ROOT)
    low = signer("Low", middle)
    cert, key = certificate(low)
    other = signer("Other").pem
    whole = cert + middle.pem + low.pem
    load(store(tmp_path / "whole", whole, key, other + ROOT.pem), names=("Bank plc",))
    load(store(tmp_path / "low", cert, key, low.pem), names=("Bank plc",))
    gap = store(tmp_path / "gap", cert + middle.pem, key, ROOT.pem)
    refuse(gap, "was not issued by the authority", names=("Bank plc",))
    alone = store(tmp_path / "alone", whole, key, other)
    refuse(alone, "was not issued by the authority", names=("Bank plc",))


def test_a_party_cannot_sign_for_another(tmp_path):
    create_authority(tmp_path / "alliance")
    issue(tmp_path / "alliance", ["telco"])
    telco = tmp_path / "alliance" / "telco"
    above = signer("telco")
    above.key = load_pem_private_key((telco / "key.pem").read_bytes(), None)
    cert, key = certificate(above, uris=("colonnade:party:bank",))
    authority = (telco / "ca.pem").read_bytes()
    folder = store(tmp_path / "bank", cert + (telco / "cert.pem").read_bytes(), key, authority)
    refuse(folder, "was not issued by the authority")


def test_time(tmp_path):
    create_authority(tmp_path / "a", days=1000, now=NOW - timedelta(days=500))

    def issued(name, first, last):
        start = NOW + timedelta(days=first, hours=6)
        issue(tmp_path / "a", [name], days=last - first, now=start)
        return load(tmp_path / "a" / name, party=name)[1]

    assert issued("fresh", -1, 31) == []
    [said] = issued("soon", -1, 12)
    assert said == (
        "the certificate of soon expires in 12 days: renew it with "
        "colonnade keys issue FOLDER --party soon --renew"
    )
    assert "in 1 day:" in issued("one", -1, 1)[0] and "within a day:" in issued("none", -1, 0)[0]
    with pytest.raises(RequestError, match=r"of gone expired on .*--party gone --renew"):
        issued("gone", -9, -2)
    with pytest.raises(RequestError, match=r"of early is valid only from .* correct the clock"):
        issued("early", 1, 9)


def test_time_of_the_authority(tmp_path):
    soon, over = signer("Soon", validity=days(-9, 5)), signer("Over", validity=days(-9, -1))
    folder = store(tmp_path / "soon", *certificate(soon), soon.pem)
    _, [said] = load(folder, names=("Bank plc",))
    assert said.startswith("the authority Soon, for bank, expires in 4 days: ask")
    folder = store(tmp_path / "over", *certificate(over), over.pem)
    refuse(folder, "the authority Over, for bank, expired on", names=("Bank plc",))


@pytest.mark.parametrize("listens", [False, True])
def test_the_purpose_of_a_certificate(tmp_path, listens):
    client, server = (ExtendedKeyUsageOID.CLIENT_AUTH,), (ExtendedKeyUsageOID.SERVER_AUTH,)
    right, wrong = (server, client) if listens else (client, server)
    for name, purposes in (("right", right), ("any", None)):
        folder = store(tmp_path / name, *certificate(ROOT, purposes=purposes), ROOT.pem)
        load(folder, names=("Bank plc",), listens=listens)
    folder = store(tmp_path / "wrong", *certificate(ROOT, purposes=wrong), ROOT.pem)
    said = "server .serverAuth" if listens else "client .clientAuth"
    refuse(folder, said, names=("Bank plc",), listens=listens)


def test_kinds_of_keys(tmp_path):
    good = {"p384": ec.generate_private_key(ec.SECP384R1()),
            "rsa2048": rsa.generate_private_key(65537, 2048)}  # fmt: skip
    bad = {"p521": ec.generate_private_key(ec.SECP521R1()),
           "rsa1024": rsa.generate_private_key(65537, 1024),
           "ed25519": ed25519.Ed25519PrivateKey.generate()}  # fmt: skip
    for name, key in (good | bad).items():
        folder = store(tmp_path / name, *certificate(ROOT, key=key), ROOT.pem)
        if name in good:
            load(folder, names=("Bank plc",))
        else:
            refuse(folder, "of a kind that cannot be used", names=("Bank plc",))


def test_grpc_that_was_imported_before_may_not_be_used():
    code = "import grpc\nfrom colonnade.net import grpc as tls\ntls.secure_grpc()"
    environ = {key: value for key, value in os.environ.items() if key != tls.SUITES_VARIABLE}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)
    assert "RequestError: gRPC was imported before and may speak TLS 1.2" in done.stderr
    environ[tls.SUITES_VARIABLE] = tls.SUITES
    assert subprocess.run([sys.executable, "-c", code], env=environ).returncode == 0


def test_grpc_polls_as_long_as_it_can_and_says_nothing_of_it():
    """A release that does not know the setting any more would complain on standard error."""
    code = (
        "import asyncio, os\nfrom colonnade.net import grpc as tls\ngrpc = tls.secure_grpc()\n"
        "async def serve():\n"
        "    server = grpc.aio.server()\n"
        "    server.add_insecure_port('127.0.0.1:0')\n"
        "    await server.start()\n"
        "    await server.stop(0)\n"
        "asyncio.run(serve())\nprint(os.environ.get(tls.ENGINE_VARIABLE))"
    )
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GRPC_")}

    def run(**own: str) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environ | own, capture_output=True, text=True
        )
        return done.stdout.strip(), done.stderr

    minor = int(version("grpcio").split(".")[1])
    polls = tls.POLLING if minor in tls.KNOW_POLLING else "None"
    assert run() == (polls, "")
    assert run(GRPC_EXPERIMENTS="-event_engine_client") == ("-event_engine_client", "")
