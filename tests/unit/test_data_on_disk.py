"""Tables that stay on disk give what tables in memory give."""

import mmap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pa_parquet
import pytest

from colonnade.data import on_disk
from colonnade.data.party import assemble
from colonnade.errors import DataError
from colonnade.job.records import Job, Party, Train

ROWS = 500


def tables(folder, suffix="parquet"):
    draw = np.random.default_rng(0)
    order = draw.permutation(ROWS)
    own = {
        "id": order,
        "spend": draw.lognormal(2, 1, ROWS),
        "town": [f"town {n % 60}" for n in order],
        "bought": order % 2,
    }
    for name in ("bank", "bank_test"):
        rows = pa.table(own).slice(0 if name == "bank" else 400, 400 if name == "bank" else 100)
        if suffix == "csv":
            pa.csv.write_csv(rows, folder / f"{name}.csv")
        else:
            pa_parquet.write_table(rows, folder / f"{name}.parquet", row_group_size=64)
    return folder / f"bank.{suffix}", folder / f"bank_test.{suffix}"


def job(path, test=None):
    own = {"table": str(path), "id": "id", "table_test": test and str(test)}
    parties = {
        "bank": Party(role="active", label="bought", columns=["spend", "town"], **own),
        "telco": Party(columns=["town", "spend"], **own),
    }
    return Job(parties=parties, train=Train(batch_size=16))


def same(one, other):
    for name in ("bank", "telco"):
        mine, theirs = one.features[name], other.features[name]
        assert mine.preprocessor == theirs.preprocessor
        for split in ("train", "validation", "test"):
            assert np.array_equal(mine.part(split), theirs.part(split)), (name, split)
    assert np.array_equal(one.labels.train, other.labels.train)
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize("with_test", [False, True], ids=["share", "file"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_rows_on_disk_are_those_in_memory(suffix, with_test, tmp_path, monkeypatch):
    path, test = tables(tmp_path, suffix)
    asked = job(path, test if with_test else None)
    plain = assemble(asked)
    monkeypatch.setattr(on_disk, "IN_MEMORY_BYTES", 0)
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "cache"))
    stored = assemble(asked)
    same(stored, plain)
    assert isinstance(stored.features["bank"].train.base.base.obj, mmap.mmap)
    assert not any((tmp_path / "cache").iterdir())


def test_what_is_learnt_of_a_large_table_is_learnt_from_a_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(on_disk, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(on_disk, "SAMPLE", 100)
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "cache"))
    path, _ = tables(tmp_path)
    columns = assemble(job(path)).features["bank"]
    assert np.isfinite(columns.train).all()
    assert abs(columns.train[:, 0].mean()) < 0.3


def test_a_disk_without_room_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(on_disk, "IN_MEMORY_BYTES", 0)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path / "file"))
    path, _ = tables(tmp_path)
    with pytest.raises(DataError, match=r"no room for .* set COLONNADE_CACHE to a folder"):
        assemble(job(path))


def test_encoded_rows_are_no_memory_of_the_process(tmp_path, monkeypatch):
    monkeypatch.setenv("COLONNADE_CACHE", str(tmp_path))
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell")

    def anonymous():
        text = Path("/proc/self/status").read_text()
        return int(text.split("RssAnon:")[1].split()[0]) << 10

    before = anonymous()
    rows = on_disk._mapped(1_000_000, 40)
    rows[:] = 1.0
    assert rows.nbytes == 160_000_000
    assert anonymous() - before < 80_000_000
    assert not any(tmp_path.iterdir())
