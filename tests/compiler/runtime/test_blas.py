"""The threads of BLAS: limits are seen, and a deterministic function gives the same bits for any number of threads."""

import ctypes
import threading
import types

import numpy as np
import pytest

import adjoint as ad
import adjoint.scipy.linalg as sl
from adjoint.compiler import native
from adjoint.compiler.llvm.lapack import ALONE, SHORT
from adjoint.compiler.lower.step import Product
from adjoint.compiler.runtime import blas
from adjoint.compiler.switches import Switch, without
from adjoint.core.errors import UnsupportedError

RNG = np.random.default_rng(0)


@pytest.fixture
def libraries():
    found = [blas.of_numpy(), blas.of_scipy()]
    before = [library.threads() for library in found]
    yield found
    for library, count in zip(found, before, strict=True):
        library.set_threads(count)


@pytest.fixture
def pool():
    found = native.pool()
    before = found.threads, found.usual
    yield found
    found.threads, found.usual = before


def test_numbers_are_read_and_set(libraries):
    for library in libraries:
        library.set_threads(1)
        assert library.threads() == 1
        library.set_threads(2)
        assert library.threads() == 2


def test_our_loops_follow_a_limit_of_blas(libraries, pool):
    """As `threadpoolctl.threadpool_limits(1)` sets it."""
    workers = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    parallel = ctypes.CFUNCTYPE(None, workers, ctypes.c_void_p, ctypes.c_int64)(pool.address)  # sets Python's lock free
    pool.threads = 3
    pool.usual = 2
    libraries[0].set_threads(2)
    meeting = threading.Barrier(2)

    def meet(table, i):
        meeting.wait(10)

    parallel(workers(meet), None, 2)  # two pieces wait for each other: they run at the same time
    assert not meeting.broken
    libraries[0].set_threads(1)
    seen = set()
    parallel(workers(lambda table, i: seen.add(threading.get_native_id())), None, 64)
    assert seen == {threading.get_native_id()}


def test_one_thread_while_asked_for(libraries, pool):
    for library in libraries:
        library.set_threads(2)
    one = blas.OneThread(libraries, pool)
    usual = pool.usual
    inside = threading.Barrier(3)
    counts = []

    def call():
        with one:
            inside.wait(10)
            counts.append([library.threads() for library in libraries])
            inside.wait(10)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for t in threads:
        t.start()
    inside.wait(10)
    assert pool.usual == 1
    inside.wait(10)
    for t in threads:
        t.join()
    assert counts == [[1, 1], [1, 1]]
    assert [library.threads() for library in libraries] == [2, 2]
    assert pool.usual == usual


def test_it_is_given_back_after_an_error(libraries):
    for library in libraries:
        library.set_threads(2)
    f = ad.jit(np.linalg.cholesky, deterministic=True)
    with pytest.raises(np.linalg.LinAlgError):
        f(-np.eye(3))
    assert [library.threads() for library in libraries] == [2, 2]


def test_deterministic_functions_give_the_same_bits(libraries, pool):
    def f(a, b, x):
        return np.sum(np.tanh(a @ b)) + np.linalg.slogdet(a @ a.T + 10 * np.eye(len(a)))[1] + np.sum(np.sin(x)) + a[0] @ b[:, 0]

    a, b, x = RNG.normal(size=(150, 170)), RNG.normal(size=(170, 130)), RNG.normal(size=300_000)
    g = ad.jit(ad.value_and_grad(f, argnums=(0, 1, 2)), deterministic=True)
    results = []
    for count in (1, 2, 3):
        pool.threads = count
        for library in libraries:
            library.set_threads(count)
        value, gradients = g(a, b, x)
        results.append([value, *gradients])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
    expected, slopes = ad.value_and_grad(f, argnums=(0, 1, 2))(a, b, x)
    np.testing.assert_allclose(results[0][0], expected, rtol=1e-12)
    np.testing.assert_allclose(results[0][1], slopes[0], rtol=1e-9, atol=1e-12)


def test_as_a_decorator():
    @ad.jit(deterministic=True, static_argnames="n")
    def f(x, n):
        return x**n

    assert f(2.0, n=3) == 8.0
    assert "jit of f" in f.report()


def test_a_blas_whose_threads_cannot_be_set(monkeypatch):
    assert blas.library(types.SimpleNamespace(__file__=None)) is None  # the process itself has none
    monkeypatch.setattr(blas, "of_scipy", lambda: None)
    native.one_thread_of_blas.cache_clear()
    with pytest.raises(UnsupportedError, match=r"deterministic=True needs an OpenBLAS or MKL"):
        ad.jit(lambda x: x * 2.0, deterministic=True)(1.0)
    native.one_thread_of_blas.cache_clear()


# -- its vectors --


@pytest.mark.parametrize(
    ("core", "size"), [(b"Haswell", 32), (b"SkylakeX", 64), (b"Nehalem", 16), (b"VORTEX", None), (None, None)]
)
def test_the_vectors_of_a_core(core, size, monkeypatch):
    monkeypatch.setattr(blas.ctypes, "CFUNCTYPE", lambda result: lambda named: lambda: core)
    monkeypatch.setattr(blas.ctypes, "CDLL", lambda path: types.SimpleNamespace(**{blas._CORES[1]: 0}))
    assert blas.vector_bytes() == size


def test_another_library_has_unknown_vectors(monkeypatch):
    monkeypatch.setattr(blas.ctypes, "CDLL", lambda path: object())
    assert blas.vector_bytes() is None


def test_the_vectors_of_this_blas_are_known():
    """If it is OpenBLAS on x86."""
    assert blas.vector_bytes() in (16, 32, 64, None)


# -- short calls have one thread --


@pytest.fixture
def by_blas():
    with without(Switch.PACKED_PRODUCTS):
        yield


@pytest.fixture
def noted(pool, by_blas):
    """What programs set the number of threads of SciPy's BLAS to; it is two."""
    ad.jit(lambda x: x @ x)(np.ones((200, 200)))  # the first call of BLAS finds the library
    real, written, now = pool._limited, [], [2]

    def write(count):
        written.append(count)
        now[0] = count

    read_c, write_c = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: now[0]), ctypes.CFUNCTYPE(None, ctypes.c_int)(write)
    pool.limit(blas.Library(read_c, write_c))
    yield written
    pool.limit(real)


def square(n):
    return ad.jit(lambda x: x @ x), np.ones((n, n)) / n


@pytest.mark.parametrize(("n", "limited"), [(39, False), (41, True), (161, True), (162, True), (300, True)])
def test_products_have_one_thread(noted, n, limited):
    """The larger two are cut into pieces, each of which asks for it."""
    f, x = square(n)
    assert ALONE[Product] <= n**3 < SHORT or not limited
    for _ in range(3):
        noted.clear()
        np.testing.assert_allclose(f(x), x @ x)
        assert noted[:2] == noted[-2:] == ([1, 2] if limited else [])
        assert len(noted) <= 2 or n > 161


@pytest.mark.parametrize(("inner", "limited"), [(2 * (1 << 14) - 1, True), (2 * (1 << 14), False)])
def test_long_products_that_cannot_be_cut_have_the_threads_of_blas(noted, inner, limited):
    a = np.ones((32, inner))
    f = ad.jit(lambda a, b: a.T @ b)
    b = np.ones((inner, 64))
    assert (32 * 64 * inner < SHORT) == limited
    f(a.T.copy(), b)
    noted.clear()
    np.testing.assert_allclose(f(a.T.copy(), b), a @ b)
    assert noted == ([1, 2] if limited else [])


@pytest.mark.parametrize(("n", "limited"), [(16, False), (17, True), (50, True), (586, True), (587, False)])
def test_triangular_systems_too(noted, n, limited):
    """OpenBLAS cuts them from a few unknowns on."""
    a, b = np.tri(n) + n * np.eye(n), np.ones((n, n if n > 16 else 2))
    f = ad.jit(lambda a, b: sl.solve_triangular(a, b, lower=True))
    for _ in range(2):
        noted.clear()
        np.testing.assert_allclose(a @ f(a, b), b)
        assert noted == ([1, 2] if limited else [])


def test_decompositions_too(noted):
    a = np.eye(150) * 3.0 + 0.01
    noted.clear()
    ad.jit(np.linalg.cholesky)(a)
    assert noted == [1, 2]
    with without(Switch.ONE_BLAS_THREAD):
        noted.clear()
        ad.jit(lambda a: np.linalg.cholesky(a) * 1.0)(a)
        assert noted == []


def test_a_routine_that_fails_restores_the_threads(noted):
    f = ad.jit(np.linalg.cholesky)
    f(np.eye(150))
    noted.clear()
    with pytest.raises(np.linalg.LinAlgError):
        f(-np.eye(150))
    assert noted[-1] == 2


def test_calls_of_several_threads_overlap(libraries, by_blas):
    """The number is what it was, whoever comes last."""
    library = libraries[1]
    library.set_threads(2)
    f, x = square(100)
    f(x)
    running = [threading.Thread(target=lambda: [f(x) for _ in range(300)]) for _ in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert library.threads() == 2


def test_the_child_of_a_fork_starts_anew(noted, pool):
    word = lambda name: pool._word(name, ctypes.c_int32)
    word("blas.lock").value, word("blas.calls").value, word("blas.before").value = 1, 3, 2
    noted.clear()
    pool.restart()
    assert noted == [2]
    assert (word("blas.lock").value, word("blas.calls").value) == (0, 0)
