"""scipy.ndimage on traced values: SciPy's values, and derivatives by images, weights and coordinates."""

import numpy as np
import pytest
import scipy.ndimage

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.scipy import ndimage

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal(40), RNG.standard_normal(4)
IMAGE, KERNEL = RNG.standard_normal((7, 6)), RNG.standard_normal((3, 4))
PLACES = np.array([[0.3, -1.2, 6.7, 8.2, 20.1], [1.1, 2.2, -0.7, 5.6, -9.3]])
WEIGHTS = np.cos(np.arange(400))
FILTERS = ("reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap")
MODES = ("reflect", "constant", "nearest", "mirror", "wrap", "grid-wrap", "grid-constant")


def total(y):
    flat = y.reshape(-1)
    return (flat * WEIGHTS[: flat.shape[0]]).sum()


CASES = {
    "gaussian_filter": (lambda n, v: n.gaussian_filter(v, 1.2), IMAGE),
    "its slope": (lambda n, v: n.gaussian_filter1d(v, 1.5, mode="wrap", order=1), X),
    "its width": (lambda n, v: n.gaussian_filter1d(X, v, radius=4), np.array(1.3)),
    "gaussian_laplace": (lambda n, v: n.gaussian_laplace(v, 1.0), IMAGE),
    "gaussian_gradient_magnitude": (lambda n, v: n.gaussian_gradient_magnitude(v, 1.0), IMAGE),
    "uniform_filter": (lambda n, v: n.uniform_filter(v, 3), IMAGE),
    "sobel": (lambda n, v: n.sobel(v, 0), IMAGE),
    "prewitt": (lambda n, v: n.prewitt(v, 1), IMAGE),
    "laplace": (lambda n, v: n.laplace(v), IMAGE),
    "convolve1d by the weights": (lambda n, v: n.convolve1d(X, v), Y),
    "correlate by the weights": (lambda n, v: n.correlate(IMAGE, v, origin=1), KERNEL),
    **{
        f"correlate1d, {mode}, {origin}": (
            lambda n, v, mode=mode, origin=origin: n.correlate1d(v, Y, mode=mode, cval=0.3, origin=origin),
            X[:9],
        )
        for mode in FILTERS[:6]
        for origin in (-1, 0, 1)
    },
    **{f"convolve, {mode}": (lambda n, v, mode=mode: n.convolve(v, KERNEL, mode=mode, cval=0.3), IMAGE) for mode in FILTERS[:5]},
    "a filter longer than its signal": (lambda n, v: n.correlate1d(v, np.arange(9.0), mode="reflect"), X[:3]),
    "minimum_filter": (lambda n, v: n.minimum_filter(v, 3), IMAGE),
    "maximum_filter1d": (lambda n, v: n.maximum_filter1d(v, 4), X),
    "maximum_filter": (lambda n, v: n.maximum_filter(v, footprint=np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])), IMAGE),
    "median_filter": (lambda n, v: n.median_filter(v, 3), IMAGE),
    "median_filter of a line": (lambda n, v: n.median_filter(v, 5), X),
    "percentile_filter": (lambda n, v: n.percentile_filter(v, 20, size=3), IMAGE),
    "rank_filter": (lambda n, v: n.rank_filter(v, 2, size=3), IMAGE),
    **{
        f"map_coordinates, {mode}, {order}": (
            lambda n, v, mode=mode, order=order: n.map_coordinates(v, PLACES, order=order, mode=mode, cval=0.7),
            IMAGE,
        )
        for mode in MODES
        for order in (0, 1)
    },
    **{
        f"map_coordinates by them, {mode}": (
            lambda n, v, mode=mode: n.map_coordinates(IMAGE, v, order=1, mode=mode, cval=0.7),
            PLACES,
        )
        for mode in MODES
    },
    "shift": (lambda n, v: n.shift(IMAGE, v, order=1), np.array([0.3, 1.2])),
    "shift an image": (lambda n, v: n.shift(v, (0.3, -0.6), order=1, mode="nearest"), IMAGE),
    "zoom": (lambda n, v: n.zoom(v, 1.7, order=1), IMAGE),
    "zoom a grid": (lambda n, v: n.zoom(v, 1.7, order=1, grid_mode=True, mode="grid-constant"), IMAGE),
    "rotate": (lambda n, v: n.rotate(v, 20.0, order=1), IMAGE),
    "affine_transform": (
        lambda n, v: n.affine_transform(IMAGE, v, offset=0.31, order=1, mode="nearest"),
        np.array([[0.9, 0.1], [-0.1, 0.8]]),
    ),
    "affine_transform by a diagonal": (
        lambda n, v: n.affine_transform(IMAGE, v, offset=0.2, order=1, mode="mirror"),
        np.array([0.91, 0.83]),
    ),
    "geometric_transform": (
        lambda n, v: n.geometric_transform(v, lambda p: (p[0] * 0.9 + 0.2, p[1] * 0.8 + 0.1), order=1, mode="nearest"),
        IMAGE,
    ),
}


def scalar(name, of):
    f, _ = CASES[name]
    return lambda v: total(f(of, v))


@pytest.mark.parametrize("name", CASES)
def test_images(name):
    at = CASES[name][1]
    value, slope = ad.value_and_grad(scalar(name, ndimage))(at)
    wanted = scalar(name, scipy.ndimage)(at)
    assert scalar(name, ndimage)(at) == wanted  # plain numbers go to SciPy
    np.testing.assert_allclose(value, wanted, rtol=1e-10, atol=1e-12)
    near = ad.finite_difference(scalar(name, scipy.ndimage), at)
    np.testing.assert_allclose(slope, near, rtol=1e-5, atol=1e-6 * np.max(np.abs(near)))
    np.testing.assert_allclose(ad.jit(ad.grad(scalar(name, ndimage)))(at), slope, rtol=1e-9, atol=1e-10)
    _, along = ad.jvp(scalar(name, ndimage), (at,), (np.cos(at),))
    np.testing.assert_allclose(along, np.sum(slope * np.cos(at)), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["gaussian_filter", "convolve, mirror", "median_filter", "map_coordinates, nearest, 1", "shift"])
def test_images_of_a_batch(name):
    rows = np.stack([CASES[name][1] * k for k in (1.0, 0.5, 0.25)])
    slope = ad.grad(lambda v: scalar(name, ndimage)(v) ** 2)
    np.testing.assert_allclose(ad.vmap(slope)(rows), [slope(row) for row in rows], rtol=1e-9)


def test_second_order():
    slope = ad.grad(lambda v: total(ndimage.gaussian_gradient_magnitude(v, 1.0)))
    _, found = ad.jvp(slope, (IMAGE,), (np.cos(IMAGE),))
    h = 1e-6 * np.cos(IMAGE)
    np.testing.assert_allclose(found, (slope(IMAGE + h) - slope(IMAGE - h)) / 2e-6, rtol=1e-4, atol=1e-6)


def test_splines_are_refused():
    with pytest.raises(UnsupportedError, match="order=1"):
        ad.grad(lambda v: ndimage.shift(v, 0.3).sum())(IMAGE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes(dtype):
    image = IMAGE.astype(dtype)
    found, _ = ad.jvp(lambda v: ndimage.gaussian_filter(v, 1.0), (image,), (image,))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, scipy.ndimage.gaussian_filter(image, 1.0), rtol=1e-4 if dtype is np.float32 else 1e-12)
