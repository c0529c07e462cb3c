"""Elements chosen by a mask under jit: one program for many masks, the numbers and derivatives of eager mode."""

import warnings

import numpy as np
import pytest

import adjoint as ad
import adjoint.numpy as anp
from adjoint.numpy.selected import SMALLEST, Selected, sizes_for

#: Functions of a vector, all of whose calls with a count in one range share a program.
SHARED = {
    "sum": lambda x: x[x > 0].sum(),
    "squares": lambda x: np.sum(x[x > 0] ** 2),
    "mean": lambda x: np.mean(np.sin(x[x > 0])),
    "var": lambda x: x[x > 0].var(),
    "std": lambda x: np.std(x[x > 0] * x.sum(), ddof=0),
    "max": lambda x: np.max(np.cos(x[x > 0])),
    "min": lambda x: x[x > 0].min() * x[x < 0].max(),
    "prod": lambda x: np.prod(1 + 0.01 * x[x > 0]),
    "root": lambda x: np.sum(np.sqrt(x[x > 0])),  # of chosen elements alone
    "log": lambda x: np.log(x[x > 0]).sum() - np.log(-x[x < 0]).sum(),
    "nonzero": lambda x: np.sum(x[np.nonzero(x > 0)] ** 3),
    "where": lambda x: np.sum(x[np.where(x > 0)[0]] ** 3),
    "flatnonzero": lambda x: np.sum(np.exp(x[np.flatnonzero(x > 0)])),
    "nonzero of numbers": lambda x: np.sum(np.exp(x[(x * (x > 0)).nonzero()])),
    "take": lambda x: np.sum(np.take(x, np.flatnonzero(x > 0)) * 2.0),
    "compress": lambda x: np.compress(x > 0, x).sum(),
    "extract": lambda x: np.extract(x > 0, x).sum(),
    "two arrays": lambda x: np.sum(x[x > 0] * np.tanh(x)[x > 0]),
    "product": lambda x: x[x > 0] @ np.sin(x)[x > 0],
    "dot": lambda x: np.dot(x[x > 0], np.sin(x)[x > 0]),
    "norm": lambda x: np.linalg.norm(x[x > 0]),
    "other side": lambda x: np.sum(1.5 - x[x > 0]) + np.sum(x[0] * x[x > 0]) + np.sum(np.float64(2) / x[x > 0]),
    "in place": lambda x: _in_place(x),
    "written back": lambda x: _written_back(x, x > 0),
    "written by places": lambda x: _written_back(x, np.nonzero(x > 0)[0]),
    "written elsewhere": lambda x: _written_elsewhere(x),
    "choice of chosen": lambda x: np.sum(np.where(x[x > 0] > 1, x[x > 0], x.sum())),
    "clip": lambda x: np.sum(np.clip(x[x > 0], 0.5, 1.0)),
    "cumsum": lambda x: np.sum(np.cumsum(x[x > 0]) ** 2),
    "argmax": lambda x: np.sum(x[x > 0] * np.argmax(np.cos(x[x > 0]))),
    "reduce": lambda x: np.add.reduce(x[x > 0]) + np.maximum.reduce(x[x > 0]),
    "comparison": lambda x: np.sum((x[x > 0] > 1) * x[x > 0]) + np.any(x[x > 0] > 100) + np.all(x[x > 0] > 0),
    "unary": lambda x: np.sum(abs(-x[x < 0])),
    "unused": lambda x: x.sum() + 0 * np.sum(x[x > 0]),
    "places": lambda x: np.sum(np.nonzero(x > 0)[0] * 1.5) * x.sum(),
}


def _in_place(x):
    y = x[x > 0]
    y *= 2.0
    y += x.sum()
    return np.sum(y**2)


def _written_back(x, where):
    y = 1.0 * x
    y[where] *= 3.0
    y[where] = np.sqrt(np.abs(y[where])) + y[where]
    return np.sum(y**2 * np.cos(x))


def _written_elsewhere(x):
    m, y = x > 0, np.tanh(x)
    y[m] = np.log(x[m])
    y[x < 0] = x[x < 0] ** 2
    return np.sum(y * np.sin(x))


#: Functions that ask for the number of elements: there is a program for each.
COUNTED = {
    "len": lambda x: np.sum(x[x > 0]) / len(x[x > 0]),
    "shape": lambda x: np.sum(x[x > 0]) / x[x > 0].shape[0],
    "first": lambda x: x[x > 0][0] * x[x > 0][-1],
    "slice": lambda x: np.sum(x[x > 0][1:] ** 2),
    "sort": lambda x: np.sum(np.sort(x[x > 0]) * np.arange(x[x > 0].size)),
    "median": lambda x: np.median(x[x > 0]),
    "concatenate": lambda x: np.sum(np.concatenate([x[x > 0], x[x < 0]]) * np.arange(x.size)),
    "chosen of chosen": lambda x: np.sum(x[x > 0][x[x > 0] > 0.5]),
    "write": lambda x: _write(x),
    "outer": lambda x: np.sum(np.outer(x[x > 0], x[x > 0])),
    "diff": lambda x: np.sum(np.diff(x[x > 0]) ** 2),
    "loop": lambda x: sum(v**2 for v in x[x > 0][:3]),
    "view": lambda x: _view(x),
}


def _write(x):
    y = x[x > 0]
    y[0] = 7.0
    return np.sum(y**2)


def _view(x):
    y = x[x > 0]
    part = y[1:]
    y *= 3.0
    return np.sum(part**2)


def points(n, count=6):
    rng = np.random.default_rng(n)
    for i in range(count):
        x = rng.normal(size=n)
        x[0], x[1] = 0.7, -0.4  # one of each sign at least
        x[2:] += 0.3 * (i % 3 - 1)
        yield x


@pytest.mark.sampled(4)
@pytest.mark.parametrize("n", [5, SMALLEST, 200])
@pytest.mark.parametrize("name", SHARED)
def test_one_program_gives_what_eager_mode_gives(name, n):
    f = SHARED[name]
    value, gradient = ad.jit(f), ad.jit(ad.grad(f))
    for x in points(n):
        np.testing.assert_allclose(value(x), f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient(x), ad.grad(f)(x), rtol=1e-9, atol=1e-12)
    most = 4 if n > SMALLEST else 1  # ranges: for each of two masks
    for compiled in (value, gradient):
        (found,) = compiled.specializations.values()
        assert len(found) <= most
        assert not compiled.eager


@pytest.mark.parametrize("name", COUNTED)
def test_questions_about_the_count_are_guards(name):
    f = COUNTED[name]
    value, gradient = ad.jit(f), ad.jit(ad.grad(f))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in points(12):
            np.testing.assert_allclose(value(x), f(x), rtol=1e-12)
            np.testing.assert_allclose(gradient(x), ad.grad(f)(x), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [0, 1, 2, SMALLEST - 1, SMALLEST, SMALLEST + 1, 2 * SMALLEST, 2 * SMALLEST + 1, 199, 200])
def test_every_count(count):
    """One function, called with counts on both sides of each size."""
    x = np.full(200, -1.0)
    x[np.random.default_rng(count).permutation(200)[:count]] = np.arange(1.0, count + 1)
    f = lambda x: (np.sum(np.sqrt(x[x > 0])), 2 * x[x > 0], np.nonzero(x > 0))
    compiled = ad.jit(f)
    compiled(np.linspace(-1, 1, 200))
    for a, b in zip(compiled(x)[:2], f(x)[:2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    (places,), (expected,) = compiled(x)[2], f(x)[2]
    assert places.dtype == expected.dtype
    assert np.array_equal(places, expected)
    assert places.flags.owndata
    assert places.flags.writeable


def test_the_program_is_shared_within_a_range_and_not_beyond():
    f = ad.jit(lambda x: np.sum(x[x > 0] ** 2))

    def with_count(k):
        return np.where(np.arange(300) < k, 2.0, -1.0)

    for k in (1, 2, SMALLEST):
        assert f(with_count(k)) == 4.0 * k
    (found,) = f.specializations.values()
    assert len(found) == 1
    for k in (SMALLEST + 1, 2 * SMALLEST):
        assert f(with_count(k)) == 4.0 * k
    assert len(found) == 2
    assert f(with_count(0)) == 0.0
    assert len(found) == 3


def test_sizes_grow_twofold_up_to_the_length():
    assert sizes_for(SMALLEST) == [0, SMALLEST]
    assert sizes_for(SMALLEST + 1) == [0, SMALLEST, SMALLEST + 1]
    assert sizes_for(1) == [0, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int64, np.int8, np.uint16, bool])
def test_dtypes(dtype):
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, size=(6, 40)) if dtype is bool else rng.integers(0, 99, size=(6, 40))
    functions = [
        lambda x, m: x[m].sum(),
        lambda x, m: x[m].mean(),
        lambda x, m: x[m].max(),
        lambda x, m: x[m].min(),
        lambda x, m: x[m].prod(dtype=float),
        lambda x, m: x[m],
        lambda x, m: (x + x)[m] * 2,
        lambda x, m: x[m] == x[0],
        lambda x, m: np.any(x[m]),
        lambda x, m: np.argmax(x[m]),
    ]
    if np.dtype(dtype).kind == "c":
        functions = [functions[i] for i in (0, 1, 5, 6, 7, 8)]
    for f in functions:
        compiled = ad.jit(f)
        for row in table:
            x, m = row.astype(dtype), row % 3 > 0 if dtype is not bool else rng.random(40) > 0.5
            got, expected = compiled(x, m), f(x, m)
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def _written_rows(a, m):
    b = 1.0 * a
    b[m] *= 2.0
    b[m] += np.sin(b[m])
    return np.sum(b**3)


MATRICES = {
    "rows": lambda a, m: np.sum(a[m] ** 2),
    "rows by axis": lambda a, m: np.sum(np.sum(a[m], axis=1) ** 2) + np.sum(np.sum(a[m], axis=0) ** 2),
    "kept axes": lambda a, m: np.sum((a[m] - a[m].mean(axis=0, keepdims=True)) ** 2) + np.sum(a[m].sum(1, keepdims=True)),
    "rows against a vector": lambda a, m: np.sum(a[m] * a[0] - a.sum(0)),
    "columns": lambda a, m: np.sum(a.T[:, m] ** 3),
    "columns by axis": lambda a, m: np.sum(np.max(a.T[:, m], axis=0) ** 2) + np.sum(a.T[:, m].min(axis=1)),
    "product": lambda a, m: np.sum(np.sin(a[m] @ a[0])),
    "product of rows": lambda a, m: np.sum((a[m].T @ a[m]) ** 2),
    "least squares": lambda a, m: np.sum((a[m].T @ (a[m] @ a[0] - a[:, 1][m])) ** 2),
    "from the left": lambda a, m: np.sum((a[0] @ a[m].T) ** 2) + np.sum((a[:2] @ a[m].T) ** 2),
    "written rows": lambda a, m: _written_rows(a, m),
    "written elements": lambda a, m: _written_rows(a, a > 0),
    "element mask": lambda a, m: np.sum(a[a > 0] ** 2) + np.mean(a[a > 0]),
    "element places": lambda a, m: np.sum(a[np.nonzero(a > 0)] ** 3),
    "mask of two axes": lambda a, m: np.sum(np.stack([a, 2 * a], axis=2)[a > 0] ** 2),
    "slices behind": lambda a, m: np.sum(a[m, :] ** 2),
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name):
    f = MATRICES[name]
    value, gradient = ad.jit(f), ad.jit(ad.grad(f))
    rng = np.random.default_rng(1)
    for _ in range(5):
        a, m = rng.normal(size=(30, 4)), rng.random(30) < 0.6
        np.testing.assert_allclose(value(a, m), f(a, m), rtol=1e-12)
        np.testing.assert_allclose(gradient(a, m), ad.grad(f)(a, m), rtol=1e-10, atol=1e-12)
    for compiled in (value, gradient):
        (found,) = compiled.specializations.values()
        assert len(found) <= 2, compiled.report()  # 120 elements: two ranges
        assert not compiled.eager


def test_ties_share_the_cotangent_with_chosen_elements_alone():
    f = lambda x, m: np.max(x[m])
    gradient = ad.jit(ad.grad(f))
    for x in ([1.0, 3.0, 3.0, 5.0], [3.0, 1.0, 3.0, 5.0], [-np.inf, -np.inf, 2.0, -np.inf]):
        for m in ([1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 0, 1]):
            x, m = np.array(x), np.array(m, bool)
            np.testing.assert_array_equal(gradient(x, m), ad.grad(f)(x, m))


def test_what_is_not_chosen_does_not_count():
    """Infinite partials and nan outside the mask."""
    f = lambda x: np.sum(np.sqrt(x[x > 0]) / x[x > 0])
    gradient = ad.jit(ad.grad(f))
    for x in ([0.0, 1.0, 4.0], [0.0, np.nan, 4.0], [-np.inf, 0.0, 1.0]):
        np.testing.assert_allclose(gradient(np.array(x)), ad.grad(f)(np.array(x)))
        assert np.isfinite(gradient(np.array(x))).all()


def test_other_transforms_inside_the_program():
    f = lambda x: np.sum(np.exp(x[x > 0]) * x.sum())
    for x in points(20, 3):
        np.testing.assert_allclose(ad.jit(ad.hessian(f))(x), ad.hessian(f)(x), rtol=1e-10)
        tangent = np.cos(x)
        got = ad.jit(lambda x, t: ad.jvp(f, (x,), (t,)))(x, tangent)
        np.testing.assert_allclose(got, ad.jvp(f, (x,), (tangent,)), rtol=1e-10)
        shifts = np.arange(3.0)
        batched = lambda x, s: ad.vmap(lambda a: np.sum(np.sin(x[x > 0] * a)))(s)
        np.testing.assert_allclose(ad.jit(batched)(x, shifts), batched(x, shifts), rtol=1e-12)


def test_transforms_of_the_program():
    f = lambda x: x[x > 0] * 2.0
    compiled = ad.jit(f)
    for x in points(20, 3):
        np.testing.assert_allclose(ad.jacobian(compiled)(x), ad.jacobian(f)(x))
        np.testing.assert_allclose(ad.grad(lambda x: np.sum(compiled(x) ** 2))(x), ad.grad(lambda x: np.sum(f(x) ** 2))(x))
        np.testing.assert_allclose(ad.jit(lambda x: compiled(x).sum())(x), f(x).sum())


def test_results_in_containers():
    f = lambda x: {"chosen": x[x > 0], "rows": [np.stack([x, x], 1)[x > 0], x.sum()], "columns": np.stack([x, x])[:, x > 0]}
    compiled = ad.jit(f)
    for x in points(20, 3):
        got, expected = compiled(x), f(x)
        np.testing.assert_array_equal(got["chosen"], expected["chosen"])
        np.testing.assert_array_equal(got["rows"][0], expected["rows"][0])
        np.testing.assert_array_equal(got["columns"], expected["columns"])
        assert got["columns"].shape == expected["columns"].shape


def test_the_classes_are_those_of_arrays():
    def f(x):
        y = x[x > 0]
        assert isinstance(y, np.ndarray)
        assert y.ndim == 1
        assert y.dtype == float
        assert y.T.ndim == 1
        return y.sum()

    compiled = ad.jit(f)
    for x in points(9):
        np.testing.assert_allclose(compiled(x), f(x))
    (found,) = compiled.specializations.values()
    assert len(found) == 1


def test_writes_reach_the_base_of_a_view():
    def f(x, m):
        y = 1.0 * x
        part = y[:3]
        part *= x[m]
        part -= y[3] * x[m]
        return np.sum(y**2)

    compiled = ad.jit(ad.grad(f))
    for m in ([1, 1, 1, 0, 0], [0, 1, 0, 1, 1]):
        x, m = np.arange(1.0, 6), np.array(m, bool)
        np.testing.assert_allclose(compiled(x, m), ad.grad(f)(x, m))


def test_functions_of_adjoint_numpy():
    f = lambda x: anp.sum(anp.sqrt(x[x > 0])) + anp.where(x[x > 0] > 1, 1.0, x[x > 0]).mean()
    compiled = ad.jit(f)
    for x in points(20, 4):
        np.testing.assert_allclose(compiled(x), f(x))
    (found,) = compiled.specializations.values()
    assert len(found) == 1


def test_plain_arrays_are_read_where_a_staged_mask_holds():
    table = np.arange(20.0)
    f = lambda x: np.sum(table[x > 0] * x[x > 0])
    compiled = ad.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in points(20):
            np.testing.assert_allclose(compiled(x), f(x))


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int64, bool])
def test_writes_of_every_dtype(dtype):
    def f(x, y, m):
        x, y = 1 * x, 1 * y
        x[m] = x[m] + y[m]
        y[m] = x[m]
        return x, y

    compiled = ad.jit(f)
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            x, y, m = rng.integers(0, 5, 30).astype(dtype), rng.normal(size=30), rng.random(30) < 0.5
            if np.dtype(dtype).kind in "fc":
                y = y.astype(dtype)
            try:
                expected = f(x, y, m)
            except (TypeError, np.exceptions.ComplexWarning):
                continue
            for got, want in zip(compiled(x, y, m), expected, strict=True):
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda y: np.cumsum(y, dtype=np.float32),
        lambda y: np.cumsum(y, 0, np.float32),
        lambda y: y.cumsum(0, None, None),
        lambda y: np.cumprod(y, out=np.zeros(len(y))),
        lambda y: np.sum(y, 0, np.float32),
        lambda y: np.sum(y, initial=3.0),
        lambda y: np.sum(y, where=y > 1),
        lambda y: y.sum(keepdims=True, dtype=np.float32),
        lambda y: y.max(initial=7.0),
        lambda y: np.max(y, 0, None, True),
        lambda y: np.max(y, initial=-1.0, where=y > 1),
        lambda y: np.argmax(y, keepdims=True),
        lambda y: np.argmin(y, 0),
        lambda y: y.var(ddof=1),
        lambda y: np.var(y, mean=np.mean(y)),
        lambda y: np.std(y, correction=1),
        lambda y: np.mean(y, where=y > 1),
        lambda y: np.any(y > 1, keepdims=True),
        lambda y: np.dot(y, y, out=None),
        lambda y: np.matmul(y, y, dtype=np.float32),
        lambda y: np.linalg.norm(y, 1),
        lambda y: np.linalg.norm(y, np.inf, 0),
        lambda y: np.linalg.norm(y, axis=0, keepdims=True),
        lambda y: np.clip(y, None, 1.0),
        lambda y: np.clip(y, min=0.5, max=1.0),
        lambda y: np.clip(y, 0.5, np.full(y.shape, 1.0)),
        lambda y: np.add(y, 1.0, dtype=np.float32),
        lambda y: np.add(y, 1.0, where=True),
        lambda y: np.divmod(y, 0.7)[1],
        lambda y: np.modf(y)[0],
        lambda y: np.add.reduce(y, 0, None, None, True),
        lambda y: np.add.accumulate(y),
        lambda y: np.add.outer(y, y),
        lambda y: np.maximum.reduce(y, initial=9.0),
        lambda y: np.transpose(y, (0,)),
        lambda y: np.where(y > 1)[0] * 1.0,
        lambda y: np.logaddexp.reduce(y),
    ],
)
def test_options_as_in_numpy(f):
    compiled = ad.jit(lambda x: f(x[x > 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in points(9, 3):
            got, expected = compiled(x), f(x[x > 0])
            assert np.shape(got) == np.shape(expected)
            assert np.asarray(got).dtype == np.asarray(expected).dtype
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_shapes_that_do_not_fit_raise_as_in_numpy():
    with pytest.raises(IndexError, match="boolean index did not match"):
        ad.jit(lambda x, m: x[m].sum())(np.ones(3), np.ones(4, bool))
    with pytest.raises(ValueError, match="broadcast"):
        ad.jit(lambda x: x[x > 0] + np.ones(5))(np.ones(3))


def test_eager_mode_has_no_selected_values():
    seen = []
    ad.grad(lambda x: seen.append(x[x > 0]) or x[x > 0].sum())(np.ones(3))
    assert not isinstance(seen[0], Selected)
