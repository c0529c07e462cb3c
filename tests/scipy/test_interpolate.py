"""Interpolants at traced places, and of traced data, against SciPy's values and derivatives."""

import abc

import numpy as np
import pytest
import scipy.interpolate
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.scipy import interpolate

X = np.array([0.0, 0.7, 1.5, 2.0, 3.1, 4.0])
Y = np.sin(X) + X
MADE = {
    "CubicSpline": lambda m, y: m.CubicSpline(X, y),
    "natural": lambda m, y: m.CubicSpline(X, y, bc_type="natural"),
    "not extrapolated": lambda m, y: m.CubicSpline(X, y, extrapolate=False),
    "spline of order 2": lambda m, y: m.make_interp_spline(X, y, 2),
    "spline of order 5": lambda m, y: m.make_interp_spline(X, y, 5),
}
FROM_PLAIN = {
    "PchipInterpolator": lambda m: m.PchipInterpolator(X, Y),
    "Akima1DInterpolator": lambda m: m.Akima1DInterpolator(X, Y),
    "CubicHermiteSpline": lambda m: m.CubicHermiteSpline(X, Y, np.cos(X)),
    "UnivariateSpline": lambda m: m.UnivariateSpline(X, Y, s=0.01),
    "InterpolatedUnivariateSpline": lambda m: m.InterpolatedUnivariateSpline(X, Y),
    "PPoly": lambda m: m.PPoly(np.ones((3, 5)), X),
    "BSpline": lambda m: m.BSpline(np.arange(8.0), np.ones(4), 3),
    **{name: (lambda m, make=make: make(m, Y)) for name, make in MADE.items()},
}
PLACES = np.array([0.3, 0.7, 1.1, 2.6, 3.9])


@pytest.mark.parametrize("name", FROM_PLAIN)
def test_places(name):
    ours, theirs = FROM_PLAIN[name](interpolate), FROM_PLAIN[name](scipy.interpolate)
    places = PLACES + 3 if name == "BSpline" else PLACES
    np.testing.assert_array_equal(ours(places), theirs(places))
    assert isinstance(ours, type(theirs))
    f = lambda x: np.sum(ours(x))
    for compute in (ad.grad(f), ad.jit(ad.grad(f))):
        np.testing.assert_allclose(compute(places), theirs(places, 1), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(ad.jvp(ours, (places,), (np.ones(5),))[0], theirs(places), rtol=1e-12)
    np.testing.assert_allclose(np.diag(ad.hessian(f)(places)), theirs(places, 2), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ad.grad(lambda x: ours(x, 1))(places[2]), theirs(places[2], 2), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ad.vmap(ours)(places), theirs(places), rtol=1e-12)


@pytest.mark.parametrize("name", MADE)
def test_data(name):
    make = MADE[name]
    by_units = np.stack([make(scipy.interpolate, e)(PLACES) for e in np.eye(6)], axis=-1)
    f = lambda y: make(interpolate, y)(PLACES)
    for compute in (ad.jacobian(f), ad.jacfwd(f), ad.jit(ad.jacobian(f))):
        np.testing.assert_allclose(compute(Y), by_units, rtol=1e-9, atol=1e-11)
    both = lambda y, x: np.sum(make(interpolate, y)(x) ** 2)
    spline = make(scipy.interpolate, Y)
    np.testing.assert_allclose(ad.grad(both, 1)(Y, PLACES), 2 * spline(PLACES) * spline(PLACES, 1), rtol=1e-9)
    whole = lambda y: make(interpolate, y).integrate(0.2, 3.3)
    np.testing.assert_allclose(ad.grad(whole)(Y) @ Y, spline.integrate(0.2, 3.3), rtol=1e-9)
    np.testing.assert_allclose(
        ad.grad(lambda y: make(interpolate, y).derivative()(1.1))(Y) @ Y, spline.derivative()(1.1), rtol=1e-9
    )


def test_columns_of_data():
    y = np.stack([Y, Y**2], axis=1)
    f = lambda y: interpolate.CubicSpline(X, y)(PLACES)
    np.testing.assert_allclose(ad.jvp(f, (y,), (y,))[1], scipy.interpolate.CubicSpline(X, y)(PLACES), rtol=1e-12)
    np.testing.assert_allclose(
        ad.jvp(interpolate.CubicSpline(X, y), (1.1,), (1.0,))[1], scipy.interpolate.CubicSpline(X, y)(1.1, 1)
    )


@given(
    st.sampled_from(["linear", "nearest", "nearest-up", "zero", "slinear", "quadratic", "cubic", "previous", "next", 1, 3]),
    st.sampled_from(
        [{}, {"fill_value": "extrapolate"}, {"bounds_error": False}, {"bounds_error": False, "fill_value": (-1.0, 5.0)}]
    ),
    st.lists(st.floats(-1, 5), min_size=1, max_size=4),
    st.sampled_from([(6,), (6, 2), (2, 6)]),
    st.permutations(range(6)),
    st.booleans(),
)
def test_interp1d(kind, options, places, shape, order, is_single):
    axis = shape.index(6)
    rows = np.resize(Y, (6, *(n for n in shape if n != 6))) + np.arange(6.0).reshape(-1, *(1,) * (len(shape) - 1))
    data = np.moveaxis(rows, 0, axis)
    places = np.array(places[0] if is_single else places)
    if "bounds_error" not in options and options.get("fill_value") != "extrapolate":
        places = np.clip(places, X[0], X[-1])
    if kind in ("nearest", "nearest-up", "zero", "previous", "next", 0) and "fill_value" in options:
        options = {"bounds_error": False}
    given_x, given_y = X[list(order)], np.take(data, list(order), axis)
    theirs = scipy.interpolate.interp1d(given_x, given_y, kind, axis=axis, **options)
    ours = interpolate.interp1d(given_x, given_y, kind, axis=axis, **options)
    assert isinstance(ours, scipy.interpolate.interp1d)
    np.testing.assert_array_equal(ours(places), theirs(places))
    np.testing.assert_allclose(ad.jvp(ours, (places,), (np.ones(places.shape),))[0], theirs(places), rtol=1e-9, atol=1e-11)
    by_data = lambda y: interpolate.interp1d(given_x, y, kind, axis=axis, **options)(places)
    value, slope = ad.jvp(by_data, (given_y,), (given_y,))
    np.testing.assert_allclose(value, theirs(places), rtol=1e-9, atol=1e-11)
    filled = ((places < X[0]) | (places > X[-1])) & (options.get("fill_value") != "extrapolate")
    in_front = lambda y: np.moveaxis(y, range(axis, axis + places.ndim), range(places.ndim))[~filled]
    np.testing.assert_allclose(in_front(slope), in_front(theirs(places)), rtol=1e-9, atol=1e-11)


def test_outside_the_range():
    line = interpolate.interp1d(X, Y)
    for compute in (line, ad.grad(line), ad.jit(ad.grad(line))):
        with pytest.raises(ValueError, match="above the interpolation range's maximum value"):
            compute(9.0)
    periodic = lambda m: m.CubicSpline(X, [0.0, 1.0, 2.0, 3.0, 1.0, 0.0], bc_type="periodic")
    np.testing.assert_allclose(ad.grad(periodic(interpolate))(5.3), periodic(scipy.interpolate)(5.3, 1), rtol=1e-9)


def test_what_is_refused():
    for call in (
        lambda k: interpolate.CubicSpline(X * k, Y)(1.0),
        lambda k: interpolate.PchipInterpolator(X, Y * k)(1.0),
        lambda k: interpolate.interp1d(X * k, Y)(1.0),
        lambda k: interpolate.UnivariateSpline(X, Y, ext=1)(k),
    ):
        with pytest.raises(UnsupportedError):
            ad.grad(call)(1.0)


@pytest.mark.parametrize("kind", ["natural", "not-a-knot", "clamped", "b-spline", "linear"])
def test_one_program_for_any_breakpoints(kind):
    def f(x, y, t):
        if kind in ("b-spline", "linear"):
            return interpolate.make_interp_spline(x, y, k=1 if kind == "linear" else 3)(t)
        spline = interpolate.CubicSpline(x, y, bc_type=kind)
        return spline(t) + spline.derivative()(t) + spline.integrate(0.2, t)

    value, gradient = ad.jit(f), ad.jit(ad.grad(f, argnums=(1, 2)))
    rng = np.random.default_rng(0)
    for _ in range(4):
        x, y, t = np.cumsum(rng.random(6) + 0.1), rng.normal(size=6), 1.0 + rng.random()
        np.testing.assert_allclose(value(x, y, t), f(x, y, t), rtol=1e-12)
        for found, wanted in zip(gradient(x, y, t), ad.grad(f, argnums=(1, 2))(x, y, t), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    assert [str(g.report()).count("specialization") for g in (value, gradient)] == [1, 1]
    for transform in (ad.grad(f), ad.grad(value), ad.jit(ad.grad(f))):
        with pytest.raises(ad.AdjointError, match="not by x"):
            transform(x, y, t)


@pytest.mark.parametrize("kind", ["linear", "nearest", "nearest-up", "previous", "next", "zero", "quadratic", "cubic", 2])
def test_one_program_of_interp1d_for_any_breakpoints(kind):
    def f(x, y, t):
        return np.sum(interpolate.interp1d(x, y, kind=kind, bounds_error=False, fill_value=(7.0, 8.0))(t) * np.arange(1.0, 4.0))

    value, gradient = ad.jit(f), ad.jit(ad.grad(f, argnums=(1, 2)))
    rng = np.random.default_rng(0)
    for _ in range(4):
        x = rng.permutation(np.cumsum(rng.random(6) + 0.1))  # in any order
        y, t = rng.normal(size=6), rng.uniform(np.min(x), np.max(x), 3)
        t[0] = 0.01  # outside
        np.testing.assert_allclose(value(x, y, t), f(x, y, t), rtol=1e-11)
        for found, wanted in zip(gradient(x, y, t), ad.grad(f, argnums=(1, 2))(x, y, t), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
    assert [str(g.report()).count("specialization") for g in (value, gradient)] == [1, 1]
    with pytest.raises(ad.AdjointError, match="not by x"):
        ad.jit(ad.grad(f))(x, y, t)


def test_breakpoints_that_do_not_rise_raise_in_programs_too():
    f = ad.jit(lambda x, y: interpolate.CubicSpline(x, y)(1.5))
    x, y = np.arange(4.0), np.array([0.0, 1.0, 4.0, 2.0])
    assert f(x, y) == pytest.approx(interpolate.CubicSpline(x, y)(1.5))
    with pytest.raises(ValueError, match="increasing"):
        f(x[::-1].copy(), y)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Curve(Shape, interpolate.PPoly):
    """As libraries derive: from an abstract class of their own too."""

    def area(self):
        return self.integrate(0.0, 1.0)


def test_derived_classes_make_their_own_objects():
    C = np.arange(15.0).reshape(3, 5)
    curve = Curve(C, X)
    assert type(curve) is Curve
    assert curve.area() == scipy.interpolate.PPoly(C, X).integrate(0.0, 1.0)
    assert isinstance(curve, interpolate.PPoly)
    assert not isinstance(interpolate.PPoly(C, X), Curve)
    assert ad.grad(curve)(0.3) == ad.grad(interpolate.PPoly(C, X))(0.3)
    with pytest.raises(TypeError, match="abstract"):
        type("Flat", (Shape, interpolate.PPoly), {})(C, X)
    with pytest.raises(ad.AdjointError):
        ad.grad(lambda c: Curve(c, X)(0.3))(C)
