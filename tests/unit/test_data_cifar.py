import json

import numpy as np
import pytest

from colonnade.data.cifar import CLASSES, complete, subset
from colonnade.data.named import load
from colonnade.data.party import assemble
from colonnade.errors import DataError
from colonnade.job.files import load as load_job

TRAIN = [f"data_batch_{number}" for number in range(1, 6)]
ROWS = 3


def images(seed, count=ROWS):
    draw = np.random.default_rng(seed)
    return draw.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)


def write_binary(folder, labels=range(ROWS)):
    folder.mkdir(parents=True)
    column = np.array(labels, dtype=np.uint8)[:, None]
    for seed, stem in enumerate([*TRAIN, "test_batch"]):
        records = np.concatenate([column, images(seed).reshape(ROWS, -1)], axis=1)
        records.tofile(folder / f"{stem}.bin")


def write_pictures(folder):
    pictures = pytest.importorskip("PIL.Image", reason="the PNGs are read with Pillow")
    folder.mkdir(parents=True)
    for seed, stem in enumerate([*TRAIN, "test_batch"]):
        pixels = images(seed).reshape(ROWS, 3, 1024).transpose(0, 2, 1)
        pictures.fromarray(np.ascontiguousarray(pixels)).save(folder / f"{stem}.png")
    (folder / "train_lables.json").write_text(json.dumps(list(range(ROWS)) * 5))
    (folder / "test_lables.json").write_text(json.dumps(list(range(ROWS))))


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cifar10"


@pytest.mark.parametrize("below", ["", "cifar-10-batches-bin"])
def test_the_binary_batches_are_the_complete_set(here, below):
    write_binary(here / below)
    data = load("cifar10")
    assert data.classes == CLASSES and data.task == "multiclass"
    assert data.labels.tolist() == list(range(ROWS)) * 6
    assert data.test_rows.tolist() == list(range(5 * ROWS, 6 * ROWS))
    expected = np.concatenate([images(seed) for seed in range(6)])
    assert np.array_equal(data.images, expected.astype(np.float32) / 255)


def test_pictures_hold_one_image_a_row(here):
    write_pictures(here / "package")
    found = complete([here])
    assert found is not None
    assert np.array_equal(found.train, np.concatenate([images(seed) for seed in range(5)]))
    assert np.array_equal(found.test, images(5))
    assert found.test_labels.tolist() == list(range(ROWS))


def test_the_subset_is_cut_from_the_complete_set_where_it_has_no_file(here):
    write_binary(here)
    cut = subset([here])
    assert cut is not None and np.array_equal(cut.train[:ROWS], images(0))
    arrays = {"x_train": images(8), "y_train": [0, 1, 2], "x_test": images(9), "y_test": [3, 4, 5]}
    np.savez(here / "cifar10_subset_12k.npz", **arrays)
    assert load("cifar10-subset").labels.tolist() == list(range(6))
    assert len(load("cifar10").labels) == 6 * ROWS


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("data_batch_3.bin", b"12345", "data_batch_3.bin has 5 bytes, which are no images"),
        ("cifar10_subset_12k.npz", b"PK..", "is not the subset of CIFAR-10 .*: get it again"),
    ],
)
def test_files_that_are_no_cifar10(here, name, content, words):
    write_binary(here)
    (here / name).write_bytes(content)
    with pytest.raises(DataError, match=words):
        load("cifar10-subset")


def test_labels_beyond_the_ten_classes(here):
    write_binary(here, labels=[1, 2, 10])
    with pytest.raises(DataError, match="do not belong together"):
        load("cifar10")


def test_the_job_holds_the_upper_and_the_lower_half(here):
    write_binary(here)
    data = assemble(load_job("cifar10", ["data=cifar10-subset", "train.batch_size=4"]))
    assert {own.shape for own in data.features.values()} == {(3, 16, 32)}
    assert np.array_equal(data.features["upper"].test, images(5)[:, :, :16].astype("f4") / 255)
