"""One party of an alignment, measured: what it took in seconds, memory and bytes (as JSON)."""

from __future__ import annotations

import argparse
import json
import resource
import time
from contextlib import closing
from pathlib import Path

from colonnade.align.workers import workers
from colonnade.job.files import load
from colonnade.job.party_file import own_job
from colonnade.job.policy import Policy
from colonnade.net.runner import Address
from colonnade.record.events import Connected, Event, Finished
from colonnade.record.party_folder import PartyFolder
from colonnade.run.align import align
from colonnade.tls.identity import load_identity
from colonnade.tls.keyring import Keyring
from colonnade.tls.signature import Credentials


class Watch:
    """When the party had all its connections, and when it ended."""

    def __init__(self, peers: int) -> None:
        self.peers, self.met, self.began_s, self.began_cpu_s, self.ended_s = peers, 0, 0.0, 0.0, 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Connected):
            self.met += 1
            if self.met == self.peers:
                self.began_s, self.began_cpu_s = time.time(), cpu_s()
        if isinstance(event, Finished):
            self.ended_s = time.time()


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("job", type=Path)
    parser.add_argument("--me", required=True)
    parser.add_argument("--keys", type=Path, required=True)
    parser.add_argument("--listen")
    parser.add_argument("--connect")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers")
    parser.add_argument("--step", type=int, default=0, help="which update; 0 is none")
    asked = parser.parse_args()
    public = load(asked.job)
    job = own_job(public, asked.me, None)
    leads = asked.me == job.active
    identity, _ = load_identity(
        *(asked.keys / name for name in ("cert.pem", "key.pem", "ca.pem")), asked.me, listens=leads
    )
    watch = Watch(len(job.passives) if leads else 1)
    with closing(PartyFolder(asked.out)) as folder, closing(workers(asked.workers)) as hands:
        found = align(
            job,
            asked.me,
            Policy(),
            Address(asked.listen, asked.connect),
            Credentials(identity),
            Keyring(identity),
            folder,
            hands,
            subscribers=[watch],
            step=asked.step,
        )
    used = resource.getrusage(resource.RUSAGE_SELF)
    ledger = asked.out / "updates" / str(asked.step) if asked.step else asked.out
    measured = {
        "common": found.facts.count,
        "seconds": watch.ended_s - watch.began_s,
        "cpu_s": cpu_s() - watch.began_cpu_s,
        "whole_cpu_s": cpu_s(),
        "rss_mib": used.ru_maxrss / 1024,
        "bytes": json.loads((ledger / "ledger.json").read_text()),
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
