"""ModelNet10's views are read as they were made, or refused with the cure."""

import numpy as np
import pytest

from colonnade.data.modelnet import FILE
from colonnade.data.named import load
from colonnade.data.party import assemble
from colonnade.errors import DataError
from colonnade.job.files import load as load_job

OBJECTS = 60


def write(folder, **others):
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    arrays = {
        "views": draw.integers(0, 256, (OBJECTS, 12, 48, 48), dtype=np.uint8),
        "y": (np.arange(OBJECTS) % 10).astype(np.uint8),
        "is_test": np.arange(OBJECTS) >= 50,
        "blank": np.arange(OBJECTS) == 3,
        "class_names": np.array([f"thing {number}" for number in range(10)]),
    }
    np.savez_compressed(folder / FILE, **(arrays | others))
    return arrays


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "modelnet10"


def test_objects_that_are_blank_are_left_out_and_the_publishers_split_is_kept(here):
    arrays = write(here)
    data = load("modelnet10")
    assert data.images.shape == (OBJECTS - 1, 12, 48, 48) and data.classes[1] == "thing 1"
    assert data.test_rows.tolist() == list(range(49, 59))
    assert np.array_equal(data.images[3], arrays["views"][4].astype(np.float32) / 255)
    assert data.labels[:5].tolist() == [0, 1, 2, 4, 5]


def test_the_subset_has_every_fourth_training_object_and_all_others(here):
    write(here)
    whole, part = load("modelnet10"), load("modelnet10-subset")
    assert np.array_equal(part.images[:13], whole.images[:49:4])
    assert np.array_equal(part.images[13:], whole.images[49:])
    assert part.test_rows.tolist() == list(range(13, 23))


def test_each_party_of_the_job_has_three_views(here):
    write(here)
    data = assemble(load_job("modelnet10", ["train.batch_size=4"]))
    held = {name: own.shape for name, own in data.features.items() if own.train is not None}
    assert set(held.values()) == {(3, 48, 48)} and len(held) == 4
    views = load("modelnet10-subset").images[13:]
    assert np.array_equal(data.features["two"].test, views[:, 3:6])


@pytest.mark.parametrize("others", [{"views": np.zeros(3)}, {"is_test": np.zeros(2, dtype=bool)}])
def test_a_file_that_is_another_is_refused(here, others):
    write(here, **others)
    with pytest.raises(DataError, match="get it again"):
        load("modelnet10")


def test_views_that_are_not_there_are_asked_for(here):
    with pytest.raises(DataError, match=f"a folder that holds modelnet10/{FILE}"):
        load("modelnet10-subset")
