"""`out=` of another dtype: what is written, what is returned and what is refused is NumPy's, traced and compiled."""

import warnings

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp

X = np.array([[1.6, 2.5, -3.25], [130.5, -0.5, 7.75]])
REDUCTIONS = (
    *("sum", "prod", "max", "min", "mean", "var", "std", "ptp", "median", "nansum", "nanprod", "nanmax", "nanmin", "nanmean"),
    *("nanvar", "nanstd", "nanmedian", "all", "any", "argmax", "argmin"),
)
#: A call with `out`, and the shape of `out`.
CALLS = {
    **{name: (lambda x, o, name=name: getattr(np, name)(x, axis=0, out=o), (3,)) for name in REDUCTIONS},
    **{f".{name}": (lambda x, o, name=name: getattr(x, name)(axis=0, out=o), (3,)) for name in ("sum", "prod", "mean", "std")},
    **{
        name: (lambda x, o, name=name: getattr(np, name)(x, axis=0, out=o), (2, 3))
        for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")
    },
    "sum of all": (lambda x, o: np.sum(x, out=o), ()),
    "sum with a dtype": (lambda x, o: np.sum(x, axis=0, dtype=np.float32, out=o), (3,)),
    "sum in whole numbers": (lambda x, o: np.sum(x, axis=0, dtype=np.int16, out=o), (3,)),
    "sum from a value on": (lambda x, o: np.sum(x, axis=0, initial=2.5, out=o), (3,)),
    "product from a value on": (lambda x, o: np.prod(x, axis=0, initial=2.5, out=o), (3,)),
    "sum of some": (lambda x, o: np.sum(x, axis=0, where=[True, False, True], out=o), (3,)),
    "mean of some": (lambda x, o: np.mean(x, axis=0, where=[[True], [False]], out=o), (3,)),
    "add.reduce": (lambda x, o: np.add.reduce(x, axis=0, out=o), (3,)),
    "maximum.accumulate": (lambda x, o: np.maximum.accumulate(x, axis=0, out=o), (2, 3)),
    "add.reduceat": (lambda x, o: np.add.reduceat(x, [0, 1], axis=0, out=o), (2, 3)),
    "trace": (lambda x, o: np.trace(x, out=o), ()),
    "sin": (lambda x, o: np.sin(x, out=o), (2, 3)),
    "unsafe": (lambda x, o: np.add(x, 1, out=o, casting="unsafe"), (2, 3)),
    "clip": (lambda x, o: np.clip(x, -1, 2, out=o), (2, 3)),
    "round": (lambda x, o: np.round(x, out=o), (2, 3)),
    "fix": (lambda x, o: np.fix(x, out=o), (2, 3)),
    "take": (lambda x, o: np.take(x, [2, 0, 1], axis=1, out=o), (2, 3)),
    "choose": (lambda x, o: np.choose([0, 1, 0], x, out=o), (3,)),
    "concatenate": (lambda x, o: np.concatenate([x, x], out=o), (4, 3)),
    "stack": (lambda x, o: np.stack([x, x], out=o), (2, 2, 3)),
    "dot": (lambda x, o: np.dot(x, x.T, out=o), (2, 2)),
    "einsum": (lambda x, o: np.einsum("ij,kj->ik", x, x, out=o), (2, 2)),
    "quantile": (lambda x, o: np.quantile(x, 0.3, axis=0, out=o), (3,)),
}
DTYPES = ("float64", "float32", "float16", "int64", "int8", "bool")


def _outcome(run):
    """Whether an error is raised, or the dtypes, the contents of `out`, and whether it is returned itself."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            y, out, is_out = run()
        except (TypeError, ValueError):
            return None
    return np.asarray(y).dtype, np.asarray(out), is_out


def _agree(found, expected):
    if found is None or expected is None:
        return found is expected
    tolerance = 2e-3 if expected[1].dtype == np.float16 else 2e-5
    same = np.allclose(found[1].astype(complex), expected[1].astype(complex), rtol=tolerance, equal_nan=True)
    return found[0] == expected[0] and found[1].dtype == expected[1].dtype and found[2] == expected[2] and same


@pytest.mark.sampled(3)
@pytest.mark.parametrize("given", ["float64", "float32", "int64", "bool"])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_written_as_numpy_does(name, given):
    f, shape = CALLS[name]
    x = X.astype(given)
    for dtype in DTYPES:
        returned = []

        def call(x, module=anp, dtype=dtype, returned=returned):
            out = module.zeros(shape, dtype)
            y = f(x, out)
            returned.append(y is out)
            return y, out

        expected = _outcome(lambda call=call, returned=returned: (*call(x, np), returned.pop()))
        if x.dtype.kind == "f":
            found = _outcome(lambda call=call, returned=returned: (*ad.vjp(call, x)[0], returned.pop()))
            assert _agree(found, expected), (dtype, found, expected)
        if dtype in ("float32", "int64"):
            found = _outcome(lambda call=call, returned=returned: (*ad.jit(call)(x), returned.pop()))
            assert _agree(found, expected), (dtype, found, expected)


def test_a_narrower_out_has_the_gradient_of_its_rounded_value():
    def f(x):
        out = anp.zeros(3, np.float32)
        np.cumsum(x**2, out=out)
        return np.sum(out * np.array([1.0, 2.0, 3.0]))

    x = np.array([0.5, -1.5, 2.0])
    np.testing.assert_allclose(ad.grad(f)(x), 2 * x * [6, 5, 3], rtol=1e-6)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(x), 2 * x * [6, 5, 3], rtol=1e-6)


@pytest.mark.parametrize("reduce", [np.subtract.reduce, np.hypot.reduce, np.logaddexp.reduce, np.subtract.accumulate])
def test_partial_results_in_another_dtype_are_refused(reduce):
    def f(x):
        out = anp.zeros(3 if reduce is np.subtract.accumulate else (), np.float32)
        return np.sum(reduce(x, out=out))

    with pytest.raises(NotImplementedError, match="out= of dtype float32"):
        ad.grad(f)(np.arange(3.0))


def test_a_scalar_cannot_hold_a_result():
    """As in NumPy, out= is an array: an element of a traced array is a scalar, a 0-d array is not."""

    def into_element(x):
        y = x[0] * 2
        return np.sin(y, out=y)

    with pytest.raises(TypeError, match="return arrays must be of ArrayType"):
        ad.grad(into_element)(np.array([1.0, 2.0]))

    def into_array(x):
        y = anp.zeros(())
        return np.sin(x[0] * 2, out=y)

    assert ad.grad(into_array)(np.array([1.0, 2.0]))[0] == 2 * np.cos(2.0)


def test_whole_numbers_of_a_0d_array_are_a_0d_array():
    def multiplied(x):
        n = x.astype(int)
        n *= 1.5  # of an array of integers
        return x * n

    with pytest.raises(TypeError, match="same_kind"):
        ad.grad(multiplied)(np.array(2.0))
    assert ad.grad(multiplied)(np.float64(2.0)) == 3.0


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
@pytest.mark.parametrize("number", [2, 2.5, True, np.int8(2), np.float64(2.5)], ids=repr)
@pytest.mark.parametrize("dtype", ["int8", "int64", "float16", "float32", "float64", "complex64", "complex128"])
def test_a_number_beside_plain_arrays_has_their_dtype(dtype, number, casting):
    """Where only `out` can hold traced values, beside a differentiated argument."""

    def product(numpy, x=None):
        out = numpy.ones(3, dtype)
        try:
            for a, b in ((values, number), (number, values), (3, 2)):
                np.multiply(a, b, out=out, casting=casting)
        except TypeError:
            return "refused"
        written.append(np.array(ad.core.bind.unwrap_fresh(out)) if x is not None else out)
        return "written"

    values, written, found = np.arange(1, 4).astype(dtype), [], []
    expected = product(np)
    ad.grad(lambda x: found.append(product(anp, x)) or x)(1.0)
    assert found == [expected]
    assert [w.dtype for w in written] == [values.dtype] * len(written)
    for w in written:
        np.testing.assert_array_equal(w, written[0])


@pytest.mark.parametrize("kept", [{}, {"where": np.array([True, False])}, {"casting": "safe"}])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, bool])
@pytest.mark.parametrize("transform", [ad.grad, ad.jit, ad.jacfwd, ad.vmap])
def test_floats_do_not_fit_into_whole_numbers(transform, dtype, kept):
    """NumPy's own error, whatever holds the whole numbers."""

    def f(x):
        for out in (np.zeros(2, dtype), anp.zeros(2, dtype)):
            with pytest.raises(TypeError, match="Cannot cast ufunc 'add' output"):
                np.add(x, 1.0, out=out, **kept)
        return np.sum(x)

    transform(f)(np.ones((3, 2)) if transform is ad.vmap else np.ones(2))
