"""Scalar and lattice quantisation: what the formulas promise, on every kind of tensor."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.compress import Key, Occasion, decode, lattice, scalar
from colonnade.compress.lattice import MOMENT, cell_area, geometry, nearest_index
from colonnade.errors import RequestError

KEY = Key(0, "partner", "embedding", "bank")
SHAPES = [(0,), (1,), (2,), (7,), (), (1, 1), (5, 3), (4, 8), (2, 3, 5), (40, 33)]


def crossed(encoding, tensor, round=0):
    return decode(encoding.encoder(KEY).encode(tensor, Occasion(round)))


def rounding(tensor):
    """What the tensor's own type cannot tell apart at its largest component."""
    kind = torch.finfo(tensor.dtype)
    peak = tensor.double().abs().max().item() if tensor.numel() else 0.0
    return 4 * max(peak * kind.eps, kind.tiny * kind.eps)


@st.composite
def tensors(draw):
    """Every shape, sign, offset and size of components, constants among them."""
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16]))
    largest = {torch.float64: 306, torch.float16: 4}.get(dtype, 38)
    least = {torch.float64: -323, torch.float16: -7}.get(dtype, -44)
    size = 10.0 ** draw(st.integers(least, largest))
    offset = draw(st.sampled_from([0.0, 1.0, -3.0, 10.0]))
    spread = draw(st.sampled_from([0.0, 1e-3, 1.0]))
    shape = draw(st.sampled_from(SHAPES))
    normal = np.random.default_rng(draw(st.integers(0, 10**6))).standard_normal(shape)
    most = min(torch.finfo(dtype).max, 1e308)
    return torch.tensor((normal * spread + offset) * size).clamp(-most, most).to(dtype)


@given(tensor=tensors(), bits=st.integers(1, 16))
def test_scalar_is_nowhere_off_by_more_than_half_a_step(tensor, bits):
    read = crossed(scalar(bits, scale="minmax"), tensor)
    if tensor.numel():
        low, high = (edge.double().item() for edge in torch.aminmax(tensor))
        bound = (high / 2 - low / 2) / (2**bits - 1) * 1.001 + rounding(tensor)
        assert (read.double() - tensor.double()).abs().max() <= bound


@given(tensor=tensors(), bits=st.integers(1, 8))
def test_lattice_is_for_no_pair_off_by_more_than_the_circumradius(tensor, bits):
    read = crossed(lattice(bits, scale="minmax"), tensor)
    if not tensor.numel():
        return
    low, high = (edge.double().item() for edge in torch.aminmax(tensor))
    radius = (high - low) / geometry(bits, False).across / math.sqrt(3)
    error = read.double() - tensor.double()
    error = error.reshape(-1, tensor.shape[-1] if tensor.dim() else 1)
    error = torch.nn.functional.pad(error, (0, error.shape[1] % 2)).reshape(-1, 2)
    # Scaled before it is squared: a square of 1e-300 is zero.
    unit = max(radius, rounding(tensor))
    assert (error / unit).norm(dim=1).max() <= (radius * 1.001 + 2 * rounding(tensor)) / unit


@given(tensor=tensors(), bits=st.integers(1, 8))
def test_clipped_and_dithered_values_stay_near_the_range(tensor, bits):
    for make in (scalar, lattice):
        for scale in ("minmax", "clipped"):
            read = crossed(make(bits, scale, dither=True), tensor)
            assert torch.isfinite(read).all()
            if tensor.numel():
                low, high = (edge.double().item() for edge in torch.aminmax(tensor))
                most = 4 * (high - low) + rounding(tensor)
                assert read.double().min() >= low - most
                assert read.double().max() <= high + most


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("dither", [False, True])
def test_every_point_of_the_square_has_its_nearest_lattice_point_in_the_codebook(bits, dither):
    book = geometry(bits, dither)
    assert book.rows * book.columns <= 4**bits
    random = np.random.default_rng(0)
    wide = book.across + dither, book.across / math.sqrt(0.75) + dither
    at = random.random((20_000, 2))
    at[:4000] = at[:4000].round()  # corners, and below edges, where covering fails first
    at[4000:8000, 0] = at[4000:8000, 0].round()
    at[8000:12_000, 1] = at[8000:12_000, 1].round()
    x, y = at[:, 0] * wide[0] + book.right, at[:, 1] * wide[1] + book.up
    index = nearest_index(x, y, book.columns)
    assert index.min() >= 0
    assert index.max() < book.rows * book.columns
    row, column = np.divmod(index, book.columns)
    distance = np.hypot(x - column - 0.5 * (row % 2), (y - row) * math.sqrt(0.75))
    best = np.full(len(x), np.inf)
    near = np.floor(y)
    for other in range(-1, 3):
        line = near + other
        shift = 0.5 * (line % 2)
        across = x - shift - np.rint(x - shift)
        best = np.minimum(best, np.hypot(across, (y - line) * math.sqrt(0.75)))
    assert np.abs(distance - best).max() < 1e-9


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8, 12])
def test_the_mean_squared_error_of_scalar_is_that_of_its_step(bits):
    tensor = torch.rand(1000, 1001, generator=torch.Generator().manual_seed(0)) * 3 - 1
    step = (tensor.max() - tensor.min()).item() / (2**bits - 1)
    for dither in (False, True):
        error = crossed(scalar(bits, "minmax", dither), tensor) - tensor
        assert error.double().square().mean().item() == pytest.approx(step**2 / 12, rel=0.02)


@pytest.mark.parametrize(
    ("bits", "dither"), [(bits, True) for bits in range(1, 9)] + [(4, False), (6, False)]
)
def test_the_mean_squared_error_of_the_lattice_is_that_of_its_cell(bits, dither):
    tensor = torch.randn(1000, 1002, generator=torch.Generator().manual_seed(0))
    area = cell_area(bits, dither, (tensor.max() - tensor.min()).item())
    error = crossed(lattice(bits, "minmax", dither), tensor) - tensor
    assert error.double().square().mean().item() == pytest.approx(MOMENT * area, rel=0.02)
    assert round(MOMENT, 4) == 0.0802


@pytest.mark.parametrize("make", [scalar, lattice])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_dithered_errors_have_no_mean_and_know_nothing_of_the_input(make, bits):
    generator = torch.Generator().manual_seed(0)
    # Few different values: without dither each would have one error of its own.
    tensor = torch.randint(5, (1000, 1000), generator=generator).float() * 0.37 - 0.6
    read = crossed(make(bits, "minmax", dither=True), tensor, round=11)
    error = (read - tensor).double()
    limit = 5 / math.sqrt(tensor.numel())
    for value in tensor.unique():
        of_value = error[tensor == value]
        assert abs(of_value.mean()) < 5 * error.std() / math.sqrt(of_value.numel())
        assert of_value.var().item() == pytest.approx(error.var().item(), rel=0.01)
    both = torch.stack((error.flatten(), tensor.double().flatten()))
    assert abs(torch.corrcoef(both)[0, 1]) < limit
    pairs = error.reshape(-1, 2).T
    assert abs(torch.corrcoef(pairs)[0, 1]) < 2 * limit


def test_dithered_scalar_errors_are_uniform():
    tensor = torch.randint(3, (400_000,), generator=torch.Generator().manual_seed(0)).float()
    step = 2 / 3
    error = (crossed(scalar(2, "minmax", dither=True), tensor) - tensor).double() / step + 0.5
    ordered = error.sort().values
    expected = (torch.arange(len(ordered), dtype=torch.float64) + 0.5) / len(ordered)
    assert (ordered - expected).abs().max() < 1.95 / math.sqrt(len(ordered))


def test_dither_changes_with_the_round_and_the_receiver():
    tensor = torch.rand(8, 8)
    for make in (scalar, lattice):
        encoding = make(3, dither=True)
        first = crossed(encoding, tensor, 0)
        assert not torch.equal(first, crossed(encoding, tensor, 1))
        other = encoding.encoder(Key(0, "partner", "embedding", "shop"))
        assert not torch.equal(first, decode(other.encode(tensor, Occasion(0))))


@pytest.mark.parametrize("make", [scalar, lattice])
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_clipping_lowers_the_error_and_survives_outliers(make, bits):
    tensor = torch.randn(512, 64, generator=torch.Generator().manual_seed(0))
    outlier = tensor.clone()
    outlier[5, 5] = 40.0
    for example in (tensor, outlier):
        errors = {
            scale: (crossed(make(bits, scale), example) - example).square().mean().item()
            for scale in ("minmax", "clipped")
        }
        assert errors["clipped"] < errors["minmax"]


def test_negative_components_are_not_cut_off():
    tensor = torch.linspace(-1, 0, 101)
    for make in (scalar, lattice):
        assert (crossed(make(6), tensor) - tensor).abs().max() < 0.05


def test_few_levels_on_few_values_are_exact():
    tensor = torch.tensor([[-2.0, -1.0, 0.0, 1.0]])
    assert torch.equal(crossed(scalar(2, "minmax"), tensor), tensor)


@pytest.mark.parametrize("make", [scalar, lattice])
@pytest.mark.parametrize("bits", [0, 17, -1, 2.0, "4", True])
def test_impossible_bits_are_refused(make, bits):
    with pytest.raises(RequestError, match="choose a whole number 1 to"):
        make(bits)


def test_an_unknown_scale_is_refused_with_the_nearest():
    with pytest.raises(RequestError, match="did you mean 'minmax'"):
        scalar(2, scale="minimax")


@pytest.mark.parametrize("make", [scalar, lattice])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_types_largest_and_smallest_numbers_stay_finite(make, dtype):
    kind = torch.finfo(dtype)
    for edge in (kind.max, kind.tiny * kind.eps):
        tensor = torch.tensor([[edge, -edge, edge / 2, 0.0]] * 30, dtype=torch.float64).to(dtype)
        for dither in (False, True):
            read = crossed(make(3, "minmax", dither), tensor)
            assert torch.isfinite(read).all()
            # Halves, because the difference itself may be too large for the type.
            assert ((read / 2 - tensor / 2).abs() <= edge / 2).all()
