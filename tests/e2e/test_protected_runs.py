"""Protections in processes of their own: keys, fresh noise, and the account of it."""

import json
import stat
from collections import Counter
from contextlib import closing

import pytest
import torch
from safetensors.torch import load_file

from colonnade import simulate
from colonnade.cli import main
from colonnade.compress import plain
from colonnade.job import load
from colonnade.protect.accountant import epsilon_of, mu
from colonnade.protect.embedding import gauss
from colonnade.record.card import Spent, read_card
from colonnade.record.chain import verify
from colonnade.record.party_folder import PartyFolder
from colonnade.run.join import TrainingParticipation
from colonnade.run.setup import participant
from colonnade.wire.messages import Embedding
from tests.alliance import ACTIVE, Alliance, until

WORDS = [
    *("launch", "breast-cancer", "--quiet", "--set", "train.epochs=2"),
    *("--set", "method.protect.labels=flip:2", "--set", "method.protect.embedding=gauss:2:0.5"),
]


@pytest.mark.usefixtures("stood_in")
def test_launched_parties_draw_labels_and_noise_and_account_for_them(tmp_path):
    for name in ("one", "other"):
        assert main([*WORDS, "--out", str(tmp_path / name)]) == 0
    own = tmp_path / "one" / "parties"
    facts = json.loads((own / "lab" / "party.json").read_text())["privacy"]
    expected = epsilon_of(mu(gauss(2, 0.5), 2))
    assert facts == {"releases": 2, "epsilon": expected, "delta": 1e-5}
    assert "its rows left up to 2 times with gauss:2:0.5" in (own / "lab" / "log.txt").read_text()
    summary = json.loads((tmp_path / "one" / "summary.json").read_text())
    assert summary["epsilon"] == {"lab": facts}
    card = json.loads((own / "lab" / "model.json").read_text())
    assert card["spent"] == {"releases": 2, "mu": mu(gauss(2, 0.5), 2)}
    assert "privacy" not in json.loads((own / "hospital" / "party.json").read_text())
    key = own / "hospital" / "labels.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(key.read_bytes()) == 32
    assert not (own / "lab" / "labels.key").exists()
    # The seeds are the same, the noise and the labels are not.
    one, other = (
        load_file(tmp_path / name / "parties" / "lab" / "last.safetensors")
        for name in ("one", "other")
    )
    assert any((one[name] != other[name]).any() for name in one)
    assert key.read_bytes() != (tmp_path / "other/parties/hospital/labels.key").read_bytes()


SHOWN = [
    *("method.name=cvfl", "method.q=2", "train.labels=shared"),
    "method.protect.embedding=gauss:1:8",
]
"""The active party's embeddings leave it in snapshots."""


def interrupted(run):
    """The active party's process is killed in the first of two epochs, and started again."""
    run.start()
    chain, far = run.run_folder(ACTIVE) / "ledger.chain", '"kind":"Snapshot","round":25'
    until(lambda: chain.exists() and far in chain.read_text(), 40, "round 25")
    run.kill(ACTIVE)
    run.start(ACTIVE)


def shown_most(folder, plan):
    """How often the row left most often that a ledger's snapshots show: once in each round of each
    attempt, to whomever."""
    attempt, shown = 0, set()

    def take(line):
        nonlocal attempt
        attempt += line.note is not None and ("goes on from" in line.note or "start" in line.note)
        if line.way == "sent" and line.kind == "Snapshot":
            shown.add((attempt, line.round))

    verify(folder / "ledger.chain", take)
    left = Counter(row for _, round in shown for row in plan.batch(round).tolist())
    return max(left.values())


def test_what_snapshots_show_of_an_active_party_is_counted_over_all_attempts(tmp_path):
    with Alliance(tmp_path, *SHOWN, emulate="latency=5ms") as run:
        interrupted(run)
        assert run.codes(60) == dict.fromkeys(run.processes, 0), run.said()
        own = run.run_folder(ACTIVE)
        facts = json.loads((own / "party.json").read_text())["privacy"]
        job = load(tmp_path / "job.toml", SHOWN)
        plan = participant(load(tmp_path / "job.toml"), "lab").agreement().plan
        assert job.train.rounds == 60 and plan.per_epoch > 30
        most = shown_most(own, plan)
        # Whatever is noted between two snapshots of a round makes the count one too large.
        assert most > 2 and most <= facts["releases"] <= most + 1, "planned are two epochs"
        card = json.loads((own / "model.json").read_text())
        assert card["spent"] == {
            "releases": facts["releases"],
            "mu": mu(gauss(1, 8), facts["releases"]),
        }
        assert json.loads((own / "summary.json").read_text())["epsilon"] == {ACTIVE: facts}


def test_an_active_party_stops_before_snapshots_show_a_row_once_too_often(tmp_path):
    most = epsilon_of(mu(gauss(1, 8), 2))
    with Alliance(tmp_path, *SHOWN, emulate="latency=5ms") as run:
        (tmp_path / f"{ACTIVE}.toml").write_text(
            f"[policy]\nshares_labels = true\nepsilon_max = {most!r}\n"
        )
        interrupted(run)
        assert run.codes(60) == dict.fromkeys(run.processes, 1), run.said()
        assert "lets a row leave 2 times with gauss:1:8, and that is used up" in run.output(ACTIVE)
        plan = participant(load(tmp_path / "job.toml"), "lab").agreement().plan
        assert shown_most(run.run_folder(ACTIVE), plan) <= 2


def test_who_has_kept_a_result_and_begins_again_lets_it_say_so_before_anything_leaves(tmp_path):
    """The next process may be killed before it keeps anything itself."""
    job = load("breast-cancer", ["train.epochs=1", "method.protect.embedding=gauss:1:8"])
    simulate(job).save(tmp_path)
    own, me = tmp_path / "parties" / "lab", participant(job, "lab")
    (own / "party.json").write_text('{"rounds": 1}')
    with closing(PartyFolder(own)) as folder:
        taking = TrainingParticipation(me, folder)
        gate = taking.counter()
        batch = plain().encode(torch.ones(len(me.agreement().plan.batch(0)), me.width))
        for times in (1, 2):
            gate.release(Embedding(0, batch))
            card = read_card(own)
            assert card.spent == Spent(times, mu(gauss(1, 8), times))
            assert json.loads((own / "party.json").read_text())["privacy"]["releases"] == times
        taking.chain.close()
    # What a process before it sent is in its ledger, and its count goes on from there.
    with closing(PartyFolder(own)) as folder:
        again = TrainingParticipation(me, folder)
        again.chain.message(0, "sent", "hospital", "Embedding", 0, 99)
        again.counter().release(Embedding(0, batch))
        assert read_card(own).spent.releases == 2
        again.chain.close()
