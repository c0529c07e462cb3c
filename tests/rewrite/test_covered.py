"""Sums of places that cover an array are stacks; others stay sums."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.ir.text import parse
from adjoint.rewrite.covered import join_places

RNG = np.random.default_rng(4)


def ops(graph):
    return [e.op.name for e in graph.equations]


COVERED = {
    "rows": (lambda x: np.sum(x[0] * np.sin(x[1]) + x[2] ** 2), (3, 40)),
    "rows from the end": (lambda x: np.sum(x[-1] * np.sin(x[-2]) + x[0] ** 2), (3, 40)),
    "columns": (lambda x: np.sum(x[:, 0] * np.sin(x[:, 1])), (40, 2)),
    "an axis in the middle": (lambda x: np.sum(x[:, 0] * np.cos(x[:, 1])), (8, 2, 5)),
    "strides": (lambda x: np.sum(x[::2] * np.sin(x[1::2])), (80,)),
    "strides of a matrix": (lambda x: np.sum(x[:, ::3] * x[:, 1::3] * np.sin(x[:, 2::3])), (4, 30)),
    "beside other terms": (lambda x: np.sum(x**3) + np.sum(x[0] * np.sin(x[1])), (2, 40)),
    "complex": (lambda x: np.sum(np.abs(x[0] * np.exp(1j * x[1])) ** 2 * x[1]), (2, 40)),
    "float32": (lambda x: np.sum(x[0] * np.sin(x[1])), (2, 40)),
}
NOT_COVERED = {
    "a row is missing": (lambda x: np.sum(x[0] * np.sin(x[1])), (3, 40)),
    "a stride is missing": (lambda x: np.sum(x[::3] * x[1::3]), (90,)),
    "strides of different lengths": (lambda x: np.sum(x[::2] ** 3) + np.sum(x[1::2] ** 2), (81,)),
    "parts of rows": (lambda x: np.sum(x[0, 1:] * np.sin(x[1, 1:])), (2, 40)),
    "few elements": (lambda x: x[0] * np.sin(x[1]), (2,)),
}


@pytest.mark.parametrize("name", COVERED)
def test_rows_that_cover_an_array_are_a_stack(name):
    f, shape = COVERED[name]
    x = RNG.normal(size=shape).astype(np.float32 if name == "float32" else float)
    gradient = ad.jit(ad.grad(f))
    expected = ad.grad(f)(x)
    np.testing.assert_allclose(gradient(x), expected, rtol=1e-12 if x.dtype == float else 1e-5)
    assert gradient(x).dtype == x.dtype
    assert "stack" in ops(gradient.lower(x).graph)


@pytest.mark.parametrize("name", NOT_COVERED)
def test_others_stay_sums(name):
    f, shape = NOT_COVERED[name]
    x = RNG.normal(size=shape)
    gradient = ad.jit(ad.grad(f))
    np.testing.assert_allclose(gradient(x), ad.grad(f)(x), rtol=1e-12)
    assert "stack" not in ops(gradient.lower(x).graph)


def test_a_row_that_occurs_twice_and_places_that_are_read_elsewhere():
    text = """graph f(a: float64[40], b: float64[40]) {
      v2: float64[2,40] = place a {spec=(0,), shape=(2, 40)}
      v3: float64[2,40] = place b {spec=(1,), shape=(2, 40)}
      v4: float64[2,40] = place b {spec=(0,), shape=(2, 40)}
      v5: float64[2,40] = add v2, v3
      v6: float64[2,40] = add v5, v4
      return v6%s
    }"""
    a, b = RNG.normal(size=(2, 40))
    for more in ("", ", v2", ", v5", ", v3"):
        graph = parse(text % more)
        found = join_places(graph)
        check(found, infer_types)
        for x, y in zip(found.run_flat([a, b]), graph.run_flat([a, b]), strict=True):
            np.testing.assert_allclose(x, y)
    assert "stack" in ops(join_places(parse(text % "")))


def test_a_value_that_is_broadcast_into_its_row_stays():
    graph = parse("""graph f(a: float64[], b: float64[40]) {
      v2: float64[2,40] = place a {spec=(0,), shape=(2, 40)}
      v3: float64[2,40] = place b {spec=(1,), shape=(2, 40)}
      v4: float64[2,40] = add v2, v3
      return v4
    }""")
    assert join_places(graph) is graph


def test_inside_a_loop():
    def f(x):
        def step(s, row):
            return s + np.sum(row[0] * np.sin(row[1])) * np.cos(s), None

        return ad.scan(step, 0.3, x)[0]

    x = RNG.normal(size=(5, 2, 40))
    np.testing.assert_allclose(ad.jit(ad.grad(f))(x), ad.grad(f)(x), rtol=1e-11)


@pytest.mark.parametrize("seed", range(12))
def test_random_reads_of_rows_keep_their_gradients(seed):
    rng = np.random.default_rng(seed)
    count, length = int(rng.integers(2, 6)), int(rng.integers(16, 40))
    reads = [int(i) for i in rng.integers(-count, count, rng.integers(2, 9))]
    step = int(rng.integers(2, 4))

    def f(x):
        rows = [x[i] for i in reads] + [x[k] * 1.5 for k in range(count)]
        total = sum(np.sum(np.sin(a) * b) for a, b in itertools.pairwise(rows))
        return total + sum(np.sum(x[:, k::step] ** (k + 2)) for k in range(step)) + np.sum(x)

    x = rng.normal(size=(count, length))
    np.testing.assert_allclose(ad.jit(ad.grad(f))(x), ad.grad(f)(x), rtol=1e-11, atol=1e-12)
