import numpy as np
import pytest
from harness import check, draw
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
import adjoint.numpy as anp
from adjoint.core.errors import BatchError

X = draw(np.random.default_rng(3), (3, 4))
V = draw(np.random.default_rng(4), (5,))
T = draw(np.random.default_rng(5), (2, 3, 4))
I = np.array([[2, 0, 1, 0], [1, 1, -1, 2]])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.take(x, [3, 0, 3]),
        lambda x: np.take(x, I, axis=1),
        lambda x: np.take(x, 1, axis=0),
        lambda x: np.take(x, -1),
        lambda x: x.take([0, 2], axis=1),
        lambda x: np.take(x, [5, -7], axis=0, mode="wrap"),
        lambda x: np.take(x, [5, -7], axis=0, mode="clip"),
        lambda x: np.take(x, np.array([], int), axis=1),
        lambda x: np.take_along_axis(x, I, axis=0),
        lambda x: np.take_along_axis(x, I[:, :1], axis=0),
        lambda x: np.take_along_axis(x, np.array([[3]]), 1),
        lambda x: np.take_along_axis(x, I[0], axis=None),
        lambda x: np.choose([[0, 1, 2, 0]], [x[0], x[1], 5.0]),
        lambda x: np.choose(np.array([0, 5, -1, 1]), x, mode="clip"),
        lambda x: np.array([0, 2, 1, 0]).choose([1, 2, 3]) * x,
        lambda x: np.compress([True, False, True], x, axis=0),
        lambda x: np.compress([0, 1, 1], x),
        lambda x: x.compress([True, True], axis=1),
        lambda x: np.extract(np.array([[True, False, True, True]] * 3), x),
        lambda x: np.select([x > 1, x > 0], [x**2, np.sin(x)], default=-x),
        lambda x: np.select([X > 1, X > 0], [x, 2.0]),
        lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda t: -t, lambda t: t**3]),
        lambda x: np.piecewise(x, [x < -1, x > 1], [np.sin, np.cos, np.exp]),
        lambda x: np.piecewise(x, [x < 0], [5.0, lambda t, k: k * t], 3.0),
        lambda x: np.piecewise(x[0], x[0] > 0, [np.sqrt, 1.0]),
    ],
)  # fmt: skip
def test_picking(f):
    check(f, X)


def test_scalar_piecewise_and_dynamic_masks():
    check(lambda x: np.extract(x > 0, x), X, vmap=False)
    check(lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda t: -t, lambda t: t**2]), np.array(0.7))


def test_indices_that_differ_across_a_batch():
    x, i = np.arange(12.0).reshape(3, 4), np.array([[0, 1], [3, 3], [2, 0]])
    np.testing.assert_array_equal(ad.vmap(lambda x, i: np.take(x, i))(x, i), np.take_along_axis(x, i, 1))
    np.testing.assert_array_equal(ad.vmap(lambda i: anp.take(x, i, axis=1), out_axes=0)(i)[1], x[:, [3, 3]])
    np.testing.assert_array_equal(ad.vmap(lambda x, i: np.take_along_axis(x, i, 0))(x, i), np.take_along_axis(x, i, 1))
    g = ad.vmap(ad.grad(lambda x, i: np.sum(np.take_along_axis(x, i, 0) ** 2)))(x, i)
    np.testing.assert_array_equal(g[1], [0, 0, 0, 4 * x[1, 3]])
    chosen = ad.vmap(lambda i, x: np.choose(i, [x, 2 * x, 3 * x, 4 * x]))(np.array([0, 2, 3]), np.ones(3))
    np.testing.assert_array_equal(chosen, [1, 3, 4])


@pytest.mark.parametrize(
    "f",
    [
        np.sort,
        lambda x: np.sort(x, axis=0),
        lambda x: np.sort(x, axis=None),
        lambda x: np.sort(x, kind="stable"),
        lambda x: np.sort(x, stable=True),
        lambda x: np.sort(x, -1) ** 2,
        lambda x: np.partition(x, 1),
        lambda x: np.partition(x, (0, -1), axis=1),
        lambda x: np.partition(x, 2, axis=0),
        lambda x: np.partition(x, 5, axis=None),
        lambda x: np.sort_complex(x),
    ],
)  # fmt: skip
def test_sorting(f):
    check(f, X)
    check(f, X.reshape(4, 3))


def test_sorting_ranks():
    check(lambda t: [np.sort(t, 1), np.sort(t, 0), np.partition(t, 1, 1)], T)
    check(np.sort, draw(np.random.default_rng(0), (4,), dtype=complex))
    check(np.sort, np.zeros((0, 3)), vmap=False)
    check(np.sort, np.ones((1,)))


def test_ties_share():
    x = np.array([2.0, 1.0, 2.0, 3.0, 2.0])
    w = np.array([1.0, 10.0, 100.0, 1000.0, 10000.0])
    expected = [370.0, 1.0, 370.0, 10000.0, 370.0]
    np.testing.assert_allclose(ad.grad(lambda x: np.sort(x) @ w)(x), expected)
    g = ad.grad(lambda x: np.partition(x, 2) @ np.array([0, 1.0, 1.0, 1.0, 0]))(x)
    np.testing.assert_allclose(g, [1, 0, 1, 0, 1])
    t = ad.jvp(np.sort, (x,), (np.array([3.0, 7.0, 6.0, 5.0, 0.0]),))[1]
    np.testing.assert_allclose(t, [7, 3, 3, 3, 5])
    rows = np.array([[1.0, 1.0], [2.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(ad.vmap(ad.grad(lambda r: np.sort(r)[0]))(rows), [[0.5, 0.5], [0, 1], [0.5, 0.5]])
    np.testing.assert_allclose(ad.grad(lambda x: np.unique(x)[1])(x), [1 / 3, 0, 1 / 3, 0, 1 / 3])


def test_float32():
    x = np.array([3, 1, 1], np.float32)
    g = ad.grad(lambda x: np.sort(x)[0])(x)
    assert g.dtype == np.float32
    np.testing.assert_array_equal(g, np.float32([0, 0.5, 0.5]))


def test_nan_sorts_last():
    x = np.array([np.nan, 1.0, np.nan, 0.0])
    y, pull = ad.vjp(np.sort, x)
    np.testing.assert_array_equal(y, np.sort(x))
    np.testing.assert_array_equal(pull(np.array([1.0, 2.0, 0.0, 0.0]))[0], [0, 2, 0, 1])


def test_constants():
    def f(x):
        found = [
            np.argpartition(x, 1),
            np.searchsorted(np.sort(x[0]), x[1]),
            np.searchsorted([0.0, 1.0], x, side="right"),
            np.digitize(x, [-1.0, 0.0, 1.0]),
            np.digitize(x, [1.0, 0.0], right=True),
            np.lexsort((x[0], x[1])),
            np.isin(x, X[0]),
            np.isin(x, X[0], invert=True),
            np.argwhere(x > 0),
            np.flatnonzero(x > 0),
            np.nonzero(x > 0),
            x.nonzero(),
            x[0].searchsorted(0.5),
            np.unravel_index(3, (2, 2)),
        ]
        return x.sum(), found

    plain = f(X)[1]
    _, _, found = ad.vjp(f, X, has_aux=True)
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_array_equal(a, b)
    batched = ad.vmap(lambda x: [np.searchsorted(np.sort(x[0]), x[1]), np.lexsort((x[0], x[1])), np.isin(x, x[0])])(T)
    for k in range(2):
        np.testing.assert_array_equal(batched[0][k], np.searchsorted(np.sort(T[k, 0]), T[k, 1]))
        np.testing.assert_array_equal(batched[1][k], np.lexsort((T[k, 0], T[k, 1])))
        np.testing.assert_array_equal(batched[2][k], np.isin(T[k], T[k, 0]))


def test_one_answer_is_refused_inside_vmap():
    for f in (lambda x: np.nonzero(x > 0), lambda x: np.extract(x > 0, x), lambda x: np.argwhere(x), np.unique):
        with pytest.raises(BatchError, match="vmap"):
            ad.vmap(f)(X)


def test_sets():
    x = np.array([3.0, 1.0, 3.0, 2.0])
    check(lambda x: [np.unique(x), np.unique_values(x), np.unique(x.reshape(2, 2))], V[:4], vmap=False)
    values, index, inverse, counts = ad.vjp(lambda x: np.unique(x, True, True, True), x)[0]
    for a, b in zip((values, index, inverse, counts), np.unique(x, True, True, True), strict=True):
        np.testing.assert_array_equal(a, b)
    for f in (np.unique_all, np.unique_counts, np.unique_inverse):
        for a, b in zip(ad.vjp(f, x)[0], f(x), strict=True):
            np.testing.assert_array_equal(a, b)
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 5.0]])
    np.testing.assert_array_equal(ad.vjp(lambda r: np.unique(r, axis=0), rows)[0], np.unique(rows, axis=0))
    y = np.array([2.0, 5.0, 3.0])
    for f in (np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d):
        np.testing.assert_array_equal(ad.vjp(f, x, y)[0], f(x, y))
    g = ad.grad(lambda x, y: np.intersect1d(x, y)[0], (0, 1))(x, y)
    np.testing.assert_array_equal(g[0], [0, 0, 0, 0.5])
    np.testing.assert_array_equal(g[1], [0.5, 0, 0])
    np.testing.assert_array_equal(ad.grad(lambda x: np.setdiff1d(x, y)[0])(x), [0, 1, 0, 0])
    np.testing.assert_array_equal(ad.grad(lambda x: np.setxor1d(x, y)[0])(x), [0, 1, 0, 0])


def test_methods_in_place():
    def f(x):
        a = np.copy(x)
        a.sort()
        b = np.copy(x)
        b.partition(1, axis=0)
        c = np.copy(x)
        c.put([0, 5], x[0, :2])
        d = anp.zeros(3)
        d.fill(x[0, 0])
        return a, b, c, d

    def plain(x):
        a, b, c = np.sort(x), np.partition(x, 1, axis=0), x.copy()
        c.put([0, 5], x[0, :2])
        return a, b, c, np.full(3, x[0, 0])

    for a, b in zip(ad.vjp(f, X)[0], plain(X), strict=True):
        np.testing.assert_array_equal(a, b)
    g = ad.grad(lambda x: f(x)[0][:, 0].sum())(X)
    np.testing.assert_array_equal(g, X.min(axis=1, keepdims=True) == X)


MASKS = [
    np.array([True, False]),
    (slice(None), np.array([True, False])),
    (..., np.array([True, False, True])),
    (None, ..., np.ones((4, 3), bool)),
    (np.ones((2, 3), bool), np.array([0])),
]


@pytest.mark.parametrize("index", MASKS)
def test_masks_have_the_lengths_of_their_axes(index):
    x = np.zeros((2, 3, 4))

    def read(x):
        return (x * 1.0)[index]

    try:
        expected = read(x).shape
    except IndexError as error:
        for f in (ad.jit(read), ad.grad(lambda x: np.sum(read(x)))):
            with pytest.raises(IndexError, match=str(error).split(";")[0]):
                f(x)
    else:
        assert ad.jit(read)(x).shape == expected


SELECTIONS = {
    "sort": np.sort, "partition": lambda x: np.partition(x, 1), "unique": np.unique, "argsort": np.argsort,
    "take_along_axis": lambda x: np.take_along_axis(x, np.array([0, -1, 0]), 0), "median": lambda x: np.median(np.real(x)),
    "max": np.max, "where": lambda x: np.where(x > 1, x, 0), "take": lambda x: np.take(x, [0, 0]), "quantile": lambda x:
    np.quantile(np.real(x), 0.3), "searchsorted": lambda x: np.searchsorted(np.sort(x), x), "extract": lambda x: x[x > 1],
    "compress": lambda x: np.compress([True, False, True], x), "insert": lambda x: np.insert(x, 1, 2), "ptp": np.ptp,
    "sort_complex": np.sort_complex, "lexsort": lambda x: np.lexsort((np.real(x),)),
    "select": lambda x: np.select([x > 1], [x], 9),
    "sort in place": lambda x: sorted_in_place(x), "argpartition": lambda x: np.argpartition(x, 1),
}  # fmt: skip


def sorted_in_place(x):
    y = x * 1
    y.sort()
    return y


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble", "complex64", "complex128", "clongdouble"])
@pytest.mark.parametrize("name", SELECTIONS)
def test_every_dtype(name, dtype):
    f, x = SELECTIONS[name], np.array([3, 1, 2, 1.5]).astype(dtype)
    with np.errstate(all="ignore"):
        wanted = f(x)
        found, tangent = ad.jvp(f, (x,), (np.ones_like(x),))
        value, pull = ad.vjp(f, x)
        for y in (found, value, ad.jit(f)(x)):
            assert (np.shape(y), y.dtype) == (np.shape(wanted), wanted.dtype)
            np.testing.assert_allclose(y, wanted, rtol=1e-3)
        if wanted.dtype.kind in "fc":
            assert tangent.dtype == wanted.dtype
            g = pull(np.ones_like(wanted)[()])[0]
            assert g.dtype == x.dtype
            np.testing.assert_allclose(np.sum(g), np.sum(tangent), rtol=1e-2, atol=1e-2)


SIDES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@settings(max_examples=40, deadline=None)
@given(st.data(), SIDES)
def test_unique_of_any_shape_is_that_of_numpy(data, shape):
    element = st.sampled_from([-1.0, -0.0, 0.0, 1.0, 2.0, np.nan])
    size = int(np.prod(shape))
    x = np.array(data.draw(st.lists(element, min_size=size, max_size=size))).reshape(shape)
    x = x + 1j * np.round(x) if data.draw(st.booleans()) else x.astype(data.draw(st.sampled_from(["f4", "f8"])))
    options = {name: data.draw(st.booleans()) for name in ("return_index", "return_inverse", "return_counts", "equal_nan")}
    options["axis"] = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    f = lambda x: np.unique(x, **options)
    expected = f(x)
    for found in (ad.vjp(f, x)[0], ad.jit(f)(x)):
        assert isinstance(found, tuple) == isinstance(expected, tuple)
        found, whole = (a if isinstance(a, tuple) else (a,) for a in (found, expected))
        for a, b in zip(found, whole, strict=True):
            np.testing.assert_array_equal(a, b)
            assert (a.dtype, a.shape) == (b.dtype, b.shape)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [1, 2, 40, 600])
@pytest.mark.parametrize("repeats", [1, 3])
def test_one_program_serves_all_calls_with_as_many_distinct_values(n, repeats):
    """Values that code computes, whose last bits are not NumPy's; the places of equal ones move."""
    f = lambda x: np.sum(np.unique(np.exp(np.sin(x)) + 0.1 * x) ** 3)
    function, gradient = ad.jit(f), ad.jit(ad.grad(f))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.permutation(np.repeat(rng.normal(size=n), rng.permutation([repeats] * (n - 1) + [1])))
        np.testing.assert_allclose(function(x), f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient(x), ad.grad(f)(x), rtol=1e-10)
    assert "specialization 2" not in function.report() + gradient.report()


def test_another_number_of_distinct_values_is_another_program():
    f = ad.jit(lambda x: np.unique(np.sin(x), return_counts=True))
    for x in ([1.0, 2.0, 3.0], [1.0, 1.0, 3.0], [2.0, 2.0, 2.0]):
        for a, b in zip(f(np.array(x)), np.unique(np.sin(x), return_counts=True), strict=True):
            np.testing.assert_allclose(a, b)
    assert "specialization 3" in f.report()
