"""Linear algebra in compiled programs: the results of the ops themselves, and NumPy's errors."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.lower.step import Foreign, Lapack
from adjoint.ops.decompose import cholesky, eigh, qr, svd
from adjoint.ops.determinant import det, slogdet
from adjoint.ops.gaps import negligible
from adjoint.ops.matrix import hermitian, is_hermitian
from adjoint.ops.matrix_functions import lu
from adjoint.ops.solve import inv, solve, triangular_solve

FLOATS = [np.float64, np.float32]
STACKS = [(), (2, 3)]


def matrices(stack, m, n=None, dtype=float, seed=0):
    n = m if n is None else n
    a = np.random.default_rng(seed).normal(size=(*stack, m, n)) / np.sqrt(m)
    return (a + 2 * np.eye(m, n)).astype(dtype)


def positive(stack, n, dtype=float):
    a = matrices(stack, n)
    return (a @ np.swapaxes(a, -1, -2)).astype(dtype)


def layouts(x):
    """A function of an array in several places in memory gives the same."""
    yield x, lambda a: a
    if x.dtype == np.float32 or x.ndim > 3:
        return
    yield np.ascontiguousarray(np.swapaxes(x, -1, -2)), lambda a: np.swapaxes(a, -1, -2)
    padded = np.zeros((*x.shape[:-2], x.shape[-2] + 1, 2 * x.shape[-1]), x.dtype)
    padded[..., 1:, ::2] = x
    yield padded, lambda a: a[..., 1:, ::2]


def agree(f, *xs, native=True, tolerance=1e-11, normalise=lambda r: r):
    compiled = ad.jit(f)
    got, want = compiled(*xs), f(*xs)
    got, want = (normalise(r) if isinstance(r, tuple) else (r,) for r in (got, want))
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        slack = tolerance if b.dtype != np.float32 else 2e-4
        np.testing.assert_allclose(a, b, rtol=slack, atol=slack)
    steps = compiled.lower(*xs).lowered.steps
    assert any(isinstance(s, Foreign) for s in steps) != native
    return steps


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("n", [1, 5, 70])
def test_decompositions_of_square_matrices(n, stack, dtype):
    for a, view in layouts(positive(stack, n, dtype)):
        agree(lambda a: cholesky(view(a)), a)  # noqa: B023
        agree(lambda a: hermitian(view(a), lower=False), a)  # noqa: B023
    for a, view in layouts(matrices(stack, n, dtype=dtype)):
        agree(lambda a: slogdet(view(a)), a)  # noqa: B023
        agree(lambda a: det(view(a)), a)  # noqa: B023
        agree(lambda a: inv(view(a), strict=True), a)  # noqa: B023
        agree(lambda a: lu(view(a)), a)  # noqa: B023


def test_cholesky_reads_the_lower_triangle():
    a = positive((), 4)
    half = np.tril(a) + np.triu(np.full((4, 4), np.nan), 1)
    np.testing.assert_allclose(ad.jit(np.linalg.cholesky)(half), np.linalg.cholesky(a), rtol=1e-14)
    assert ad.jit(np.linalg.cholesky)(half)[0, 1] == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("left", "right"), [((), ()), ((), (2,)), ((2, 1), (3,))])
@pytest.mark.parametrize(("n", "k"), [(4, 1), (1, 3), (70, 2)])
def test_systems(n, k, left, right, dtype):
    a0, b0 = matrices(left, n, dtype=dtype), matrices(right, n, k, dtype, seed=1)
    for a, view in layouts(a0):
        agree(lambda a, b: solve(view(a), b), a, b0)  # noqa: B023
    for b, view in layouts(b0):
        agree(lambda a, b: solve(a, view(b)), a0, b)  # noqa: B023


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("stack", "n", "k"), [((), 5, 3), ((2,), 4, 1), ((), 150, 70)])
def test_triangular_systems(stack, n, k, lower, transposed, dtype):
    how = {"lower": lower, "transposed": transposed}
    a0, b0 = matrices(stack, n, dtype=dtype), matrices(stack, n, k, dtype, seed=1)
    for a, view in layouts(a0):
        agree(lambda a, b: triangular_solve(view(a), b, **how), a, b0)  # noqa: B023
    for b, view in layouts(b0):
        agree(lambda a, b: triangular_solve(a, view(b), **how), a0, b)  # noqa: B023
    agree(lambda a, b: triangular_solve(a, b, **how), matrices((), n, dtype=dtype), b0)


def signs(vectors):
    """Of the largest element of each column. They are LAPACK's choice, and NumPy's library is not SciPy's."""
    largest = np.argmax(np.abs(vectors), axis=-2, keepdims=True)
    return np.sign(np.take_along_axis(vectors, largest, axis=-2))


def normalise_eigenvectors(results):
    w, v = results
    return w, v * signs(v)


def normalise_singular_vectors(results):
    """Those that belong to no singular value are any basis of what is left."""
    u, s, vh = results
    k = s.shape[-1]
    phase = signs(u[..., :k])
    rest = [x @ np.swapaxes(x, -1, -2) for x in (u[..., k:], np.swapaxes(vh, -1, -2)[..., k:])]
    return u[..., :k] * phase, s, vh[..., :k, :] * np.swapaxes(phase, -1, -2), *rest


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("n", [1, 20])
@pytest.mark.parametrize("lower", [False, True])
def test_eigenvalues(n, stack, dtype, lower):
    spread = positive(stack, n) + np.diag(np.arange(n) * 3.0)
    for a, view in layouts(spread.astype(dtype)):
        steps = agree(lambda a: eigh(view(a), lower=lower), a, tolerance=1e-9, normalise=normalise_eigenvectors)  # noqa: B023
        assert any(isinstance(s, Lapack) for s in steps)
    agree(lambda w: negligible(w, sign=-1), np.array([1.0, 1.0, 2.0], dtype))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 2), (2, 5), (30, 30)])
@pytest.mark.parametrize("full", [False, True])
def test_rectangles(m, n, stack, dtype, full):
    diagonal = np.diag(np.arange(1.0, min(m, n) + 1))
    whole = 0.1 * matrices(stack, m, n)
    whole[..., : min(m, n), : min(m, n)] += diagonal  # singular values far apart
    for a, view in layouts(whole.astype(dtype)):
        agree(lambda a: svd(view(a), full=full), a, tolerance=1e-8, normalise=normalise_singular_vectors)  # noqa: B023
        agree(lambda a: qr(view(a), complete=full), a, tolerance=1e-10)  # noqa: B023


@pytest.mark.parametrize("dtype", FLOATS)
def test_is_hermitian(dtype):
    a = positive((2,), 3, dtype)
    a[1, 0, 1] += 1
    for x, view in layouts(a):
        agree(lambda x: is_hermitian(view(x)), x)  # noqa: B023
    agree(is_hermitian, a[0])
    agree(is_hermitian, np.full((2, 2), np.nan, dtype))
    agree(is_hermitian, np.full((2, 2), np.inf, dtype))
    infinite = np.stack([np.full((2, 2), np.inf, dtype), np.arange(4, dtype=dtype).reshape(2, 2)])
    agree(is_hermitian, infinite)
    large = np.stack([positive((), 40, dtype)] * 4)
    large[1, 39, 0] += 1
    large[2, 17, 35] = np.nan
    large[3, 30, 3] *= 1 + np.finfo(dtype).eps
    agree(is_hermitian, large)
    assert is_hermitian(large).ravel().tolist() == [True, False, False, True]
    agree(is_hermitian, (a[0] + np.array([[0, 1e-10, 0], [0, 0, 0], [0, 0, 0]])).astype(dtype))


def test_empty_matrices_go_to_numpy():
    empty = np.zeros((0, 0))
    agree(cholesky, empty, native=False)
    agree(lambda a: inv(a, strict=True), empty, native=False)
    agree(lambda a: svd(a, full=False), np.zeros((0, 2)), native=False)


SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
FAILURES = [
    (np.linalg.cholesky, np.array([[1.0, 2.0], [2.0, 1.0]])),
    (np.linalg.cholesky, np.stack([np.eye(2), -np.eye(2)])),
    (np.linalg.inv, SINGULAR),
    (np.linalg.inv, np.stack([np.eye(2), np.zeros((2, 2)), np.eye(2)])),
    (lambda a: np.linalg.solve(a, np.ones(2)), SINGULAR),
    (np.linalg.svd, np.full((2, 2), np.nan)),
    (np.linalg.eigh, np.full((2, 2), np.nan)),
]


@pytest.mark.parametrize(("f", "bad"), FAILURES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_failures_raise_as_numpy_does(f, bad, dtype):
    good = np.broadcast_to(np.eye(2, dtype=dtype), bad.shape).copy()
    compiled = ad.jit(f)
    compiled(good)
    bad = bad.astype(dtype)
    try:
        expected = f(bad)
    except np.linalg.LinAlgError as error:
        with pytest.raises(np.linalg.LinAlgError, match=str(error)):
            compiled(bad)
    else:
        for a, b in zip(compiled(bad), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    compiled(good)  # still works


@pytest.mark.parametrize("n", [3, 100])
def test_a_zero_on_the_diagonal_of_a_triangle(n):
    compiled = ad.jit(lambda a, b: triangular_solve(a, b, lower=True, transposed=False))
    a = matrices((), n)
    compiled(a, np.ones((n, 2)))
    a[n // 2, n // 2] = 0
    with pytest.raises(np.linalg.LinAlgError, match=r"(?i)singular matrix"):
        compiled(a, np.ones((n, 2)))


def test_determinants_of_singular_matrices():
    stack = np.stack([SINGULAR, np.eye(2), np.zeros((2, 2)), np.full((2, 2), np.nan)])
    with np.errstate(invalid="ignore"):
        wanted = (*np.linalg.slogdet(stack), np.linalg.det(stack))
    for got, want in zip((*ad.jit(np.linalg.slogdet)(stack), ad.jit(np.linalg.det)(stack)), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_inverse_that_need_not_exist():
    stack = np.stack([np.eye(2) * 2, SINGULAR])
    got = ad.jit(lambda a: inv(a, strict=False))(stack)
    np.testing.assert_array_equal(got, np.stack([np.eye(2) / 2, np.full((2, 2), np.nan)]))


def test_the_first_failure_is_raised():
    def f(a):
        return np.linalg.cholesky(a) + np.linalg.inv(a)

    compiled = ad.jit(f)
    compiled(np.eye(2))
    for bad in (-np.eye(2), np.zeros((2, 2))):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            compiled(bad)


def test_a_failure_on_another_path_is_none():
    """A guard that does not hold comes first: the call is not for this program."""

    @ad.jit
    def f(x, a):
        return np.linalg.inv(a) if x > 0 else a

    np.testing.assert_array_equal(f(1.0, np.eye(2)), np.eye(2))
    np.testing.assert_array_equal(f(-1.0, SINGULAR), SINGULAR)


def test_failures_inside_loops():
    def f(a, bs):
        return ad.scan(lambda x, b: (np.linalg.solve(b, x), np.sum(x)), a, bs)

    compiled = ad.jit(f)
    a, bs = np.ones((2, 1)), matrices((4,), 2)
    for got, want in zip(compiled(a, bs), f(a, bs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    bs[2] = SINGULAR
    with pytest.raises(np.linalg.LinAlgError, match=r"(?i)singular matrix"):
        compiled(a, bs)


def marginal_likelihood(theta, points, y):
    """Of a Gaussian process."""
    length, size, noise = np.exp(theta[0]), np.exp(theta[1]), np.exp(theta[2])
    squares = np.sum((points[:, None, :] - points[None, :, :]) ** 2, axis=-1)
    covariance = size**2 * np.exp(-0.5 * squares / length**2) + noise**2 * np.eye(len(y))
    factor = np.linalg.cholesky(covariance)
    weights = np.linalg.solve(factor.T, np.linalg.solve(factor, y))
    return 0.5 * y @ weights + np.sum(np.log(np.diag(factor)))


def by_determinant(theta, points, y):
    length, size, noise = np.exp(theta[0]), np.exp(theta[1]), np.exp(theta[2])
    squares = np.sum((points[:, None, :] - points[None, :, :]) ** 2, axis=-1)
    covariance = size**2 * np.exp(-0.5 * squares / length**2) + noise**2 * np.eye(len(y))
    return 0.5 * y @ np.linalg.solve(covariance, y) + 0.5 * np.linalg.slogdet(covariance)[1]


@pytest.mark.parametrize("f", [marginal_likelihood, by_determinant])
def test_gaussian_process(f):
    rng = np.random.default_rng(0)
    args = (np.array([0.1, 0.2, -1.0]), rng.normal(size=(60, 3)), rng.normal(size=60))
    gradient = ad.value_and_grad(f)
    compiled = ad.jit(gradient)
    for got, want in zip(compiled(*args), gradient(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)
    steps = compiled.lower(*args).lowered.steps
    assert not any(isinstance(s, Foreign) for s in steps)
    # The Cholesky factor makes triangular systems; the factors of one matrix serve all that need them.
    used = [s.routine for s in steps if isinstance(s, Lapack)]
    assert used.count("factors") == (f is by_determinant)

    results = [None] * 4

    def run(i):
        results[i] = [compiled(*args)[1] for _ in range(20)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_allclose(results, np.broadcast_to(gradient(*args)[1], (4, 20, 3)), rtol=1e-9)


def test_products_with_vectors():
    a, v = matrices((), 60, 40), np.arange(40.0)
    wide = np.zeros((40, 3))
    wide[:, 1] = v
    for matrix, view in layouts(a):
        agree(lambda a, v: view(a) @ v, matrix, v)  # noqa: B023
        agree(lambda a, v: v @ np.swapaxes(view(a), -1, -2), matrix, v)  # noqa: B023
        agree(lambda a, w: view(a) @ w[:, 1], matrix, wide)  # noqa: B023
        agree(lambda a, w: view(a) @ w[::-1, 1], matrix, wide)  # noqa: B023
        agree(lambda a, w: w[:, 1:2].T @ np.swapaxes(view(a), -1, -2), matrix, wide)  # noqa: B023
    agree(lambda a, v: a @ v, matrices((5, 2), 60, 40), v)
    agree(lambda a, b: a @ b, matrices((300,), 12, 11), matrices((300,), 11, 13))
    agree(lambda u, v: u[:, None] @ v[None, :], np.arange(50.0), v)


PROGRAM = """
import numpy as np, adjoint as ad, adjoint.scipy.special as special
f = ad.jit(lambda a, x: np.linalg.inv(a) @ a @ special.gammaln(x))
f(np.eye(40), np.linspace(1, 3, 40))
(path,) = next(iter(f.specializations.values()))
print(path.native.was_cached, float(f(np.eye(40), np.full(40, 0.5)).sum()))
"""


def test_another_process_finds_the_functions_that_cached_code_calls(tmp_path):
    def run():
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"ADJOINT_CACHE_DIR": str(tmp_path), "PATH": "", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    first, second = run(), run()
    assert (first[0], second[0]) == ("False", "True")
    assert first[1] == second[1]
