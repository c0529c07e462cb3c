"""Derivatives of decompositions at repeated eigenvalues and singular values: those of the function, or nan and a warning."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def eigh_of(f):
    return lambda a: f(*np.linalg.eigh(a))


def svd_of(f):
    return lambda a: f(*np.linalg.svd(a))


#: Functions that depend on the choice of vectors, by what they are of. At the vectors of LAPACK most are stationary.
DEPENDENT = {
    "an element": eigh_of(lambda w, v: np.real(v[0, 0])),
    "of third order": eigh_of(lambda w, v: np.abs(v[0, 1]) ** 3),
    "of fourth order": eigh_of(lambda w, v: np.real(v[0, 1] * v[1, 0]) ** 2),
    "imaginary parts": eigh_of(lambda w, v: np.imag(v[0, 0] * np.conj(v[0, 1])) ** 2 + np.real(v[0, 0] * v[0, 1]) ** 2),
    "an eigenvalue next to a whole space": eigh_of(lambda w, v: w[0] + np.sum(np.real(v @ dagger(v)))),
    "weights by place": eigh_of(lambda w, v: np.sum(np.real((v * np.arange(1.0, len(w) + 1)) @ dagger(v)) ** 3)),
    "undefined elsewhere": eigh_of(lambda w, v: np.log(np.real(v[0, 0]))),
    "impossible elsewhere": eigh_of(lambda w, v: np.real(np.linalg.cholesky(v @ np.diag(np.arange(1.0, len(w) + 1)))[0, 0])),
    "an element of u": svd_of(lambda u, s, vh: np.real(u[-1, -1])),
    "of vh": svd_of(lambda u, s, vh: np.abs(vh[-1, -2]) ** 3),
    "a singular value": svd_of(lambda u, s, vh: s[-1] + np.sum(np.real(u @ dagger(u)))),
    "of eig": lambda a: np.real(np.linalg.eig(a)[1][0, 0]) ** 2,
    "of eig, of third order": lambda a: np.abs(np.linalg.eig(a)[1][0, 1]) ** 3,
}
POINTS = {"ones": np.eye(2), "zeros": np.zeros((2, 2)), "two of three": np.diag([1.0, 1.0, 2.0]), "complex": np.eye(2) + 0j}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", POINTS)
@pytest.mark.parametrize("name", DEPENDENT)
@pytest.mark.filterwarnings("ignore:.*repeated eigenvalues")
def test_functions_that_are_stationary_at_the_vectors_of_lapack(name, place):
    f, a = DEPENDENT[name], POINTS[place]
    with pytest.warns(RuntimeWarning, match=r"repeated eigenvalues.*test_split\.py:"):
        value, gradient = ad.value_and_grad(f)(a)
    assert value == f(a)
    assert np.isnan(gradient).all()
    t = random(a.shape, complex if a.dtype.kind == "c" else float)
    assert np.isnan(ad.jvp(f, (a,), (t,))[1])
    assert np.isnan(ad.vmap(ad.grad(f))(np.stack([a, a]))).all()
    assert np.isnan(ad.jit(ad.grad(f))(a)).all()
    x = ad.array(a, requires_grad=True)
    f(x).backward()
    assert np.isnan(x.grad).all()
    if a.dtype.kind == "f":
        assert np.isnan(ad.hessian(f)(a)).all()


def by_inverse(decomposition):
    def f(a):
        w, v = decomposition(a)
        return (v * w[..., None, :] ** 3) @ np.linalg.inv(v)

    return f


def signed(a):
    """With the largest element of each vector positive, as libraries do."""
    w, v = np.linalg.eigh(a)
    largest = v[np.argmax(np.abs(v), axis=0), np.arange(len(w))]
    v = v * (np.conj(largest) / np.abs(largest))
    return (v * w**3) @ dagger(v)


def branched(a):
    w, v = np.linalg.eigh(a)
    if v[0, 0].real < 0:
        v = -v
    kept = np.abs(w) > 1e-9
    return (v[:, kept] * w[kept] ** 3) @ dagger(v[:, kept])


def by_loop(a):
    w, v = np.linalg.eigh(a)
    return sum(w[i] ** 3 * np.outer(v[:, i], np.conj(v[:, i])) for i in range(len(w)))


CUBES = [
    by_eigh(lambda w: w**3), by_svd(lambda s: s**3), by_svd(lambda s: s**3, full=True), by_inverse(np.linalg.eigh),
    by_inverse(np.linalg.eig), signed, branched, by_loop,
]  # fmt: skip
BASES = {
    "unit vectors": lambda n, dtype: np.eye(n, dtype=dtype),
    "permuted": lambda n, dtype: np.eye(n, dtype=dtype)[::-1],
    "generic": unitary,
    "blocks": lambda n, dtype: (
        np.kron(np.eye(n), 1).astype(dtype) if n % 2 else np.kron(np.eye(n // 2), [[0.6, 0.8], [-0.8, 0.6]])
    ),
}


@given(
    st.sampled_from(range(len(CUBES))),
    st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0, 1e-3]), st.integers(1, 3)), min_size=1, max_size=2),
    st.sampled_from(sorted(BASES)),
    st.sampled_from([float, complex]),
    st.floats(-3, 3),
)
@settings(deadline=None)
def test_the_cube_of_a_matrix_by_its_vectors(way, spectrum, basis, dtype, exponent):
    values = [value for value, count in spectrum for _ in range(count)]
    q = BASES[basis](len(values), dtype).astype(dtype)
    a = (q * np.array(values)) @ dagger(q) * 10.0**exponent
    a = (a + dagger(a)) / 2
    weights, t = random(a.shape, dtype), random(a.shape, dtype)
    t = t + dagger(t)
    f, plain = (lambda a, g=g: inner(g(a), weights) for g in (CUBES[way], lambda a: a @ a @ a))
    size = np.linalg.norm(a) ** 2 * np.linalg.norm(t) * np.linalg.norm(weights)
    expected = inner(ad.grad(plain)(a), t)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert abs(inner(ad.grad(f)(a), t) - expected) <= 1e-6 * size
        assert abs(ad.jvp(f, (a,), (t,))[1] - expected) <= 1e-6 * size
    if len(values) > 1 and len(set(values)) < len(values):
        dependent = lambda a: f(a) + (size + 1e-3) * eigh_of(lambda w, v: np.sum(np.abs(v) ** 3))(a)
        with pytest.warns(RuntimeWarning, match="repeated eigenvalues"):
            assert np.isnan(ad.grad(dependent)(a)).all()


@pytest.mark.parametrize("phi", [np.ones_like, np.sign, lambda w: 1 + (w - 2) ** 2], ids=["one", "sign", "square"])
@pytest.mark.parametrize("decomposition", [np.linalg.eigh, np.linalg.eig])
@pytest.mark.parametrize("values", [(2.0, 2.0), (2.0, 2.0, 2.0), (2.0, 2.0, 1.0)], ids=str)
def test_cotangents_of_vectors_that_are_rounding_errors(values, decomposition, phi):
    weights = RNG.normal(size=(len(values),) * 2)
    a = rotated(values, float) if len(set(values)) > 1 else np.diag(values)  # else the vectors of eig are nearly dependent

    def f(a):
        w, v = decomposition(a)
        return inner((v * phi(w)) @ np.linalg.inv(v), weights)

    gradient = ad.grad(f)(a)
    assert np.isfinite(gradient).all()
    if values[-1] == 2.0:
        np.testing.assert_allclose(gradient, 0.0, atol=1e-12)


def test_one_matrix_of_a_stack():
    stack = np.stack([np.diag([1.0, 2.0]), np.eye(2), np.array([[1.0, 0.5], [0.5, 3.0]])])
    t = RNG.normal(size=stack.shape)
    f = lambda a: np.linalg.eigh(a)[1][..., 0, 0] ** 2
    with pytest.warns(RuntimeWarning, match="repeated eigenvalues"):
        gradient = ad.grad(lambda a: np.sum(f(a)))(stack)
    with pytest.warns(RuntimeWarning, match="repeated eigenvalues"):
        tangent = ad.jvp(f, (stack,), (t,))[1]
    for i in range(3):
        assert np.isnan(gradient[i]).all() == np.isnan(tangent[i]) == (i == 1)
    for i in (0, 2):
        np.testing.assert_allclose(gradient[i], ad.grad(f)(stack[i]), atol=1e-14)
        np.testing.assert_allclose(tangent[i], ad.jvp(f, (stack[i],), (t[i],))[1], atol=1e-14)


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 3)])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_graph_gives_no_other_number(rank, shape, dtype):
    """A singular value of zero hides the cotangents of its vectors."""
    a = unitary(shape[0], dtype)[:, :rank] @ unitary(shape[1], dtype)[:rank]
    weights = random(shape, dtype)
    f = lambda a: inner(by_svd(lambda s: s)(a), weights)
    found = ad.graph(ad.grad(f))(a)(a)
    assert np.isnan(found).any() or np.allclose(found, ad.grad(f)(a))
    for g in (np.ones(shape), weights):  # of equal elements, each vector of zeros gets the same
        found = ad.graph(ad.grad(lambda a, g=g: inner(by_svd(lambda s: s)(a), g)))(a)(np.zeros_like(a))
        assert np.isnan(found).any()
    w = ad.graph(ad.grad(lambda a: np.real(np.linalg.eigh(a)[1][0, 0])))(np.eye(2, dtype=dtype))(np.eye(2, dtype=dtype))
    assert np.isnan(w).all()
