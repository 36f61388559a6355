"""What each party is given when all of them are started on one computer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from colonnade.errors import RequestError
from colonnade.job.files import dumps, modules
from colonnade.job.party_file import PartyFile, own_job, public_job, replaced
from colonnade.job.policy import Policy
from colonnade.job.reading import anchor
from colonnade.job.records import Job, Party
from colonnade.learn.participant import secret_seed
from colonnade.run.processes import free_port
from colonnade.tls.authority import create_authority, issue, make_folder, write


def new_keys(job: Job, private: Path) -> Path:
    """Certificates for this run only."""
    folder = private / "keys"
    create_authority(folder, days=366)
    issue(folder, list(job.parties))
    return folder


def check_keys(job: Job, keys: Path) -> Path:
    """A folder that has a certificate for each party."""
    for name in job.parties:
        if not (keys / name / "cert.pem").exists():
            raise RequestError(
                f"there is no certificate of {name} in {keys}: make one with colonnade keys issue "
                f"{keys} --party {name}"
            )
    return keys


def provide(
    job: Job,
    files: Mapping[str, PartyFile],
    private: Path,
    keys: Path,
    secret_seeds: bool = False,
) -> dict[str, list[str]]:
    """Write the files that each party gets, and nobody else; the options of `join` that name them.

    They lie in the folder `private`, which must be for its owner only. With `secret_seeds` a party
    without a seed is given none, and draws one.
    """
    # Nobody waits for a party that was stopped: one command starts all of them again.
    recovery = msgspec.structs.replace(job.recovery, on_stop="stop")
    public = msgspec.structs.replace(public_job(job), recovery=recovery, data=None)
    make_folder(private)
    write(private / "job.toml", dumps(public).encode(), 0o600)
    allow = [word for module in modules(job) for word in ("--allow", module)]
    folder = private / "parties"
    make_folder(folder)
    address = f"127.0.0.1:{free_port()}"
    options = {}
    for name, file in all_files(job, files).items():
        if file.seed is None and not secret_seeds:
            file = msgspec.structs.replace(file, seed=secret_seed(job, name))
        if not replaced(file):
            file = msgspec.structs.replace(file, data=job.data)
        path = folder / f"{name}.toml"
        write(path, party_text(file).encode(), 0o600)
        options[name] = [str(private / "job.toml"), "--me", name, "--party", str(path)]
        options[name] += ["--listen" if name == job.active else "--connect", address]
        options[name] += ["--keys", str(keys / name), *allow]
    return options


def all_files(job: Job, files: Mapping[str, PartyFile]) -> dict[str, PartyFile]:
    """The file of each party; who has none is given one that says what the job says of it."""
    return {name: files.get(name) or own_file(job, name, _policy(job)) for name in job.parties}


def _policy(job: Job) -> Policy:
    """A job that shares the labels was written by whoever holds them: here all parties are one."""
    return Policy(shares_labels=job.train.labels == "shared")


def own_file(job: Job, name: str, policy: Policy) -> PartyFile:
    """A party file that says all that a job says of a party.

    >>> from colonnade.job import load
    >>> own_file(load("digits"), "lab", Policy()).view
    'strip 2/3'
    """
    own = own_job(job, name, None)
    shared = set(PartyFile.__struct_fields__) & set(Party.__struct_fields__)
    entry = {key: getattr(own.parties[name], key) for key in shared}
    return PartyFile(**entry, data=own.data, policy=policy)


def party_text(file: PartyFile) -> str:
    """The TOML of a party file, but for its `[tls]` table; file names are as seen from here.

    >>> party_text(PartyFile(seed=5, policy=Policy(batch_min=2)))
    'seed = 5\\n\\n[policy]\\nbatch_min = 2\\nshares_labels = false\\nshares_id_shape = false\\n'
    """
    import tomli_w

    tables = msgspec.to_builtins(file)
    del tables["tls"]
    anchor(tables, Path.cwd())
    return tomli_w.dumps(_without_none(tables))


def _without_none(tables: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in tables.items()
        if value is not None
    }
