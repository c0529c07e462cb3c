"""Derivatives of decompositions at repeated eigenvalues and singular values: those of the function, or nan and a warning."""

import warnings

import numpy as np
import pytest

import adjoint as ad

RNG = np.random.default_rng(5)


def dagger(x):
    return np.conj(np.swapaxes(x, -1, -2))


def unitary(n, dtype):
    x = RNG.normal(size=(n, n)) + (1j * RNG.normal(size=(n, n)) if dtype is complex else 0)
    return np.linalg.qr(x)[0].astype(dtype)


def rotated(values, dtype):
    q = unitary(len(values), dtype)
    return (q * np.array(values)) @ dagger(q)


SPECTRA = [
    (1.0, 1.0),
    (0.0, 0.0, 0.0),
    (1.0, 1.0, 1.0),
    (2.0, 1.0, 1.0, 0.5),
    (1.5, 1.5, 0.5, 0.5),
    (1.0, 1.0 + 1e-14, 2.0),
    (1.0, 1.0 + 1e-11, 2.0),
    (1.0, 1.0 + 3e-8, 2.0),
    (1.0, 1.0 + 1e-6, 2.0),
]


def by_eigh(phi):
    def f(a):
        w, v = np.linalg.eigh(a)
        return (v * phi(w)[..., None, :]) @ dagger(v)

    return f


def by_svd(phi, full=False):
    def f(a):
        u, s, vh = np.linalg.svd(a, full_matrices=full)
        k = s.shape[-1]
        return (u[..., :, :k] * phi(s)[..., None, :]) @ vh[..., :k, :]

    return f


def by_eig(phi):
    def f(a):
        w, v = np.linalg.eig(a)
        return (v * phi(w)[..., None, :]) @ np.linalg.inv(v)

    return f


def inner(x, w):
    return np.sum(np.real(x * w))


def slope(f, a, t, h=1e-3):
    """By differences of sixth order, which are right to 1e-9 or so."""
    return sum(c * (f(a + k * h * t) - f(a - k * h * t)) for c, k in ((45, 1), (-9, 2), (1, 3))) / (60 * h)


def random(shape, dtype):
    x = RNG.normal(size=shape)
    return x + 1j * RNG.normal(size=shape) if dtype is complex else x


def check(f, a, *, symmetric=False, second=True, rtol=2e-7):
    """f gives a matrix that does not depend on the choice of vectors: its derivatives in both modes, and the second."""
    w, t, u = (random(a.shape, a.dtype.type if a.dtype.kind != "c" else complex) for _ in range(3))
    weights = random(np.shape(f(a)), complex if np.iscomplexobj(f(a)) else float)
    if symmetric:
        t, u = t + dagger(t), u + dagger(u)
    scalar = lambda a: inner(f(a), weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g = ad.grad(scalar)(a)
        expected = slope(scalar, a, t)
        size = (np.linalg.norm(g) + 0.1) * np.linalg.norm(t)
        assert abs(inner(g, t) - expected) <= rtol * size
        assert abs(ad.jvp(scalar, (a,), (t,))[1] - expected) <= rtol * size
        batch = ad.vmap(ad.grad(scalar))(np.stack([a, a + t, 2 * a]))
        np.testing.assert_allclose(batch[0], g, rtol=1e-9, atol=1e-9)
        if second:
            along = lambda a: inner(ad.grad(scalar)(a), t)
            expected = slope(along, a + 0j if a.dtype.kind == "c" else a, u)
            for found in (inner(ad.grad(along)(a), u), ad.jvp(along, (a,), (u,))[1]):
                assert np.isnan(found) or abs(found - expected) <= 3e-5 * (abs(expected) + np.linalg.norm(t) * np.linalg.norm(u))
    return w


@pytest.mark.parametrize("values", SPECTRA, ids=str)
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize(
    "phi", [np.exp, lambda w: w**3, lambda w: np.sin(w) + w, np.ones_like], ids=["exp", "cube", "sin", "one"]
)
def test_functions_of_a_hermitian_matrix(phi, dtype, values):
    check(by_eigh(phi), rotated(values, dtype), symmetric=True, second=len(values) == 2)


@pytest.mark.parametrize("values", SPECTRA, ids=str)
@pytest.mark.parametrize("dtype", [float, complex])
def test_a_matrix_rebuilt_from_its_singular_values(dtype, values):
    a = rotated(values, dtype) @ unitary(len(values), dtype)
    check(by_svd(lambda s: s), a, second=False)
    check(by_svd(lambda s: s**3), a, second=False)  # a·aᴴ·a


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (4, 2)])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_rectangular_and_rank_deficient(rank, full, shape):
    a = RNG.normal(size=(shape[0], rank)) @ RNG.normal(size=(rank, shape[1]))
    check(by_svd(lambda s: s, full), a, second=False)
    check(by_svd(lambda s: s + s**3, full), np.eye(*shape), second=False)


@pytest.mark.parametrize("values", [v for v in SPECTRA if min(v) > 0], ids=str)
def test_the_nearest_unitary_matrix(values):
    check(by_svd(np.ones_like), rotated(values, float) @ unitary(len(values), float), second=False, rtol=1e-6)


@pytest.mark.parametrize("a", [np.eye(2), np.diag([2.0, 2.0, 1.0]), np.diag([0.0, 0.0, 1.0]), rotated((2.0, 2.0, 1.0), float)])
def test_functions_of_any_matrix(a):
    check(lambda a: by_eig(lambda w: w**3)(a).real, a, second=False)


def test_spaces_of_repeated_eigenvalues():
    def projector(a):
        v = np.linalg.eigh(a)[1]
        return v[:, 1:3] @ v[:, 1:3].T

    check(projector, rotated((0.0, 1.0, 1.0, 3.0), float), symmetric=True, second=False)


def test_functions_of_the_values_alone():
    for a in (np.eye(2), np.eye(3), rotated((1.0, 1.0, 1.0, 2.0), float)):
        n = len(a)
        hessian = ad.hessian(lambda a: np.sum(np.linalg.svdvals(a) ** 2))(a)
        np.testing.assert_allclose(hessian.reshape(n * n, n * n), 2 * np.eye(n * n), atol=1e-12)
        np.testing.assert_allclose(ad.grad(lambda a: np.sum(np.log(np.linalg.svdvals(a))))(a), np.linalg.inv(a).T, atol=1e-12)
    np.testing.assert_allclose(ad.grad(lambda a: np.linalg.norm(a, 2))(np.eye(2)), np.eye(2) / 2)  # ties share


def test_the_hessian_of_a_matrix_function():
    def f(a):
        w, v = np.linalg.eigh(a)
        return np.sum((v * np.exp(w)) @ v.T)

    expected = ad.hessian(lambda a: np.sum(ad.scipy.linalg.expm((a + a.T) / 2)))(np.eye(2))
    for transform in (ad.hessian, lambda f: ad.jacrev(ad.grad(f)), lambda f: ad.jacfwd(ad.grad(f))):
        np.testing.assert_allclose(transform(f)(np.eye(2)), expected, atol=1e-12)


def test_compiled_functions_leave_repeated_eigenvalues_to_eager_mode():
    weights = RNG.normal(size=(3, 3))
    f = lambda a: np.sum(by_svd(lambda s: s)(a) * weights)
    compiled = ad.jit(ad.grad(f))
    for a in (RNG.normal(size=(3, 3)), np.eye(3), np.zeros((3, 3)), RNG.normal(size=(3, 3)), np.ones((3, 3))):
        np.testing.assert_allclose(compiled(a), weights, atol=1e-10)
    assert not compiled.eager
    at_first = ad.jit(ad.grad(f))
    np.testing.assert_allclose(at_first(np.eye(3)), weights, atol=1e-12)


def test_a_graph_without_numbers_gives_nan_at_worst():
    weights = RNG.normal(size=(2, 2))
    f = lambda a: np.sum(by_svd(lambda s: s)(a) * weights)
    graph = ad.graph(ad.grad(f))(np.ones((2, 2)))
    np.testing.assert_allclose(graph(np.array([[1.0, 2.0], [3.0, 4.0]])), weights, atol=1e-12)
    assert np.isnan(graph(np.eye(2))).any()


@pytest.mark.parametrize(
    "f",
    [
        lambda a: np.linalg.eigh(a)[1][0, 1],
        lambda a: np.linalg.eigvalsh(a)[0],
        lambda a: np.linalg.svd(a)[0][0, 1],
        lambda a: np.linalg.svdvals(a)[0],
        lambda a: np.real(np.linalg.eig(a)[1][0, 1]),
        lambda a: np.linalg.eigvalsh(a) @ np.array([1.0, 2.0]),
    ],
)
def test_no_derivative_is_nan_and_a_warning_that_names_the_line(f):
    with pytest.warns(RuntimeWarning, match=r"repeated eigenvalues.*test_split\.py:"):
        assert np.isnan(ad.grad(f)(np.eye(2))).all()
    with pytest.warns(RuntimeWarning, match="repeated eigenvalues"):
        assert np.isnan(ad.jvp(f, (np.eye(2),), (np.array([[1.0, 2.0], [2.0, 3.0]]),))[1])


def test_the_imperative_style_and_pullbacks():
    weights = RNG.normal(size=(2, 2))
    a = ad.array(np.eye(2), requires_grad=True)
    u, s, vh = np.linalg.svd(a)
    np.sum((u * s) @ vh * weights).backward()
    np.testing.assert_allclose(a.grad, weights, atol=1e-12)
    value, pull = ad.vjp(by_svd(lambda s: s), np.eye(2))
    assert type(value) is np.ndarray
    np.testing.assert_allclose(ad.jacrev(lambda c: pull(c)[0])(weights).reshape(4, 4), np.eye(4), atol=1e-12)
    np.testing.assert_allclose(ad.jacfwd(lambda c: pull(c)[0])(weights).reshape(4, 4), np.eye(4), atol=1e-12)
