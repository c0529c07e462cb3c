"""Store-to-load forwarding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
import adjoint.numpy as anp
from adjoint.ir.check import check
from adjoint.ir.text import parse
from adjoint.rewrite.written import forward_writes

RNG = np.random.default_rng(4)


def ops(graph):
    return [e.op.name for e in graph.equations]


def same(text, *args):
    graph = parse(text)
    changed = forward_writes(graph)
    check(changed)
    for a, b in zip(changed.run_flat(args), graph.run_flat(args), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
    return ops(changed)


A, X = RNG.normal(size=(3, 3)), 2.5


def test_written_elements_are_read():
    head = "graph f(a: float64[3,3], x: float64[]) {\n  v2: float64[3,3] = put a, x {spec=(0, 1)}\n"
    found = same(head + "  v3: float64[] = getitem v2 {spec=(0, -2)}\n  v4: float64[] = sin v3\n  return v4\n}", A, X)
    assert found == ["sin"]
    found = same(head + "  v3: float64[] = getitem v2 {spec=(0, 2)}\n  v4: float64[] = sin v3\n  return v4\n}", A, X)
    assert found == ["getitem", "sin"]


def test_constants_take_the_dtype_of_the_array():
    text = "graph f(a: float32[3]) {\n  v1: float32[3] = put a, 2.0 {spec=(1,)}\n  v2: float32[] = getitem v1 {spec=(1,)}\n"
    assert same(text + "  v3: float32[] = sin v2\n  return v3\n}", A[0].astype(np.float32)) in (["sin"], [])


def test_a_value_that_is_cast_is_read_from_the_array():
    text = "graph f(a: float32[3], x: float64[]) {\n  v2: float32[3] = put a, x {spec=(1,)}\n"
    found = same(text + "  v3: float32[] = getitem v2 {spec=(1,)}\n  return v3\n}", A[0].astype(np.float32), 0.1)
    assert found == ["put", "getitem"]


def test_two_arrays_from_one():
    same(
        """graph f(a: float64[3,3], x: float64[]) {
  v2: float64[3,3] = put a, x {spec=(0, 1)}
  v3: float64[3,3] = put a, 7.0 {spec=(0, 1)}
  v4: float64[3,3] = put v2, 8.0 {spec=(1, 1)}
  v5: float64[] = getitem v2 {spec=(0, 1)}
  v6: float64[] = getitem v3 {spec=(0, 1)}
  v7: float64[] = getitem v4 {spec=(0, 1)}
  v8: float64[] = getitem a {spec=(0, 1)}
  v9: float64[] = getitem v2 {spec=(1, 1)}
  return v5, v6, v7, v8, v9
}""",
        A, X,
    )  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_writes_and_reads(seed):
    rng = np.random.default_rng(seed)
    lines, arrays, scalars = [], ["a"], ["x"]
    for n in range(2, 2 + int(rng.integers(3, 25))):
        array, scalar = arrays[-1] if rng.random() < 0.8 else str(rng.choice(arrays)), str(rng.choice(scalars))
        spec = tuple(int(i) for i in rng.integers(-3, 3, 2))
        kind = rng.choice(["element", "row", "read", "sin"], p=[0.4, 0.1, 0.4, 0.1])
        if kind == "element":
            lines.append(f"v{n}: float64[3,3] = put {array}, {scalar} {{spec={spec}}}")
        elif kind == "row":
            lines.append(f"v{n}: float64[3,3] = put {array}, {scalar} {{spec=({spec[0]},)}}")
        elif kind == "read":
            lines.append(f"v{n}: float64[] = getitem {array} {{spec={spec}}}")
        else:
            lines.append(f"v{n}: float64[] = sin {scalar}")
        (arrays if kind in ("element", "row") else scalars).append(f"v{n}")
    body = "\n  ".join(lines)
    text = f"graph f(a: float64[3,3], x: float64[]) {{\n  {body}\n  return {', '.join(scalars[-4:])}, {arrays[-1]}\n}}"
    same(text, A, X)


def cholesky(a):
    n = len(a)
    factor = anp.zeros((n, n))
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s = s - factor[j, k] ** 2
        factor[j, j] = np.sqrt(s)
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s = s - factor[i, k] * factor[j, k]
            factor[i, j] = s / factor[j, j]
    return np.sum(factor * np.arange(1.0, n + 1))


def test_python_numbers_that_are_written_are_none_any_more():
    def f(x, y):
        a = anp.zeros(3)
        a[0] = x
        a[1] = x * 2
        return a[0] * y, a[1] * y, np.arange(40, dtype=np.float32)[:3] * x

    y = np.ones(2, np.float32)
    for a, b in zip(ad.jit(f)(0.1, y), f(0.1, y), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


@pytest.mark.parametrize("n", [3, 6, 9])  # below and above the size from which gradients are staged as graphs
def test_a_decomposition_by_hand(n):
    m = RNG.normal(size=(n, n))
    a = m @ m.T + n * np.eye(n)
    value, gradient = ad.jit(ad.value_and_grad(cholesky))(a)
    np.testing.assert_allclose(value, np.sum(np.linalg.cholesky(a) * np.arange(1.0, n + 1)), rtol=1e-13)
    np.testing.assert_allclose(gradient, ad.grad(cholesky)(a), rtol=1e-11, atol=1e-12)
