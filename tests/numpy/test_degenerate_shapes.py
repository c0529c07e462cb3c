"""Arrays without axes or without elements, and writes of what has other axes than the place it goes to: as NumPy has them."""

import warnings

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.numpy.table import FUNCTIONS, UFUNCS, load_all

AXIS_OF_A_NUMBER = {
    **{
        name: lambda np, x, axis, name=name: getattr(np, name)(x, axis=axis)
        for name in (
            *("sum", "prod", "max", "min", "ptp", "any", "all", "mean", "cumsum", "cumprod", "count_nonzero", "squeeze"),
            *("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nancumsum", "nancumprod", "median", "flip"),
            *("argmax", "argmin", "nanargmax", "nanargmin", "argsort", "sort"),
        )
    },
    "compress": lambda np, x, axis: np.compress([True], x, axis=axis),
    "take": lambda np, x, axis: np.take(x, [0, 0], axis=axis),
    "repeat": lambda np, x, axis: np.repeat(x, 2, axis=axis),
    "argpartition": lambda np, x, axis: np.argpartition(x, 0, axis=axis),
    "partition": lambda np, x, axis: np.partition(x, 0, axis=axis),
    "add.reduce": lambda np, x, axis: np.add.reduce(x, axis=axis),
    "logaddexp.reduce": lambda np, x, axis: np.logaddexp.reduce(x, axis=axis),
    "kept": lambda np, x, axis: np.max(x, axis=axis, keepdims=True),
}


def outcome(f, *args):
    try:
        y = np.asarray(f(*args))
    except (ValueError, TypeError, IndexError) as error:
        return error.__class__
    return y.shape, y.dtype, y.tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("axis", [0, -1, 1, (0,), ()])
@pytest.mark.parametrize("name", AXIS_OF_A_NUMBER)
def test_the_axis_of_an_array_without_axes(name, axis):
    """NumPy's reductions take 0 and -1; others refuse any."""
    f, x = AXIS_OF_A_NUMBER[name], np.array(1.5)
    wanted = outcome(lambda: f(np, x, axis))
    seen = []

    def g(x):
        seen.append(outcome(lambda: ad.stop_gradient(f(anp, x, axis))))
        return x * 1.0

    ad.grad(g)(x)
    ad.derivative(g)(x)
    assert seen == [wanted, wanted]
    if isinstance(wanted, tuple):
        assert outcome(ad.jit(lambda x: f(anp, x, axis)), x) == wanted


@pytest.mark.parametrize("axis", [0, -1])
def test_gradients_of_reductions_without_axes(axis):
    for f in (np.sum, np.max, np.prod, np.nansum):
        assert ad.grad(lambda x, f=f: f(x, axis=axis) * 3.0)(np.array(1.5)) == 3.0
    for f in (np.cumsum, np.cumprod):
        assert ad.grad(lambda x, f=f: np.sum(f(x, axis=axis)) * 3.0)(np.array(1.5)) == 3.0


@pytest.mark.parametrize("mask", [(0,), (0, 3), (2, 0), (0, 0)])
def test_a_mask_without_elements_chooses_nothing(mask):
    """Its length is not compared with the array's."""
    mask = np.zeros(mask, bool)
    x = np.arange(6.0).reshape(2, 3)
    seen = []

    def f(x):
        seen.append(np.shape(x[mask]))
        y = x * 2.0
        y[mask] = 7.0
        return np.sum(y) + np.sum(x[mask])

    np.testing.assert_array_equal(ad.grad(f)(x), np.full((2, 3), 2.0))
    assert seen == [x[mask].shape]
    assert ad.jit(lambda x: x[mask])(x).shape == x[mask].shape
    with pytest.raises(IndexError):
        ad.grad(lambda x: np.sum(x[np.zeros(1, bool)]))(x)


@pytest.mark.parametrize("index", [[0], 0, [7], [[1, 2]]])
@pytest.mark.parametrize("shape, axis", [((0, 3), 1), ((0, 0), 1), ((0, 0), 0), ((3, 0), 0), ((2, 0, 2), -1)])
def test_take_from_what_has_no_elements(shape, axis, index):
    """NumPy looks at no index if an axis before is empty."""
    x, seen = np.ones(shape), []
    wanted = outcome(lambda: np.take(x, index, axis=axis))
    ad.grad(lambda x: seen.append(outcome(lambda: ad.stop_gradient(anp.take(x, index, axis=axis)))) or np.sum(x))(x)
    assert seen == [wanted]


MAKES_NOTHING = {
    "diag": lambda x: anp.diag(x[:0]),
    "diag beside": lambda x: anp.diag(x[:0], 2),
    "diagflat": lambda x: anp.diagflat(x[:0], 1),
    "resize": lambda x: anp.resize(x[:0], (2, 3)),
    "vander": lambda x: anp.vander(x, 0),
    "roots": lambda x: anp.roots(x[:1]),
    "cov": lambda x: anp.cov(x[:0][:, None]),
    "kaiser": lambda x: anp.kaiser(1, x[0]),
}


@pytest.mark.parametrize("name", MAKES_NOTHING)
def test_new_empty_arrays_can_be_written_to(name):
    """Arrays that hold no derivative yet take traced values, as those of np.zeros do."""

    def f(x):
        y = MAKES_NOTHING[name](x)
        y[...] = x[1]
        return np.sum(y) + x[0]

    x = np.array([0.5, 1.5])
    count = np.size(MAKES_NOTHING[name](x))
    np.testing.assert_array_equal(ad.grad(f)(x), [1.0, count])


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64", "int8", "bool"])
@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.maximum])
@pytest.mark.parametrize("value", [0.5, np.array([0.5, 1.5, 2.5]), np.float32(1.5), 2, np.array([1, 2, 3], np.int16)])
def test_ufunc_at_keeps_the_dtype(ufunc, value, dtype):
    """Also where the sum would be wider; integers are cut after each step. Under vmap as well, where they are traced."""

    def f(np, x):
        y = np.array(x)
        ufunc.at(y, [0, 0, -1], value)
        return y

    x = np.array([3, 1, 0]).astype(dtype)
    try:
        wanted = f(np, x.copy())
    except TypeError:  # bools are not subtracted
        return
    batch = ad.vmap(lambda x: f(anp, x))(np.stack([x, x]))
    assert batch.dtype == wanted.dtype
    np.testing.assert_allclose(batch, np.stack([wanted, wanted]), rtol=1e-6)
    if x.dtype.kind == "f":
        y, tangent = ad.jvp(lambda x: f(anp, x), (x,), (np.ones_like(x),))
        assert (y.dtype, tangent.dtype) == (x.dtype, x.dtype)
        np.testing.assert_allclose(y, wanted, rtol=1e-6)


@pytest.mark.parametrize("index", [slice(None), [0, 2, 1], ..., (None, slice(None))])
def test_leading_axes_of_length_one_are_ignored_by_a_write(index):
    def into_zeros(x):
        y = anp.zeros(3)
        y[index] = x
        return y

    def into_own(x):
        y = x[0, 0] * 2.0
        y[index] = x
        return y

    rows = np.arange(12.0).reshape(4, 1, 1, 3)
    for f in (into_zeros, into_own):
        wanted = np.stack([f(row) for row in rows])
        np.testing.assert_array_equal(ad.vmap(f)(rows), wanted)
        np.testing.assert_array_equal(ad.jit(ad.vmap(f))(rows), wanted)
        np.testing.assert_array_equal(ad.jit(f)(rows[1]), wanted[1])
        np.testing.assert_array_equal(ad.jacobian(f)(rows[1]), ad.jit(ad.jacobian(f))(rows[1]))
        np.testing.assert_array_equal(np.sum(ad.jacobian(f)(rows[1]), axis=(1, 2, 3)), [1.0, 1.0, 1.0])
    for transform in (ad.vmap, lambda f: lambda x: ad.jit(f)(x[0]), lambda f: lambda x: ad.jacobian(f)(x[0])):
        with pytest.raises(ValueError, match="broadcast"):
            transform(into_zeros)(np.ones((4, 2, 3)))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (0, 0), (0, 3), (3, 0), (2, 1), (1, 0, 3, 1)])
@pytest.mark.parametrize(
    "f",
    [
        *(lambda np, x, k=k: np.lexsort((x,) * k) for k in (1, 2)),
        lambda np, x: np.lexsort(x),
        *(lambda np, x, k=k: np.partition(x, k) for k in (0, 1, -2, 7)),
        *(lambda np, x, k=k: np.argpartition(x, k, axis=0) for k in (0, 1, -2, 7)),
        *(lambda np, x, k=k: np.partition(x, (0, k), axis=None) for k in (1, 7)),
        *(lambda np, x, i=i: np.take(x, i, axis=0, mode="clip") for i in (0, 7, [0, 0], [5])),
    ],
)
def test_orders_of_arrays_without_elements_or_axes(f, shape):
    """NumPy checks no place in an array without elements."""
    x = np.ones(shape)
    wanted, seen = outcome(lambda: f(np, x)), []

    def g(x):
        seen.append(outcome(lambda: ad.stop_gradient(f(anp, x))))
        return np.sum(x)

    ad.grad(g)(x)
    assert seen == [wanted]
    assert outcome(ad.jit(lambda x: f(anp, x)), x) == wanted


def _named(home, module):
    """The functions of a module of NumPy that are ours as well, by name."""
    load_all()
    found = {}
    for name in dir(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f = getattr(module, name)
        if not name.startswith("_") and callable(f) and not isinstance(f, type) and (f in FUNCTIONS or f in UFUNCS):
            found[home + name] = f
    return found


#: Functions of one number: those that take it alone, and ways to call the others.
OF_A_NUMBER = {
    **_named("", np),
    **_named("linalg.", np.linalg),
    **_named("fft.", np.fft),
    "piecewise": lambda x: np.piecewise(x, [x > 0], [lambda t: t * 2.0, 0.0]),
    "clip": lambda x: np.clip(x, 0, 1),
    "where": lambda x: np.where(True, x, x),
    "interp": lambda x: np.interp(x, [0.0, 1.0], [0.0, 2.0]),
    "quantile": lambda x: np.quantile(x, 0.5),
    "einsum": lambda x: np.einsum(",->", x, x),
    "tensordot": lambda x: np.tensordot(x, x, 0),
    "inner": lambda x: np.inner(x * np.ones(2), np.ones(2)),
    "multi_dot": lambda x: np.linalg.multi_dot([x * np.ones(2), np.eye(2), np.ones(2)]),
    "prod of no axes": lambda x: np.prod(x, axis=()),
    "prod with axes kept": lambda x: np.prod(x, keepdims=True),
    "prod of an array": lambda x: np.prod(x * np.ones(2)),
    "cov": lambda x: np.cov(x * np.arange(3.0)),
    "read": lambda x: (x * np.ones(2))[0],
    "read as an array": lambda x: (x * np.ones(2))[0, ...],
    "astype": lambda x: np.astype(np.asarray(x) if isinstance(x, float) else x, np.float32),
    "trim": lambda x: np.trim_zeros(x),
}


@pytest.mark.parametrize("make", [lambda: np.array(0.4), lambda: np.array(0.4, "f4"), lambda: np.float64(0.4), lambda: 0.4])
@pytest.mark.parametrize("name", OF_A_NUMBER)
def test_arrays_without_axes_and_scalars(name, make):
    """A result is an array, which can be written to, or a scalar, as NumPy's is."""
    f = OF_A_NUMBER[name]
    kinds = lambda ys: [(isinstance(y, np.ndarray), np.shape(y)) for y in (ys if isinstance(ys, (tuple, list)) else (ys,))]
    is_float = lambda ys: all(np.asarray(y).dtype.kind in "fc" for y in (ys if isinstance(ys, (tuple, list)) else (ys,)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = f(make())
        except (TypeError, ValueError, IndexError, AttributeError, np.linalg.LinAlgError):
            pytest.skip("not of a number alone")
        if not is_float(expected):
            pytest.skip("no float")

        def seen(x):
            assert kinds(f(x)) == kinds(expected)
            return x * 1.0

        try:
            ad.vjp(seen, make())
            ad.jvp(seen, (make(),), (make(),))
        except ad.AdjointError:
            pytest.skip("refused")
