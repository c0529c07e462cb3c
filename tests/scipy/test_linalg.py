"""scipy.linalg: values as SciPy gives them, and derivatives, for the argument forms that SciPy documents."""

import functools
import warnings

import numpy as np
import pytest
import scipy.linalg
from harness import check

import adjoint as ad
from adjoint.core.errors import UnsupportedError
from adjoint.scipy import linalg

A = np.array([[1.6, 0.3, -0.4], [0.1, 1.2, 0.6], [-0.5, 0.2, 1.4]])
B = np.array([[0.3, -1.0], [0.8, 0.5], [-0.2, 1.1]])
S = A @ A.T + np.eye(3)
STACK = np.array([0.7, 1.3]).reshape(2, 1, 1) * A


def agree(f, *args, **options):
    """The traced value is SciPy's, then the derivatives."""
    plain = f(*args)
    found = ad.vjp(f, *args)[0]
    for a, b in zip(
        found if isinstance(found, tuple | list) else [found], plain if isinstance(plain, tuple | list) else [plain], strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
        assert np.asarray(a).dtype == np.asarray(b).dtype
    check(f, *args, **options)


@pytest.mark.parametrize("b", [B, B[:, 0]], ids=["matrix", "vector"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"transposed": True},
        {"assume_a": "gen"},
        {"assume_a": "lower triangular"},
        {"assume_a": "upper triangular"},
        {"assume_a": "general", "overwrite_a": True, "check_finite": False},
    ],
)
def test_solve(b, options):
    agree(lambda a, b: linalg.solve(a, b, **options), A, b)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("kind", ["sym", "her", "pos", "positive definite"])
def test_solve_reads_one_triangle(lower, kind):
    mask = np.tri(3) if lower else np.tri(3).T
    value, pull = ad.vjp(lambda a: linalg.solve(a, B, lower=lower, assume_a=kind), mask * S)
    np.testing.assert_allclose(value, np.linalg.solve(S, B))
    (g,) = pull(np.ones_like(value))
    np.testing.assert_array_equal(g * (1 - mask), 0)


@pytest.mark.parametrize("trans", [0, 1, "N", "T", "C"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solve_triangular(trans, lower, unit):
    agree(lambda a, b: linalg.solve_triangular(a, b, trans, lower, unit_diagonal=unit), A, B)
    agree(lambda a, b: linalg.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit), A, B[:, 1])


def test_complex_triangular():
    a = A + 0.3j * A.T
    for trans in (0, 1, 2):
        agree(lambda a, b, trans=trans: linalg.solve_triangular(a, b, trans), a, B + 0.2j * B)


def test_inverses_and_determinants():
    agree(linalg.inv, A)
    agree(linalg.det, A)
    agree(linalg.pinv, B)
    agree(lambda a, b: list(linalg.lstsq(a, b)[:1]), B, A[:, 0])
    agree(lambda a: linalg.norm(a), A)
    agree(lambda a: linalg.norm(a, 1), A)
    agree(lambda a: linalg.norm(a, 2), A)
    agree(lambda a: linalg.norm(a, "nuc"), A)
    agree(lambda a: linalg.norm(a, axis=0), A)


def test_equations():
    agree(linalg.solve_sylvester, A, A[:2, :2], B)
    agree(linalg.solve_continuous_lyapunov, A, S)
    for method in (None, "direct", "bilinear"):
        agree(lambda a, q, method=method: linalg.solve_discrete_lyapunov(0.4 * a, q, method), A, S)
    check(linalg.solve_continuous_lyapunov, A + 0.2j * A.T, S + 0.1j * A, vmap=False)


@pytest.mark.parametrize("lower", [False, True])
def test_cholesky(lower):
    agree(lambda a: linalg.cholesky(a @ a.T + np.eye(3), lower=lower), A)
    agree(lambda a, b: linalg.cho_solve(linalg.cho_factor(a @ a.T + np.eye(3), lower), b), A, B)
    agree(lambda a, b: linalg.cho_solve(linalg.cho_factor(a @ a.T + np.eye(3), lower=lower), b), A, B[:, 0])
    factor = scipy.linalg.cho_factor(S, lower)
    agree(lambda b: linalg.cho_solve(factor, b), B)
    z = A + 0.3j * A.T
    check(lambda a, b: linalg.cho_solve(linalg.cho_factor(a @ np.conj(a).T + np.eye(3), lower), b), z, B + 0j, vmap=False)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_lu(order):
    a = A[order]
    agree(lambda a: linalg.lu_factor(a)[0], a)
    agree(lambda a: list(linalg.lu(a)[1:]), a)
    agree(lambda a: list(linalg.lu(a, permute_l=True)), a)
    for p_indices in (False, True):
        np.testing.assert_array_equal(
            ad.vjp(lambda a, p=p_indices: linalg.lu(a, p_indices=p), a)[0][0], scipy.linalg.lu(a, p_indices=p_indices)[0]
        )
    for trans in (0, 1, 2):
        agree(lambda a, b, trans=trans: linalg.lu_solve(linalg.lu_factor(a), b, trans), a, B)
        agree(lambda a, b, trans=trans: linalg.lu_solve(linalg.lu_factor(a), b, trans=trans), a, B[:, 0])


def test_lu_of_a_stack_inside_vmap(rng):
    stack = rng.standard_normal((4, 3, 3))
    g = ad.grad(lambda s: np.sum(ad.vmap(lambda a: linalg.lu_factor(a)[0])(s) ** 2))(stack)
    for a, part in zip(stack, g, strict=True):
        np.testing.assert_allclose(part, ad.grad(lambda a: np.sum(linalg.lu_factor(a)[0] ** 2))(a), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", [(3, 3), (3, 2)])
def test_qr_and_svd(shape):
    a = A[:, : shape[1]]
    agree(lambda a: list(linalg.qr(a, mode="economic")), a)
    agree(lambda a: linalg.qr(a, mode="r")[0], a)
    agree(lambda a: linalg.svdvals(a), a)
    agree(lambda a: linalg.svd(a, compute_uv=False), a)
    agree(lambda a: list(linalg.svd(a, full_matrices=False)), a)
    agree(lambda a: list(linalg.polar(a)), a)
    agree(lambda a: list(linalg.polar(a, side="left")), A)
    with pytest.raises(UnsupportedError):
        ad.grad(lambda a: linalg.qr(a, pivoting=True)[1].sum())(a)


def test_eigenvalues():
    symmetric = lambda a: a + a.T
    agree(lambda a: linalg.eigvalsh(symmetric(a)), A)
    agree(lambda a: linalg.eigh(symmetric(a), eigvals_only=True, subset_by_index=[0, 1]), A)
    agree(lambda a, b: linalg.eigvalsh(symmetric(a), b @ b.T + np.eye(3)), A, A.T + 0.1)
    projector = lambda v: v[:, :1] @ v[:, :1].T
    agree(lambda a: projector(linalg.eigh(symmetric(a))[1]), A)
    agree(lambda a, b: projector(linalg.eigh(symmetric(a), b @ b.T + np.eye(3))[1]), A, A.T + 0.1)
    agree(lambda a: np.sort(np.real(linalg.eigvals(a))), np.diag([1.0, 2.0, 3.0]) + 0.1 * A)
    agree(lambda a: np.real(linalg.eig(a)[0].sum()), np.diag([1.0, 2.0, 3.0]) + 0.1 * A)


@pytest.mark.parametrize("name", ["expm", "sqrtm", "logm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm"])
def test_functions_of_matrices(name):
    f = getattr(linalg, name)
    agree(lambda a: f(a), 0.6 * A + 0.3 * np.eye(3))
    check(lambda a: f(a), np.array([[0.8]]))


def test_more_of_the_exponential():
    agree(linalg.expm, STACK)
    agree(linalg.expm, A + 0.3j * A.T, order=1)
    check(linalg.expm, np.array([[0.0, 1.0], [0.0, 0.0]]))  # it has no basis of eigenvectors
    check(linalg.expm, np.zeros((2, 2)))
    agree(lambda a, e: list(linalg.expm_frechet(a, e)), A, A.T)
    agree(lambda a, e: linalg.expm_frechet(a, e, compute_expm=False), A, A.T)
    g = ad.grad(lambda t: np.trace(linalg.expm(t * A)))(0.7)
    np.testing.assert_allclose(g, np.trace(A @ scipy.linalg.expm(0.7 * A)))
    assert ad.grad(lambda a: np.sum(linalg.expm(a)))(A.astype(np.float32)).dtype == np.float32


def test_third_derivative_of_the_exponential():
    f = lambda t: np.sum(linalg.expm(t * A))
    exact = np.sum(A @ A @ A @ scipy.linalg.expm(0.7 * A))
    np.testing.assert_allclose(ad.grad(ad.grad(ad.grad(f)))(0.7), exact, rtol=1e-9)


def test_powers():
    agree(lambda a: linalg.fractional_matrix_power(a, 0.4), A)
    agree(lambda a: linalg.fractional_matrix_power(a, 3), A)
    root = ad.vjp(linalg.sqrtm, np.diag([-1.0, 4.0]))[0]
    np.testing.assert_allclose(root, np.diag([1j, 2.0]))


@pytest.mark.parametrize(
    "f",
    [
        lambda c, r: linalg.toeplitz(c),
        lambda c, r: linalg.toeplitz(c, r),
        lambda c, r: linalg.circulant(c),
        lambda c, r: linalg.hankel(c),
        lambda c, r: linalg.hankel(c, r),
        lambda c, r: linalg.companion(c + 3.0),
        lambda c, r: linalg.leslie(c, r[:3]),
        lambda c, r: linalg.convolution_matrix(c, 3),
        lambda c, r: linalg.convolution_matrix(c, 5, mode="same"),
        lambda c, r: linalg.convolution_matrix(c, 5, "valid"),
        lambda c, r: linalg.block_diag(c, np.reshape(r[:4], (2, 2)), 3.0),
        lambda c, r: linalg.khatri_rao(np.reshape(c, (2, 2)), np.reshape(r[:4], (2, 2))),
        lambda c, r: linalg.solve_toeplitz((c + 3.0, r[:4]), c),
        lambda c, r: linalg.matmul_toeplitz((c, r), r),
        lambda c, r: linalg.solve_circulant(c + np.array([3.0, 0, 0, 0]), r[:4]),
    ],
)
def test_matrices_from_vectors(f, rng):
    agree(f, rng.uniform(-1, 1, 4), rng.uniform(-1, 1, 5))


def test_structured_complex_and_single():
    z = np.array([1.0 + 1j, 2.0 - 1j])
    agree(linalg.toeplitz, z)
    agree(lambda c: linalg.block_diag(c, c), np.array([1.0, 2.0]))
    agree(linalg.hankel, np.array([1.0]))


def test_what_is_not_covered():
    assert linalg.hilbert is scipy.linalg.hilbert
    with pytest.raises(UnsupportedError, match=r"scipy\.linalg\.schur"):
        ad.grad(lambda a: linalg.schur(a)[0].sum())(A)
    np.testing.assert_array_equal(linalg.schur(A)[0], scipy.linalg.schur(A)[0])
    assert {linalg.status(n) for n in scipy.linalg.__all__} == {"differentiable", "constant", "refused"}
    constant = [n for n in scipy.linalg.__all__ if linalg.status(n) == "constant" and callable(getattr(scipy.linalg, n))]
    assert set(constant) <= {
        "LinAlgError", "LinAlgWarning", "bandwidth", "dft", "find_best_blas_type", "get_blas_funcs", "get_lapack_funcs",
        "hadamard", "helmert", "hilbert", "invhilbert", "invpascal", "ishermitian", "issymmetric", "pascal", "solve_lyapunov",
    }  # fmt: skip


POSITIVE, MIXED, TURNING = (np.array(a) for a in ([[4.0, 1], [1, 3]], [[1.0, 2], [3, -4]], [[0.0, -1], [1, 0.5]]))


@pytest.mark.parametrize("name", ["sqrtm", "logm", "fractional_matrix_power"])
def test_the_type_of_a_matrix_function_depends_on_the_matrix(name):
    """A real matrix with a negative eigenvalue has a complex root and logarithm: the value and the gradient, compiled too."""
    more = (0.3,) if name == "fractional_matrix_power" else ()
    plain, ours = (lambda a, m=module: getattr(m, name)(a, *more) for module in (scipy.linalg, linalg))
    weights = np.array([[0.3, -0.7], [1.1, 0.4]])

    def loss(function):
        return lambda a: np.sum(weights * np.real(function(a))) + np.sum(weights.T * np.imag(function(a)))

    compiled, slope = ad.jit(ours), ad.jit(ad.grad(loss(ours)))
    branch = ad.jit(lambda a: a * 2 if np.iscomplexobj(ours(a)) else a * 3)
    for a in (POSITIVE, MIXED, TURNING, POSITIVE, -POSITIVE, MIXED):
        expected, found = plain(a), compiled(a)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        assert found.dtype == expected.dtype
        assert branch(a)[0, 0] == (a * 2 if np.iscomplexobj(ours(a)) else a * 3)[0, 0]
        steps = [1e-6 * e.reshape(2, 2) for e in np.eye(4)]
        differences = [(loss(plain)(a + h) - loss(plain)(a - h)) / 2e-6 for h in steps]
        np.testing.assert_allclose(slope(a).ravel(), differences, rtol=1e-6, atol=1e-7)


ROOTS = {
    "positive": POSITIVE,
    "mixed": MIXED,
    "turning": TURNING,
    "negative": -POSITIVE,
    "a quarter turn": np.array([[0.0, -1.0], [1.0, 0.0]]),
    "defective": np.array([[1.0, 1.0], [0.0, 1.0]]),
    "ones": np.eye(2),
    "a number": np.array([[3.0]]),
    "below zero": np.array([[-3.0]]),
    "a stack": np.stack([POSITIVE, np.eye(2)]),
    "singular": np.array([[1.0, 2.0], [2.0, 4.0]]),
    "zeros": np.zeros((2, 2)),
    "nilpotent": np.array([[0.0, 1.0], [0.0, 0.0]]),
    "zero": np.array([[0.0]]),
}
SINGULAR = ("singular", "zeros", "nilpotent", "zero")


@pytest.mark.filterwarnings("ignore")  # SciPy's, of singular matrices and of single precision
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128, np.int64])
@pytest.mark.parametrize("matrix", ROOTS)
def test_fractional_powers_are_those_of_scipy(matrix, dtype):
    a = ROOTS[matrix].astype(dtype)
    tolerance = 1e-3 if np.dtype(dtype).char in "fF" else 1e-7
    for t in (0.5, 0.3, -1.5, 1.7, 2.0):
        if t < 0 and matrix in SINGULAR and dtype == np.int64:  # nan, which an integer cannot be
            with pytest.raises(ValueError, match="NaN"):
                linalg.fractional_matrix_power(a, t)
            continue
        expected = scipy.linalg.fractional_matrix_power(a, t)
        found = [linalg.fractional_matrix_power(a, t)]
        if a.dtype.kind in "fc":
            found.append(ad.vjp(lambda a, t=t: linalg.fractional_matrix_power(a, t), a)[0])
        if t == 0.3:
            found.append(ad.jit(lambda a: linalg.fractional_matrix_power(a, 0.3))(a))
        for y in found:
            assert y.dtype == expected.dtype
            np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("matrix", ROOTS)
@pytest.mark.parametrize("name", ["fractional_matrix_power", "sqrtm", "logm"])
def test_derivatives_of_roots_are_right_or_nan(name, matrix, dtype):
    a = ROOTS[matrix].astype(dtype)
    wide = a.astype(np.result_type(dtype, float))
    weights, more, step = np.random.default_rng(0).normal(size=(3, *a.shape))
    for more_arguments in [(0.3,), (-1.5,)] if name == "fractional_matrix_power" else [()]:

        def loss(a, module, arguments=more_arguments):
            y = getattr(module, name)(a, *arguments)
            return np.sum(weights * np.real(y)) + np.sum(more * np.imag(y))

        gradient = ad.grad(loss)(a, linalg)
        assert gradient.dtype == a.dtype
        tangent = ad.jvp(functools.partial(loss, module=linalg), (a,), (step.astype(dtype),))[1]
        found = [np.sum(np.real(gradient * step)), tangent]
        if matrix in SINGULAR:
            assert np.isnan(found).all()
        else:
            expected = (loss(wide + 1e-6 * step, scipy.linalg) - loss(wide - 1e-6 * step, scipy.linalg)) / 2e-6
            np.testing.assert_allclose(found, expected, rtol=1e-3 if np.dtype(dtype).char in "fF" else 1e-6, atol=1e-6)


def test_a_singular_matrix_is_named():
    for f in (linalg.logm, linalg.sqrtm, lambda a: linalg.fractional_matrix_power(a, 0.3)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ad.grad(lambda a, f=f: np.sum(np.real(f(a))))(np.ones((2, 2)))
        assert any("singular matrix have no derivative" in str(w.message) for w in caught)


def test_the_exponent_of_a_power():
    f = lambda t: np.sum(linalg.fractional_matrix_power(POSITIVE, t))
    for t in (0.4, 2.0):
        expected = np.sum(scipy.linalg.logm(POSITIVE) @ scipy.linalg.fractional_matrix_power(POSITIVE, t))
        np.testing.assert_allclose([ad.grad(f)(t), ad.jvp(f, (t,), (1.0,))[1], ad.jit(ad.grad(f))(t)], expected)
    several = ad.vmap(linalg.fractional_matrix_power)(np.stack([POSITIVE, MIXED]), np.array([0.4, -1.3]))
    for y, a, t in zip(several, (POSITIVE, MIXED), (0.4, -1.3), strict=True):
        np.testing.assert_allclose(y, scipy.linalg.fractional_matrix_power(a, t), atol=1e-12)


# -- argument forms of SciPy's own tests ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("kind", ["sym", "her", "pos", "triangular", "diagonal", "tridiagonal"])
def test_elements_outside_a_structure_are_not_read(kind, lower, mode):
    """nan may stand there, and there is no derivative."""
    upper = np.tri(3, dtype=bool).T
    read = {"diagonal": np.eye(3, dtype=bool), "tridiagonal": np.tri(3, k=1, dtype=bool) & np.tri(3, k=1, dtype=bool).T}
    mask = read.get(kind, upper.T if lower else upper)
    options = {"assume_a": f"{'lower' if lower else 'upper'} triangular" if kind == "triangular" else kind, "lower": lower}
    f = lambda a: linalg.solve(a, B, **options)
    whole = np.where(mask, S, 0.0) if kind in (*read, "triangular") else S
    given = np.where(mask, S, np.nan)
    value = ad.vjp(f, given)[0] if mode == "eager" else ad.jit(f)(given)
    np.testing.assert_allclose(value, np.linalg.solve(whole, B))
    g = ad.grad(lambda a: f(a).sum())(np.where(mask, S, 0.0))
    np.testing.assert_array_equal(g[~mask], 0)
    g = ad.grad(lambda a: linalg.inv(a, **options).sum())(given)
    assert np.all(np.isfinite(g))


def test_a_matrix_that_is_not_positive_definite():
    for f in (lambda a: linalg.solve(a, B, assume_a="pos"), lambda a: linalg.inv(a, assume_a="pos")):
        with pytest.raises(scipy.linalg.LinAlgError):
            ad.vjp(f, S - 9 * np.eye(3))


@pytest.mark.parametrize("kinds", ["dDd", "Ddd", "ddD", "dDD", "fDd", "DFd"])
def test_sylvester_of_real_and_complex_matrices(kinds, rng):
    """SciPy's result leaves a residual where a real matrix with complex eigenvalues meets a complex one."""
    a, b, q = (rng.normal(size=s).astype(k) for s, k in zip([(4, 4), (3, 3), (4, 3)], kinds, strict=True))
    slack = 1e-3 if set(kinds) & set("fF") else 1e-10
    x, t = ad.jvp(linalg.solve_sylvester, (a, b, q), (a, -b, 2 * q))
    np.testing.assert_allclose(a @ x + x @ b, q, atol=slack)
    np.testing.assert_allclose(a @ t + t @ b, 2 * q - a @ x + x @ b, atol=slack)
    q = rng.normal(size=(4, 4)).astype(kinds[2])
    x = ad.vjp(linalg.solve_continuous_lyapunov, a, q)[0]
    np.testing.assert_allclose(a @ x + x @ a.conj().T, q, atol=slack)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (0, 2)])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_systems_without_equations_or_unknowns(shape, columns):
    a, b = np.zeros(shape), np.ones((shape[0], *columns))
    for found, expected in zip(ad.vjp(lambda b: linalg.lstsq(a, b), b)[0], scipy.linalg.lstsq(a, b), strict=True):
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected)


def test_a_driver_that_gives_no_singular_values():
    tall = np.vstack([A, B.T @ A])
    x, residuals, rank, s = ad.jvp(lambda a: linalg.lstsq(a, np.ones(5), lapack_driver="gelsy"), (tall,), (tall,))[0]
    np.testing.assert_allclose(x, scipy.linalg.lstsq(tall, np.ones(5))[0])
    assert (residuals.shape, rank, s) == ((0,), 3, None)


@pytest.mark.parametrize(
    "f",
    [
        linalg.inv, linalg.det, linalg.cholesky, linalg.svdvals, linalg.expm, lambda a: linalg.solve(a, a), linalg.norm,
        lambda a: linalg.norm(a, 1), lambda a: linalg.norm(a[:1], 1), lambda a: linalg.norm(a[:1], np.inf),
        lambda a: linalg.norm(a[0]), lambda a: linalg.lstsq(a.astype(int), a[0])[0], lambda a: linalg.expm(a[0, 0]),
        lambda a: linalg.solve_circulant(a[0], a[1]), lambda a: linalg.solve_circulant(a[0, :0], a[1, :0]),
        lambda a: linalg.lu(a[:1, :1], p_indices=True)[0], lambda a: linalg.lu(a, p_indices=True)[0],
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", "efd")
@pytest.mark.filterwarnings("ignore:Calling:DeprecationWarning")  # of half precision, from SciPy 1.18 on
def test_dtypes(f, dtype):
    a = S.astype(dtype)
    seen = []
    ad.vjp(lambda a: (seen.append(ad.stop_gradient(f(a))), a[0, 0])[1], a)
    assert np.asarray(seen[0]).dtype == np.asarray(f(a)).dtype


def test_whole_powers():
    """Also if they are written as floats: of a matrix with negative eigenvalues too they are real."""
    found = ad.vjp(lambda a: linalg.fractional_matrix_power(a, 2.0), -A)[0]
    np.testing.assert_allclose(found, A @ A)
    assert found.dtype == float


def test_refusals_name_what_is_missing():
    flat = np.array([[1.0, 2.0], [2.0, 4.0]])
    for f, said in (
        (lambda a: linalg.lu_factor(a[:2]), "not square"),
        (lambda a: linalg.eigvals(a[:2, :2], flat), "not singular"),
        (lambda a: linalg.eigvals(a, S, homogeneous_eigvals=True), "homogeneous_eigvals"),
        (lambda a: linalg.logm(a, disp=False), "disp=False"),
        (lambda a: linalg.sqrtm(a, disp=False), "disp=False"),
    ):
        with pytest.raises(UnsupportedError, match=said):
            ad.vjp(f, A)


@pytest.mark.parametrize("transform", ["eager", "compiled"])
@pytest.mark.parametrize("rows", [2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_least_squares_of_stacks(rows, dtype, transform):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 3)).astype(dtype)[:, :rows], rng.normal(size=(2, 4, 2)).astype(dtype)[:, :rows]
    for x, y in ((a, b), (a, b[0]), (a, b[0, :, 0]), (a[0], b), (a[None], b), (a, b[:1])):
        expected = scipy.linalg.lstsq(x, y)
        found = ad.jit(linalg.lstsq)(x, y) if transform == "compiled" else ad.vjp(linalg.lstsq, x, y)[0]
        for p, q in zip(found, expected, strict=True):
            assert (p.shape, p.dtype) == (q.shape, q.dtype)
            np.testing.assert_allclose(p, q, rtol=1e-3 if dtype == np.float32 else 1e-9)
    if dtype != np.float32 and transform == "eager":
        ad.check_grads(lambda a, b: list(linalg.lstsq(a, b)[:2]), a, b, order=1)
    with pytest.raises(ValueError, match="same number of rows"):
        ad.vjp(linalg.lstsq, a, b[:, 1:])


def test_residuals_of_a_stack_without_full_rank():
    a, b = np.ones((2, 4, 3)), np.arange(8.0).reshape(2, 4)[..., None]
    a[1] = np.vander([1.0, 2.0, 3.0, 4.0], 3)
    x, residuals, rank, _ = ad.vjp(linalg.lstsq, a, b)[0]
    assert rank.tolist() == [1, 3]
    assert np.isnan(residuals[:, 0]).tolist() == [True, False]
    np.testing.assert_allclose(x[0], scipy.linalg.lstsq(a[0], b[0])[0])
