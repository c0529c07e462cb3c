"""Writes in place: carries and copies whose old value is dead share one buffer; results are those of copies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import examples

import adjoint as ad
import adjoint.numpy as anp
from adjoint.compiler.lower.step import Scan
from adjoint.compiler.switches import Switch, without

RNG = np.random.default_rng(11)


def scans(compiled, *args):
    return [step for step in compiled.lower(*args).lowered.steps if isinstance(step, Scan)]


def check(f, x, tolerance=1e-12):
    """The value and the gradient are those of eager mode, and no operation calls NumPy."""
    compiled = ad.jit(ad.value_and_grad(f))
    value, gradient = compiled(x)
    expected, wanted = ad.value_and_grad(f)(x)
    np.testing.assert_allclose(value, expected, rtol=tolerance)
    np.testing.assert_allclose(gradient, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())
    assert "calls NumPy" not in compiled.report()
    return compiled


def recurrence(x):
    b = anp.zeros(len(x))
    b[0] = x[0]
    for i in range(1, len(x)):
        b[i] = np.sin(b[i - 1]) + x[i]
    return np.sum(b * b)


def with_fori_loop(x):
    def body(i, b):
        b[i] = np.sin(b[i - 1]) + x[i]
        return b

    b = anp.zeros(len(x))
    b[0] = x[0]
    return np.sum(ad.fori_loop(1, len(x), body, b) ** 2)


def from_the_end(x):
    def body(i, b):
        b[-i] = np.sin(b[1 - i]) * x[-i]
        return b

    return np.sum(ad.fori_loop(2, len(x), body, anp.array(x)) ** 2)


def gauss_seidel(f):
    u = anp.zeros(f.shape)
    for _ in range(3):
        for i in range(1, f.shape[0] - 1):
            for j in range(1, f.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + f[i, j])
    return np.sum(u * u)


def soft_dtw(d):
    n, m = d.shape
    r = anp.full((n + 1, m + 1), 1e3)
    r[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            three = np.stack([r[i - 1, j], r[i, j - 1], r[i - 1, j - 1]])
            r[i, j] = d[i - 1, j - 1] - np.log(np.sum(np.exp(-three)))
    return r[n, m]


def rows(x):
    u = anp.array(x)
    for i in range(1, len(x)):
        u[i] = 0.5 * u[i - 1] + np.tanh(u[i])
    return np.sum(u**3)


def parts_of_rows(x):
    u = anp.array(x)
    for i in range(1, len(x)):
        u[i, 1:] = u[i - 1, :-1] * u[i, 1:]
    return np.sum(u**2)


def swapped(x):
    """The old value is read after the write: the carry is copied."""
    u = anp.array(x)
    for i in range(1, len(x)):
        old = u[i - 1] * 1.0
        u[i - 1] = u[i] * 0.5
        u[i] = old + np.sin(u[i - 1])
    return np.sum(u**2)


def two_arrays(x):
    a, b = anp.array(x), anp.array(2 * x)
    for i in range(1, len(x)):
        a[i] = np.sin(b[i - 1])
        b[i] = a[i] + a[i - 1]
    return np.sum(a * b)


def old_array_kept(x):
    """All elements of the old array are read in each iteration."""
    u = anp.array(x)
    total = 0.0
    for i in range(len(x)):
        total = total + np.sum(u) * 0.01
        u[i] = u[i] * 0.9 + 0.01 * total
    return total + np.sum(u**2)


VECTORS = [recurrence, with_fori_loop, from_the_end, swapped, two_arrays, old_array_kept]
TABLES = [gauss_seidel, soft_dtw, rows, parts_of_rows]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("f", VECTORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [7, 8, 9, 60], ids=str)  # 8: arrays up to this are written as a whole
def test_vectors(f, n):
    check(f, RNG.normal(size=n) * 0.5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("f", TABLES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(3, 3), (9, 7), (14, 12)], ids=str)
def test_tables(f, shape):
    check(f, RNG.normal(size=shape) ** 2 * 0.5)


@pytest.mark.parametrize("f", [recurrence, with_fori_loop, rows, gauss_seidel], ids=lambda f: f.__name__)
def test_a_carry_is_changed_where_it_is(f):
    x = RNG.normal(size=(40,) if f in VECTORS else (40, 12))
    for compiled in (ad.jit(f), ad.jit(ad.grad(f))):
        found = scans(compiled, x)
        assert found
        for scan in found:
            large = [flag for flag, view in zip(scan.in_place, scan.finals, strict=True) if view.buffer.size > 12]
            assert all(large), str(scan)


def test_an_iteration_costs_the_same_for_any_length():
    from adjoint.compiler.lower.schedule import work

    for f in (recurrence, with_fori_loop):
        for compiled in (ad.jit(f), ad.jit(ad.grad(f))):
            costs = [[sum(map(work, scan.body.steps)) for scan in scans(compiled, RNG.normal(size=n))] for n in (200, 400)]
            assert costs[0] == costs[1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("f", [recurrence, swapped, two_arrays, old_array_kept], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_and_switches(f, dtype):
    x = (RNG.normal(size=50) * 0.5).astype(dtype)
    value = ad.jit(f)(x)
    assert value.dtype == f(x).dtype
    with without(Switch.IN_PLACE):
        again = ad.jit(f)
        assert again(x) == value
        assert not any(any(scan.in_place) for scan in scans(again, x))


def test_arguments_stay_as_they_are():
    def f(b, i):
        def body(k, b):
            b[k] = b[k - 1] + i
            return b

        return ad.fori_loop(1, 30, body, b)

    b = RNG.normal(size=30)
    before = b.copy()
    compiled = ad.jit(f)
    for i in (1.0, 2.0):
        np.testing.assert_allclose(compiled(b, i), b[0] + i * np.arange(30))
        np.testing.assert_array_equal(b, before)


def test_an_index_out_of_bounds_raises():
    def f(b, i):
        def body(k, b):
            b[k + i] = 1.0
            return b

        return ad.fori_loop(0, 20, body, b)

    compiled = ad.jit(f)
    assert compiled(np.zeros(30), 10).sum() == 20
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(np.zeros(30), 11)
    assert compiled(np.zeros(30), -20).sum() == 20


def test_writes_at_repeated_indices_keep_the_last():
    def f(b, v, i):
        b = anp.array(b)
        b[i] = v
        return b

    compiled = ad.jit(f)
    for _ in range(5):
        b, v, i = RNG.normal(size=12), RNG.normal(size=40), RNG.integers(-12, 12, size=40)
        np.testing.assert_array_equal(compiled(b, v, i), f(b, v, i))
        rows, columns = RNG.normal(size=(12, 5)), RNG.normal(size=(40, 5))
        np.testing.assert_array_equal(compiled(rows, columns, i), f(rows, columns, i))
    assert "calls NumPy" not in compiled.report()


def test_batches_and_second_derivatives():
    x = RNG.normal(size=(3, 20)) * 0.3
    for f in (recurrence, with_fori_loop):
        np.testing.assert_allclose(ad.jit(ad.vmap(ad.grad(f)))(x), [ad.grad(f)(row) for row in x], rtol=1e-12)
        np.testing.assert_allclose(ad.jit(ad.hessian(f))(x[0]), ad.hessian(f)(x[0]), rtol=1e-10, atol=1e-12)


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_loops(seed):
    """Loops that read and write one or two arrays at random moving places, in random order."""
    rng = np.random.default_rng(seed)
    n, size = int(rng.integers(6, 14)), 40
    statements = []
    for _ in range(rng.integers(1, 4)):
        kind = rng.choice(["write", "add", "scale", "keep"])
        statements.append((kind, *(int(k) for k in rng.integers(0, 2, 2)), *(int(k) for k in rng.integers(-3, 4, 3))))

    def f(x):
        arrays = [anp.array(x), anp.array(x[::-1]) * 0.5]
        kept = x[0] * 0.0
        for t in range(n):
            at = 5 + 2 * t
            for kind, to, source, i, j, k in statements:
                target, other = arrays[to], arrays[source]
                if kind == "write":
                    target[at + i] = np.sin(other[at + j]) + kept * 0.1
                elif kind == "add":
                    target[at + i] += other[at + j] * other[at + k]
                elif kind == "scale":
                    target[at + i] = 0.5 * target[at + i] + kept
                else:
                    kept = 0.5 * kept + other[at + k]
        return np.sum(arrays[0] ** 2) + np.sum(arrays[1]) + kept

    x = rng.normal(size=size) * 0.5
    value, gradient = ad.jit(ad.value_and_grad(f))(x)
    expected, wanted = ad.value_and_grad(f)(x)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-11, atol=1e-12)
