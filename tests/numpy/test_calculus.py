import tracemalloc

import numpy as np
import pytest
from harness import check, draw

import adjoint as ad

RNG = np.random.default_rng(3)
X = draw(RNG, (3, 4))
V = draw(RNG, (5,))
W = draw(RNG, (3,))
GRID = np.array([0.0, 0.4, 1.1, 1.9, 3.0])
Z = draw(RNG, (4,), dtype=complex)


@pytest.mark.parametrize(
    "f",
    [
        np.diff,
        lambda x: np.diff(x, n=2, axis=0),
        lambda x: np.diff(x, n=0),
        lambda x: np.diff(x, prepend=0.0, append=x[:, :2]),
        lambda x: np.diff(x, axis=0, prepend=x[:1]),
        np.ediff1d,
        lambda x: np.ediff1d(x, to_end=x[0], to_begin=[1.0, 2.0]),
        np.gradient,
        lambda x: np.gradient(x, 0.5),
        lambda x: np.gradient(x, axis=1),
        lambda x: np.gradient(x, 2.0, GRID[:4], edge_order=2),
        lambda x: np.gradient(x, GRID[:3], axis=0),
        lambda x: np.gradient(x, 0.1, axis=(1, 0), edge_order=2),
        np.trapezoid,
        lambda x: np.trapezoid(x, dx=0.1, axis=0),
        lambda x: np.trapezoid(x, GRID[:4]),
        lambda x: np.trapezoid(x, x**2, axis=0),
        lambda x: np.cumulative_sum(x, axis=0),
        lambda x: np.cumulative_prod(x, axis=1, include_initial=True),
        lambda x: np.cumulative_sum(x[0], include_initial=True),
        lambda x: x.cumsum(0) + x.cumprod(1),
        lambda x: np.cross(x[:, :3], x[:, 1:]),
        lambda x: np.cross(x, x[::-1], axis=0),
        lambda x: np.cross(x[:, 0], x[:, 1:].T, axisa=0, axisb=0, axisc=1),
        lambda x: np.sinc(x),
        lambda x: np.apply_along_axis(np.sum, 0, x),
        lambda x: np.apply_along_axis(lambda r: r[:2] ** 2, 1, x),
        lambda x: np.apply_along_axis(lambda r: np.outer(r, r), 0, x),
        lambda x: np.apply_over_axes(np.sum, x, [0, 1]),
    ],
)  # fmt: skip
def test_along_an_axis(f):
    check(f, X)


def test_traced_spacing():
    check(lambda y, x: [np.trapezoid(y, x), np.gradient(y, x), np.gradient(y, x, edge_order=2), np.gradient(y, x[1])], V, GRID)
    check(lambda y, h: [np.trapezoid(y, dx=h), np.gradient(y, h)], V, 0.7)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolve(mode):
    for n, m in [(5, 3), (3, 5), (4, 4), (5, 2), (2, 5), (1, 3), (4, 1), (6, 4), (4, 6)]:
        a, v = draw(RNG, (n,)), draw(RNG, (m,))
        check(lambda a, v: [np.convolve(a, v, mode), np.correlate(a, v, mode)], a, v)
    check(lambda a, v: [np.convolve(a, v, mode), np.correlate(a, v, mode)], Z, Z[:3] * 2)
    check(lambda a: [np.convolve(a, [1.0, 2.0], mode=mode), np.correlate([1.0, 2.0, 3.0, 4.0, 1.0], a, mode)], W)


def test_angle_and_unwrap():
    check(lambda z: [np.angle(z), np.angle(z, deg=True)], Z)
    assert ad.grad(np.angle)(2.0) == 0
    p = np.array([0.0, 2.0, 5.0, 9.0, 8.0, 15.0, 0.3])
    check(lambda p: [np.unwrap(p), np.unwrap(p, discont=3.7), np.unwrap(p, period=5.0)], p)
    check(lambda p: np.unwrap(p, axis=0), np.stack([p, -2 * p], 1))
    half = np.array([0.0, np.pi, 0.0, -np.pi])
    np.testing.assert_allclose(ad.vjp(np.unwrap, half)[0], np.unwrap(half))


def test_errors():
    for f, message in [
        (lambda x: np.diff(x, n=-1), "non-negative"),
        (lambda x: np.gradient(x, edge_order=3), "edge_order"),
        (lambda x: np.convolve(x, x, "all"), "mode"),
        (lambda x: np.cumulative_sum(np.outer(x, x)), "axis"),
        (lambda x: np.cross(x, x), "dimension"),
    ]:
        with pytest.raises(ValueError, match=message):
            ad.vjp(f, V)


# -- scans and convolutions of many elements ---------------------------------------------------------------------


def cumprod_jacobian(x):
    """∂y_i/∂x_j: the product of x_0..x_i without x_j."""
    n = len(x)
    return np.array([[np.prod(np.delete(x[: i + 1], j)) if j <= i else 0 for j in range(n)] for i in range(n)])


@pytest.mark.parametrize("zeros", [(), (0,), (3,), (1, 4), (0, 1, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble, np.complex128])
def test_cumprod_is_exact_at_zeros(zeros, dtype):
    x = draw(RNG, (6,), dtype=np.complex128 if dtype == np.complex128 else float).astype(dtype)
    x[list(zeros)] = 0
    tolerance = {"rtol": 1e-5 if dtype == np.float32 else 1e-12, "atol": 1e-7}
    expected = cumprod_jacobian(x)
    for transform in (ad.jacfwd, ad.jacrev):
        found = transform(np.cumprod, holomorphic=dtype == np.complex128)(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, **tolerance)
    columns = np.stack([x] * 9, axis=1)  # many lanes step as arrays, few as numbers
    found = ad.vjp(lambda x: np.cumprod(x, axis=0), columns)[1](np.ones_like(columns))[0]
    np.testing.assert_allclose(found, np.stack([expected.sum(0)] * 9, axis=1), **tolerance)


@pytest.mark.parametrize("f", [np.cumprod, np.nancumprod, lambda x: np.prod(x) * x, lambda x: np.cumprod(x[::-1])])
def test_cumulative_products_at_zeros_to_second_order(f):
    ad.check_grads(f, np.array([0.7, 0.0, -1.2, 0.0, 0.4]))


def test_the_gradient_of_cumprod_takes_linear_memory_and_no_overflow():
    x = 1 + 1e-4 * RNG.normal(size=50_000)
    ad.grad(lambda x: np.sum(np.cumprod(x)))(x[:10])
    tracemalloc.start()
    g = ad.grad(lambda x: np.sum(np.cumprod(x)))(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    y = np.cumprod(x)
    np.testing.assert_allclose(g, np.cumsum(y[::-1])[::-1] / x, rtol=1e-9)
    assert peak < 200 * x.nbytes
    large = np.array([1e-200, 1e200, 1e200, 1e-200])
    np.testing.assert_allclose(ad.grad(lambda x: np.cumprod(x)[3])(large), 1 / large)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_gradients_of_a_long_convolution_by_a_short_part_of_itself(mode):
    x = RNG.normal(size=20_000)
    w = RNG.normal(size=np.convolve(x, x[:50], mode).shape)
    f = lambda x: np.sum(w * np.convolve(x, x[:50], mode))
    g, v, h = ad.grad(f)(x), RNG.normal(size=x.shape), 1e-6
    np.testing.assert_allclose(g @ v, (f(x + h * v) - f(x - h * v)) / (2 * h), rtol=1e-5)
    np.testing.assert_allclose(ad.jvp(f, (x,), (v,))[1], g @ v, rtol=1e-10)
    z = x[:9000] + 1j * x[9000:18000]
    ad.check_grads(lambda z: np.correlate(z, z[:8500], "valid")[:3], z, order=1)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.float16, np.float32, np.complex64])
def test_dtype_of_an_angle(dtype):
    x = np.array([0, 1], dtype)
    assert ad.jit(np.angle)(x).dtype == np.angle(x).dtype


SAME = [((3,), (3,)), ((5, 3), (5, 3)), ((2, 4, 3), (2, 4, 3)), ((0, 3), (0, 3))]
OTHERS = [((3,), (5, 3)), ((4, 3), (2, 1, 3))]


@pytest.mark.parametrize("shapes", [*SAME, *OTHERS])
@pytest.mark.parametrize("dtype", [float, np.float32, complex])
@pytest.mark.parametrize("order", ["C", "F"])
def test_cross_products_have_the_bits_of_numpy(shapes, dtype, order):
    """Rows of the same shape are multiplied whole, others by component: signs of zeros, infinities and nan are the same."""
    rng = np.random.default_rng(5)
    odd = [0.0, -0.0, 1.0, -2.5, np.inf, np.nan, 1e-310]
    a, b = (np.asarray(rng.choice(odd, s) + rng.choice([0.0, 1.0], s), dtype, order=order) for s in shapes)
    with np.errstate(all="ignore"):
        expected = np.cross(a, b)
        for found in (
            ad.jvp(lambda a: np.cross(a, b), (a,), (np.zeros_like(a),))[0],
            ad.jvp(lambda b: np.cross(a, b), (b,), (np.zeros_like(b),))[0],
        ):
            assert (found.dtype, found.strides) == (expected.dtype, expected.strides)
            np.testing.assert_array_equal(found, expected)
            for part in (np.real, np.imag):
                same = np.signbit(part(found)) == np.signbit(part(expected))
                assert np.all(same | np.isnan(part(expected)))


@pytest.mark.parametrize("shapes", [((3,), (3,)), ((4, 3), (4, 3)), ((4, 3), (3,))])
def test_derivatives_of_cross_products(shapes):
    rng = np.random.default_rng(6)
    check(np.cross, *(rng.normal(size=s) for s in shapes))
