import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data.views import cut
from colonnade.errors import DataError

sides = st.integers(2, 12)


def pictures(height, width):
    return np.arange(3 * 2 * height * width).reshape(3, 2, height, width)


@given(height=sides, width=sides)
def test_halves_and_quarters_make_the_image(height, width):
    images = pictures(height, width)
    side = [cut(images, "left"), cut(images, "right")]
    assert np.array_equal(np.concatenate(side, axis=3), images)
    layers = [cut(images, "top"), cut(images, "bottom")]
    assert np.array_equal(np.concatenate(layers, axis=2), images)
    quarters = [
        np.concatenate([cut(images, f"{row}-left"), cut(images, f"{row}-right")], axis=3)
        for row in ("top", "bottom")
    ]
    assert np.array_equal(np.concatenate(quarters, axis=2), images)
    assert np.array_equal(cut(images, "all"), images)


@given(height=sides, width=sides, data=st.data())
def test_strips_make_the_image_as_numpy_cuts_it(height, width, data):
    images = pictures(height, width)
    count = data.draw(st.integers(1, height))
    strips = [cut(images, f"strip {index}/{count}") for index in range(1, count + 1)]
    for strip, expected in zip(strips, np.array_split(images, count, axis=2), strict=True):
        assert np.array_equal(strip, expected)


def test_ranges_leave_out_their_end():
    images = pictures(6, 8)
    assert np.array_equal(cut(images, "rows 1:3"), images[:, :, 1:3])
    assert np.array_equal(cut(images, "columns 0:8"), images)
    assert np.array_equal(cut(images, "channels 1:2"), images[:, 1:])


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("lefft", "there is no view 'lefft': did you mean 'left'"),
        ("strip 1", "there is no view"),
        ("rows -1:2", "there is no view"),
        ("strip 0/2", "counts from 1"),
        ("strip 3/2", "counts from 1"),
        ("strip 0/0", "counts from 1"),
        ("strip 7/9", "does not fit images of 6 rows"),
        ("rows 2:2", "does not fit"),
        ("rows 3:2", "does not fit"),
        ("channels 1:3", "does not fit images of 2 channels: choose"),
        ("columns 0:9", "does not fit images of 6 rows and 8 columns"),
    ],
)
def test_views_that_cannot_be_cut(view, words):
    with pytest.raises(DataError, match=words):
        cut(pictures(6, 8), view)


def test_a_table_has_no_views():
    with pytest.raises(DataError, match="needs images"):
        cut(np.zeros((3, 4)), "left")
