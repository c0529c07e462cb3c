"""Arrays made inside a transform: NumPy's values, dtypes and layouts, and traced values written into them."""

import gc

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


@pytest.fixture(autouse=True, scope="module")
def _no_variables():
    """While a variable of the imperative style exists, arrays are made so that traced values can be written to them."""
    gc.collect()


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


@pytest.mark.sampled(3)
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


B, M = np.linspace(1.0, 2.0, 4), np.arange(9.0).reshape(3, 3)
COPIES = {
    "copy": lambda: anp.copy(B),
    "concatenate": lambda: anp.concatenate([B, B]),
    "hstack": lambda: anp.hstack([B, B]),
    "tile": lambda: anp.tile(B, 2),
    "diag": lambda: anp.diag(B),
    "append": lambda: anp.append(B, 1.0),
    "where": lambda: anp.where(B > 1, B, 0.0),
    "triu": lambda: anp.triu(M),
    "roll": lambda: anp.roll(B, 1),
    "outer": lambda: anp.outer(B, B),
    "logspace": lambda: anp.logspace(0, 1, 4),
    "asarray with another dtype": lambda: anp.asarray(np.arange(3), dtype=float),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_plain_arrays_take_traced_values(name):
    def f(x):
        y = COPIES[name]()
        y[0] = x * x
        return anp.sum(y)

    count = np.size(COPIES[name]()[0])
    assert ad.grad(f)(3.0) == 6.0 * count
    assert ad.jit(ad.grad(f))(3.0) == 6.0 * count
    assert type(COPIES[name]()) is np.ndarray  # outside of transforms they are NumPy's


def test_views_of_plain_arrays_stay_views():
    def f(x):
        assert type(anp.diag(M)) is np.ndarray
        assert type(anp.asarray(B, dtype=float)) is np.ndarray
        return x

    ad.grad(f)(1.0)


def test_a_graph_does_not_hold_what_happens_to_be_in_memory():
    def f(x):
        y, z = anp.empty(3), anp.empty_like(x)
        y[0], z[0] = x[1], x[0]
        return y[0] * z[0]

    assert ad.graph(f)(np.array([2.0, 3.0]))(np.array([2.0, 3.0])) == 6.0
    assert np.array_equal(ad.grad(lambda x: anp.sum(anp.empty(3) * x))(np.ones(3)), np.zeros(3))


@pytest.mark.parametrize("number", [3, True, np.int8(3), np.uint8(3), np.int32(3), np.uint64(3), np.float32(3.0), np.bool_(True)])
def test_arrays_of_traced_numbers_have_the_dtypes_of_numpy(number):
    makers = [
        lambda m, n: m.zeros_like(n),
        lambda m, n: m.ones_like(n),
        lambda m, n: m.empty_like(n) * 0,
        lambda m, n: m.full_like(n, 2),
        lambda m, n: m.linspace(n, 5, 4),
        lambda m, n: m.full(2, n),
    ]
    if isinstance(number, (int, np.integer)):  # of other numbers, arange is not compiled
        makers += [lambda m, n: m.arange(n), lambda m, n: m.arange(0, n, n)]
    for make in makers:
        found, wanted = ad.jit(lambda n, make=make: make(anp, n) * 1)(number), make(np, number) * 1
        np.testing.assert_array_equal(found, wanted)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype


def test_one_program_for_arrays_like_any_number():
    f = ad.jit(lambda n: anp.zeros_like(n) + n)
    assert [f(np.int32(k)) for k in range(6)] == list(range(6))
    assert f.report().count("specialization") == 1
