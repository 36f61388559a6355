"""Party files: what a party keeps to itself (`docs/party-files.md`).

A job file is public and the same everywhere. A party file holds one party's data, model,
optimizer, device, secret seed, certificate, and the policy with which it can refuse.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from colonnade.errors import JobError, nearest
from colonnade.job.policy import Policy
from colonnade.job.reading import anchor, convert, read_toml
from colonnade.job.records import PUBLIC, Job, Party
from colonnade.job.tables import Preprocessing, check_table
from colonnade.job.train import Record, require

_FILES = {
    "tls": ("certificate", "key", "authority", "deny_file"),
    "policy": ("predict_ids",),
}
"""Fields of tables that name files."""
_SEED_BYTES = 7


class Tls(Record, frozen=True, kw_only=True):
    """A party's certificate, and by which it knows the others (the `[tls]` table)."""

    certificate: str | None = None
    """Its certificate, a PEM file."""
    key: str | None = None
    """The private key of the certificate, a PEM file that only its owner may read."""
    authority: str | None = None
    """The certificates of the authority that the other parties' certificates come from."""
    server_name: str | None = None
    """A DNS name in the active party's certificate, where that is of a company's authority."""
    names: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Which names in the certificates of a company's authority stand for which party."""

    deny: list[str] = msgspec.field(default_factory=list)
    """Fingerprints (SHA-256) or serial numbers of certificates that are not accepted any more."""
    deny_file: str | None = None
    """A file with more of them, one a line."""
    pins: dict[str, str] = msgspec.field(default_factory=dict)
    """The SHA-256 fingerprint of the key that a party must have, whatever an authority says."""

    def __post_init__(self) -> None:
        require(
            (self.certificate is None) == (self.key is None),
            "tls.certificate and tls.key belong together: give both, or neither",
        )
        for party, names in self.names.items():
            require(
                len(names) > 0 and all(names),
                f"tls.names.{party} has no name: list those in the certificate of {party}",
            )


class PartyFile(Record, frozen=True, kw_only=True):
    """What a party file says; what it leaves out is as the job has it.

    Fields that a job's `Party` has too mean the same here.
    """

    data: str | None = None
    """A named data set, for trials. Real parties have a table."""
    table: str | None = None
    table_test: str | None = None
    id: str | list[str] | None = None
    aligned: str | None = None
    label: str | None = None
    label_test: str | None = None
    sample_weight: str | None = None
    positive: str | int | None = None
    columns: list[str] | None = None
    categorical: list[str] | None = None
    preprocessing: Preprocessing | None = None
    treat: dict[str, str] | None = None
    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    view: str | None = None
    model: dict[str, Any] | None = None
    optimizer: dict[str, Any] | None = None
    schedule: dict[str, Any] | None = None
    device: str | None = None
    seed: int | None = None
    """Decides its initial weights and its dropout; nobody else may know it."""
    label_key: str | None = None
    """The file of the key by which labels are drawn where a job protects them; made when it is
    first needed. Whoever has it can tell the drawn labels from the true ones."""
    tls: Tls = Tls()
    policy: Policy = Policy()

    def __post_init__(self) -> None:
        require(
            self.data is None or self.table is None,
            "the party file has both data and table: keep the one that holds the party's rows",
        )
        require(
            self.seed is None or 0 <= self.seed < 2**63,
            "seed is not from 0 to 2^63 - 1: choose another, or leave it out to have one drawn",
        )
        check_table(self)


_OWN = tuple(field for field in PartyFile.__struct_fields__ if field in Party.__struct_fields__)


def load_party(path: str | Path) -> PartyFile:
    """Read a party file. File names in it are relative to it."""
    path = Path(path)
    tables = read_toml(path, "party file", "write one, as docs/party-files.md shows")
    for key in PUBLIC:
        if key in tables:
            raise JobError(
                f"{path}: '{key}' is for all parties to see: "
                "put it into the job file, under [parties.NAME]"
            )
    folder = path.resolve().parent
    anchor(tables, folder)
    for name, fields in _FILES.items():
        table = tables.get(name)
        if isinstance(table, dict):
            files = {key: table[key] for key in fields if isinstance(table.get(key), str)}
            table |= {key: str(folder / path) for key, path in files.items()}
    try:
        return convert(tables, PartyFile, "the party file")
    except JobError as error:
        raise JobError(f"{path}: {error}") from None


def find_party(job_source: str | Path, me: str) -> Path | None:
    """The party file of `me`: `ME.toml`, then `party.toml`, beside the job file; then the same two
    in the current folder; None if there is none of them.

    >>> find_party("digits", "nobody-of-this-name") is None
    True
    """
    job_path = Path(job_source)
    folders = [job_path.parent, Path()] if job_path.is_file() else [Path()]
    for folder in folders:
        for path in (folder / f"{me}.toml", folder / "party.toml"):
            # A party may be called as the job file is.
            if path.is_file() and path.resolve() != job_path.resolve():
                return path
    return None


def find_own(job_source: str | Path, me: str) -> Path | None:
    """As `find_party`, where one file may be the party's own and the other have come with the job.

    >>> find_own("digits", "nobody-of-this-name") is None
    True
    """
    found, job_path = find_party(job_source, me), Path(job_source)
    elsewhere = job_path.is_file() and job_path.parent.resolve() != Path().resolve()
    here = find_party("", me) if elsewhere else None
    if found is not None and here is not None and not here.samefile(found):
        raise JobError(
            f"there is a party file beside the job, {found}, which may have come with it, and one "
            f"in this folder, {here}: say with --party which is yours"
        )
    return found


def exposure(path: str | Path, file: PartyFile) -> str | None:
    """A warning where others on this computer can read a party file that holds a secret seed."""
    if file.seed is None or os.name != "posix":
        return None
    if not Path(path).stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return None
    return f"others on this computer can read {path}, which holds a secret seed: chmod 600 {path}"


def draw_seed() -> int:
    """A secret seed from the operating system, for a party that has none; draw it once and keep it.

    >>> 0 <= draw_seed() < 2**56
    True
    """
    return int.from_bytes(os.urandom(_SEED_BYTES), "little")


def public_job(job: Job) -> Job:
    """A job without what parties keep to themselves, as it may be shown to everybody.

    >>> from colonnade.job import load
    >>> public_job(load("digits")).parties["lab"] == Party()
    True
    """
    parties = {
        name: Party(**{field: getattr(party, field) for field in PUBLIC})
        for name, party in job.parties.items()
    }
    return msgspec.structs.replace(job, parties=parties)


def own_job(job: Job, me: str, file: PartyFile | None) -> Job:
    """The job as one party sees it: its own entry, completed from its file, and of the others what
    is public.

    >>> from colonnade.job import load
    >>> job = own_job(load("digits"), "lab", PartyFile(device="cuda:0"))
    >>> job.parties["lab"].view, job.parties["lab"].device, job.parties["insurer"].view
    ('strip 2/3', 'cuda:0', None)
    """
    if me not in job.parties:
        raise JobError(f"the job has no party '{me}': {nearest(me, job.parties)}")
    file = PartyFile() if file is None else file
    given = {field: getattr(file, field) for field in _OWN}
    own = _without_source(job.parties[me], file)
    own |= {field: value for field, value in given.items() if value is not None}
    public = public_job(job)
    return msgspec.structs.replace(
        public,
        parties=public.parties | {me: Party(**own)},
        data=file.data or (None if _has_files(file) else job.data),
    )


def with_files(job: Job, files: Mapping[str, PartyFile]) -> Job:
    """The job with what all of these party files say of their parties, where all are in one place.

    >>> from colonnade.job import load
    >>> with_files(load("digits"), {"lab": PartyFile(view="left")}).parties["lab"].view
    'left'
    """
    own = {name: own_job(job, name, file) for name, file in files.items()}
    parties = {
        name: own[name].parties[name] if name in own else job.parties[name] for name in job.parties
    }
    sources = {name: own[name].data if name in own else job.data for name in job.parties}
    first, source = next(iter(sources.items()))
    for name, other in sources.items():
        if other != source:
            texts = [
                f"the data set {each}" if each else "a table of its own" for each in (source, other)
            ]
            raise JobError(
                f"{first} has {texts[0]} and {name} {texts[1]}, so their rows cannot be matched: "
                "give a table to every party, or the same data set"
            )
    return msgspec.structs.replace(job, parties=parties, data=source)


def _has_files(file: PartyFile) -> bool:
    from colonnade.job.records import is_array

    return file.table is not None or (file.label is not None and is_array(file.label))


def replaced(file: PartyFile) -> tuple[str, ...]:
    """What of a party's entry no longer counts, because its party file has rows from elsewhere;
    then the job's `data` does not count either.

    >>> replaced(PartyFile(table="rows.csv"))
    ('table', 'table_test', 'label_test')
    """
    if file.data is not None:
        return ("table", "table_test", "id", "aligned", "label", "label_test")
    return ("table", "table_test", "label_test") if _has_files(file) else ()


def _without_source(party: Party, file: PartyFile) -> dict[str, Any]:
    """A party's entry, less the files that its party file replaces by rows from elsewhere."""
    gone = replaced(file)
    entry = msgspec.structs.asdict(party)
    return {field: value for field, value in entry.items() if field not in gone}
