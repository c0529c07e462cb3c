"""Reductions with every argument NumPy documents."""

import numpy as np
import pytest
from harness import check, draw

import adjoint as ad
import adjoint.numpy as anp
from adjoint.ops import reduce as reductions
from adjoint.ops.reduce import _DOUBLED

RNG = np.random.default_rng(1)
X = draw(RNG, (3, 4))
T = draw(RNG, (2, 3, 4))
Z = draw(RNG, (3, 4), dtype=complex)
MASK = np.array([[True, False, True, True], [True, True, True, False], [True, True, False, True]])

REDUCTIONS = [np.sum, np.prod, np.mean, np.max, np.min, np.var, np.std, np.ptp, np.amax, np.amin]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("f", REDUCTIONS, ids=lambda f: f.__name__)
def test_axes(f, axis):
    check(lambda x: f(x, axis=axis), X)
    check(lambda x: f(x, axis, keepdims=True), X, order=1)


@pytest.mark.parametrize("axis", [(0, 1), (-1, 0), (1,), ()])
@pytest.mark.parametrize("f", [np.sum, np.prod, np.mean, np.max, np.min, np.var, np.std], ids=lambda f: f.__name__)
def test_several_axes(f, axis):
    if axis == () and f in (np.std,):
        return  # the standard deviation of single elements has no derivative to speak of
    check(lambda x: f(x, axis=axis), T, order=1)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.sum(axis=(0, 1), keepdims=True), lambda x: x.prod(axis=1),
        lambda x: x.mean(), lambda x: x.mean(axis=-1, keepdims=True), lambda x: x.var(ddof=1), lambda x: x.std(0, ddof=1),
        lambda x: x.max(), lambda x: x.min(axis=1), lambda x: x.cumsum(), lambda x: x.cumsum(axis=0), lambda x: x.cumprod(1),
        lambda x: np.sum(x, where=MASK), lambda x: np.sum(x, 0, None, None, True, 2.5), lambda x: np.sum(x, initial=3.0),
        lambda x: np.prod(x, where=MASK, initial=2.0), lambda x: np.prod(x, axis=0, where=MASK, keepdims=True),
        lambda x: np.max(x, initial=-0.1), lambda x: np.max(x, axis=1, where=MASK, initial=-5.0),
        lambda x: np.min(x, axis=1, where=MASK, initial=5.0), lambda x: np.mean(x, where=MASK),
        lambda x: np.mean(x, axis=0, where=MASK), lambda x: np.mean(x, dtype=np.float64),
        lambda x: np.var(x, axis=1, ddof=1, where=MASK), lambda x: np.std(x, where=MASK),
        lambda x: np.var(x, correction=1), lambda x: np.var(x, axis=0, mean=np.mean(x, axis=0, keepdims=True)),
        lambda x: np.cumsum(x, axis=1), lambda x: np.cumprod(x, axis=0), lambda x: np.cumprod(x),
        lambda x: np.sum(x, dtype=np.complex128).real,
        lambda x: np.sum(x, out=anp.zeros(())), lambda x: np.cumsum(x, axis=0, out=anp.zeros((3, 4))),
    ],
)  # fmt: skip
def test_argument_forms(f):
    check(f, X)


def test_a_list_of_traced_values_never_reaches_numpys_protocols():
    with pytest.raises(ad.AdjointError, match=r"adjoint\.numpy"):
        ad.grad(lambda x: np.sum(np.sum([x, 2 * x], axis=0)))(X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x, axis=0),
        lambda x: np.prod(x, axis=1),
        lambda x: np.mean(x),
        lambda x: np.var(x),
        lambda x: np.cumsum(x, 1),
    ],
)
def test_complex(f):
    check(f, Z)


def test_float32_stays():
    x = X.astype(np.float32)
    for f in (np.sum, np.mean, np.max, np.std, np.prod):
        assert ad.grad(f)(x).dtype == np.float32


class TestNastyPoints:
    def test_ties_share_equally(self):
        x = np.array([1.0, 3.0, 3.0])
        np.testing.assert_array_equal(ad.grad(np.max)(x), [0, 0.5, 0.5])
        np.testing.assert_array_equal(ad.grad(np.min)(np.ones(4)), [0.25] * 4)
        np.testing.assert_array_equal(ad.jvp(np.max, (x,), (np.array([5.0, 1.0, 3.0]),))[1], 2.0)

    def test_products_with_zeros(self):
        np.testing.assert_array_equal(ad.grad(np.prod)(np.array([2.0, 0.0, 3.0])), [0, 6, 0])
        np.testing.assert_array_equal(ad.grad(np.prod)(np.array([2.0, 0.0, 0.0])), [0, 0, 0])
        hessian = ad.hessian(np.prod)(np.array([2.0, 0.0, 0.0]))
        np.testing.assert_array_equal(hessian, [[0, 0, 0], [0, 0, 2], [0, 2, 0]])
        np.testing.assert_array_equal(ad.jacobian(np.cumprod)(np.array([2.0, 0.0, 3.0])), [[1, 0, 0], [0, 2, 0], [0, 6, 0]])

    def test_equal_samples(self):
        np.testing.assert_array_equal(ad.grad(np.std)(np.full(3, 2.0)), [0, 0, 0])
        np.testing.assert_array_equal(ad.grad(np.var)(np.full(3, 2.0)), [0, 0, 0])

    def test_empty_and_size_one(self):
        assert ad.grad(np.sum)(np.zeros(0)).shape == (0,)
        assert ad.grad(np.prod)(np.zeros(0)).shape == (0,)
        np.testing.assert_array_equal(ad.grad(np.prod)(np.array([5.0])), [1])
        np.testing.assert_array_equal(ad.grad(np.max)(np.array([5.0])), [1])
        assert ad.grad(lambda x: np.max(x, initial=1.0))(np.zeros(0)).shape == (0,)
        with pytest.raises(ValueError, match="identity"):
            ad.grad(np.max)(np.zeros(0))

    def test_nan_is_not_hidden(self):
        x = np.array([1.0, np.nan])
        assert np.isnan(ad.value_and_grad(np.max)(x)[0])

    def test_axis_out_of_range_is_numpys_error(self):
        with pytest.raises(np.exceptions.AxisError):
            ad.grad(lambda x: np.sum(np.sum(x, axis=5)))(X)
        with pytest.raises(ValueError, match=r"repeated axis|duplicate"):
            ad.grad(lambda x: np.sum(np.sum(x, axis=(0, 0))))(X)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, _DOUBLED - 1, _DOUBLED, _DOUBLED + 1, 3 * _DOUBLED + 1, 700])
def test_products_of_any_length_are_exact_at_zeros(n, zeros):
    """The gradient of an element is the product of the others, on both sides of the length from which it is accumulated."""
    x = RNG.uniform(0.9, 1.1, (2, n)) * RNG.choice([-1.0, 1.0], (2, n))
    x[:, RNG.permutation(n)[:zeros]] = 0.0
    w = np.array([1.5, -2.0])
    others = np.stack([np.prod(np.delete(x, k, axis=1), axis=1) for k in range(n)], axis=1) * w[:, None]
    f = lambda x: np.sum(np.prod(x, axis=1) * w)
    for gradient in (ad.grad(f), ad.jit(ad.grad(f))):
        np.testing.assert_allclose(gradient(x), others, rtol=1e-12)
        np.testing.assert_allclose(gradient(np.asfortranarray(x)[::-1])[::-1] * (w / w[::-1])[:, None], others, rtol=1e-12)
    t = RNG.normal(size=x.shape)
    np.testing.assert_allclose(ad.jvp(f, (x,), (t,))[1], np.sum(others * t), rtol=1e-11, atol=1e-14)
    if n <= 3 * _DOUBLED + 1:
        np.testing.assert_allclose(ad.jit(ad.hvp(f))(x, t), ad.jvp(ad.grad(f), (x,), (t,))[1], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 16, 17])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_products_of_all_others(n, axis, dtype):
    x = np.random.default_rng(n).uniform(0.5, 1.5, (n, 2) if axis == 0 else (2, n)).astype(dtype)
    x.flat[1::4] = 0
    for a in (x, np.asfortranarray(x), x[::-1]):
        others = np.where(np.eye(n, dtype=bool)[..., None], 1, np.moveaxis(a, axis, 0))
        wanted = np.moveaxis(others.prod(1), 0, axis)
        found = reductions.others_product(a, axis)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
