"""numpy.linalg on traced values: factorisations up to the freedom they have, systems, determinants, products."""

import warnings

import numpy as np
import pytest
from harness import check, close, draw

import adjoint as ad
import adjoint.numpy as anp
from adjoint.numpy.table import CONSTANT, FUNCTIONS, REFUSED, load_all
from adjoint.scipy import linalg

DTYPES = [float, complex]


def dagger(x):
    return np.conj(np.swapaxes(x, -1, -2))


def regular(rng, shape, dtype=float):
    """Well-conditioned square matrices."""
    return draw(rng, shape, -1, 1, dtype) + 3 * np.eye(shape[-1])


def hermitian(a):
    return (a + dagger(a)) / 2


def positive(a):
    return a @ dagger(a) + np.eye(a.shape[-1])


def test_everything_is_covered():
    load_all()
    names = [n for n in np.linalg.__all__ if n != "LinAlgError"]
    for module, listed in ((np.linalg, names), (np.fft, np.fft.__all__)):
        for name in listed:
            assert {getattr(module, name)} & (set(FUNCTIONS) | CONSTANT | set(REFUSED)), name


# -- systems ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "a, b",
    [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,)), ((2, 3, 3), (2, 3, 1)), ((3, 3), (2, 3, 2)), ((2, 1, 2, 2), (3, 2, 2))],
)
def test_solve(a, b, dtype, rng):
    check(np.linalg.solve, regular(rng, a, dtype), draw(rng, b, dtype=dtype), order=2 if len(a) < 3 else 1)


def test_solve_of_mixed_types(rng):
    a, b = regular(rng, (2, 2)), draw(rng, (2,), dtype=complex)
    check(lambda a: np.linalg.solve(a, b), a)
    check(lambda b: np.linalg.solve(a + 1j, b), b.real)
    check(lambda b: np.linalg.solve([[2, 0], [1, 3]], b), b.real)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 2, 2)])
def test_inverse(shape, dtype, rng):
    check(np.linalg.inv, regular(rng, shape, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_pinv(shape, dtype, rng):
    check(np.linalg.pinv, draw(rng, shape, dtype=dtype), rtol=2e-5)


def test_pinv_forms(rng):
    a = draw(rng, (4, 2))
    check(lambda a: np.linalg.pinv(a, 1e-10), a)
    check(lambda a: np.linalg.pinv(a, rtol=1e-10), a)
    check(lambda a: np.linalg.pinv(a, rtol=None), a)
    check(lambda a: np.linalg.pinv(hermitian(a), hermitian=True), regular(rng, (3, 3), complex))
    # At constant rank: a matrix of rank one, moved within those of rank one.
    check(lambda u, v: np.linalg.pinv(np.outer(u, v), 1e-8), draw(rng, (3,), 0.5, 2), draw(rng, (2,), 0.5, 2))
    with pytest.raises(NotImplementedError, match="plain number"):
        ad.vjp(lambda a: np.linalg.pinv(a, np.array([1e-3])), a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("a, b", [((4, 2), (4,)), ((4, 2), (4, 3)), ((2, 3), (2,)), ((3, 3), (3, 2))])
def test_lstsq(a, b, dtype, rng):
    check(np.linalg.lstsq, draw(rng, a, dtype=dtype), draw(rng, b, dtype=dtype), rtol=2e-5, rtol2=1e-3)


def test_lstsq_of_a_fit():
    t = np.arange(5.0)
    y = np.array([1.0, 3.0, 2.0, 5.0, 4.0])

    def slope(y):
        return np.linalg.lstsq(np.vstack([t, np.ones(5)]).T, y)[0][0]

    np.testing.assert_allclose(ad.grad(slope)(y), (t - 2) / np.sum((t - 2) ** 2), atol=1e-15)


def test_lstsq_without_full_rank():
    a = np.ones((3, 2))
    x, residuals, rank, _ = ad.vjp(lambda b: np.linalg.lstsq(a, b), np.array([1.0, 2.0, 3.0]))[0]
    np.testing.assert_allclose(x, [1, 1])
    assert residuals.shape == (0,)
    assert rank == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensor_systems(dtype, rng):
    a = regular(rng, (6, 6), dtype).reshape(2, 3, 6)
    check(np.linalg.tensorsolve, a, draw(rng, (2, 3), dtype=dtype))
    b = np.moveaxis(a.reshape(2, 3, 2, 3), 2, 0)
    check(lambda a, b: np.linalg.tensorsolve(a, b, axes=(0, 3)), b, draw(rng, (2, 3), dtype=dtype))
    check(lambda a: np.linalg.tensorinv(a, ind=2), a)
    check(lambda a: np.linalg.tensorinv(a, 1), a.reshape(6, 2, 3))


# -- determinants -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (4, 4), (2, 3, 3)])
def test_determinant(shape, dtype, rng):
    check(np.linalg.det, draw(rng, shape, dtype=dtype))
    check(np.linalg.slogdet, regular(rng, shape, dtype))


def test_determinant_of_singular_matrices():
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    np.testing.assert_allclose(ad.grad(np.linalg.det)(a), [[4, -2], [-2, 1]], atol=1e-14)
    np.testing.assert_allclose(ad.grad(np.linalg.det)(np.zeros((2, 2))), np.zeros((2, 2)))
    np.testing.assert_allclose(ad.grad(np.linalg.det)(np.zeros((1, 1))), [[1]])
    hessian = ad.hessian(np.linalg.det)(a)
    np.testing.assert_allclose(hessian[0, 0], [[0, 0], [0, 1]], atol=1e-14)
    np.testing.assert_allclose(hessian[0, 1], [[0, 0], [-1, 0]], atol=1e-14)
    stack = np.stack([a, np.eye(2)])
    np.testing.assert_allclose(ad.grad(lambda a: np.sum(np.linalg.det(a)))(stack)[0], [[4, -2], [-2, 1]], atol=1e-14)


def test_a_singular_matrix_left_out_of_a_stack():
    stack = np.stack([np.zeros((2, 2)), 2 * np.eye(2)])

    def f(a):
        sign, log = np.linalg.slogdet(a)
        return np.sum(np.where(sign == 0, 0.0, log))

    np.testing.assert_allclose(ad.grad(f)(stack), [np.zeros((2, 2)), np.eye(2) / 2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_determinant_of_a_matrix_that_is_not_finite(bad, dtype):
    """No derivative raises where NumPy's determinant does not; the other matrices of a stack are not touched."""
    stack = np.stack([2 * np.eye(3), np.eye(3)]).astype(dtype)
    stack[1, 0, 1] = bad
    f = lambda a: np.sum(np.real(np.linalg.det(a)))
    again = lambda a, i=0: ad.fori_loop(0, 2, lambda i, a: a * np.linalg.det(a)[:, None, None], a)
    for transform in (ad.grad, lambda f: ad.jit(ad.grad(f)), lambda f: ad.grad(lambda a: np.sum(np.real(ad.grad(f)(a))))):
        for g in (f, lambda a: np.sum(np.real(again(a)))):
            found = transform(g)(stack)
            assert found.dtype == dtype
            assert np.isfinite(found[0]).all()
            assert not np.isfinite(found[1, 2, 2])


def test_determinant_third_derivative(rng):
    check(lambda a: ad.grad(np.linalg.det)(a), regular(rng, (3, 3)))


# -- factorisations ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 3, 3)])
def test_cholesky(shape, dtype, rng):
    a = draw(rng, shape, -1, 1, dtype)
    check(lambda a: np.linalg.cholesky(positive(a)), a)
    check(lambda a: np.linalg.cholesky(positive(a), upper=True), a, order=1)
    # only one triangle filled in
    lower = np.tril(positive(a))
    check(lambda a: np.linalg.cholesky(np.tril(a, -1) + np.eye(shape[-1]) * np.real(a)), lower, order=1)


def test_cotangents_of_a_hermitian_matrix(rng):
    a = positive(draw(rng, (3, 3)))
    for f in (
        np.linalg.cholesky,
        lambda a: np.linalg.cholesky(a, upper=True),
        np.linalg.eigvalsh,
        lambda a: np.linalg.eigvalsh(a, "U"),
    ):
        weights = draw(rng, np.shape(f(a)))
        g = ad.grad(lambda a, f=f, weights=weights: np.sum(weights * f(a)))(a)
        np.testing.assert_allclose(g, g.T, atol=1e-13)
        v = hermitian(draw(rng, (3, 3)))
        numeric = (np.sum(weights * f(a + 1e-6 * v)) - np.sum(weights * f(a - 1e-6 * v))) / 2e-6
        close(np.sum(g * v), numeric, 1e-6)
        close(np.sum(weights * ad.jvp(f, (a,), (v,))[1]), numeric, 1e-6)


def test_cholesky_of_a_large_matrix(rng):
    a = positive(draw(rng, (70, 70), -0.1, 0.1))
    g = ad.grad(lambda a: np.sum(np.log(np.diagonal(np.linalg.cholesky(a)))))(a)
    np.testing.assert_allclose(g, np.linalg.inv(a) / 2, atol=1e-12)


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (3, 1), (2, 2, 3), (2, 3, 2)])
def test_qr(shape, mode, rng):
    def factors(a):
        if mode == "r":
            return np.linalg.qr(a, mode)
        q, r = np.linalg.qr(a, mode)
        rest = q[..., shape[-1] :]  # a basis of the space that is not reached, up to a rotation
        return q[..., : shape[-1]], r, rest @ dagger(rest)

    check(factors, draw(rng, shape) + 2 * np.eye(*shape[-2:]))


def test_complex_qr(rng):
    for shape in ((3, 3), (3, 2), (2, 3)):
        a = draw(rng, shape, dtype=complex) + np.eye(*shape) * 3
        check(lambda a: tuple(np.linalg.qr(a)), a)
    # the projector on the space that is not reached
    check(
        lambda a: np.linalg.qr(a, "complete")[0][:, 1:] @ dagger(np.linalg.qr(a, "complete")[0][:, 1:]),
        draw(rng, (3, 1), dtype=complex),
    )


def test_qr_refused():
    with pytest.raises(NotImplementedError, match="mode='reduced'"):
        ad.vjp(lambda a: np.linalg.qr(a, "raw"), np.eye(2))
    with pytest.raises(ValueError, match="Unrecognized mode"):
        ad.vjp(lambda a: np.linalg.qr(a, "none"), np.eye(2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 3, 3)])
def test_eigh(shape, dtype, rng):
    a = draw(rng, shape, dtype=dtype) + np.diag(np.arange(shape[-1]) * 2.0)

    def invariants(a, UPLO="L"):
        w, v = np.linalg.eigh(hermitian(a), UPLO)
        return w, np.abs(v) ** 2, (v * np.exp(0.1 * w)[..., None, :]) @ dagger(v)

    check(invariants, a)
    check(lambda a: invariants(a, "u"), a, order=1)
    check(lambda a: np.linalg.eigvalsh(hermitian(a)), a)


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh_of_one_triangle(uplo, rng):
    a = draw(rng, (3, 3))
    check(lambda a: np.linalg.eigvalsh(a, UPLO=uplo), a)
    g = ad.grad(lambda a: np.sum(np.linalg.eigvalsh(a, UPLO=uplo)[0]))(a)
    assert np.all((np.triu if uplo == "L" else np.tril)(g, 1 if uplo == "L" else -1) == 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eig(dtype, rng):
    a = draw(rng, (3, 3), -0.3, 0.3, dtype) + np.diag([1.0, 2.0, -1.0])
    scale = np.array([1.0, 0.5])[:, None, None]

    def invariants(a):
        w, v = np.linalg.eig(a)
        return w, np.abs(v) ** 2, (v * np.exp(w)[..., None, :]) @ np.linalg.inv(v)

    for x in (a, scale * a):
        check(invariants, x)
        check(np.linalg.eigvals, x)


def test_eig_of_a_rotation(rng):
    a = np.array([[0.1, 1.0, 0.2], [-1.3, 0.2, 0.1], [0.3, 0.1, 2.0]])

    def invariants(a):
        w, v = np.linalg.eig(a)
        return w, np.abs(v) ** 2

    assert np.linalg.eigvals(a).dtype == complex
    check(invariants, a)
    # eigenvalues r e^±iθ of a scaled rotation
    f = lambda r: np.max(np.abs(np.linalg.eigvals(r * np.array([[0.0, -1.0], [1.0, 0.0]]))))
    np.testing.assert_allclose(ad.grad(f)(2.0), 1.0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_svd(shape, full, dtype, rng):
    a = draw(rng, shape, dtype=dtype)
    k = min(shape[-2:])

    def invariants(a):
        u, s, vh = np.linalg.svd(a, full_matrices=full)
        rebuilt = (u[..., :k] * np.sin(s)[..., None, :]) @ vh[..., :k, :]
        spaces = u[..., 1:] @ dagger(u[..., 1:]), dagger(vh[..., 1:, :]) @ vh[..., 1:, :]
        return s, np.abs(u[..., :k]) ** 2, np.abs(vh[..., :k, :]) ** 2, rebuilt, spaces

    check(invariants, a, rtol=2e-5, rtol2=2e-3)


def test_svd_forms(rng):
    a = draw(rng, (3, 2))
    check(lambda a: np.linalg.svd(a, True, False), a)
    check(lambda a: np.linalg.svd(a, compute_uv=False), a)
    check(np.linalg.svdvals, a)
    assert ad.vjp(np.linalg.svd, a)[0].U.shape == (3, 3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_svd_of_hermitian(shape, dtype, rng):
    a = draw(rng, shape, -0.5, 0.5, dtype) + np.diag([1.0, -3.0, 2.0])

    def invariants(a):
        u, s, vh = np.linalg.svd(hermitian(a), hermitian=True)
        return s, np.abs(u) ** 2, (u * s[..., None, :] ** 2) @ vh

    check(invariants, a)
    check(lambda a: np.linalg.svd(hermitian(a), compute_uv=False, hermitian=True), a)


# -- repeated eigenvalues and singular values -------------------------------------------------------------------


def test_repeated_eigenvalues(rng):
    q = np.linalg.qr(draw(rng, (4, 4)))[0]
    for a in (np.eye(4), np.zeros((4, 4)), hermitian(q @ np.diag([1.0, 1.0, 1.0, 2.0]) @ q.T)):
        g = ad.grad(lambda a: np.sum(np.exp(np.linalg.eigvalsh(a))))(a)
        w, v = np.linalg.eigh(a)
        np.testing.assert_allclose(g, (v * np.exp(w)) @ v.T, atol=1e-13)
        g = ad.grad(lambda a: np.sum(np.linalg.eigvals(a) ** 3).real)(a)
        np.testing.assert_allclose(g, 3 * (a @ a).T, atol=1e-12)


def test_repeated_singular_values():
    a = np.array([[0.0, 2.0], [2.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(ad.grad(lambda a: np.sum(np.linalg.svdvals(a) ** 2))(a), 2 * a, atol=1e-14)


# -- the rest ---------------------------------------------------------------------------------------------------


def test_matrix_rank(rng):
    a = draw(rng, (3, 3))
    assert ad.jvp(lambda a: np.linalg.matrix_rank(a) * a, (a,), (a,))[1][0, 0] == 3 * a[0, 0]
    stack = np.stack([np.eye(2), np.ones((2, 2)), np.zeros((2, 2))])
    np.testing.assert_array_equal(ad.vmap(np.linalg.matrix_rank)(stack), [2, 1, 0])
    np.testing.assert_array_equal(ad.vmap(lambda a: np.linalg.matrix_rank(a, rtol=1e-3, hermitian=True))(stack), [2, 1, 0])
    np.testing.assert_array_equal(ad.vmap(np.linalg.matrix_rank)(stack[:, 0]), [1, 1, 0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 3, 6])
def test_matrix_power(n, dtype, rng):
    a = regular(rng, (2, 3, 3), dtype) / 3
    if n == 0:
        np.testing.assert_array_equal(ad.vjp(lambda a: np.linalg.matrix_power(a, 0), a)[0], np.linalg.matrix_power(a, 0))
    else:
        check(lambda a: np.linalg.matrix_power(a, n), a, order=1)


def test_multi_dot(rng):
    a, b, c, d = (draw(rng, s) for s in ((2, 5), (5, 1), (1, 4), (4, 3)))
    check(lambda *xs: np.linalg.multi_dot(xs), a, b, c, d)
    check(lambda a, b: np.linalg.multi_dot([a, b]), a, b)
    check(lambda *xs: np.linalg.multi_dot(xs), a[0], b, c, d)
    check(lambda *xs: np.linalg.multi_dot(xs), a[0], b, c[:, 0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype, rng):
    a, b = draw(rng, (2, 3), dtype=dtype), draw(rng, (2, 3), dtype=dtype)
    check(np.linalg.cross, a, b)
    check(lambda a, b: np.linalg.cross(a.T, b.T, axis=0), a, b)
    check(lambda a, b: np.linalg.cross(a, b[0]), a, b)
    check(np.linalg.vecdot, a, b)
    check(lambda a, b: np.linalg.vecdot(a, b, axis=0), a, b)
    check(lambda a, b: np.linalg.outer(a[0], b[1]), a, b)
    check(lambda a, b: np.linalg.matmul(a, b.T), a, b)
    check(np.linalg.tensordot, a, b)
    check(lambda a, b: np.linalg.tensordot(a, b, axes=([1], [1])), a, b)


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_parts(offset, rng):
    a = draw(rng, (2, 3, 4))
    check(lambda a: np.linalg.diagonal(a, offset=offset), a)
    check(lambda a: np.linalg.trace(a, offset=offset), a)
    check(np.linalg.matrix_transpose, a)


# -- errors, dtypes, the drop-in --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f, shape",
    [
        (np.linalg.inv, (2, 2)),
        (np.linalg.inv, (2, 3)),
        (np.linalg.inv, (3,)),
        (np.linalg.det, (2, 3)),
        (np.linalg.qr, (3,)),
        (np.linalg.svd, (3,)),
        (np.linalg.eigh, (2, 3)),
        (lambda a: np.linalg.cholesky(-a - np.eye(2)), (2, 2)),
        (lambda a: np.linalg.solve(a, np.ones(2)), (2, 2)),
        (lambda a: np.linalg.lstsq(a, np.ones(3)), (2, 2)),
        (lambda a: np.linalg.tensorsolve(a, np.ones(3)), (2, 3)),
        (np.linalg.cond, (0, 0)),
    ],
)
def test_errors_are_those_of_numpy(f, shape):
    a = np.zeros(shape)
    with pytest.raises(np.linalg.LinAlgError) as plain:
        f(a)
    with pytest.raises(np.linalg.LinAlgError) as traced:
        ad.vjp(f, a)
    assert str(plain.value) == str(traced.value)


def test_a_vector_inside_vmap_is_not_a_matrix():
    with pytest.raises(np.linalg.LinAlgError, match="1-dimensional"):
        ad.vmap(np.linalg.inv)(np.eye(3))


@pytest.mark.parametrize(
    "f",
    [
        np.linalg.inv,
        np.linalg.det,
        np.linalg.pinv,
        np.linalg.cholesky,
        np.linalg.eigvalsh,
        lambda a: np.linalg.eigh(a)[1],
        lambda a: np.linalg.qr(a)[0],
        lambda a: np.linalg.svd(a)[0],
        lambda a: np.linalg.eig(a)[0],
        lambda a: np.linalg.solve(a, a[0]),
        lambda a: np.linalg.lstsq(a, a[0])[0],
        lambda a: np.linalg.slogdet(a)[1],
        np.linalg.cond,
        lambda a: np.linalg.norm(a, 3, axis=0),
    ],
)
def test_float32(f):
    a = np.array([[3, 0.5, 0.1], [0.5, 2, 0.2], [0.1, 0.2, 1]], np.float32)
    y, pull = ad.vjp(f, a)
    assert y.dtype == f(a).dtype
    (g,) = pull(np.ones_like(y))
    assert g.dtype == np.float32
    t = ad.jvp(f, (a,), (a,))[1]
    assert t.dtype == y.dtype


@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "eigvalsh", "pinv", "svdvals"])
def test_empty(name):
    f = getattr(np.linalg, name)
    a = np.zeros((0, 0))
    assert ad.jacobian(f)(a).size == 0
    stack = np.zeros((0, 2, 2))
    assert ad.vjp(f, stack)[1](np.zeros_like(f(stack)))[0].shape == (0, 2, 2)


def test_drop_in(rng):
    a = regular(rng, (3, 3))
    np.testing.assert_array_equal(anp.linalg.inv(a), np.linalg.inv(a))
    assert anp.linalg.LinAlgError is np.linalg.LinAlgError
    assert set(np.linalg.__all__) <= set(dir(anp.linalg))
    g = ad.grad(lambda t: anp.linalg.det([[t, 2.0], [1.0, t]]))(3.0)
    assert g == 6.0
    assert anp.linalg.norm([3, 4]) == 5.0


@pytest.mark.parametrize("shapes", [((3, 4), (3, 1)), ((3, 1), (4,)), ((1,), (2, 5)), ((0,), (1,))])
@pytest.mark.parametrize("function", [np.vecdot, np.linalg.vecdot, anp.linalg.vecdot])
def test_vecdot_does_not_broadcast_the_vectors(function, shapes):
    a, b = map(np.ones, shapes)
    with pytest.raises(ValueError):
        function(a, b)
    with pytest.raises(ValueError, match=r"different lengths|core dimension"):
        ad.grad(lambda a: np.sum(function(a, b)))(a)


TRUNCATED = {
    "pinv": lambda a, b: np.linalg.pinv(a, rcond=0.3),
    "pinv, rtol": lambda a, b: np.linalg.pinv(a, rtol=0.3),
    "lstsq": lambda a, b: np.linalg.lstsq(a, b, rcond=0.3)[0],
    "SciPy's pinv": lambda a, b: linalg.pinv(a, rtol=0.3),
    "SciPy's lstsq": lambda a, b: linalg.lstsq(a, b, cond=0.3)[0],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TRUNCATED)
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize(("shape", "values"), [((3, 3), (3.0, 1.0, 0.6)), ((4, 3), (3.0, 0.5, 0.5)), ((2, 4), (2.0, 0.3))])
def test_a_coarse_cutoff_leaves_out_singular_values_that_are_not_zero(name, dtype, shape, values):
    rng = np.random.default_rng(3)
    draw = lambda *shape: rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype is complex else 0.0)
    u, v = (np.linalg.qr(draw(n, n))[0] for n in shape)
    a = u[:, : len(values)] * values @ np.conj(v[:, : len(values)].T)
    t, b = draw(*shape), draw(shape[0], 2)
    f = lambda a: TRUNCATED[name](a, b)
    near = lambda f, h=1e-6: (f(a + h * t) - f(a - h * t)) / (2 * h)
    push = lambda a: ad.jvp(f, (a,), (t,))[1]
    np.testing.assert_allclose(push(a), near(f), atol=1e-7)
    np.testing.assert_allclose(ad.jvp(push, (a,), (t,))[1], near(push), atol=1e-6)
    g = draw(*f(a).shape)
    pull = lambda a: ad.vjp(f, a)[1](g)[0]
    np.testing.assert_allclose(np.sum(pull(a) * t).real, np.sum(g * push(a)).real)
    np.testing.assert_allclose(ad.jvp(pull, (a,), (t,))[1], near(pull), atol=1e-6)
    np.testing.assert_allclose(ad.jit(pull)(a), pull(a))


def test_a_coarse_cutoff_of_a_symmetric_matrix_and_of_a_batch():
    rng = np.random.default_rng(4)
    q, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    a = q * [5.0, -2.0, 0.4, -0.3] @ q.T
    t = rng.normal(size=(4, 4))
    t = t + t.T
    f = lambda a: np.linalg.pinv(a, rcond=0.2, hermitian=True)
    expected = (f(a + 1e-6 * t) - f(a - 1e-6 * t)) / 2e-6
    np.testing.assert_allclose(ad.jvp(f, (a,), (t,))[1], expected, atol=1e-7)
    batch = lambda a: np.linalg.pinv(a, rcond=0.2)
    many = np.stack([a, 2 * a])
    np.testing.assert_allclose(ad.jvp(batch, (many,), (np.stack([t, t]),))[1], [expected, expected / 4], atol=1e-7)
    np.testing.assert_allclose(ad.vmap(lambda a: ad.jvp(f, (a,), (t,))[1])(many), [expected, expected / 4], atol=1e-7)


def test_lstsq_where_the_rank_is_not_known(rng):
    a, b = draw(rng, (5, 2)), draw(rng, (5,))
    deficient = np.stack([a[:, 0], a[:, 0]], axis=1)
    f = lambda a, b: np.linalg.lstsq(a, b)
    g = ad.graph(f)(a, b)
    for found, expected in zip(g.run(a, b), f(a, b), strict=True):
        np.testing.assert_allclose(found, expected)
    slope = ad.grad(lambda a, b: np.sum(f(a, b)[0]))
    np.testing.assert_allclose(ad.graph(slope)(a, b).run(a, b), slope(a, b))
    x, residuals, rank, _ = g.run(deficient, b)
    np.testing.assert_allclose(x, f(deficient, b)[0])
    assert np.isnan(residuals)
    assert rank == 1
    many = np.stack([a, deficient])
    np.testing.assert_array_equal(np.isnan(ad.vmap(f, in_axes=(0, None))(many, b)[1]), [[False], [True]])
    _, rows = ad.scan(lambda c, a: (c, f(a, b)[1]), 0.0, many)
    np.testing.assert_array_equal(np.isnan(rows), [[False], [True]])


@pytest.mark.parametrize("rows", [4095, 4096, 4097, 60000])
def test_tall_systems_need_no_square_of_their_longer_side(rows):
    """Their usual cutoff grows with the rows, and leaves out what is zero but for rounding."""
    t = np.linspace(-1.0, 1.0, rows)
    a, b = np.vander(t, 3), np.cos(3 * t)
    g = ad.grad(lambda a, b: np.sum(np.linalg.lstsq(a, b)[0] ** 2), (0, 1))
    normal = ad.grad(lambda a, b: np.sum(np.linalg.solve(a.T @ a, a.T @ b) ** 2), (0, 1))
    for found, expected in zip(g(a, b), normal(a, b), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)
    inverse = ad.grad(lambda a: np.sum(np.linalg.pinv(a, rtol=None) @ b))(a)
    np.testing.assert_allclose(inverse, ad.grad(lambda a: np.sum(np.linalg.solve(a.T @ a, a.T @ b)))(a), rtol=1e-7, atol=1e-12)


# -- matrices at which there is no derivative -----------------------------------------------------------------------------


DEPENDENT = {
    "zeros": np.zeros((2, 2)),
    "equal columns": np.ones((2, 2)),
    "rank one": np.outer([1.0, 2.0, 3.0], [1.0, 1.0, 0.0]),
    "tall": np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]),
    "last column": np.diag([1.0, 1.0, 0.0]),
    "wide": np.ones((2, 3)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("name", DEPENDENT)
def test_qr_of_dependent_columns(name, dtype):
    """q is not determined: nan and a warning in each mode, for this matrix of a stack."""
    a = DEPENDENT[name].astype(dtype)
    f = lambda a: np.sum(np.abs(np.linalg.qr(a)[0]) ** 3) + np.sum(np.real(np.linalg.qr(a)[1]))
    with pytest.warns(RuntimeWarning, match="columns are not independent"):
        gradient = ad.grad(f)(a)
    with pytest.warns(RuntimeWarning, match="columns are not independent"):
        tangent = ad.jvp(f, (a,), (np.ones_like(a),))[1]
    assert gradient.dtype == dtype
    assert np.isnan(gradient).any()
    assert np.isnan(tangent)
    assert np.isnan(ad.jit(ad.grad(f))(a)).any()
    with pytest.warns(RuntimeWarning, match="columns are not independent"):
        stack = ad.vmap(ad.grad(f))(np.stack([a, a + np.eye(*a.shape, dtype=dtype)]))
    assert np.isnan(stack[0]).any()
    if name != "last column":
        np.testing.assert_allclose(stack[1], ad.grad(f)(a + np.eye(*a.shape, dtype=dtype)), rtol=1e-4)


@pytest.mark.parametrize(
    "a", [np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 1.0], [0.0, 0.0]]), np.eye(3) + np.eye(3, k=1)]
)
def test_eig_of_a_matrix_without_a_basis_of_eigenvectors(a):
    f = lambda a: np.sum(np.real(np.linalg.eigvals(a) ** 2))
    for run in (ad.grad(f), lambda a: ad.jvp(f, (a,), (np.ones_like(a),))[1]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert np.isnan(run(a)).all()
        assert any("eigenvectors are not independent" in str(w.message) for w in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(ad.jit(ad.grad(f))(a)).all()


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 4)])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_singular_values_of_zero_have_a_kink(rank, shape, rng):
    """As of abs the derivative is taken as 0: that of the nuclear norm, which is their sum."""
    a = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    total = lambda a: np.sum(np.linalg.svd(a, compute_uv=False))
    expected = ad.grad(lambda a: np.linalg.norm(a, "nuc"))(a)
    for run in (ad.grad(total), ad.jit(ad.grad(total)), lambda a: ad.vmap(ad.grad(total))(np.stack([a, a]))[0]):
        np.testing.assert_allclose(run(a), expected, atol=1e-12)
    t = rng.normal(size=shape)
    np.testing.assert_allclose(ad.jvp(total, (a,), (t,))[1], np.sum(expected * t), atol=1e-12)
