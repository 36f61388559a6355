"""`colonnade align` between real processes over mTLS, and what follows from it."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import colonnade as cn
from colonnade.align.plan import CHUNK
from colonnade.cli import main
from colonnade.errors import RequestError
from colonnade.record.timeline import NEITHER
from colonnade.run.processes import free_port
from colonnade.tls.authority import create_authority, issue
from tests.warm import python

PATIENCE_S = 250
HEAVY = ("torch", "sklearn", "scipy", "safetensors.torch")
"""What a training needs and an alignment does not. pandas is not among them: pyarrow loads it
wherever it is installed."""
LIGHT = f"""
import sys
from colonnade.cli import main
code = main(sys.argv[1:])
loaded = set({HEAVY}) & set(sys.modules)
sys.exit(code if not loaded else f"loaded {{loaded}}")
"""
JOB = """
name = "credit"
{more}
[train]
epochs = 1
batch_size = 64

[timeouts]
silence = "5s"

[parties.bank]
role = "active"

[parties.telco]
{parties}
"""


class House:
    """A folder with the files of a bank and a telco that have some customers in common."""

    def __init__(self, folder: Path, keys: Path, more="", parties="") -> None:
        self.folder, self.keys = folder, keys
        self.listen = f"127.0.0.1:{free_port()}"
        (folder / "job.toml").write_text(JOB.format(more=more, parties=parties))
        self.write("bank", "customer", range(900), columns=("income", "good"))
        self.write("telco", "id", range(300, 1300))
        self.party("bank", 'id = "customer"\nlabel = "good"\ncolumns = ["income"]\n')
        self.party("telco", 'id = "id"\n')
        self.stack = ExitStack()

    def write(self, name, column, numbers, columns=("usage",), form="c{:05d}"):
        rng = random.Random(name)
        rows = [[form.format(n), *(rng.randrange(2) if c == "good" else round(rng.random(), 4)
                                   for c in columns)] for n in numbers]  # fmt: skip
        rng.shuffle(rows)
        with (self.folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([[column, *columns], *rows])

    def party(self, name, text):
        (self.folder / f"{name}.toml").write_text(f'table = "{name}.csv"\n{text}')

    def start(self, name, command="align", *more, job="job.toml", how=None):
        end = ["--listen", self.listen] if name == "bank" else ["--connect", self.listen]
        how = how or [python(), "-m", "colonnade"]
        words = [*how, command, job, "--me", name, *end]
        process = subprocess.Popen(
            [*words, "--keys", str(self.keys / name), "--json", *more],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        self.stack.enter_context(process)
        self.stack.callback(process.kill)
        return process

    def end(self, process):
        out, said = process.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in said, said
        return process.returncode, json.loads(out) if out.strip() else None, said

    def both(self, command="align", *more, how=None):
        started = {name: self.start(name, command, *more, how=how) for name in ("bank", "telco")}
        return {name: self.end(process) for name, process in started.items()}

    def common(self):
        """The ids that each party has found, in its order."""
        found = {}
        for name in ("bank", "telco"):
            rows = np.load(self.folder / "aligned" / f"credit-{name}" / "rows.npy")
            with (self.folder / f"{name}.csv").open() as file:
                ids = [row[0] for row in list(csv.reader(file))[1:]]
            found[name] = [ids[row] for row in rows]
        return found


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "alliance"
    create_authority(folder, 10, "tests")
    issue(folder, ("bank", "telco", "shop"), {}, 5, False)
    return folder


@pytest.fixture
def house(tmp_path, keys):
    made = House(tmp_path, keys)
    with made.stack:
        yield made


def check_timelines(house, capsys, folders, kinds):
    """The parties' own folders say who did what and when, on one clock, with the ledger's bytes."""
    paths = {name: house.folder / folder for name, folder in folders.items()}
    for name, path in paths.items():
        spans = pq.read_table(path / "timeline.parquet").to_pylist()
        assert {span["party"] for span in spans} == {name}
        assert kinds <= {span["kind"] for span in spans}
        assert all(-(10**9) * PATIENCE_S < s["start_ns"] <= s["end_ns"] for s in spans)
        assert (path / "timeline.parquet").stat().st_mode & 0o077 == 0
        assert not (path / "exchanges.parquet").exists() and not list(path.glob("*.part"))
    out = house.folder / "trace.json"
    assert main(["trace", *map(str, paths.values()), "--out", str(out)]) == 0
    assert "is known to" in capsys.readouterr().out
    events = {event["name"] for event in json.loads(out.read_text())["traceEvents"]}
    assert kinds - set(NEITHER) <= events
    for path in paths.values():
        assert main(["report", str(path)]) == 2
        assert "and a report shows trainings" in " ".join(capsys.readouterr().err.split())


def sent(spans):
    """Messages and bytes by peer, direction and kind."""
    found = {}
    for span in spans:
        if span["kind"] in ("send", "receive"):
            way = {"send": "sent", "receive": "received"}[span["kind"]]
            messages, size = found.get((span["peer"], way, span["message"]), (0, 0))
            found[span["peer"], way, span["message"]] = messages + 1, size + span["bytes"]
    return found


def test_two_tables_are_aligned_and_then_trained_on(house, capsys):
    ends = house.both(how=[sys.executable, "-c", LIGHT])
    assert [code for code, _, _ in ends.values()] == [0, 0], ends
    assert ends["bank"][1]["common"] == 600 and ends["bank"][1]["differences"] == {"telco": []}
    found = house.common()
    assert found["bank"] == found["telco"]
    assert sorted(found["bank"]) == [f"c{n:05d}" for n in range(300, 900)]
    aligned = {name: f"aligned/credit-{name}" for name in ("bank", "telco")}
    check_timelines(house, capsys, aligned, {"align", "checkpoint", "send", "receive", "begin"})
    for folder in aligned.values():
        spans = pq.read_table(house.folder / folder / "timeline.parquet").to_pylist()
        entries = json.loads((house.folder / folder / "ledger.json").read_text())
        counted = {(e["peer"], e["direction"], e["kind"]): (e["messages"], e["bytes"])
                   for e in entries}  # fmt: skip
        assert sent(spans) == counted
        facts = json.loads((house.folder / folder / "party.json").read_text())
        assert 0 < facts["busy_s"] + facts["idle_s"] <= facts["time_s"]
    trained = house.both("join")
    assert [code for code, _, _ in trained.values()] == [0, 0], trained
    work = house.folder / "aligned" / "credit-telco" / "work"
    assert {path.name for path in work.iterdir()} == {
        "ids.bin", "secrets.json", "ids-0.bin", "own-0.bin", "common-0.bin",
        "evaluations.json",
    }  # fmt: skip
    for path in house.folder.glob("aligned/*/**/*"):
        assert path.is_dir() or path.stat().st_mode & 0o077 == 0, path
    # Again: nothing is asked of anybody.
    code, said, _ = house.end(house.start("telco"))
    assert code == 0 and said["status"] == "complete" and said["common"] == 600


def test_ids_that_were_added_are_aligned_in_an_update_and_trained_on(house):
    code, _, said = house.end(house.start("telco", "align", "--update"))
    assert code == 2 and "nothing to update" in said
    house.both()
    before = house.common()["bank"]
    house.write("bank", "customer", [*range(900), 1250, 2000], columns=("income", "good"))
    code, _, said = house.end(house.start("bank"))
    assert code == 2 and "where ids were only added, align again with --update" in said
    for update in (1, 2):
        ends = house.both("align", "--update")
        assert [code for code, _, _ in ends.values()] == [0, 0], ends
        found = house.common()
        assert found["bank"] == found["telco"]
        assert found["bank"] == [*before, "c01250"]
        ledger = house.folder / "aligned" / "credit-bank" / "updates" / str(update) / "ledger.json"
        entries = json.loads(ledger.read_text())
        points = [e["bytes"] for e in entries if e["kind"] == "BlindedPoints"]
        assert max(points) < 500, "two new points, or none"
        assert (ledger.parent / "timeline.parquet").exists()
        assert main(["report", str(ledger.parent)]) == 2
    trained = house.both("join")
    assert [code for code, _, _ in trained.values()] == [0, 0], trained
    house.write("bank", "customer", range(899), columns=("income", "good"))
    code, _, said = house.end(house.start("bank", "align", "--update"))
    assert code == 2 and "3 ids of bank that were aligned before are not in its table" in said


@pytest.mark.slow
def test_killed_in_an_update_it_goes_on(house):
    house.both()
    house.write("bank", "customer", range(4 * CHUNK), columns=("income", "good"))
    house.write("telco", "id", range(300, 4 * CHUNK))
    running = {name: house.start(name, "align", "--update") for name in ("bank", "telco")}
    for name in ("telco", "bank"):
        time.sleep(3)
        if running[name].poll() is None:
            running[name].send_signal(signal.SIGKILL)
            running[name].communicate()
            running[name] = house.start(name, "align", "--update")
    ends = {name: house.end(process) for name, process in running.items()}
    assert [code for code, _, _ in ends.values()] == [0, 0], ends
    found = house.common()
    assert found["bank"] == found["telco"]
    assert sorted(found["bank"]) == [f"c{n:05d}" for n in range(300, 4 * CHUNK)]


@pytest.mark.usefixtures("stood_in")
def test_a_launch_aligns_first_and_learns_what_a_simulation_does(house, monkeypatch):
    """With rows that stand elsewhere in each table, and more ids than are common."""
    monkeypatch.chdir(house.folder)
    job = cn.with_sets(
        cn.load(house.folder / "job.toml"),
        *("alignment=private", "parties.bank.table=bank.csv", "parties.bank.id=customer"),
        *("parties.bank.label=good", "parties.telco.table=telco.csv", "parties.telco.id=id"),
    )
    simulated = cn.simulate(job)
    launched = cn.launch(job, out=house.folder / "out")
    assert [row["loss"] for row in launched.losses] == [row["loss"] for row in simulated.losses]
    assert launched.rounds == simulated.rounds == 7
    for name in ("bank", "telco"):
        mine, theirs = launched.parties[name].weights, simulated.parties[name].weights
        assert mine.keys() == theirs.keys() and len(mine) > 0
        assert all((mine[key] == theirs[key]).all() for key in mine)
        facts = house.folder / "out" / "aligned" / name / "alignment.json"
        assert json.loads(facts.read_text())["count"] == 600
    # Whatever is there is not asked for again.
    assert cn.launch(job, out=house.folder / "out").rounds == 7


@pytest.mark.usefixtures("stood_in")
def test_a_launch_without_common_ids_says_so(house, monkeypatch):
    house.write("telco", "id", range(5000, 5100))
    monkeypatch.chdir(house.folder)
    job = cn.with_sets(
        cn.load(house.folder / "job.toml"),
        *("alignment=private", "parties.bank.table=bank.csv", "parties.bank.id=customer"),
        *("parties.bank.label=good", "parties.telco.table=telco.csv", "parties.telco.id=id"),
    )
    with pytest.raises(RequestError, match="no id is common to all parties"):
        cn.launch(job, out=house.folder / "out")


def test_a_job_that_asks_for_an_alignment_can_be_aligned(house):
    text = (house.folder / "job.toml").read_text()
    (house.folder / "job.toml").write_text('alignment = "private"\n' + text)
    code, _, said = house.end(house.start("telco", "join"))
    assert code == 2 and "run colonnade align first" in said
    ends = house.both()
    assert [code for code, _, _ in ends.values()] == [0, 0], ends


def test_a_table_that_changed_after_its_alignment_is_refused(house, capsys, monkeypatch):
    house.both()
    monkeypatch.chdir(house.folder)
    house.write("telco", "id", range(300, 1301))
    given = ["--me", "telco", "--connect", house.listen, "--keys", str(house.keys / "telco")]
    for command in ("align", "join"):
        assert main([command, "job.toml", *given]) == 2
        assert "has changed since it was aligned" in capsys.readouterr().err
    house.party("telco", 'id = "usage"\n')
    assert main(["join", "job.toml", *given]) == 2
    assert "other id columns" in capsys.readouterr().err


def test_no_common_id_is_said_at_both_ends_with_what_the_ids_look_like(house):
    house.write("telco", "id", range(300, 1300), form="C{:d}")
    for name in ("bank", "telco"):
        text = (house.folder / f"{name}.toml").read_text()
        (house.folder / f"{name}.toml").write_text(f"{text}\n[policy]\nshares_id_shape = true\n")
    ends = house.both()
    for name, (code, said, error) in ends.items():
        assert code == 2 and said["common"] == 0, (name, said, error)
        assert "no id is common to all parties" in error
    assert "yours have small letters, those of telco mostly do not" in ends["bank"][2]
    assert not list(house.folder.glob("aligned/*/alignment.json"))
    code, _, said = house.end(house.start("bank"))
    assert code == 2 and "found no common id" in said


@pytest.mark.parametrize(
    ("table", "party", "fault"),
    [
        ("id,usage\n1,2\n1,3\n", 'id = "id"', "rows 1 and 2 have the same"),
        ("id,usage\n1,2\n,3\n", 'id = "id"', "no id in 'id', the first is row 2"),
        ("id,usage\n", 'id = "id"', "no rows"),
        ("id,usage\n1,2\n", 'id = "ids"', "no id column 'ids': did you mean 'id'?"),
        ("id,usage\n1,2\n", "", "has the table"),
        ("id,usage\n1.5,2\n", 'id = "usage"', None),
    ],
)
def test_a_wrong_table_is_refused_before_anybody_waits(house, capsys, monkeypatch, table, party,
                                                       fault):  # fmt: skip
    (house.folder / "telco.csv").write_text(table)
    house.party("telco", party + "\n")
    monkeypatch.chdir(house.folder)
    given = ["--me", "telco", "--connect", house.listen, "--keys", str(house.keys / "telco")]
    if fault is None:
        assert main(["align", "job.toml", *given, "--dry-run"]) == 0
        return
    assert main(["align", "job.toml", *given]) == 2
    assert fault in capsys.readouterr().err
    assert not list(house.folder.glob("aligned/*/alignment.json"))


def test_jobs_with_other_rules_for_ids_are_told_apart(house):
    other = JOB.format(more="", parties="\n[ids]\ncase = 'lower'")
    (house.folder / "other.toml").write_text(other)
    house.start("bank")
    code, _, said = house.end(house.start("telco", job="other.toml"))
    assert code == 2 and 'ids is "nfc trim lower" at telco and "nfc trim" at bank' in said, said


def test_the_dry_run_says_who_learns_what(house, capsys, monkeypatch):
    monkeypatch.chdir(house.folder)
    words = ["align", "job.toml", "--me", "bank", "--dry-run"]
    # A job that wants its rows aligned is no obstacle to aligning them.
    assert main([*words, "--set", "alignment=private"]) == 0
    said = capsys.readouterr().out
    assert "- telco learns how many ids bank has" in said and "nothing was sent" in said
    assert main(["align", "job.toml", "--me", "bank", "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ids"] == 900 and said["unpinned"] == ["telco"]
    assert any("holds the certificate authority" in line for line in said["learns"])
    pins = f'\n[tls]\npins = {{ telco = "{"ab" * 32}" }}\n'
    (house.folder / "bank.toml").write_text((house.folder / "bank.toml").read_text() + pins)
    assert main(["align", "job.toml", "--me", "bank", "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["unpinned"] == []
    assert not any("certificate authority" in line for line in said["learns"])


def test_a_key_that_is_not_the_pinned_one_is_refused(house):
    """Here telco's certificate is in order, but its key is not the one that the bank expects."""
    pins = f'\n[tls]\npins = {{ telco = "{"ab" * 32}" }}\n'
    (house.folder / "bank.toml").write_text((house.folder / "bank.toml").read_text() + pins)
    bank, telco = house.start("bank"), house.start("telco")
    code, _, said = house.end(telco)
    assert code == 1 and "not the one that is pinned" in said, said
    bank.kill()
    assert "telco introduces itself wrongly" in bank.communicate()[1]


TEN_EACH = [
    pytest.param((side,), 10, marks=pytest.mark.slow, id=f"{side} ten times")
    for side in ("bank", "telco")
]


@pytest.mark.parametrize("sides, kills", [(("bank", "telco"), 4), *TEN_EACH])
def test_killed_again_and_again_it_repeats_little_and_finds_the_same(house, sides, kills):
    """SIGKILL at random moments, until it is done."""
    chunks = kills - 1
    house.write("bank", "customer", range(chunks * CHUNK), columns=("income", "good"))
    house.write("telco", "id", range(CHUNK, (chunks + 1) * CHUNK))
    rng = random.Random(kills)
    running = {name: house.start(name) for name in ("bank", "telco")}
    for _ in range(kills):
        time.sleep(rng.uniform(0.3, 2.5))
        name = rng.choice(sides)
        if running[name].poll() is not None:
            break
        running[name].send_signal(signal.SIGKILL)
        running[name].communicate()
        running[name] = house.start(name)
    ends = {name: house.end(process) for name, process in running.items()}
    assert [code for code, _, _ in ends.values()] == [0, 0], ends
    found = house.common()
    assert found["bank"] == found["telco"]
    assert sorted(found["bank"]) == [f"c{n:05d}" for n in range(CHUNK, chunks * CHUNK)]
