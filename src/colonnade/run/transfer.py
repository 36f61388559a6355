"""Federated transfer learning between two processes on this computer, over mTLS on loopback."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory

from threadpoolctl import threadpool_limits

from colonnade.errors import ColonnadeError, FailedError
from colonnade.job.records import Job, Party
from colonnade.net.detector import FailureDetector, new_generation, new_incarnation
from colonnade.net.runner import Address, run_connected
from colonnade.net.world import NetworkWorld
from colonnade.party.session import run_session
from colonnade.run.processes import end_with_parent, free_port
from colonnade.run.provision import new_keys
from colonnade.tls.identity import load_identity
from colonnade.tls.keyring import Keyring
from colonnade.transfer.program import Measured, Transfer
from colonnade.transfer.rows import credit_rows
from colonnade.transfer.setting import Setting

GUEST, HOST = "guest", "host"
Tell = Callable[[int, float], None]


def job_of(setting: Setting) -> Job:
    """The two parties, as the network knows them."""
    parties = {GUEST: Party(role="active"), HOST: Party()}
    return Job(name="fedbcd-he", data="credit", parties=parties, seed=setting.seed)


@dataclass(frozen=True)
class _Part:
    """What a process is started with."""

    name: str
    setting: Setting
    rows_max: int | None
    address: str
    keys: Path


def train_encrypted(
    setting: Setting, rows_max: int | None = None, tell: Tell = lambda round, auc: None
) -> Mapping[str, Measured]:
    """Train with real ciphertexts on a real wire; what each party knows at the end. `tell` is
    called after each round, with its AUC."""
    context = get_context("spawn")
    with TemporaryDirectory(prefix="colonnade-") as folder:
        keys = new_keys(job_of(setting), Path(folder))
        address = f"127.0.0.1:{free_port()}"
        ends, workers = {}, []
        for name in (GUEST, HOST):
            ours, theirs = context.Pipe(duplex=False)
            part = _Part(name, setting, rows_max, address, keys)
            worker = context.Process(target=_take_part, args=(part, theirs), daemon=True)
            worker.start()
            theirs.close()
            ends[name] = ours
            workers.append(worker)
        try:
            return _listen(ends, tell)
        finally:
            for worker in workers:
                worker.kill()
                worker.join()


def _listen(ends: dict[str, Connection], tell: Tell) -> Mapping[str, Measured]:
    found: dict[str, Measured] = {}
    names = {end: name for name, end in ends.items()}
    while len(found) < len(ends):
        for end in wait([end for name, end in ends.items() if name not in found]):
            assert isinstance(end, Connection)
            name = names[end]
            try:
                said = end.recv()
            except EOFError:
                raise FailedError(f"{name} ended without a result") from None
            if isinstance(said, Measured):
                found[name] = said
            elif isinstance(said, str):
                raise FailedError(f"{name}: {said}")
            else:
                tell(*said)
    return found


def _take_part(part: _Part, end: Connection) -> None:
    end_with_parent()
    try:
        with threadpool_limits(1):
            end.send(_run(part, lambda round, auc: end.send((round, auc))))
    except ColonnadeError as error:
        end.send(str(error))


def _run(part: _Part, tell: Tell) -> Measured:
    job, name = job_of(part.setting), part.name
    leads = name == GUEST
    own = part.keys / name
    files = own / "cert.pem", own / "key.pem", own / "ca.pem"
    identity, _ = load_identity(*files, name, listens=leads)
    rows = credit_rows(part.setting, part.rows_max)
    program = Transfer(name, leads, part.setting, rows, os.urandom, tell)
    world = NetworkWorld(
        job,
        name,
        FailureDetector(job.timeouts, name, ()),
        incarnation=new_incarnation(),
        generation=new_generation(),
    )
    where = Address(listen=part.address) if leads else Address(connect=part.address)
    (found,) = run_connected(world, where, Keyring(identity), lambda: run_session(world, [program]))
    assert isinstance(found, Measured)
    used = os.times()
    found.cpu_s = used.user + used.system
    return found
