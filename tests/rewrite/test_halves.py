"""Arithmetic of float16 in float32: bit for bit as NumPy computes it, and native."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad
from adjoint.compiler.llvm.emit import converts_halves
from adjoint.core.tree import flatten
from adjoint.rewrite import pipeline
from adjoint.rewrite.halves import has_halves, widen_halves

RNG = np.random.default_rng(0)
X, Y = (3 * RNG.normal(size=(2, 16, 15))).astype(np.float16)
ROW = RNG.normal(size=15).astype(np.float16)

needs_conversion = pytest.mark.skipif(not converts_halves(), reason="this processor does not convert float16")

NATIVE = {
    "arithmetic": lambda x, y: ((x + y) * x - y / x, -x, np.abs(x), x**2, np.abs(x) ** y, x // y, x % y),
    "functions": lambda x, y: (np.sin(x), np.exp(y), np.tanh(x), np.log(np.abs(y)), np.sqrt(np.abs(x)), np.arctan2(x, y)),
    "Python numbers": lambda x, y: (x * 1e-9 * y + 0.1, x * 1e10, 3 * x, x > 0.1, x == 0.1, np.maximum(x, 0.1), 1 - x),
    "comparisons": lambda x, y: (x < y, np.isnan(x), np.sign(x), np.floor(x), np.where(x > y, x, y), np.maximum(x, y)),
    "reductions": lambda x, y: (np.sum(x), np.sum(x, axis=1), np.max(x), np.min(x, axis=0), np.mean(x), np.mean(x, axis=1)),
    "from float16": lambda x, y: (x.astype(float), x.astype(np.float32) * 2, x.astype(np.int8), x.astype(np.int64), x != 0),
    "to float16": lambda x, y: ((x.astype(float) / 3).astype(np.float16), np.arange(15).astype(np.float16) * x, x * (y > 0)),
    "moves": lambda x, y: (x[::-1, 1:], np.concatenate([x, y]), x.T, np.pad(x, 1), np.roll(x, 3, 1), x[np.array([3, 1, 1])]),
    "products": lambda x, y: (x @ y.T, x[0] @ y[1]),
    "other dtypes": lambda x, y: (x + x.astype(np.float32), x * x.astype(np.int8), x * x.astype(np.int16), x + 1j),
    "loops": lambda x, y: ad.scan(lambda c, r: (np.tanh(c + r), c * r), x[0], y),
    "constants": lambda x, y: (x * ROW, np.float16(0.1) * x[0], np.full(3, np.float16(0.1))),
    "numbers": lambda x, y: (x[0, 0] * 2, np.sin(x[1, 1]), x[0, 0] + y[0]),
}


def same_bits(found, wanted):
    for a, b in zip(flatten(found)[0], flatten(wanted)[0], strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(a, b)


@needs_conversion
@pytest.mark.parametrize("name", NATIVE)
def test_as_numpy_computes_it(name):
    f, compiled = NATIVE[name], ad.jit(NATIVE[name])
    with np.errstate(all="ignore"):
        for x, y in ((X, Y), (Y[::-1], X), (X.copy(order="F"), Y), (X[::2], Y[1::2])):
            if name == "reductions" and not x.flags.c_contiguous:
                continue  # NumPy's sums depend on the order in memory
            same_bits(compiled(x, y), f(x, y))
    assert "calls NumPy" not in compiled.report()


@needs_conversion
def test_a_changing_python_number():
    f = ad.jit(lambda x, c: (x * c, x - c * c, np.maximum(x, c)))
    for c in (0.1, 1e-9, 1e6, -3.0, 70000.0):
        with np.errstate(all="ignore"):
            same_bits(f(X, c), (X * c, X - c * c, np.maximum(X, c)))


STAYS = {
    "by dtype": lambda x: (np.spacing(x), np.nextafter(x, np.float16(1))),
    "sums along other axes": lambda x: np.sum(x, axis=0),
    "cumulative": lambda x: np.cumsum(x, axis=1),
    "products of elements": lambda x: np.prod(x, axis=1),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_numpy_rounds_at_each_step_stays(name):
    x = np.concatenate([X, np.full((3, 15), 60000, np.float16), np.full((3, 15), -60000, np.float16)])  # sums overflow on the way
    compiled = ad.jit(STAYS[name])
    with np.errstate(all="ignore"):
        same_bits(compiled(x), STAYS[name](x))
    assert "calls NumPy" in compiled.report()


@needs_conversion
@given(st.lists(st.floats(width=64), min_size=1, max_size=40))
def test_doubles_are_rounded_once(numbers):
    x = np.resize(np.array(numbers), 40)
    with np.errstate(all="ignore"):
        same_bits(ROUND(x), x.astype(np.float16))


ROUND = ad.jit(lambda x: x.astype(np.float16))


@needs_conversion
def test_doubles_next_to_ties():
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(float)
    ties = np.concatenate([(halves[1:] + halves[:-1]) / 2, [65520.0]])
    x = np.concatenate([ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf), halves, ties * (1 + 2.0**-30)])
    x = np.concatenate([x, -x, [np.inf, -np.inf, np.nan]])
    with np.errstate(all="ignore"):
        same_bits(ROUND(x), x.astype(np.float16))


def test_derivatives():
    f = lambda x: np.sum(np.tanh(x * ROW) + np.exp(-x * x))
    same_bits(ad.jit(ad.grad(f))(X), ad.grad(f)(X))
    np.testing.assert_allclose(ad.jit(ad.hvp(f))(X[0], Y[0]), ad.hvp(f)(X[0], Y[0]), rtol=0.01, atol=0.01)


def test_graphs_without_float16_stay():
    g = ad.graph(lambda x: np.sin(x) * 2)(np.ones(3))
    assert not has_halves(g)
    assert widen_halves(g) is g
    h = ad.graph(lambda x: np.sin(x) * 2)(X)
    assert has_halves(h)
    assert "halves" not in pipeline.optimize(h).sizes
    assert "halves" in pipeline.optimize(h, halves=True).sizes
    dtypes = [t.dtype for e in widen_halves(h).equations if e.op.name != "cast" for t in e.types]
    assert set(dtypes) == {np.dtype(np.float32)}
