import gzip
import struct

import numpy as np
import pytest

from colonnade.data.arrays import as_images, read_array
from colonnade.errors import DataError
from colonnade.job.records import is_array


def idx_bytes(array, code=0x08):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.tobytes()


IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def test_idx_plain_and_packed(tmp_path):
    plain, packed = tmp_path / "train-images-idx3-ubyte", tmp_path / "a.idx.gz"
    plain.write_bytes(idx_bytes(IMAGES))
    packed.write_bytes(gzip.compress(idx_bytes(IMAGES)))
    assert np.array_equal(read_array(plain), IMAGES)
    assert np.array_equal(read_array(packed), IMAGES)


def test_idx_numbers_are_stored_big_end_first(tmp_path):
    numbers = np.array([1, 2, 70000], dtype=">i4")
    (tmp_path / "n.idx").write_bytes(idx_bytes(numbers, 0x0C))
    found = read_array(tmp_path / "n.idx")
    assert found.tolist() == [1, 2, 70000]
    assert found.dtype == np.int32


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "does not begin like an idx file"),
        (b"PK\x03\x04", "does not begin like an idx file"),
        (b"\0\0\x08\x03\0\0", "header is cut short"),
        (b"\0\0\x08\x00", "header is cut short"),
        (idx_bytes(IMAGES)[:-1], "holds"),
        (idx_bytes(IMAGES) + b"x", "holds more"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "more than the file can hold"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_idx_that_is_not_what_it_says(tmp_path, content, words, packed):
    path = tmp_path / ("a.idx.gz" if packed else "a.idx")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError, match="cannot be read as an array") as caught:
        read_array(path)
    too_large = "more than the file can hold" in str(caught.value)
    assert words in str(caught.value) or (not packed and too_large)


def test_a_broken_gzip(tmp_path):
    (tmp_path / "a.idx.gz").write_bytes(gzip.compress(idx_bytes(IMAGES))[:-12])
    with pytest.raises(DataError, match="cannot be read as an array"):
        read_array(tmp_path / "a.idx.gz")
    (tmp_path / "b.idx.gz").write_bytes(b"no gzip at all")
    with pytest.raises(DataError, match="cannot be read as an array"):
        read_array(tmp_path / "b.idx.gz")


def test_npy(tmp_path):
    matrix = np.arange(6, dtype=">f8").reshape(2, 3)
    np.save(tmp_path / "a.npy", matrix)
    found = read_array(tmp_path / "a.npy")
    assert np.array_equal(found, matrix)
    assert found.dtype.isnative


def test_npy_with_objects_is_refused_and_not_run(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read as an array"):
        read_array(tmp_path / "a.npy")


def test_npy_that_claims_too_much(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((10, 10)))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content.replace(b"(10, 10)", b"(10**9,)".ljust(8)))
    with pytest.raises(DataError, match="cannot be read as an array"):
        read_array(tmp_path / "a.npy")
    (tmp_path / "b.npy").write_bytes(content[:-8])
    with pytest.raises(DataError, match="cannot be read as an array"):
        read_array(tmp_path / "b.npy")


def test_npy_of_other_things(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    with pytest.raises(DataError, match="archive of several arrays"):
        read_array(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.array(["2020-01-01"], dtype="datetime64[D]"))
    with pytest.raises(DataError, match="numbers or text"):
        read_array(tmp_path / "b.npy")


def test_a_missing_array(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        read_array(tmp_path / "a.npy")


def test_names_of_arrays():
    assert is_array("t10k-labels-idx1-ubyte")
    assert is_array("a/b.idx")
    assert not is_array("default")
    assert not is_array("x.csv")


def test_bytes_become_images_from_0_to_1():
    images = as_images(np.full((2, 3, 4), 255, dtype=np.uint8))
    assert images.dtype == np.float32
    assert images.shape == (2, 1, 3, 4)
    assert images.max() == 1
    matrix = np.ones((2, 3), dtype=np.uint8)
    assert as_images(matrix) is matrix
