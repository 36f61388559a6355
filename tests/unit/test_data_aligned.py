"""Rows that were aligned, or are matched in a simulation: which are read, and what is refused."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import colonnade as cn
from colonnade.data.aligned import (
    FACTS,
    ROWS,
    Alignment,
    TableFingerprint,
    pack_rows,
)
from colonnade.data.ids import id_texts
from colonnade.data.own import read_rows
from colonnade.data.party import assemble
from colonnade.errors import DataError
from colonnade.job.ids import Ids
from colonnade.job.records import Job, Party

IDS = [f"c{n:03d}" for n in range(100)]


def write(path, ids, **columns):
    pq.write_table(pa.table({"id": ids, **columns}), path)
    return str(path)


def align_by_hand(folder, path, rows, party="telco", rule=None):
    """What an alignment would leave behind."""
    rule = rule or Ids()
    mixed = TableFingerprint()
    mixed.update(id_texts(pq.read_table(path), ["id"], rule, "t"))
    facts = Alignment(party=party, common="ab", count=len(rows), sizes={"bank": 9, "telco": 9},
                      id=("id",), rule=rule.text(), table=mixed.text())  # fmt: skip
    folder.mkdir()
    (folder / ROWS).write_bytes(pack_rows(np.array(rows)))
    (folder / FACTS).write_bytes(msgspec.json.encode(facts))
    return str(folder)


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "telco.parquet", [f" {text} " for text in IDS], x=np.arange(100.0))


@pytest.mark.parametrize("large", [False, True])
def test_aligned_rows_come_in_the_common_order(tmp_path, table, monkeypatch, large):
    if large:
        monkeypatch.setattr("colonnade.data.on_disk.IN_MEMORY_BYTES", 1)
    rows = [70, 3, 41, 99, 0]
    folder = align_by_hand(tmp_path / "aligned", table, rows)
    read = read_rows("telco", Party(table=table, id="id", aligned=folder), None)
    assert read.count == 5 and read.ids.to_pylist() == [IDS[row] for row in rows]
    whole = read.features
    found = whole.take(np.arange(5)).sample() if large else whole
    values = sorted(found["x"].to_pylist()) if large else found["x"].to_pylist()
    assert values == (sorted(rows) if large else rows)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda folder: (folder / FACTS).unlink(), "holds no alignment"),
        (lambda folder: (folder / FACTS).write_text("{}"), "is no alignment, or damaged"),
        (lambda folder: (folder / FACTS).write_bytes(b"\xff"), "is no alignment, or damaged"),
        (lambda folder: (folder / ROWS).unlink(), "cannot be read, or is damaged"),
        (lambda folder: (folder / ROWS).write_bytes(b"x"), "cannot be read, or is damaged"),
        (lambda folder: (folder / ROWS).write_bytes(pack_rows(np.array([1, 1, 2]))), "not belong"),
        (lambda folder: (folder / ROWS).write_bytes(pack_rows(np.array([1, 2, 100]))), "not bel"),
        (lambda folder: (folder / ROWS).write_bytes(pack_rows(np.array([-1, 2, 3]))), "not belon"),
        (lambda folder: (folder / ROWS).write_bytes(pack_rows(np.array([1, 2]))), "not belong"),
    ],
)
def test_what_is_no_alignment_is_refused_with_the_cure(tmp_path, table, damage, fault):
    folder = tmp_path / "aligned"
    align_by_hand(folder, table, [1, 2, 3])
    damage(folder)
    with pytest.raises(DataError, match=fault) as caught:
        read_rows("telco", Party(table=table, id="id", aligned=str(folder)), None)
    assert "align" in str(caught.value)


def test_an_alignment_of_another_table_party_or_rule_is_refused(tmp_path, table):
    folder = align_by_hand(tmp_path / "aligned", table, [1, 2, 3])
    own = Party(table=table, id="id", aligned=folder)
    with pytest.raises(DataError, match="is of another party"):
        read_rows("bank", own, None)
    with pytest.raises(DataError, match="another rule"):
        read_rows("telco", own, None, Ids(case="lower"))
    write(tmp_path / "telco.parquet", [f" {text} " for text in reversed(IDS)], x=np.arange(100.0))
    with pytest.raises(DataError, match="has changed since it was aligned"):
        read_rows("telco", own, None)


def overlapping(tmp_path, **more):
    rng = np.random.default_rng(0)
    bank = write(tmp_path / "bank.parquet", IDS, x=rng.random(100), y=rng.integers(2, size=100))
    others = [f"{text.upper()} " for text in IDS[20:]] + ["d1", "d2"]
    telco = write(tmp_path / "telco.parquet", others, z=np.arange(82.0))
    return Job(
        parties={
            "bank": Party(role="active", table=bank, id="id", label="y", columns=["x"]),
            "telco": Party(table=telco, id="id"),
        },
        train=cn.Train(batch_size=8, rounds=2),
        **more,
    )


def test_a_simulation_takes_the_common_rows_where_the_job_says_so(tmp_path):
    with pytest.raises(DataError, match="set alignment = 'private' in the job"):
        same = overlapping(tmp_path)
        assemble(same)
    job = overlapping(tmp_path, alignment="private", ids=Ids(case="lower"))
    data = assemble(job)
    assert data.train_count + data.validation_count + data.test_count == 80
    assert cn.simulate(job).rounds == 2
    with pytest.raises(DataError, match="no id is common"):
        assemble(overlapping(tmp_path, alignment="private"))


def test_a_model_remembers_the_alignment_of_its_rows(tmp_path):
    """Its name and count, and neither folder nor ids."""
    job, rows = overlapping(tmp_path, ids=Ids(case="lower")), list(range(40))
    parties = {}
    for name, first in (("bank", 20), ("telco", 0)):
        own, place = job.parties[name], tmp_path / f"aligned-{name}"
        folder = align_by_hand(place, own.table, [first + row for row in rows], name, job.ids)
        parties[name] = msgspec.structs.replace(own, aligned=folder)
    aligned = msgspec.structs.replace(job, parties=parties)
    run = cn.simulate(cn.with_sets(aligned, "train.metric=accuracy"))
    for party in run.parties.values():
        assert (party.card.alignment.common, party.card.alignment.count) == ("ab", 40)
        assert str(tmp_path) not in party.card.to_json()
    assert sum(party.card.rows.values()) == 40
    assert cn.simulate(cn.load("digits", ["train.rounds=2"])).parties["lab"].card.alignment is None
