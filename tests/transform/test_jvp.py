"""Forward mode of a graph, as a graph; and of a loop's body, whose carries take tangents as they are reached."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.api.graph import infer_types
from adjoint.ir.check import check
from adjoint.transform.jvp import jvp, push

F = ad.parse("""graph f(x: float64[2], w: float64[]) {
  v2: float64[2] = mul x, w
  v3: float64[2] = sin v2
  v4: float64[] = sum v3 {axis=(0,), keepdims=False}
  return v3, v4
}""")
X, W = np.array([0.3, 0.8]), 0.7


def f(x, w):
    y = np.sin(x * w)
    return y, np.sum(y)


def test_jvp():
    pushed = jvp(F, (True, False))
    assert pushed.input_names == ("x", "w", "d_x")
    y, s, dy, ds = pushed.run_flat([X, W, np.array([1.0, -0.5])])
    (y_, s_), (dy_, ds_) = ad.jvp(lambda x: f(x, W), (X,), (np.array([1.0, -0.5]),))
    np.testing.assert_allclose(y, y_)
    np.testing.assert_allclose(s, s_)
    np.testing.assert_allclose(dy, dy_)
    np.testing.assert_allclose(ds, ds_)
    assert jvp(F, (True, False)) is pushed  # made once


@pytest.mark.parametrize("flags", [(True, True), (True, False), (False, True), (False, False)])
def test_only_requested_inputs_have_a_tangent(flags):
    pushed = jvp(F, flags)
    check(pushed, infer_types)
    assert len(pushed.input_names) == 2 + sum(flags)
    tangents = [t for t, flag in zip((np.array([1.0, -0.5]), 2.0), flags, strict=True) if flag]
    found = pushed.run_flat([X, W, *tangents])
    full = [t if flag else 0 * np.asarray(t) for t, flag in zip((np.array([1.0, -0.5]), 2.0), flags, strict=True)]
    expected = ad.jvp(f, (X, W), (full[0], float(full[1])))[1]
    if any(flags):
        for a, b in zip(found[2:], expected, strict=True):
            np.testing.assert_allclose(a, b)


def test_pushing_needs_no_graph():
    ys, ts, _ = push(F, [X, W], [np.ones(2), None])
    np.testing.assert_allclose(ys[0], f(X, W)[0])
    np.testing.assert_allclose(ts[0], np.cos(X * W) * W)
