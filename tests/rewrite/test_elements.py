"""If only a few elements of an array are read, only those are computed, with the same results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.ir.check import check
from adjoint.ir.text import parse
from adjoint.rewrite.elements import compute_elements

RNG = np.random.default_rng(3)


def sizes(graph):
    return [int(np.prod(t.shape)) for e in graph.equations for t in e.types]


def same(text, *args, smaller):
    graph = parse(text)
    changed = compute_elements(graph)
    check(changed)
    for a, b in zip(changed.run_flat(args), graph.run_flat(args), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
    assert (max(sizes(changed)) < max(sizes(graph))) is smaller
    return changed


X, Y = RNG.normal(size=20), RNG.normal(size=20)
HEAD = "graph f(x: float64[20], y: float64[20], i: int64[], j: int64[]) {\n"


def test_a_chain():
    same(
        HEAD
        + """  v4: float64[20] = mul x, y
  v5: float64[20] = add v4, 2.0
  v6: float64[20] = sin v5
  v7: float64[] = gather v6, i {axis=0}
  return v7
}""",
        X, Y, 3, -2, smaller=True,
    )  # fmt: skip


def test_one_value_read_directly_and_through_another():
    for first, second in (("v5", "v6"), ("v6", "v5")):
        same(
            HEAD
            + f"""  v4: float64[20] = mul x, y
  v5: float64[20] = sin v4
  v6: float64[20] = mul v5, v5
  v7: float64[] = gather {first}, i {{axis=0}}
  v8: float64[] = gather {second}, i {{axis=0}}
  v9: float64[] = gather {second}, i {{axis=0}}
  return v7, v8, v9
}}""",
            X, Y, 3, -2, smaller=True,
        )  # fmt: skip


@pytest.mark.parametrize(("i", "j"), [(3, 3), (3, 4), (-1, 19), (-1, 18), (0, -20)])
def test_values_added_at_one_place(i, j):
    same(
        HEAD
        + """  v4: float64[] = gather x, i {axis=0}
  v5: float64[20] = scatter_add v4, i {axis=0, shape=(20,)}
  v6: bool[20] = not_equal v5, 0
  v7: bool[] = gather v6, j {axis=0}
  return v7, v4
}""",
        X, Y, i, j, smaller=True,
    )  # fmt: skip


@pytest.mark.parametrize("rest", ["return v6, v4", "v7: float64[] = sum v5 {axis=(0,), keepdims=False}\n  return v6, v7"])
def test_whole_reads_compute_whole_arrays(rest):
    same(
        HEAD
        + f"""  v4: float64[20] = mul x, y
  v5: float64[20] = sin v4
  v6: float64[] = gather v5, i {{axis=0}}
  {rest}
}}""",
        X, Y, 3, 0, smaller=False,
    )  # fmt: skip


def test_an_index_that_is_computed_from_the_array():
    same(
        """graph f(x: int64[20]) {
  v1: int64[20] = mul x, 1
  v2: int64[20] = gather v1, v1 {axis=0}
  return v2
}""",
        RNG.permutation(20), smaller=False,
    )  # fmt: skip


@pytest.mark.parametrize(("count", "smaller"), [(5, True), (6, False)])
def test_from_a_quarter_on_it_does_not_pay(count, smaller):
    same(
        f"""graph f(x: float64[20], i: int64[{count}]) {{
  v2: float64[20] = exp x
  v3: float64[{count}] = gather v2, i {{axis=0}}
  return v3
}}""",
        X, RNG.integers(-20, 20, count), smaller=smaller,
    )  # fmt: skip


def test_python_numbers_stay_weak():
    def f(x, s, i):
        return (x * s + 1)[i]

    x = np.arange(20, dtype=np.float32) / 7
    found = ad.jit(f)(x, 0.1, 3)
    assert found.dtype == np.float32
    assert found == f(x, 0.1, 3)


def test_long_chains_need_no_recursion():
    lines = [f"  v{n + 1}: float64[20] = sin v{n}" for n in range(1, 3000)]
    text = "graph f(v0: float64[20], i: int64[]) {\n  v2: float64[20] = sin v0\n" + "\n".join(lines[1:])
    graph = parse(text.replace("v0", "x") + "\n  v3001: float64[] = gather v3000, i {axis=0}\n  return v3001\n}")
    np.testing.assert_allclose(compute_elements(graph).run_flat((X, 3)), graph.run_flat((X, 3)))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_graphs(seed):
    rng = np.random.default_rng(seed)

    def pick(names):
        return names[int(rng.integers(len(names)))]

    lines, arrays, scalars = [], ["x", "y"], ["a"]
    for n in range(5, 5 + int(rng.integers(3, 14))):
        kind = rng.choice(["unary", "binary", "scalar", "gather", "scatter", "mask"])
        at = pick(["i", "j"])
        if kind == "unary":
            lines.append(f"v{n}: float64[20] = sin {pick(arrays)}")
        elif kind == "binary":
            lines.append(f"v{n}: float64[20] = mul {pick(arrays)}, {pick(arrays)}")
        elif kind == "scalar":
            lines.append(f"v{n}: float64[20] = add {pick(arrays)}, {pick(scalars)}")
        elif kind == "scatter":
            lines.append(f"v{n}: float64[20] = scatter_add {pick(scalars)}, {at} {{axis=0, shape=(20,)}}")
        elif kind == "mask":
            lines.append(f"v{n}: float64[20] = maximum {pick(arrays)}, 0.1")
        else:
            lines.append(f"v{n}: float64[] = gather {pick(arrays)}, {at} {{axis=0}}")
        (scalars if kind == "gather" else arrays).append(f"v{n}")
    results = ", ".join(scalars[-3:])
    text = "graph f(x: float64[20], y: float64[20], a: float64[], i: int64[], j: int64[]) {\n  "
    body = "\n  ".join(lines)
    graph = parse(f"{text}{body}\n  return {results}\n}}")
    changed = compute_elements(graph)
    check(changed)
    args = (X, Y, 0.3, int(rng.integers(-20, 20)), int(rng.integers(-20, 20)))
    np.testing.assert_array_equal(changed.run_flat(args), graph.run_flat(args))
