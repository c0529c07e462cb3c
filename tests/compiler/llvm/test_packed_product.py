"""Products in our own code: which ones, in how many pieces, and equal results for every size, layout and remainder."""

import itertools

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.llvm import packed_product
from adjoint.compiler.llvm.packed_product import _FEWEST, _PACKED, _PIECE, _ROWS_OF_PIECE, _SQUARE
from adjoint.compiler.lower.step import Product
from adjoint.compiler.switches import Switch, without

RNG = np.random.default_rng(0)
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


@pytest.fixture(autouse=True)
def written(monkeypatch):
    """The products that are written out. They are on any processor, as if BLAS had shorter vectors."""
    monkeypatch.setattr(packed_product, "_blas_is_narrow", lambda: True)
    steps, emit = [], packed_product.emit
    monkeypatch.setattr(packed_product, "emit", lambda routine, step: (steps.append(step), emit(routine, step)))
    with without(Switch.PROGRAM_CACHE):
        yield steps


def of(f, *args):
    (step,) = [step for step in ad.jit(f).lower(*args).lowered.steps if isinstance(step, Product)]
    return step


def agree(got, want):
    assert got.dtype == want.dtype
    scale = np.max(np.abs(want))
    np.testing.assert_allclose(got, want, rtol=0, atol=scale * (1e-5 if want.dtype == SINGLE else 1e-13))


@pytest.mark.parametrize(("rows", "columns", "fits"), [(_FEWEST, 300, True), (_FEWEST - 1, 300, False), (300, _FEWEST, True)])
def test_which_products_fit(rows, columns, fits):
    step = of(lambda a, b: a @ b, np.ones((rows, 300)), np.ones((300, columns)))
    assert packed_product.fits(step) == fits
    with without(Switch.PACKED_PRODUCTS):
        assert not packed_product.fits(step)


def test_blas_is_left_the_rest(monkeypatch):
    step = of(lambda a, b: a @ b, np.ones((99, 99)), np.ones((99, 99)))
    monkeypatch.undo()
    size, _, _ = packed_product.registers()
    for own, fits in ((None, False), (size, False), (size // 2, True)):
        monkeypatch.setattr(packed_product.blas, "vector_bytes", lambda own=own: own)
        packed_product._blas_is_narrow.cache_clear()
        assert packed_product.fits(step) == fits
    packed_product._blas_is_narrow.cache_clear()
    triangular = of(lambda a, b: np.linalg.cholesky(a) @ b, np.eye(99), np.ones((99, 99)))
    assert not packed_product.fits(triangular)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
@pytest.mark.parametrize("turned", list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize(
    "sizes",
    [
        (4, 260, 4),
        (5, 3 * _SQUARE + 1, 33),
        (7, 2, 129),  # whole vectors and one column
        (13, 700, 70),  # several blocks of the inner axis, the last of them shorter
        (50, 100, 63),
        (97, 31, 35),
    ],
)
def test_all_remainders_and_layouts(sizes, turned, dtype, written):
    rows, inner, columns = sizes
    a, b = RNG.normal(size=(rows, inner)).astype(dtype), RNG.normal(size=(inner, columns)).astype(dtype)
    f = {
        (False, False): lambda a, b: a @ b,
        (False, True): lambda a, b: a @ b.T,
        (True, False): lambda a, b: a.T @ b,
        (True, True): lambda a, b: a.T @ b.T,
    }[turned]
    given = [np.ascontiguousarray(x.T) if t else x for x, t in zip((a, b), turned, strict=True)]
    agree(ad.jit(f)(*given), a @ b)
    assert len(written) == 1


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_one_block_and_two(dtype):
    """The inner axis is cut where a panel of full width no longer fits."""
    size, _, wide = packed_product.registers()
    columns, longest = wide * size // dtype.itemsize, _PACKED // (wide * size)
    for inner in (longest, longest + 1):
        a, b = RNG.normal(size=(40, inner)).astype(dtype), RNG.normal(size=(inner, 3 * columns)).astype(dtype)
        agree(ad.jit(lambda a, b: a @ b)(a, b), a @ b)


def test_views_stacks_and_broadcasting(written):
    a, b = RNG.normal(size=(3, 2, 40, 50)), RNG.normal(size=(2, 60, 70))
    f = lambda a, b: a[:, :, 3:, ::1][..., 2:] @ b[:, 12:, 3:]
    agree(ad.jit(f)(a, b), f(a, b))
    g = lambda a, b: a @ np.swapaxes(b, -1, -2)[:, :50, 7:]
    agree(ad.jit(g)(a, b), g(a, b))
    h = lambda a, b: b[0].T[:50, 1:].T @ np.swapaxes(a, -1, -2)
    agree(ad.jit(h)(a, b), h(a, b))
    assert len(written) == 3


def pieces(a, b):
    step = of(lambda a, b: a @ b, np.empty(a), np.empty(b))
    return packed_product._PackedProduct(None, step).pieces


def test_how_many_pieces():
    panel = packed_product.registers()[0] // DOUBLE.itemsize * packed_product.registers()[2]
    inner = _PIECE // (64 * 4 * panel)
    assert pieces((64, 2 * inner - 1), (2 * inner - 1, 4 * panel)) == 1
    assert pieces((64, 2 * inner), (2 * inner, 4 * panel)) == 2
    assert pieces((64, 64 * inner), (64 * inner, 4 * panel)) == 4  # no more than panels
    tall = 10 * _ROWS_OF_PIECE
    assert pieces((tall, 9000), (9000, panel)) == 10  # each has enough rows for its packing
    assert pieces((2 * _ROWS_OF_PIECE - 1, 90_000), (90_000, panel)) == 1
    assert pieces((5, 300, 300), (300, 300)) == 5
    with without(Switch.PIECES):
        assert pieces((tall, 9000), (9000, panel)) == 1


@pytest.mark.parametrize("shapes", [((700, 90), (90, 60)), ((70, 90), (90, 700)), ((9, 80, 90), (90, 100))])
def test_the_same_bits_for_any_number_of_threads(shapes):
    a, b = (RNG.normal(size=shape) for shape in shapes)
    f = ad.jit(lambda a, b: a @ b)
    agree(f(a, b), a @ b)
    usual = ad.get_num_threads()
    ad.set_num_threads(1)
    try:
        alone = f(a, b)
    finally:
        ad.set_num_threads(usual)
    for _ in range(3):
        np.testing.assert_array_equal(f(a, b), alone)


def test_infinities_and_nans_stay_in_their_rows_and_columns():
    a, b = RNG.normal(size=(20, 50)), RNG.normal(size=(50, 41))
    a[3, 4], b[7, 40] = np.nan, np.inf
    found, want = ad.jit(lambda a, b: a @ b)(a, b), a @ b
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(want))


def test_products_share_functions(written):
    """Those of a tile and of packing have the strides as arguments."""
    a, b = RNG.normal(size=(60, 100)), RNG.normal(size=(100, 64))
    f = ad.jit(lambda a, b: (a @ b, (a + 1.0)[:, 1:] @ b[1:]))
    text = f.lower(a, b).native.text
    assert len(written) == 2
    sizes = text.count("i1 %is_first) nounwind")
    assert 0 < sizes <= 2  # full tiles, and the rest
