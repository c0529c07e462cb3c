"""Forward mode: tangents that do not fit, and linear maps."""

import numpy as np
import pytest
from complaints import X, complaint

import adjoint as ad


def test_tangents_that_do_not_fit():
    f = lambda x: x * 2
    with complaint(ValueError, "tangent of argument 0", "(2,)", "(3,)"):
        ad.jvp(f, (X,), (np.ones(2),))
    with complaint(TypeError, "tangent of argument 0", "float32", "float64", "astype"):
        ad.jvp(f, (X,), (X.astype(np.float32),))
    with complaint(TypeError, "tangent of argument 0", "int", "astype"):
        ad.jvp(f, (X,), (np.ones(3, int),))
    with complaint(TypeError, "tangent", "complex128"):
        ad.jvp(f, (X,), (X * 1j,))
    with complaint(ValueError, "1 primals and 2 tangents"):
        ad.jvp(f, (X,), (X, X))
    with complaint(TypeError, "tuple", "jvp(f, (x,), (v,))"):
        ad.jvp(f, X, X)
    with complaint(TypeError, "tangents of jvp"):
        ad.jvp(f, (X,), X)
    with complaint(ValueError, "structure"):
        ad.jvp(lambda t: t["a"], ({"a": X},), ({"b": X},))
    with complaint(ValueError, "structure"):
        ad.jvp(f, (X,), (None,))
    with complaint(TypeError, "str"):
        ad.jvp(f, (X,), ("text",))
    push = ad.linearize(f, X)[1]
    with complaint(ValueError, "(2,)", "(3,)"):
        push(np.ones(2))
    with complaint(ValueError, "1 tangents, got 2"):
        push(X, X)


@pytest.mark.parametrize("f", [np.sin, lambda x: np.cumsum(x**2)[1:], lambda x: {"a": np.sum(x), "b": (x[::-1], 2.0 * x[0])}])
def test_a_linear_map_gives_the_tangents_of_jvp_in_every_direction(f, rng):
    push = ad.linearize(f, X)[1]
    for v in rng.normal(size=(3, *X.shape)):
        expected, found = ad.jvp(f, (X,), (v,))[1], push(v)
        if isinstance(expected, dict):
            expected, found = (np.hstack([t["a"], *t["b"]]) for t in (expected, found))
        np.testing.assert_allclose(found, expected, rtol=1e-13)
