import numpy as np
import pytest
from harness import check, draw

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.lower.step import Cumulative
from adjoint.core.errors import ReadOnlyError

X = draw(np.random.default_rng(3), (3, 4))
V = draw(np.random.default_rng(4), (5,))


def test_running_extrema():
    check(lambda x: [np.maximum.accumulate(x, axis=1), np.minimum.accumulate(x), np.maximum.accumulate(x[0])], X)
    x = np.array([1.0, 3.0, 2.0, 3.0, 3.0, 5.0, -np.inf])
    y, pull = ad.vjp(np.maximum.accumulate, x)
    np.testing.assert_array_equal(y, np.maximum.accumulate(x))
    np.testing.assert_allclose(pull(np.eye(7)[4])[0], [0, 1 / 3, 0, 1 / 3, 1 / 3, 0, 0])
    np.testing.assert_allclose(pull(np.eye(7)[2])[0], [0, 1, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(pull(np.eye(7)[6])[0], [0, 0, 0, 0, 0, 1, 0])
    t = ad.jvp(np.minimum.accumulate, (-x,), (np.arange(7.0),))[1]
    np.testing.assert_allclose(t, [0, 1, 1, 2, 8 / 3, 5, 5])


def test_reductions():
    check(lambda x: [np.logaddexp.reduce(x, axis=1), np.logaddexp2.reduce(x), np.hypot.reduce(x, axis=0)], X)
    big = np.array([1000.0, 1000.0, -np.inf])
    np.testing.assert_allclose(ad.grad(np.logaddexp.reduce)(big), [0.5, 0.5, 0])
    check(
        lambda x: [
            np.add.reduceat(x, [0, 2], axis=1),
            np.multiply.reduceat(x[0], [0, 3, 1]),
            np.maximum.reduceat(x[0], [1, 0, 2]),
        ],
        X,
    )
    check(lambda x: [np.multiply.outer(x[0], x[1]), np.subtract.outer(x, x[0])], X)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.arctan2])
def test_at(ufunc):
    index = np.array([0, 2, 0, 1, 0])

    def f(a, b):
        c = a * 1
        ufunc.at(c, index, b)
        return c

    check(f, X[0], V)

    def g(a, b):
        c = a * 1
        ufunc.at(c, (slice(None), [0, 0, 1]), b[:3])
        return c

    check(g, X, V)


def test_at_of_one_argument_and_plain_targets():
    def f(a):
        c = a * 1
        np.negative.at(c, [0, 0, 1])
        np.sin.at(c, [2])
        return c

    check(f, V)
    with pytest.raises(ReadOnlyError, match=r"adjoint\.numpy"):
        ad.vjp(lambda v: np.multiply.at(np.ones(5), [0], v[0]), V)


def test_several_results():
    check(lambda x: [np.modf(x)[0], np.divmod(x, 0.7)[1], np.frexp(x)[0]], X)
    for f in (np.modf, np.frexp, lambda x: np.divmod(x, 0.7)):
        for a, b in zip(ad.vjp(f, X)[0], f(X), strict=True):
            np.testing.assert_array_equal(a, b)

    def f(x):
        part, whole = anp.empty(4), anp.empty(4)
        np.modf(x, out=(part, whole))
        return part * 2 + whole

    check(f, X[0])
    for x in (np.array([1e308, 1e-310, 0.0]), np.float32([3.7, 1e-40])):
        np.testing.assert_array_equal(ad.vjp(np.frexp, x)[0][0], np.frexp(x)[0])


def test_nextafter():
    y, pull = ad.vjp(lambda x: np.nextafter(x, 9.0), V)
    np.testing.assert_array_equal(y, np.nextafter(V, 9.0))
    np.testing.assert_array_equal(pull(np.ones(5))[0], 1)


def test_vectors_and_matrices():
    m = draw(np.random.default_rng(0), (2, 3, 4))
    check(lambda m, v: [np.matvec(m, v), np.vecmat(m[:, :, 0], m), np.vecdot(m, v)], m, X[0])
    check(lambda m: [np.vecdot(m, m[0], axis=-1), np.vecdot(m, m, axis=0)], m)
    z = draw(np.random.default_rng(0), (2, 2), dtype=complex)
    check(lambda z: [np.vecmat(z[0], z), np.matvec(z, z[0]), np.vecdot(z, z[0])], z)


def test_flat():
    def f(x):
        a = anp.zeros((3, 3))
        a.flat[::4] = x[:3]
        a.flat[1] = x[3]
        return a, x.reshape(2, 2).flat[1:3], a.flat[[0, 1]], len(a.flat) * sum(x.reshape(2, 2).flat)

    check(f, V[:4])


def test_out():
    def f(x):
        y = anp.empty(3)
        np.median(x, axis=1, out=y)
        z = np.empty(3, int)
        np.argmax(x, axis=1, out=z)
        np.testing.assert_array_equal(z, np.argmax(X, axis=1))
        return y

    check(f, X, vmap=False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [1, 2, 30, 5000])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_compiled_running_extremum_computes_nothing_for_its_derivative(n, dtype):
    rng = np.random.default_rng(n)
    x = np.round(rng.normal(size=n), 1).astype(dtype)
    x[rng.random(n) < 0.1] = -0.0
    if n > 2:
        x[-1], x[n // 2] = np.nan, np.inf
    for f in (np.maximum.accumulate, np.minimum.accumulate):
        compiled = ad.jit(lambda x: f(2 * x))  # noqa: B023
        np.testing.assert_array_equal(compiled(x), f(2 * x))
        assert len([s for s in compiled.lower(x).lowered.steps if isinstance(s, Cumulative)]) <= 1
        y = np.where(np.isfinite(x), x, dtype == "f4")
        np.testing.assert_allclose(ad.jit(ad.grad(lambda x: f(x)[-1]))(y), ad.grad(lambda x: f(x)[-1])(y), rtol=1e-5)  # noqa: B023
