"""`colonnade keys`: what it makes, what it refuses, what it shows."""

import errno
import json
import os
import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from colonnade.cli import app, main
from colonnade.cli.keys import keys
from colonnade.errors import RequestError
from colonnade.tls import authority
from colonnade.tls.authority import create_authority, issue, read_host, write
from tests.certificates import certificate, signer, store

LONG_AGO = datetime.now(UTC) - timedelta(days=100)


@pytest.fixture(autouse=True)
def wired(monkeypatch):
    if all(group.name != "keys" for group in app.registered_groups):
        monkeypatch.setattr(app, "registered_groups", [])
        app.add_typer(keys, name="keys")


@pytest.fixture
def folder(tmp_path):
    create_authority(tmp_path / "alliance")
    return tmp_path / "alliance"


def run(capsys, *words):
    code = main(["keys", *(str(word) for word in words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *words):
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith("colonnade: ") and err.count("\n") == 1
    return err


def load(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def extension(path, kind):
    return load(path).extensions.get_extension_for_class(kind)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_init_makes_an_authority(capsys, tmp_path):
    code, out, err = run(capsys, "init", tmp_path / "new" / "alliance", "--name", "Us", "--days", 9)
    assert (code, err) == (0, "") and "ca.key" in out
    path = tmp_path / "new" / "alliance" / "ca.pem"
    constraints = extension(path, x509.BasicConstraints)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    usage = extension(path, x509.KeyUsage)
    assert usage.critical and usage.value.key_cert_sign and not usage.value.digital_signature
    own = extension(path, x509.SubjectKeyIdentifier).value.digest
    assert extension(path, x509.AuthorityKeyIdentifier).value.key_identifier == own
    made = load(path)
    assert made.subject == made.issuer and made.subject.rfc4514_string() == "CN=Us"
    assert made.public_key().curve.name == "secp256r1"
    left = made.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=8) < left <= timedelta(days=9)
    assert made.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=30)


@pytest.mark.parametrize("left", ["ca.key", "ca.pem"])
def test_init_never_overwrites_an_authority(capsys, folder, left):
    (folder / ({"ca.key", "ca.pem"} - {left}).pop()).unlink()
    before = contents(folder)
    assert f"{left} is there already" in refused(capsys, "init", folder)
    assert contents(folder) == before


def test_issue_makes_a_folder_to_hand_over(capsys, folder):
    hosts = "bank=Bank.example,10.0.0.5,::1"
    words = ["issue", folder, "--party", "bank", "--party", "telco", "--host", hosts]
    code, out, err = run(capsys, *words)
    assert (code, err) == (0, "") and out.count("\n") == 2
    assert {path.name for path in (folder / "bank").iterdir()} == {"ca.pem", "cert.pem", "key.pem"}
    assert (folder / "bank" / "ca.pem").read_bytes() == (folder / "ca.pem").read_bytes()
    path = folder / "bank" / "cert.pem"
    load(path).verify_directly_issued_by(load(folder / "ca.pem"))
    names = extension(path, x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["bank.colonnade.internal", "bank.example"]
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["colonnade:party:bank"]
    addresses = [ip_address("10.0.0.5"), ip_address("::1")]
    assert names.get_values_for_type(x509.IPAddress) == addresses
    assert load(path).subject.rfc4514_string() == "CN=bank"
    assert set(extension(path, x509.ExtendedKeyUsage).value) == {
        ExtendedKeyUsageOID.CLIENT_AUTH,
        ExtendedKeyUsageOID.SERVER_AUTH,
    }
    constraints = extension(path, x509.BasicConstraints)
    assert constraints.critical and not constraints.value.ca
    above = extension(folder / "ca.pem", x509.SubjectKeyIdentifier).value.digest
    assert extension(path, x509.AuthorityKeyIdentifier).value.key_identifier == above
    telco = extension(folder / "telco" / "cert.pem", x509.SubjectAlternativeName).value
    assert telco.get_values_for_type(x509.DNSName) == ["telco.colonnade.internal"]


def test_keys_have_their_mode_from_the_start(monkeypatch, tmp_path):
    def forbidden(*_, **__):
        raise AssertionError("a mode is given when a file is made, not later")

    for name in ("chmod", "fchmod"):
        monkeypatch.setattr(os, name, forbidden)
    before = os.umask(0)
    try:
        create_authority(tmp_path / "alliance")
        issue(tmp_path / "alliance", ["bank"])
    finally:
        os.umask(before)
    folder = tmp_path / "alliance"
    assert mode(folder / "ca.key") == mode(folder / "bank" / "key.pem") == 0o600
    assert mode(folder) == mode(folder / "bank") == 0o700


def test_an_existing_certificate_is_replaced_only_when_asked(capsys, folder):
    issue(folder, ["bank"], {"bank": ["bank.example", "10.0.0.5"]}, days=5)
    before = contents(folder)
    assert "add --renew" in refused(capsys, "issue", folder, "--party", "new", "--party", "bank")
    assert contents(folder) == before
    words = ["issue", folder, "--party", "new", "--party", "bank", "--renew"]
    code, out, _ = run(capsys, *words)
    assert (
        code == 0 and "new cert.pem to bank" in out and "this folder, in a safe way, to new" in out
    )
    assert [(folder / "bank", False)] == issue(folder, ["bank"], renew=True)
    changed = {path for path, data in contents(folder).items() if before.get(path) != data}
    new = {folder / "new" / name for name in ("key.pem", "ca.pem", "cert.pem")}
    assert changed == new | {folder / "bank" / "cert.pem"}
    cert = load(folder / "bank" / "cert.pem")
    assert cert.not_valid_after_utc > datetime.now(UTC) + timedelta(days=300)
    names = extension(folder / "bank" / "cert.pem", x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["bank.colonnade.internal", "bank.example"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("10.0.0.5")]


def test_renewal_needs_no_key_and_takes_new_hosts(folder):
    issue(folder, ["bank"], {"bank": ["old.example"]})
    public = load(folder / "bank" / "cert.pem").public_key()
    (folder / "bank" / "key.pem").unlink()
    issue(folder, ["bank"], {"bank": ["new.example"]}, renew=True)
    assert load(folder / "bank" / "cert.pem").public_key() == public
    assert not (folder / "bank" / "key.pem").exists()
    names = extension(folder / "bank" / "cert.pem", x509.SubjectAlternativeName).value
    assert "new.example" in names.get_values_for_type(x509.DNSName)
    assert "old.example" not in names.get_values_for_type(x509.DNSName)


def test_only_a_certificate_of_this_authority_is_renewed(folder, tmp_path):
    create_authority(tmp_path / "other")
    issue(tmp_path / "other", ["bank"])
    issue(folder, ["telco"])
    (folder / "bank").mkdir()
    for source in (tmp_path / "other" / "bank", folder / "telco"):
        (folder / "bank" / "cert.pem").write_bytes((source / "cert.pem").read_bytes())
        with pytest.raises(RequestError, match="not a certificate of bank made here"):
            issue(folder, ["bank"], renew=True)


def test_a_key_is_never_overwritten(folder, tmp_path):
    (folder / "bank").mkdir()
    (folder / "bank" / "key.pem").write_text("precious")
    for renew in (False, True):
        with pytest.raises(RequestError, match="no certificate beside it"):
            issue(folder, ["bank"], renew=renew)
    with pytest.raises(RequestError, match="file exists"):
        write(folder / "bank" / "key.pem", b"other", 0o600, fresh=True)
    assert [path.read_text() for path in (folder / "bank").iterdir()] == ["precious"]


def test_a_full_disk_leaves_no_half_file(monkeypatch, folder):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(authority.os, "fsync", full)
    with pytest.raises(RequestError, match=r"key\.pem cannot be written: no space left"):
        issue(folder, ["bank"])
    assert list((folder / "bank").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no party is named"),
        (["--party", "a.b"], "'a.b' cannot be a party's name"),
        (["--party", "x" * 65], "cannot be a party's name"),
        (["--party", "../up"], "cannot be a party's name"),
        (["--party", "bank", "--party", "bank"], "named twice"),
        (["--party", "bank", "--host", "telco=a.example"], "add --party telco"),
        (["--party", "bank", "--host", "bank"], "write --host"),
        (["--party", "bank", "--host", "bank=a.example:7443"], "without a port"),
        (["--party", "bank", "--host", "bank=telco.colonnade.internal"], "kept for the parties"),
        (["--party", "bank", "--days", "0"], "between 1 and"),
        (["--party", "bank", "--days", "5000"], "give fewer --days"),
        (["--party"], "requires an argument"),
    ],
)
def test_what_issue_refuses(capsys, folder, words, said):
    before = contents(folder)
    assert said in refused(capsys, "issue", folder, *words)
    assert contents(folder) == before


def test_issue_needs_the_whole_authority(capsys, folder, tmp_path):
    assert "keys init" in refused(capsys, "issue", tmp_path, "--party", "bank")
    create_authority(tmp_path / "other")
    (folder / "ca.pem").write_bytes((tmp_path / "other" / "ca.pem").read_bytes())
    assert "is not the key of" in refused(capsys, "issue", folder, "--party", "bank")
    (folder / "ca.key").chmod(0o640)
    assert "chmod 600" in refused(capsys, "issue", folder, "--party", "bank")


def test_other_refusals(capsys, tmp_path):
    assert "authority's name" in refused(capsys, "init", tmp_path / "a", "--name", "x" * 65)
    assert "between 1 and" in refused(capsys, "init", tmp_path / "a", "--days", 10**9)
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").touch()
    assert "cannot be made" in refused(capsys, "init", tmp_path / "file" / "a")
    assert "no certificate in PEM form" in refused(capsys, "show", tmp_path / "file")
    assert "there is no certificate" in refused(capsys, "show", tmp_path / "nothing")
    assert "no cert.pem" in refused(capsys, "show", tmp_path)


@pytest.mark.parametrize("host", ["bank_1.example", "*.example", "xn--bnk-ela.example", "a" * 63])
def test_a_host_is_a_name_or_an_address(host):
    assert read_host(host) == host


@pytest.mark.parametrize(
    "host", ["", ".", "a..b", "-a.example", "bänk.example", "10.0.0", "a.*.b", "a" * 64, "a b", "."]
)
def test_what_is_no_host(host):
    with pytest.raises(RequestError, match="neither a host's name nor an IP address"):
        read_host(host)


def test_show(capsys, folder):
    issue(folder, ["bank", "telco"], {"bank": ["bank.example"]}, days=20)
    code, out, err = run(capsys, "show", folder / "bank")
    assert (code, err) == (0, "")
    assert "bank.example" in out and "19 days left" in out and "Colonnade authority" in out
    code, out, _ = run(capsys, "show", folder, "--json")
    found = json.loads(out)
    assert [each["party"] for each in found] == [None, "bank", "telco"]
    assert [each["expired"] for each in found] == [False] * 3
    assert found[1]["hosts"] == ["bank.colonnade.internal", "bank.example"]
    assert found[1]["issuer"] == found[0]["subject"]
    assert found[1]["days_left"] == 19
    assert len(found[1]["fingerprint"].split(":")) == 32
    [alone] = json.loads(run(capsys, "show", folder / "bank" / "cert.pem", "--json")[1])
    assert alone == found[1]


def test_show_fails_where_a_certificate_has_expired(capsys, tmp_path):
    create_authority(tmp_path / "alliance", now=LONG_AGO)
    issue(tmp_path / "alliance", ["bank"], days=10, now=LONG_AGO)
    code, out, err = run(capsys, "show", tmp_path / "alliance" / "bank")
    assert code == 1 and ", expired" in out
    assert err.startswith("colonnade: expired: ") and err.count("\n") == 1
    assert "cert.pem" in err and "ca.pem" not in err
    code, out, _ = run(capsys, "show", tmp_path / "alliance" / "bank" / "cert.pem", "--json")
    assert code == 1 and json.loads(out)[0]["days_left"] == -91


def test_show_of_a_companys_chain(capsys, tmp_path):
    root = signer("Root of Bank plc")
    cert, key = certificate(root, "Bank plc", dns=("bank.example",))
    store(tmp_path / "bank", cert + root.pem, key, root.pem)
    found = json.loads(run(capsys, "show", tmp_path / "bank" / "cert.pem", "--json")[1])
    assert [each["subject"] for each in found] == ["Bank plc", "Root of Bank plc"]
    assert [each["party"] for each in found] == [None, None]


def test_help_comes_with_examples(capsys):
    for words in ([], ["--help"]):
        code, out, _ = run(capsys, *words)
        assert code == 0 and "Example: colonnade keys init" in out
    for command in ("init", "issue", "show"):
        code, out, _ = run(capsys, command, "--help")
        assert code == 0 and f"Example: colonnade keys {command}" in out
