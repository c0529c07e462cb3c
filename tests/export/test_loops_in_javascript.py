"""Loops in exported JavaScript and WebAssembly: of all lengths around those that are unrolled, with strides, windows and sums."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.special
from export import node
from export.test_wasm_module import LOADED, put

import adjoint as ad
from adjoint import export
from adjoint.export.javascript_module import write
from adjoint.export.program import parts

needs_node = pytest.mark.skipif(not node.NODE, reason="Node is not installed; on Debian: apt-get install -y nodejs")


def grid(x):
    """A window within a window: the first row and the first column are cases of their own."""
    inside = x[:-2, 1:-1] + x[2:, 1:-1] - 2.0 * x[1:-1, 1:-1]
    return x + x[:1] * np.pad(inside, 1)


def steps(x):
    """A loop over all of x, and over its rows."""
    return ad.scan(lambda c, row: (c * 0.5 + x @ row, c), np.zeros(x.shape[0]), x)


LOOPS = {
    "sum": lambda x: np.sum(x * x),
    "product and largest": lambda x: (np.prod(1.0 + 0.01 * x), np.max(x), np.min(x)),
    "rows": lambda x: np.sum(x * x[:, :1], axis=1),
    "columns": lambda x: (np.sum(x, axis=0), np.max(x, axis=0)),
    "any": lambda x: (np.any(x > 0.9, axis=0), np.all(x > -2, axis=1), np.sum(x > 0)),
    "neighbours": lambda x: x[:, 1:] * 2.0 - x[:, :-1],
    "window": lambda x: np.pad(x, ((1, 0), (2, 1)), constant_values=3.0) * 2.0,
    "grid": grid,
    "every third": lambda x: np.outer(x.ravel()[::3], x.ravel()[1::3]) * x.ravel()[2],
    "reversed": lambda x: x[::-1, ::-1] - x,
    "of outer values": lambda x: np.exp(x[:, :1]) * x + np.tanh(x[0]) * x[0, 0],
    "constants": lambda x: x * np.arange(x.size).reshape(x.shape) + np.linspace(0.0, 1.0, x.shape[1]),
    "not finite": lambda x: (np.where(x > 0.5, np.nan, x), np.where(x > 0.5, np.inf, -np.inf), np.maximum(x, -np.inf)),
    "rare functions": lambda x: tuple(f(9 * x) for f in (scipy.special.erf, scipy.special.erfc, np.tanh)),
    "logistic": lambda x: scipy.special.expit(800 * x),
    "gathered": lambda x: x[np.arange(x.shape[0])[::-1], 0] + x[:, x.shape[1] // 2],
    "vector times matrix": lambda x: x[0] @ x.T,
    "matrix times vector": lambda x: x @ x[1],
    "steps": steps,
}
SHAPES = [(3, n) for n in (3, 4, 5, 7, 8, 9, 13)] + [(8, 3), (9, 12), (17, 16)]


def of_loops():
    """Each loop on each shape: a part, the array and the results."""
    rng = np.random.default_rng(7)
    for i, (name, f) in enumerate(LOOPS.items()):
        for j, shape in enumerate(SHAPES):
            x = rng.uniform(-1.0, 1.0, shape)
            (part,) = parts(lambda x, f=f: f(x), (x,), {}, derivatives=(), argnums=0, name=f"loop{i}_{j}")
            yield name, part, x, [np.asarray(y) for y in part.graph.run_flat([x])]


def check(folder, calls, loader=""):
    results = node.run(folder, [(module, part, [x]) for module, _, part, x, _ in calls], loader)
    for found, (_, name, _, x, wanted) in zip(results, calls, strict=True):
        assert not isinstance(found, str), f"{name} of {x.shape}: {found}"
        for y, expected in zip(found, wanted, strict=True):
            np.testing.assert_allclose(y, expected, 2e-14, 1e-14, err_msg=f"{name} of {x.shape}")


@needs_node
def test_javascript_gives_the_values(tmp_path):
    made = list(of_loops())
    (tmp_path / "all.mjs").write_text(write([part for _, part, _, _ in made]).source)
    check(tmp_path, [("all.mjs", *one) for one in made])


@needs_node
def test_wasm_gives_the_values(tmp_path, monkeypatch):
    monkeypatch.setitem(node.ARRAYS, "int64", "BigInt64Array")
    made = list(of_loops())
    put(tmp_path, "all", [part for _, part, _, _ in made], simd=True)
    check(tmp_path, [("all.mjs", *one) for one in made], LOADED)


@needs_node
def test_a_second_call_does_not_see_the_first(tmp_path):
    """Arguments of loops are copied into memory that all calls share; results are not left in it."""
    x = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
    export.javascript(steps, x, name="f", path=tmp_path / "f.mjs", derivatives=())
    (part,) = parts(steps, (x,), {}, derivatives=(), argnums=0, name="f")
    first, second, again = node.run(tmp_path, [("f.mjs", part, [given]) for given in (x, 2.0 * x, x)])
    for a, b, c, y in zip(first, again, second, part.graph.run_flat([x]), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, y, 1e-14)
        assert not np.array_equal(a, c)


def test_what_a_loop_does_not_change_is_read_before_it():
    text = str(export.javascript(lambda x: x[:, :1] * x, np.ones((5, 100)), name="f"))
    before, inner = text[: text.index("/** f(")].rsplit("for (", 1)
    assert len(re.findall(r"const s\d+ = b0\[", inner)) == 4  # iterations are written out, one element each
    assert len(re.findall(r"const s\d+ = b0\[", before)) == 1


def test_loops_are_unrolled_with_totals_of_their_own():
    text = str(export.javascript(lambda x: np.sum(x * x), np.ones(1000), name="f"))
    assert "+= 4)" in text
    assert len(set(re.findall(r"(t\d+) = \(\1 \+ s\d+\)", text))) == 4


def test_elements_are_read_once_an_iteration():
    """Of x[i] and x[i + 1], for four i."""
    text = str(export.javascript(lambda x: x[1:] - x[:-1], np.ones(401), name="f"))
    loop = text[text.index("+= 4)") :]
    assert len(re.findall(r"const s\d+ = b0\[", loop[: loop.index("}")])) == 5


def test_numbers_that_are_not_finite_are_no_global_variables():
    text = str(export.javascript(lambda x: np.where(x > 0, np.nan, np.where(x < -1, -np.inf, x)), np.ones(9), name="f"))
    kernel = text[text.index("function kernel1") : text.index("/** f(")]
    assert "(0 / 0)" in kernel
    assert "(-1 / 0)" in kernel
    assert "NaN" not in kernel
    assert "Infinity" not in kernel


def test_arrays_with_longer_indices_are_refused():
    long = np.broadcast_to(0.0, 2**31)
    with pytest.raises(ad.AdjointError, match=r"no array of 2147483648 numbers: at most 2\^31 - 1"):
        export.javascript(lambda x: x[5] + x[-1], long, name="f")
