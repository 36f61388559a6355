"""Specimens: a small folder of each kind that Colonnade writes, kept so that later versions show
that they still read it.

`python -m tests.formats.make NAME` writes those of the present version into `tests/formats/NAME`.
A folder that is there is never written again: when a format changes, its specimens go into a folder
of their own, and the old ones stay. `before` was made by the last version whose files said no
version of their format.
"""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

import msgspec
import numpy as np
import torch

from colonnade.align.desk import Desk
from colonnade.align.idset import IdSet
from colonnade.data.aligned import FACTS, ROWS, Alignment, pack_rows
from colonnade.job import load
from colonnade.job.ids import Ids
from colonnade.job.records import Job
from colonnade.predict.account import RowAccount
from colonnade.privacy.findings import Audit
from colonnade.record.chain import Chain
from colonnade.record.checkpoints import FileStore
from colonnade.record.events import RoundDone
from colonnade.record.exchanges import Exchanges
from colonnade.record.party_folder import PartyFolder
from colonnade.record.prediction import Prediction
from colonnade.record.run import PartyRun
from colonnade.record.timeline import Timeline
from colonnade.run.audit import save_audit
from colonnade.run.compare import Comparison
from colonnade.run.entrants import BASELINE, Setting
from colonnade.run.ladder import Ladder
from colonnade.run.points import Measured, Outcome, Points
from colonnade.run.pool import Trial
from colonnade.run.simulate import simulate
from colonnade.run.standings import Race
from colonnade.run.sweep import Point, Sweep
from colonnade.run.tuning import Tuned
from colonnade.study.design import Arm, Rule, Study
from colonnade.study.findings import Findings, judged
from colonnade.study.running import save
from colonnade.testing.small import small, with_network

HERE = Path(__file__).parent
RUN = "4f" * 16
ROUND, ATTEMPT = 2, "a1"
"""Of the checkpoint."""


def job() -> Job:
    """Of the studies."""
    return load("digits", ["train.rounds=4"])


def run_folder(out: Path) -> None:
    """A simulation of two parties, recorded, with an audit of it."""
    case = small(2, rounds=2, evaluate_every="1 round", validation=0.25)
    timed = with_network(case.job, latency="5ms")
    simulate(timed, case.data, case.modules, record=1).save(out)
    save_audit(Audit(known=1, covered=[], findings=[], verdict=[], not_tested=[]), out)


def party_folder(out: Path) -> None:
    """One party's own folder, with a checkpoint and a ledger."""
    folder = PartyFolder(out)
    folder.remember("started_ns", 7)
    chain = Chain.open(folder.chain, "bank", "job", 7)
    chain.message(8, "received", "telco", "Embedding", 0, 64)
    chain.note(9, "saved the checkpoint of round 2", kept=ROUND)
    chain.close()
    store = FileStore(folder.checkpoints, "bank", "d1")
    store.begin(RUN, ATTEMPT, 0)
    store.save(ROUND, {"round": ROUND, "weights": torch.ones(2)})
    entry = {"peer": "telco", "direction": "received", "kind": "Embedding", "purpose": "training"}
    weights = {"bottom.weight": torch.ones(2)}
    spans = Timeline()
    spans.add("forward", 0, 5)
    exchanges = Exchanges()
    exchanges(RoundDone("bank", 9, round=0, rounds=2, sent_ns=1, replied_ns=8))
    party = PartyRun(
        fresh=2, local=0, in_flight_max=1, efforts=[(1, 0.1), (1, 0.1)], actions=[], busy_s=0.5,
        idle_s=0.25, ledger=[{**entry, "messages": 1, "bytes": 64}], spans=spans,
        exchanges=exchanges,
        weights=weights, best_weights=None,
    )  # fmt: skip
    facts = {"party": "bank", "role": "active", "status": "end", "rounds": ROUND, "time_s": 1.0}
    folder.save(party, {**facts, "per_epoch": 1, "refusals": 0})
    folder.complete()
    folder.close()
    (out / "lock").unlink()


def alignment_folder(out: Path) -> None:
    """An alignment, and where it was worked on."""
    import pyarrow as pa

    desk = Desk(out / "work")
    IdSet.build(desk.folder / "ids.bin", [pa.array(["c1", "c2"])], Ids(), "bank.csv")
    desk.secrets(RUN, lambda count: bytes(count))
    facts = Alignment(
        party="bank", common=RUN, count=2, sizes={"bank": 2, "telco": 2}, id=("customer",),
        rule=Ids().text(), table="5e" * 32,
    )  # fmt: skip
    (out / FACTS).write_text(msgspec.json.encode(facts).decode() + "\n")
    (out / ROWS).write_bytes(pack_rows(np.array([1, 0])))


def studies(out: Path) -> None:
    """A comparison, a sweep, a race and a paper's experiment."""
    metric = {"name": "accuracy", "final": 0.5, "best": 0.5, "test": 0.5, "chosen_on": "validation"}
    costs = {"time_to_target_s": None, "rounds_to_target": None, "bytes_to_target": None}
    spent = {"time_s": 1.0, "rounds": 4, "epochs": 0.5, "evaluation_bytes": 8}
    spent |= {"bytes": {"up": 4, "down": 4, "total": 8}}
    spent |= {"updates": {"lab": {"fresh": 4, "local": 0}}, "busy_s": {}, "idle_s": {}}
    told = {"status": "end", "metric": metric, "clock": "virtual", "loss": 0.7, **costs, **spent}
    row = {"round": 4, "time_s": 1.0, "bytes_up": 4, "bytes_down": 4, "accuracy": 0.5, "best": True}
    trial = Trial("fedsgd", job(), told, [row])
    Comparison([trial]).save(out / "comparison")
    run = {"loss": 0.7, "metric": metric}
    (out / "sweep").mkdir(parents=True)
    Sweep("digits", [Point({"seed": 1}, {"name": "fedsgd"}, {}, {0: run})], out / "sweep").save()
    points = Points(out / "race" / "points")
    (out / "race" / "points").mkdir(parents=True)
    points._keep(trial)
    outcome = Outcome("fedsgd", 0, "end", None, "accuracy", [Measured(4, 1.0, 8, 0.5)], 0.5)
    setting = Setting(BASELINE, {"name": "fedsgd"}, 1.0, {}, "none")
    tuned = {BASELINE: Tuned(setting, [outcome], [(setting, 4, (0.0, 1.0, 4.0, -0.5))], [])}
    ladder = Ladder((1.0,), relative=True)
    Race(job(), out / "race", "accuracy", 0.5, None, None, [0], [1], [4], ladder, tuned,
         {BASELINE: [outcome]}).save()  # fmt: skip
    (out / "study").mkdir(parents=True)
    rule = Rule("fair", "One rate.", 0.4)
    study = Study("what it shows", "nobody", "digits", (Arm("FedSGD", {}),), (rule,), (0,))
    row = judged(outcome, 0.4, 1, rule="fair", setting="", arm="FedSGD", rate="0.05")
    save(Findings(study, [row]), out / "study")


def account_folder(out: Path) -> None:
    """What rows have told by being scored."""
    account = RowAccount(out, bytes(16) + b"\1" * 16, "ids", once=1.0)
    account.refuse(np.array([0, 0, 1]))
    account.settle()


def prediction_folder(out: Path) -> None:
    """What a party that has scored rows says of that."""
    out.mkdir(parents=True, exist_ok=True)
    Prediction(
        program="predict", party="bank", role="active", models=(f"{RUN[:12]}-{ROUND}",),
        status="end", rows=8, time_s=1.0, busy_s=0.5, idle_s=0.25,
    ).save(out)  # fmt: skip


SCENES = {
    "run": run_folder,
    "party": party_folder,
    "alignment": alignment_folder,
    "studies": studies,
    "account": account_folder,
    "prediction": prediction_folder,
}


def make(out: Path) -> None:
    """All specimens."""
    for name, write in SCENES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write(out / name)
    for path in sorted(out.rglob("*")):
        if path.is_file():
            path.chmod(0o644)


if __name__ == "__main__":
    place = HERE / sys.argv[1]
    if place.exists():
        sys.exit(f"{place} is there: specimens are never written again, choose another name")
    try:
        make(place)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
