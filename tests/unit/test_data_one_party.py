"""What one party reads by itself is what it would have read together with the others."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data.fingerprint import fingerprint
from colonnade.data.party import assemble, assemble_party
from colonnade.errors import DataError
from colonnade.job import load
from colonnade.job.party_file import PartyFile, own_job
from colonnade.job.records import Job, Party, Train

COUNT = 40
IDS = [f"c{index:03}" for index in range(COUNT)]
LABELS = np.arange(COUNT) % 2
LOAD = load("digits")


def same_arrays(one, other):
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and np.array_equal(one, other)


def check_alone(job):
    """Every party, seeing only its own entry, reads what all together read."""
    whole = assemble(job)
    for me, party in job.parties.items():
        part = assemble_party(own_job(job, me, None), me)
        columns = whole.features[me]
        assert same_arrays(part.columns.train, columns.train)
        assert same_arrays(part.columns.validation, columns.validation)
        assert same_arrays(part.columns.test, columns.test)
        assert part.columns.preprocessor == columns.preprocessor
        assert (part.train_count, part.test_count) == (whole.train_count, whole.test_count)
        assert part.validation_count == whole.validation_count
        assert part.fingerprint == whole.fingerprint
        if party.role == "passive":
            assert (part.labels, part.task, part.classes) == (None, None, None)
            continue
        assert same_arrays(part.labels.train, whole.labels.train)
        assert same_arrays(part.labels.validation, whole.labels.validation)
        assert same_arrays(part.labels.test, whole.labels.test)
        assert same_arrays(part.labels.weights, whole.labels.weights)
        assert (part.task, part.classes) == (whole.task, whole.classes)
    return whole


@pytest.mark.parametrize("name", ["digits", "breast-cancer", "credit", "adult", "mnist-3v8"])
def test_built_in_jobs(name):
    try:
        whole = check_alone(load(name, ["train.split_seed=3"]))
    except DataError as error:
        if "is not on this computer" not in str(error):
            raise
        pytest.skip(str(error))
    assert len(whole.fingerprint) == 64


def parquet(folder, name, columns):
    path = folder / f"{name}.parquet"
    pa_parquet.write_table(pa.table(columns), path)
    return str(path)


def save(folder, name, array):
    np.save(folder / f"{name}.npy", array)
    return str(folder / f"{name}.npy")


@pytest.fixture
def tables(tmp_path):
    """Three parties with tables of the same ids, in three orders."""
    order = np.roll(np.arange(COUNT), 7)
    bank = {"id": IDS, "spend": np.arange(COUNT) * 1.0, "bought": LABELS, "w": np.ones(COUNT)}
    telco = {"key": IDS[::-1], "calls": np.arange(COUNT)[::-1] * 1.0, "plan": ["a", "b"] * 20}
    insurer = {"no": [IDS[i] for i in order], "claims": order * 2.0}
    return {
        "bank": Party(
            role="active",
            table=parquet(tmp_path, "bank", bank),
            id="id",
            label="bought",
            sample_weight="w",
            columns=["spend"],
        ),
        "telco": Party(table=parquet(tmp_path, "telco", telco), id="key"),
        "insurer": Party(table=parquet(tmp_path, "insurer", insurer), id="no"),
    }


def job(parties, **train):
    return Job(parties=parties, train=Train(**({"batch_size": 4, "validation": 0} | train)))


def changed(parties, name, **fields):
    return parties | {name: msgspec.structs.replace(parties[name], **fields)}


def test_tables_with_ids(tables):
    whole = check_alone(job(tables))
    assert np.array_equal(whole.features["bank"].train, whole.features["telco"].train[:, :1])
    check_alone(job(tables, test=0.35, split_seed=5, loss="mse"))
    kept = check_alone(job(tables, validation=0.25))
    assert (kept.train_count, kept.validation_count) == (24, 8)
    assert np.array_equal(
        kept.features["bank"].validation, kept.features["telco"].validation[:, :1]
    )
    check_alone(job(tables, test=0.0, evaluate_every="never"))
    check_alone(job(changed(tables, "bank", columns=[], sample_weight=None)))


def test_tables_with_files_of_test_rows(tables, tmp_path):
    later = {
        "bank": {"id": ["x2", "x1"], "spend": [7.0, 8.0], "bought": [1, 0], "w": [1.0, 1.0]},
        "telco": {"key": ["x1", "x2"], "calls": [8.0, 7.0], "plan": ["b", "zz"]},
        "insurer": {"no": ["x1", "x2"], "claims": [1.0, 2.0]},
    }
    for name, columns in later.items():
        path = parquet(tmp_path, f"{name}-later", columns)
        tables = changed(tables, name, table_test=path)
    whole = check_alone(job(tables))
    assert whole.labels.test.tolist() == [0, 1]


def test_arrays_without_ids(tmp_path):
    matrix = np.arange(COUNT * 3, dtype=np.float32).reshape(COUNT, 3)
    labels, rows = save(tmp_path, "y", LABELS), save(tmp_path, "x", matrix)
    bank = Party(role="active", label=labels)
    check_alone(job({"bank": bank, "telco": Party(table=rows)}))
    bank = msgspec.structs.replace(bank, label_test=labels, table=rows, table_test=rows)
    check_alone(job({"bank": bank, "telco": Party(table=rows, table_test=rows)}))


def test_a_party_file_is_as_good_as_an_entry_of_the_job(tables):
    whole = job(tables)
    bare = job({name: Party(role=party.role) for name, party in tables.items()})
    for me, party in tables.items():
        fields = {key: value for key, value in msgspec.structs.asdict(party).items() if value}
        fields.pop("role")
        alone = assemble_party(own_job(bare, me, PartyFile(**fields)), me)
        assert same_arrays(alone.columns.train, assemble_party(whole, me).columns.train)
        assert alone.fingerprint == assemble_party(whole, me).fingerprint


def test_nothing_is_read_of_other_parties(tables):
    gone = changed(changed(tables, "telco", table="gone.csv"), "insurer", table="gone.npy")
    assert assemble_party(job(gone), "bank").train_count == 32
    with pytest.raises(DataError, match=r"there is no file gone\.csv"):
        assemble_party(job(gone), "telco")


def test_a_label_that_the_job_names_is_refused_at_a_passive_party(tables, tmp_path):
    leak = parquet(tmp_path, "leak", {"key": IDS, "calls": LABELS * 1.0, "bought": LABELS})
    with pytest.raises(DataError, match="label column at a passive party"):
        assemble_party(job(changed(tables, "telco", table=leak)), "telco")


def mark(tables, me="telco", **train):
    return assemble_party(job(tables, **train), me).fingerprint


def test_the_fingerprint_does_not_depend_on_how_a_file_is_written(tables, tmp_path):
    path = tmp_path / "telco.csv"
    pa_csv.write_csv(pa.table({"key": IDS, "other": np.arange(COUNT)}), path)
    assert mark(changed(tables, "telco", table=str(path))) == mark(tables)


def test_the_fingerprint_tells_other_rows(tables, tmp_path):
    plain = mark(tables)
    for ids in ([*IDS[:-1], "zzz"], IDS[:-1], [*IDS, "zzz"]):
        table = parquet(tmp_path, "other", {"key": ids, "calls": np.arange(len(ids)) * 1.0})
        assert mark(changed(tables, "telco", table=table)) != plain
    held = changed(tables, "telco", table_test=tables["telco"].table)
    assert mark(held) != plain


def test_the_fingerprint_is_of_no_use_in_another_job(tables):
    plain = mark(tables)
    assert mark(tables, batch_size=5) != plain
    renamed = {"bank": tables["bank"], "telecom": tables["telco"], "insurer": tables["insurer"]}
    assert mark(renamed, "telecom") != plain
    other = msgspec.structs.replace(job(tables), seed=9)
    assert assemble_party(other, "telco").fingerprint != plain


def test_named_data_arrays_and_tables_do_not_pass_for_each_other(tables, tmp_path):
    table = save(tmp_path, "x", np.ones((COUNT, 2)))
    bare = Party(table=table)
    assert mark(tables | {"telco": bare}) != mark(tables)
    marks = {
        assemble_party(load("digits", [f"train.split_seed={seed}"]), "lab").fingerprint
        for seed in range(3)
    }
    assert len(marks) == 3


id_sets = st.sets(st.text("ab\0é", max_size=3), max_size=6)


def large(ids):
    return pa.array(sorted(ids), pa.large_string())


@given(id_sets, id_sets)
def test_fingerprints_are_equal_exactly_where_the_ids_are(one, other):
    marks = [fingerprint(LOAD, {}, [large(ids)]) for ids in (one, other)]
    assert (marks[0] == marks[1]) == (one == other)


@given(id_sets, id_sets)
def test_training_and_test_ids_do_not_run_into_each_other(one, other):
    marks = [fingerprint(LOAD, {}, [large(a), large(b)]) for a, b in ((one, other), (other, one))]
    assert (marks[0] == marks[1]) == (one == other)


@given(id_sets, st.integers(0, 3))
def test_fingerprints_do_not_depend_on_where_an_array_lies(ids, before):
    padded = pa.array(["pad"] * before + sorted(ids) + ["pad"], pa.large_string())
    part = padded.slice(before, len(ids))
    assert fingerprint(LOAD, {}, [part]) == fingerprint(LOAD, {}, [large(ids)])


@pytest.mark.parametrize(
    ("me", "fields", "train", "words"),
    [
        ("telco", {}, {"batch_size": 33}, "batch_size is 33 but there are only 32 training rows"),
        ("telco", {}, {"test": 0.0}, "leaves no rows to evaluate on"),
        ("telco", {"table": None}, {}, "telco has no data"),
        ("bank", {"label": None}, {}, "the active party bank has no label"),
        ("bank", {"label_test": "y.npy"}, {}, "bank has a label_test but no table_test"),
    ],
)
def test_what_does_not_fit_is_said_by_the_party_alone(tables, me, fields, train, words):
    own = own_job(job(changed(tables, me, **fields), **train), me, None)
    with pytest.raises(DataError, match=words):
        assemble_party(own, me)


def test_a_passive_party_needs_columns(tables, tmp_path):
    empty = changed(tables, "telco", table=parquet(tmp_path, "empty", {"key": IDS}))
    with pytest.raises(DataError, match=r"no column of .* matches"):
        assemble_party(own_job(job(empty), "telco", None), "telco")
