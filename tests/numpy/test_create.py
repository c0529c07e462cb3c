"""Arrays made inside a transform: NumPy's values, dtypes and layouts, and traced values written into them."""

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp

LIKE = ["zeros_like", "ones_like", "empty_like"]
SOURCES = [
    np.ones((2, 3)),
    np.asfortranarray(np.ones((2, 3))),
    np.ones((4, 6))[::2, ::2],
    np.float32(1.0),
    2,
    [1, 2],
    np.arange(3),
]


@pytest.mark.parametrize("name", LIKE)
@pytest.mark.parametrize("source", SOURCES, ids=range(len(SOURCES)))
@pytest.mark.parametrize("options", [{}, {"dtype": np.float32}, {"shape": (5,)}, {"order": "C"}])
def test_as_numpy(name, source, options):
    found, expected = getattr(anp, name)(source, **options), getattr(np, name)(source, **options)
    assert (found.shape, found.dtype, found.strides) == (expected.shape, expected.dtype, expected.strides)
    if name != "empty_like":
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "make", [lambda x: anp.zeros(3), lambda x: anp.empty(3), lambda x: anp.zeros_like(x), lambda x: anp.full_like(x, 7.0)]
)
def test_traced_values_are_written_into_them(make):
    def f(x):
        a = make(x)
        a[:] = x * 2
        a[0] = x[1] ** 2
        return np.sum(a)

    np.testing.assert_array_equal(ad.grad(f)(np.array([1.0, 2.0, 3.0])), [0.0, 6.0, 2.0])
    np.testing.assert_array_equal(ad.jit(ad.grad(f))(np.array([1.0, 2.0, 3.0])), [0.0, 6.0, 2.0])


def test_full_like_takes_a_traced_number():
    assert ad.grad(lambda c: np.sum(anp.full_like(np.ones((2, 3)), c)))(2.0) == 6.0


@pytest.mark.parametrize(
    "nested", [lambda x: [x, 2 * x], lambda x: [[x, 1.0], (2.0, x)], lambda x: [np.ones(2) * x, [x, x]], lambda x: x]
)
@pytest.mark.parametrize("options", [{}, {"ndmin": 3}, {"dtype": np.float32}])
def test_arrays_of_nested_lists(nested, options):
    expected = np.array(nested(3.0), **options)
    value, pull = ad.vjp(lambda x: anp.array(nested(x), **options), 3.0)
    assert (value.shape, value.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(value, expected)
    assert pull(np.ones(value.shape, value.dtype))[0] == np.sum(nested_slopes(nested))


def nested_slopes(nested):
    return (np.array(nested(3.0)) - np.array(nested(2.0))).ravel()


def test_asarray_copies_only_if_it_has_to():
    x = np.ones(3)
    assert anp.asarray(x) is x
    assert anp.array(x) is not x
    with pytest.raises(ValueError):
        anp.asarray([1.0], copy=False)


@pytest.mark.parametrize("options", [{}, {"ndmin": 3}, {"order": "C"}])
def test_an_array_that_is_not_copied_is_a_view(options):
    seen = []

    def f(x, y):
        v = anp.tanh(y)
        w = anp.array(v, copy=None, **options)
        w *= 2.0
        seen.append(np.array(v))
        return anp.sum(v * x)

    x, y = np.ones(3), np.arange(3.0)
    f(x, y)
    ad.grad(f)(x, y)
    ad.jvp(lambda x: f(x, y), (x,), (x,))
    np.testing.assert_array_equal(seen, [2.0 * np.tanh(y)] * 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda x, n: anp.arange(n) * x,
        lambda x, n: anp.arange(1, n, 2) * x,
        lambda x, n: anp.linspace(0.0, x, n),
        lambda x, n: anp.geomspace(1.0, x, num=n),
        lambda x, n: anp.full(n, x),
        lambda x, n: anp.full((2, n), x),
        lambda x, n: anp.diag(anp.array([x, 1.0]), n),
        lambda x, n: anp.tril(anp.ones((4, 4)) * x, -n),
        lambda x, n: anp.zeros((n, n)) + x,
    ],
)
@pytest.mark.parametrize("whole", [int, np.int64])
def test_sizes_that_are_arguments_of_a_compiled_function(make, whole):
    f = lambda x, n: anp.sum(make(x, n) ** 2)
    for g in (f, ad.grad(f)):
        compiled = ad.jit(g)
        for n in (2, 3):
            assert np.isclose(compiled(0.7, whole(n)), g(0.7, n), rtol=1e-14)
        assert "eagerly" not in compiled.report()
